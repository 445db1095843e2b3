// Command lists is a policy of plain lists: of authors, kinds, tags and words.
//
// Each kind of list comes in three strengths, asked in this order:
//
//   - deny: what is on the list is refused;
//   - only: if the list is not empty, what is not on it is refused;
//   - accept: what is on the list is accepted, later policies are not asked.
//
// An event that none of them decides passes to the next policy. So deny beats
// only, and only beats accept.
package main

import (
	_ "embed"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(lists))

func main() {}

type lists struct {
	deny, only, accept list

	// Which lists of each strength are not empty.
	denying, limiting, accepting matched
}

func (l *lists) Configure(cfg policy.Config) error {
	for _, strength := range []struct {
		name string
		list *list
		used *matched
	}{{"deny", &l.deny, &l.denying}, {"only", &l.only, &l.limiting}, {"accept", &l.accept, &l.accepting}} {
		if err := strength.list.configure(cfg, strength.name); err != nil {
			return err
		}
		*strength.used = strength.list.used()
	}
	return nil
}

func (l *lists) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if l.denying != 0 {
		if on := l.deny.match(event); on != 0 {
			return denied(on)
		}
	}
	if l.limiting != 0 {
		if missing := l.limiting &^ l.only.match(event); missing != 0 {
			return notListed(missing)
		}
	}
	if l.accepting != 0 {
		if on := l.accept.match(event); on != 0 {
			return accepted(on)
		}
	}
	return policy.Pass()
}

// Idle returns admit while all lists are empty.
func (l *lists) Idle() []string {
	if l.denying|l.limiting|l.accepting != 0 {
		return nil
	}
	return []string{"admit"}
}

// Describe says that not everybody may write, or not everything.
func (l *lists) Describe() (d policy.Description) {
	if l.limiting != 0 {
		d.Writes = policy.WritesRestricted
	}
	return d
}

func denied(on matched) policy.Verdict {
	switch {
	case on&byAuthor != 0:
		return policy.Reject("blocked", "this author may not write here").By("deny-author")
	case on&byKind != 0:
		return policy.Reject("blocked", "events of this kind are not accepted here").By("deny-kind")
	case on&byTag != 0:
		return policy.Reject("blocked", "an event with this tag is not accepted here").By("deny-tag")
	}
	return policy.Reject("blocked", "the content has a word that is not accepted here").By("deny-word")
}

func notListed(missing matched) policy.Verdict {
	switch {
	case missing&byAuthor != 0:
		return policy.Reject("blocked", "only some authors may write here").By("only-authors")
	case missing&byKind != 0:
		return policy.Reject("blocked", "only some kinds are accepted here").By("only-kinds")
	case missing&byTag != 0:
		return policy.Reject("blocked", "only events with some tags are accepted here").By("only-tags")
	}
	return policy.Reject("blocked", "only events about some topics are accepted here").By("only-words")
}

func accepted(on matched) policy.Verdict {
	switch {
	case on&byAuthor != 0:
		return policy.Accept().By("accept-author")
	case on&byKind != 0:
		return policy.Accept().By("accept-kind")
	case on&byTag != 0:
		return policy.Accept().By("accept-tag")
	}
	return policy.Accept().By("accept-word")
}
