package host

import (
	"context"
	"errors"
	"time"
)

// FactReader reads facts for one decision and notes each read: the trace of the decision. The host
// and every module that it asks read through the same reader. Only one goroutine may use it.
type FactReader struct {
	Reads

	stored Facts
	held   HeldFacts
	turn   Turn

	module  string // that is asked; empty: the host itself reads
	parked  time.Duration
	longest time.Duration // of the waits
	waited  string        // the module that was asked then

	keeps   bool // answers too
	answers []FactAnswer
	cut     bool
}

// Reads are the facts of a decision: filters that match the events which would change it.
type Reads struct {
	Stored []Filter // by being stored or removed
	Held   []Filter // by going into purgatory or leaving it
}

// FactAnswer is the answer to one read of a module. The fields after Module are those of the
// kind of read.
type FactAnswer struct {
	Module string

	Events     [][]byte // the texts of events that were found
	InHold     bool     // they are in purgatory
	Referenced string   // an id or address that a stored event names

	Set, Member string // a set that is known, and what the module looked up in it
	Contained   bool   // the set has the member

	UsageOf UsageKey // an author or a repository, if its class is not 0
	Usage   Usage

	Capability string // that the module used, and whose answers are no facts
}

// maxFactAnswers bounds the answers that a reader keeps.
const maxFactAnswers = 20_000

// Turn is the place of a goroutine among the few that decide. A decision gives up its turn
// while it waits, and another goroutine decides.
type Turn interface {
	// Wait runs f, which may block on behalf of a module, empty for the host. It returns how
	// long f took, and how long the goroutine then waited for its turn.
	Wait(module string, f func()) (waited, parked time.Duration)

	// Read is Wait for an f that seldom blocks.
	Read(module string, f func()) (waited, parked time.Duration)
}

// NewFactReader returns a reader with no reads. If stored is nil, all reads of the store fail. If
// held is nil, nothing is held. If turn is nil, nothing waits for the caller.
func NewFactReader(stored Facts, held HeldFacts, turn Turn) *FactReader {
	return &FactReader{stored: stored, held: held, turn: turn}
}

// Fork returns a reader of the same facts with a trace of its own, for reads on which the
// decision does not depend.
func (r *FactReader) Fork() *FactReader {
	return &FactReader{stored: r.stored, held: r.held, turn: r.turn, keeps: r.keeps}
}

// KeepAnswers makes the reader keep the answers that modules get from now on. Modules then get
// whole events, also if they ask for headers.
func (r *FactReader) KeepAnswers() { r.keeps = true }

// Answers returns the answers that were kept. It reports false if there were too many to keep
// all.
func (r *FactReader) Answers() (list []FactAnswer, all bool) { return r.answers, !r.cut }

// keep keeps an answer to a module.
func (r *FactReader) keep(a FactAnswer) {
	switch {
	case !r.keeps || r.module == "":
		return
	case len(r.answers) == maxFactAnswers:
		r.cut = true
		return
	}
	a.Module = r.module
	r.answers = append(r.answers, a)
}

// Asking names the module that is asked from now on, empty for the host itself.
func (r *FactReader) Asking(module string) { r.module = module }

// Wait runs f, which may block, while another goroutine decides.
func (r *FactReader) Wait(f func()) {
	if r.turn == nil {
		f()
		return
	}
	r.count(r.turn.Wait(r.module, f))
}

// read runs f, which reads a fact.
func (r *FactReader) read(f func()) {
	if r.turn == nil {
		f()
		return
	}
	r.count(r.turn.Read(r.module, f))
}

func (r *FactReader) count(waited, parked time.Duration) {
	r.parked += parked
	if waited > r.longest {
		r.longest, r.waited = waited, r.module
	}
}

// QueueTime returns how long the decision has waited for its turn after its waits.
func (r *FactReader) QueueTime() time.Duration { return r.parked }

