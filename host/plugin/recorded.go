package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi/manifest"
)

// decisionRecord is one decision of a sample. It is for the goroutine that decides.
type decisionRecord struct {
	recording *recording
	notes     notes
	answer    host.Ruling // of the sample's plugin
	asked     bool        // it was

	chain []string // the plugins that decide, in order
	count int      // how many of them were asked
}

// chained records which plugins decide, in order, and how many of them were asked.
func (t *decisionRecord) chained(chain []string, asked int) { t.chain, t.count = chain, asked }

// facts returns the facts that a plugin is to read: noted, if they are for the sample.
// The events in purgatory are those of the facts, or else held, which may be nil.
func (t *decisionRecord) facts(plugin string, shadow bool, facts host.Facts, held host.HeldFacts) host.Facts {
	if facts == nil || !t.about(plugin, shadow) {
		return facts
	}
	if own, ok := facts.(host.HeldFacts); ok {
		held = own
	}
	return &noted{facts, held, &t.notes}
}

// about reports whether the sample is about what a plugin says.
func (t *decisionRecord) about(plugin string, shadow bool) bool {
	if t.recording.o.Plugin == "" {
		return !shadow
	}
	return t.recording.o.Plugin == plugin
}

// heard records a plugin's answer.
func (t *decisionRecord) heard(plugin string, r host.Ruling) {
	if t.recording.o.Plugin == plugin {
		t.answer, t.asked = r, true
		t.answer.Module = plugin
	}
}

// admit ends the take of a decision about an event; r is what the chain said.
func (t *decisionRecord) admit(it *host.Item, now int64, r host.Ruling) {
	l := manifest.Decision{Function: "admit", Now: now, Source: t.recording.mask.source(it)}
	text := it.Event.JSON
	if text == nil {
		text = it.Event.AppendJSON(nil)
	}
	var err error
	if l.Event, err = t.recording.mask.event(text); err != nil {
		return // an event that was verified can be read
	}
	t.write(&l, r)
}

// query ends the take of a decision about filters.
func (t *decisionRecord) query(q *host.Query, now int64, r host.Ruling) {
	l := manifest.Decision{Function: "query", Now: now, Client: t.recording.mask.client(q.Client), Verb: q.Verb.String()}
	for i := range q.Filters {
		// One that matches nothing is not asked about.
		if !q.Filters[i].Empty() {
			l.Filters = append(l.Filters, filterOf(&q.Filters[i]))
		}
	}
	if l.Filters == nil {
		return // a vector has one at least
	}
	t.write(&l, r)
}

// connect ends the take of a decision about a client.
func (t *decisionRecord) connect(c *host.Connection, now int64, r host.Ruling) {
	t.write(&manifest.Decision{Function: "connect", Now: now, Client: t.recording.mask.client(&c.Client), Open: c.Open, FromAddress: c.FromAddr}, r)
}

// push ends the take of a decision about ref updates.
func (t *decisionRecord) push(p *host.Push, now int64, r host.Ruling) {
	t.write(&manifest.Decision{Function: "push", Now: now, Client: t.recording.mask.client(p.Client), Push: pushOf(p)}, r)
}

// write writes the line.
func (t *decisionRecord) write(l *manifest.Decision, r host.Ruling) {
	if t.recording.o.Plugin != "" {
		if !t.asked {
			return
		}
		r = t.answer
	} else {
		l.Chain, l.Asked = append([]string{}, t.chain...), t.count
	}
	if t.notes.full() {
		t.recording.tooLarge()
		return
	}
	service := t.recording.service
	l.Service = manifest.VectorService{Domain: service.Domain, PRs: service.PRs, Operator: service.Operator}
	l.Want, l.By = manifest.VectorWant{Action: r.Action.String(), Rule: r.Rule, Reason: r.Reason}, r.Module
	if !t.addNotes(l) {
		return
	}
	if text, err := l.Line(); err == nil {
		t.recording.add(l.Function, text, l.Unseen != nil)
	}
}

