package sample

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"talon/host"
)

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

// noted are facts that note what they say. They are a guest.Witness.
type noted struct {
	facts host.Facts
	held  host.HeldFacts // nil: there is no purgatory
	notes *notes
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