// Waited returns the module for which the decision has waited longest, empty for the host.
func (r *FactReader) Waited() string { return r.waited }

// errNoStore is why nothing can be read of the store.
var errNoStore = errors.New("the store is not there")

// Get implements [Facts].
func (r *FactReader) Get(ctx context.Context, id ID) (text []byte, err error) {
	if r.stored == nil {
		return nil, errNoStore
	}
	r.Stored = append(r.Stored, Filter{IDs: []ID{id}})
	r.read(func() { text, err = r.stored.Get(ctx, id) })
	if text != nil {
		r.keep(FactAnswer{Events: [][]byte{text}})
	}
	return text, err
}

// Query implements [Facts].
func (r *FactReader) Query(ctx context.Context, f Filter) (found [][]byte, err error) {
	if r.stored == nil {
		return nil, errNoStore
	}
	r.Stored = append(r.Stored, f)
	f.Header = f.Header && !r.keeps
	r.read(func() { found, err = r.stored.Query(ctx, f) })
	r.keep(FactAnswer{Events: found})
	return found, err
}

// Referenced implements [Facts].
func (r *FactReader) Referenced(ctx context.Context, idOrAddress string) (yes bool, err error) {
	if r.stored == nil {
		return false, errNoStore
	}
	r.Stored = append(r.Stored, ReferenceFilters(idOrAddress)...)
	r.read(func() { yes, err = r.stored.Referenced(ctx, idOrAddress) })
	if yes {
		r.keep(FactAnswer{Referenced: idOrAddress})
	}
	return yes, err
}

// Held implements [HeldFacts].
func (r *FactReader) Held(ctx context.Context, id ID) (text []byte, err error) {
	r.Reads.Held = append(r.Reads.Held, Filter{IDs: []ID{id}})
	if r.held == nil {
		return nil, nil
	}
	r.read(func() { text, err = r.held.Held(ctx, id) })
	if text != nil {
		r.keep(FactAnswer{Events: [][]byte{text}, InHold: true})
	}
	return text, err
}

// HeldBy implements [HeldFacts].
func (r *FactReader) HeldBy(ctx context.Context, f Filter) (found [][]byte, err error) {
	r.Reads.Held = append(r.Reads.Held, f)
	if r.held == nil {
		return nil, nil
	}
	f.Header = f.Header && !r.keeps
	r.read(func() { found, err = r.held.HeldBy(ctx, f) })
	r.keep(FactAnswer{Events: found, InHold: true})
	return found, err
}

// Usage implements [UsageFacts].
func (r *FactReader) Usage(ctx context.Context, keys ...UsageKey) (list []Usage, err error) {
	facts, ok := r.stored.(UsageFacts)
	if !ok {
		return nil, errNoStore
	}
	r.read(func() { list, err = facts.Usage(ctx, keys...) })
	for i, u := range list {
		r.keep(FactAnswer{UsageOf: keys[i], Usage: u})
	}
	return list, err
}

// RepositoryAudience implements [AudienceFacts].
func (r *FactReader) RepositoryAudience(ctx context.Context, ids []ID) (a *Audience, err error) {
	facts, ok := r.stored.(AudienceFacts)
	if !ok {
		return nil, errNoStore
	}
	r.Stored = append(r.Stored, Filter{IDs: ids, Reader: Everything})
	r.Reads.Held = append(r.Reads.Held, Filter{IDs: ids, Reader: Everything})
	r.read(func() { a, err = facts.RepositoryAudience(ctx, ids) })
	return a, err
}

// Contained notes the answer about a member of a set. The slices are valid during the call.
func (r *FactReader) Contained(name, member []byte, yes, known bool) {
	if r.keeps && known {
		r.keep(FactAnswer{Set: string(name), Member: string(member), Contained: yes})
	}
}

// Used notes that a module used a capability whose answers are no facts.
func (r *FactReader) Used(capability string) {
	if r.keeps {
		r.keep(FactAnswer{Capability: capability})
	}
}
