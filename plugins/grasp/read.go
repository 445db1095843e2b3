package main

import (
	"strings"

	"talon/sdk/abi"
	"talon/sdk/grasp"
	"talon/sdk/policy"
)

// reader makes events what the rules read, in memory that it uses again.
type reader struct {
	event grasp.Event
	items []string // that the tags are made of
}

// keepItems is the most items whose memory is kept for the next event.
const keepItems = 1 << 14

// read returns the event as the rules read it, with the tags whose names keep says
// yes to; nil keeps all. It is valid until the next read, and its texts as long as
// the event.
func (r *reader) read(event policy.Event, keep func(name string) bool) *grasp.Event {
	if cap(r.items) > keepItems {
		*r = reader{}
	}
	e := &r.event
	e.Stamp, e.Kind, e.Tags, r.items = stamp(event), event.Kind(), e.Tags[:0], r.items[:0]
	for it := walk(event); it.next(); {
		if keep != nil && !keep(it.Name()) {
			continue
		}
		start := len(r.items)
		for items := it.Tag().Items(); items.Next(); {
			r.items = append(r.items, items.Text())
		}
		e.Tags = append(e.Tags, r.items[start:len(r.items):len(r.items)])
	}
	return e
}

// maxTags is how many tags of an event are looked at.
const maxTags = 4000

// walker walks the first tags of an event.
type walker struct {
	abi.TagIter
	left int
}

func walk(event policy.Event) walker { return walker{event.Tags(), maxTags} }

func (w *walker) next() bool {
	w.left--
	return w.left >= 0 && w.Next()
}

// first returns a function for read that keeps some tags of each name, no others.
func first(most map[string]int) func(string) bool {
	return func(name string) bool {
		most[name]--
		return most[name] >= 0
	}
}

func stamp(event policy.Event) grasp.Stamp {
	return grasp.Stamp{ID: grasp.ID(event.ID()), PubKey: grasp.PubKey(*event.Author()), CreatedAt: event.CreatedAt()}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// withReason makes a verdict of a reason that begins with its prefix.
func withReason(action policy.Action, reason, rule string) policy.Verdict {
	prefix, text, _ := strings.Cut(reason, ": ")
	return policy.Verdict{Action: action, Prefix: prefix, Text: text, Rule: rule}
}
