package sample

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi/manifest"
)

// Take is one decision of a sample. It is for the goroutine that decides.
type Take struct {
	sample *Sample
	notes  notes
	answer host.Ruling // of the sample's plugin
	asked  bool        // it was

	chain []string // the plugins that decide, in order
	count int      // how many of them were asked
}

// Asked records which plugins decide, in order, and how many of them were asked.
func (t *Take) Asked(chain []string, asked int) { t.chain, t.count = chain, asked }

// Facts returns the facts that a plugin is to read: noted, if they are for the sample.
// The events in purgatory are those of the facts, or else held, which may be nil.
func (t *Take) Facts(plugin string, shadow bool, facts host.Facts, held host.HeldFacts) host.Facts {
	if facts == nil || !t.about(plugin, shadow) {
		return facts
	}
	if own, ok := facts.(host.HeldFacts); ok {
		held = own
	}
	return &noted{facts, held, &t.notes}
}

// about reports whether the sample is about what a plugin says.
func (t *Take) about(plugin string, shadow bool) bool {
	if t.sample.o.Plugin == "" {
		return !shadow
	}
	return t.sample.o.Plugin == plugin
}

// Heard records a plugin's answer.
func (t *Take) Heard(plugin string, r host.Ruling) {
	if t.sample.o.Plugin == plugin {
		t.answer, t.asked = r, true
		t.answer.Module = plugin
	}
}

// Admit ends the take of a decision about an event; r is what the chain said.
func (t *Take) Admit(it *host.Item, now int64, r host.Ruling) {
	l := manifest.Decision{Function: "admit", Now: now, Source: t.sample.mask.source(it)}
	text := it.Event.JSON
	if text == nil {
		text = it.Event.AppendJSON(nil)
	}
	var err error
	if l.Event, err = t.sample.mask.event(text); err != nil {
		return // an event that was verified can be read
	}
	t.end(&l, r)
}

// Query ends the take of a decision about filters.
func (t *Take) Query(q *host.Query, now int64, r host.Ruling) {
	l := manifest.Decision{Function: "query", Now: now, Client: t.sample.mask.client(q.Client), Verb: q.Verb.String()}
	for i := range q.Filters {
		// One that matches nothing is not asked about.
		if !q.Filters[i].Empty() {
			l.Filters = append(l.Filters, filterOf(&q.Filters[i]))
		}
	}
	if l.Filters == nil {
		return // a vector has one at least
	}
	t.end(&l, r)
}

// Connect ends the take of a decision about a client.
func (t *Take) Connect(c *host.Connection, now int64, r host.Ruling) {
	t.end(&manifest.Decision{Function: "connect", Now: now, Client: t.sample.mask.client(&c.Client), Open: c.Open, FromAddress: c.FromAddr}, r)
}

// Push ends the take of a decision about ref updates.
func (t *Take) Push(p *host.Push, now int64, r host.Ruling) {
	t.end(&manifest.Decision{Function: "push", Now: now, Client: t.sample.mask.client(p.Client), Push: pushOf(p)}, r)
}

// end writes the line.
func (t *Take) end(l *manifest.Decision, r host.Ruling) {
	if t.sample.o.Plugin != "" {
		if !t.asked {
			return
		}
		r = t.answer
	} else {
		l.Chain, l.Asked = append([]string{}, t.chain...), t.count
	}
	if t.notes.full() {
		t.sample.tooLarge()
		return
	}
	service := t.sample.o.Service
	l.Service = manifest.VectorService{Domain: service.Domain, PRs: service.PRs, Operator: service.Operator}
	l.Want, l.By = manifest.VectorWant{Action: r.Action.String(), Rule: r.Rule, Reason: r.Reason}, r.Module
	if !t.addNotes(l) {
		return
	}
	if text, err := l.Line(); err == nil {
		t.sample.add(l.Function, text, l.Unseen != nil)
	}
}

// addNotes adds what was read. It reports false if that cannot be redacted.
func (t *Take) addNotes(l *manifest.Decision) bool {
	n := &t.notes
	stored := n.stored.list
	for _, named := range n.referenced {
		if !slices.ContainsFunc(stored, func(text string) bool { return refers(text, named) }) {
			stored = append(stored, string(standIn(named)))
		}
	}
	for _, part := range []struct {
		texts []string
		to    *[]json.RawMessage
	}{{stored, &l.Stored}, {n.held.list, &l.Held}} {
		for _, text := range part.texts {
			masked, err := t.sample.mask.event([]byte(text))
			if err != nil {
				return false
			}
			*part.to = append(*part.to, masked)
		}
	}
	slices.Sort(n.unseen)
	l.Sets, l.Unseen = n.sets, n.unseen
	return true
}

// refers reports whether an event names an id or an address, as host.Facts have it.
func refers(text, named string) bool {
	e, err := wire.ParseEvent([]byte(text))
	return err == nil && slices.ContainsFunc(e.Tags, func(tag host.Tag) bool {
		return len(tag) > 1 && len(tag[0]) == 1 && strings.Contains(host.ReferenceTags, tag[0]) && tag[1] == named
	})
}

// standInKind is the kind of stand-ins, which no event of a relay has.
const standInKind = 65535

// standIn is an event for one of which nothing was read but that it names something.
func standIn(named string) []byte {
	name := "e"
	if strings.Contains(named, ":") {
		name = "a"
	}
	e := host.Event{ID: sha256.Sum256([]byte(named)), CreatedAt: 1, Kind: standInKind, Tags: host.Tags{{name, named}}}
	return e.AppendJSON(nil)
}