// addNotes adds what was read. It reports false if that cannot be redacted.
func (t *decisionRecord) addNotes(l *manifest.Decision) bool {
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
			masked, err := t.recording.mask.event([]byte(text))
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

// notes are what was read for one decision.
type notes struct {
	stored, held events
	referenced   []string            // ids and addresses that stored events name
	sets         map[string][]string // members among those that were asked about
	unseen       []string            // capabilities whose answers no line can say
	bytes        int
}

// events are texts of events, each once.
type events struct {
	list []string
	has  map[string]bool
}

func (n *notes) event(to *events, text []byte) {
	if text == nil || n.full() || to.has[string(text)] {
		return
	}
	if to.has == nil {
		to.has = map[string]bool{}
	}
	own := string(text)
	to.has[own] = true
	to.list = append(to.list, own)
	n.bytes += len(own)
}

// full reports whether more was read than fits into a line.
func (n *notes) full() bool { return n.bytes > maxLine }

func (n *notes) use(capability string) {
	if !slices.Contains(n.unseen, capability) {
		n.unseen = append(n.unseen, capability)
	}
}

// noted are facts that note what they say. They are a guest.Observer.
type noted struct {
	facts host.Facts
	held  host.HeldFacts // nil: there is no purgatory
	notes *notes
}

// Asking implements host.Waiter by the facts, if they are one.
func (f *noted) Asking(module string) {
	if w, ok := f.facts.(host.Waiter); ok {
		w.Asking(module)
	}
}

// Wait implements host.Waiter by the facts, if they are one.
func (f *noted) Wait(g func()) {
	if w, ok := f.facts.(host.Waiter); ok {
		w.Wait(g)
		return
	}
	g()
}

// Parked implements host.Parked by the facts, if they are one.
func (f *noted) Parked() time.Duration {
	if p, ok := f.facts.(host.Parked); ok {
		return p.Parked()
	}
	return 0
}

func (f *noted) Get(ctx context.Context, id host.ID) ([]byte, error) {
	text, err := f.facts.Get(ctx, id)
	f.notes.event(&f.notes.stored, text)
	return text, err
}

func (f *noted) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	filter.Header = false // a line holds whole events
	list, err := f.facts.Query(ctx, filter)
	for _, text := range list {
		f.notes.event(&f.notes.stored, text)
	}
	return list, err
}

func (f *noted) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	yes, err := f.facts.Referenced(ctx, idOrAddress)
	if yes && !f.notes.full() && !slices.Contains(f.notes.referenced, idOrAddress) {
		f.notes.referenced = append(f.notes.referenced, idOrAddress)
		f.notes.bytes += len(idOrAddress)
	}
	return yes, err
}

func (f *noted) Held(ctx context.Context, id host.ID) ([]byte, error) {
	if f.held == nil {
		return nil, nil
	}
	text, err := f.held.Held(ctx, id)
	f.notes.event(&f.notes.held, text)
	return text, err
}

func (f *noted) HeldBy(ctx context.Context, filter host.Filter) ([][]byte, error) {
	if f.held == nil {
		return nil, nil
	}
	filter.Header = false
	list, err := f.held.HeldBy(ctx, filter)
	for _, text := range list {
		f.notes.event(&f.notes.held, text)
	}
	return list, err
}

// maxSets and maxMembers bound what is noted of sets: as many as a vector may name, and
// more members than a sensible policy asks about.
const (
	maxSets    = 64
	maxMembers = 1000
)

func (f *noted) Contained(name, member []byte, yes, known bool) {
	n := f.notes
	if !known || n.full() {
		return
	}
	list, there := n.sets[string(name)]
	switch {
	case !there && len(n.sets) == maxSets, len(list) == maxMembers:
		n.use("sets.contains")
		return
	case !there && n.sets == nil:
		n.sets = map[string][]string{}
	}
	if !there {
		// That it is there, and does not have this member, is an answer too.
		list = []string{}
	}
	if yes {
		var text string
		switch {
		case len(member) == len(host.ID{}):
			text = host.ID(member).String()
		case utf8.Valid(member):
			text = string(member)
		default:
			n.use("sets.contains")
		}
		if text != "" && !slices.Contains(list, text) {
			list = append(list, text)
			n.bytes += len(text)
		}
	}
	n.sets[string(name)] = list
}

func (f *noted) Used(capability string) { f.notes.use(capability) }
