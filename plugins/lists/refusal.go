package main

import (
	"slices"
	"strings"

	"talon/sdk/policy"
)

// refusals are the answers for the first list that refuses an event: of authors, kinds, tags or
// words.
type refusals [4]policy.Verdict

func (r *refusals) of(on matched) policy.Verdict {
	switch {
	case on&byAuthor != 0:
		return r[0]
	case on&byKind != 0:
		return r[1]
	case on&byTag != 0:
		return r[2]
	}
	return r[3]
}

// rules are the rules that refuse, with their default texts.
var rules = []struct{ name, text string }{
	{"deny-author", "this author may not write here"},
	{"deny-kind", "events of this kind are not accepted here"},
	{"deny-tag", "an event with this tag is not accepted here"},
	{"deny-word", "the content has a word that is not accepted here"},
	{"only-authors", "only some authors may write here"},
	{"only-kinds", "only some kinds are accepted here"},
	{"only-tags", "only events with some tags are accepted here"},
	{"only-words", "only events about some topics are accepted here"},
}

// maxMessage bounds a message of the operator, in bytes.
const maxMessage = 500

// configureRefusals makes the refusals, with the operator's messages, and those that the client
// does not hear of.
func (l *lists) configureRefusals(cfg policy.Config) error {
	texts := map[string]string{}
	for _, entry := range cfg.Strings("messages") {
		rule, text, ok := strings.Cut(entry, ":")
		text = strings.TrimSpace(text)
		if !ok || !isRule(rule) || text == "" || len(text) > maxMessage || strings.ContainsAny(text, "\r\n") {
			return policy.WrongValue("messages", entry, "RULE: text on one line, with a rule such as deny-word")
		}
		texts[rule] = text
	}
	shadow := cfg.Strings("shadow")
	for _, rule := range shadow {
		if !isRule(rule) {
			return policy.WrongValue("shadow", rule, "a rule that refuses, such as deny-word")
		}
	}
	for i, rule := range rules {
		text := rule.text
		if own, ok := texts[rule.name]; ok {
			text = own
		}
		v := policy.Reject("blocked", text).By(rule.name)
		if slices.Contains(shadow, rule.name) {
			v = policy.ShadowReject().By(rule.name)
		}
		if i < len(l.denied) {
			l.denied[i] = v
		} else {
			l.notListed[i-len(l.denied)] = v
		}
	}
	return nil
}

func isRule(name string) bool {
	for i := range rules {
		if rules[i].name == name {
			return true
		}
	}
	return false
}
