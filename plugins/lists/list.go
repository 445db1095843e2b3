package main

import (
	"slices"
	"strings"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

// list is the four lists of one strength. An empty one is nil.
type list struct {
	authors *keySet
	kinds   *kinds.Set
	tags    []tagRule
	words   *words
}

// tagRule are the values that a tag of this name must have; nil stands for any.
type tagRule struct {
	name   string
	values *texts
}

// matched is a set of the lists that an event is on.
type matched uint8

const (
	byAuthor matched = 1 << iota
	byKind
	byTag
	byWord
)

// used are the lists that are not empty.
func (l *list) used() (m matched) {
	for by, used := range map[matched]bool{
		byAuthor: l.authors != nil, byKind: l.kinds != nil, byTag: l.tags != nil, byWord: l.words != nil,
	} {
		if used {
			m |= by
		}
	}
	return m
}

func (l *list) match(e policy.Event) (m matched) {
	if l.authors != nil && l.authors.has(e.Author()) {
		m |= byAuthor
	}
	if l.kinds != nil && l.kinds.Has(e.Kind()) {
		m |= byKind
	}
	if l.tags != nil && l.hasTag(e) {
		m |= byTag
	}
	if l.words != nil && l.words.in(e.Content()) {
		m |= byWord
	}
	return m
}

func (l *list) hasTag(e policy.Event) bool {
	for it := e.Tags(); it.Next(); {
		name := it.Name()
		for i := range l.tags {
			rule := &l.tags[i]
			// Names of one letter are told apart without a call.
			if len(rule.name) != len(name) || rule.name[0] != name[0] || rule.name != name {
				continue
			}
			if rule.values == nil || rule.values.has(it.Value()) {
				return true
			}
		}
	}
	return false
}

func (l *list) configure(cfg policy.Config, strength string) (err error) {
	*l = list{}
	key := strength + "_authors"
	var authors []policy.PubKey
	for _, text := range cfg.Strings(key) {
		author, err := policy.ParsePubKey(text)
		if err != nil {
			return policy.WrongValue(key, text, "an npub or 64 hex digits; "+err.Error())
		}
		authors = append(authors, author)
	}
	if len(authors) > 0 {
		l.authors = newKeySet(authors)
	}
	if l.kinds, err = kinds.Parse(cfg, strength+"_kinds"); err != nil {
		return err
	}
	key = strength + "_tags"
	for _, text := range cfg.Strings(key) {
		name, value, one := strings.Cut(text, ":")
		if name == "" {
			return policy.WrongValue(key, text, "name:value, or a name for any value")
		}
		at := slices.IndexFunc(l.tags, func(r tagRule) bool { return r.name == name })
		switch {
		case at < 0 && one:
			l.tags = append(l.tags, tagRule{name, newTexts(value)})
		case at < 0:
			l.tags = append(l.tags, tagRule{name: name})
		case !one:
			l.tags[at].values = nil
		case l.tags[at].values != nil:
			l.tags[at].values.add(value)
		}
	}
	l.words, err = compileWords(strength+"_words", cfg.Strings(strength+"_words"))
	return err
}
