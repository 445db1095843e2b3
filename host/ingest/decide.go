package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"talon/host"
	"talon/host/wire"
)

// decide fills in the entry's decision. It is called again for an entry whose
// facts have changed.
func (p *Pipeline) decide(ctx context.Context, e *entry) {
	e.verdict, e.hold, e.note, e.err, e.facts, e.waited = nil, nil, "", nil, facts{}, ""
	now := p.cfg.Now()
	if !e.atTurn {
		// The version is read before any fact: a commit in between makes the
		// decision look older than it is, never newer.
		e.version = p.version.Load()
	}
	if e.release != nil {
		p.plan(ctx, e, now.Unix())
		return
	}
	if !e.verified {
		if !e.atTurn && p.known(e.item.Event) {
			// What is stored may be deleted before the turn of this copy.
			e.verdict = &host.Verdict{Code: host.Duplicate, Reason: "duplicate: already have this event"}
			e.facts.stored = []host.Filter{{IDs: []host.ID{e.item.Event.ID}}}
			return
		}
		if e.verdict = p.verify(e.item, now.Unix()); e.verdict != nil {
			return
		}
		e.verified = true
		if e.deferred = e.verifyOnly && !e.atTurn; e.deferred {
			return
		}
	}
	r := p.recorder(e)
	defer func() { e.waited = r.waited }()
	if e.verdict, e.err = p.refuseEarly(ctx, e.item, &r); e.verdict != nil || e.err != nil {
		e.facts = r.notes
		return
	}
	ruling, err := p.cfg.Policy.Admit(ctx, e.item, &r, now.Unix())
	r.Asking("")
	p.metrics.decision.Observe(p.cfg.Now().Sub(now).Seconds())
	var over limit
	var waiting int64
	if err == nil && ruling.Action == host.Hold {
		over, waiting = p.quotas.reached(e.item, &r.view)
	}
	switch {
	case err != nil:
	case ruling.Action == host.Hold && p.cfg.Held == nil:
		e.verdict = &host.Verdict{Code: host.Rejected, Reason: "blocked: this relay does not hold events back"}
	case over == ofNetwork:
		p.metrics.overQuota.WithLabelValues(string(over)).Inc()
		e.verdict = over.verdict(waiting)
	case ruling.Action == host.Hold && e.item.Event.Kind.Class() != host.Ephemeral:
		e.hold, err = holdOptions(ctx, e.item, &ruling, &r)
	default:
		e.verdict = verdictOf(ruling)
	}
	if err == nil && e.verdict == nil {
		e.note, err = stateNote(ctx, e.item, &r)
	}
	e.facts, e.err = r.notes, err
}

// verdictOf returns nil for a ruling that the event is to be written.
func verdictOf(r host.Ruling) *host.Verdict {
	switch r.Action {
	case host.Accept:
		return nil
	case host.ShadowReject:
		return &host.Verdict{Code: host.ShadowRejected}
	case host.RequireAuth:
		return &host.Verdict{Code: host.AuthRequired, Reason: r.Reason}
	case host.Hold:
		return &host.Verdict{Code: host.Rejected, Reason: "blocked: an ephemeral event cannot wait"}
	}
	return &host.Verdict{Code: host.Rejected, Reason: r.Reason, Retry: r.Retry}
}

// known reports whether this very event was stored lately. The id is only what the
// sender claims: if it is not the hash of this event, the event is not the one that
// is stored.
func (p *Pipeline) known(e *host.Event) bool {
	return p.recent.has(e.ID) && e.CheckID() == nil
}

// verify applies what no policy may bend: the protocol's rules, the id, the
// signature. It returns nil if the event passes.
func (p *Pipeline) verify(it *host.Item, now int64) *host.Verdict {
	if v := rule(it, now); v != nil {
		return v
	}
	start := time.Now()
	err := p.cfg.Verify(it.Event)
	p.metrics.verify.Observe(time.Since(start).Seconds())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, host.ErrID):
		return &host.Verdict{Code: host.Rejected, Reason: "invalid: " + host.ErrID.Error()}
	}
	return &host.Verdict{Code: host.Rejected, Reason: "invalid: event signature is not valid"}
}

// Kinds of reposts (NIP-18).
const (
	kindRepost        host.Kind = 6
	kindGenericRepost host.Kind = 16
)

// rule applies the rules of the protocol that need nothing but the event and its
// source. It returns nil if the event passes.
func rule(it *host.Item, now int64) *host.Verdict {
	e := it.Event
	refuse := func(reason string) *host.Verdict {
		return &host.Verdict{Code: host.Rejected, Reason: reason}
	}
	if e.Kind == host.KindAuth {
		return refuse("invalid: an authentication event belongs in an AUTH message (NIP-42)")
	}
	if at, ok := e.Expiration(); ok && at <= now {
		return refuse("invalid: event has expired (NIP-40)")
	}
	if e.Protected() {
		switch {
		case it.Source.Origin == host.FromImport || slices.Contains(it.Authed, e.PubKey):
		case it.Source.Origin != host.FromClient:
			return refuse("blocked: a protected event is taken from its author only (NIP-70)")
		case len(it.Authed) == 0:
			return &host.Verdict{Code: host.AuthRequired, Reason: "auth-required: a protected event is taken from its author only (NIP-70)"}
		default:
			return refuse("restricted: a protected event is taken from its author only (NIP-70)")
		}
	}
	if (e.Kind == kindRepost || e.Kind == kindGenericRepost) && embedsProtected(e.Content) {
		return refuse("blocked: a repost must not contain a protected event (NIP-70)")
	}
	return nil
}

// embedsProtected reports whether the content of a repost is an event with a "-"
// tag.
func embedsProtected(content string) bool {
	// Most reposts end here; one that escapes its tag's name does not.
	if !strings.Contains(content, `"-"`) && !strings.Contains(content, `\u`) {
		return false
	}
	var embedded struct{ Tags [][]string }
	if json.Unmarshal([]byte(content), &embedded) != nil {
		return false
	}
	return slices.ContainsFunc(embedded.Tags, func(tag []string) bool { return len(tag) > 0 && tag[0] == "-" })
}

// facts are what a decision rests on: filters that match the events which would
// change it.
type facts struct {
	stored []host.Filter // by being stored or removed
	held   []host.Filter // by going into purgatory or leaving it
}

// recorder passes facts on and notes, as filters, which events would change them.
// It is a [host.RepoFacts], a [host.Recorder], a [host.Waiter] and [host.Parked].
type recorder struct {
	view   view
	work   *schedule
	notes  facts
	module string // that is asked; "" is the host itself
	parked time.Duration
	wait   time.Duration // the longest
	waited string        // the module that was asked then
}

// recorder returns the facts for one decision of an entry.
func (p *Pipeline) recorder(e *entry) recorder {
	return recorder{view: view{stored: p.cfg.Facts, held: p.cfg.Held, open: e.open}, work: p.schedule}
}

// Asking names the module that is called from now on.
func (r *recorder) Asking(module string) { r.module = module }

// Wait runs f, which may block, while another worker decides.
func (r *recorder) Wait(f func()) { r.count(r.work.wait(r.module, f)) }

// read runs f, which reads a fact.
func (r *recorder) read(f func()) { r.count(r.work.read(r.module, f)) }

func (r *recorder) count(waited, parked time.Duration) {
	r.parked += parked
	if waited > r.wait {
		r.wait, r.waited = waited, r.module
	}
}

// Parked returns how long the decision has waited for a worker after its waits.
func (r *recorder) Parked() time.Duration { return r.parked }

// WithoutRecording implements [host.Recorder].
func (r *recorder) WithoutRecording() host.Facts {
	return &recorder{view: r.view, work: r.work} // nobody reads its notes
}

func (r *recorder) Get(ctx context.Context, id host.ID) (text []byte, err error) {
	r.notes.stored = append(r.notes.stored, host.Filter{IDs: []host.ID{id}})
	r.read(func() { text, err = r.view.get(ctx, id) })
	return text, err
}

func (r *recorder) Query(ctx context.Context, f host.Filter) (found [][]byte, err error) {
	r.notes.stored = append(r.notes.stored, f)
	r.read(func() { found, err = r.view.query(ctx, f) })
	return found, err
}

func (r *recorder) Referenced(ctx context.Context, idOrAddress string) (yes bool, err error) {
	for _, name := range []byte(host.ReferenceTags) {
		r.notes.stored = append(r.notes.stored, referenceFilter(name, idOrAddress))
	}
	r.read(func() { yes, err = r.view.referenced(ctx, idOrAddress) })
	return yes, err
}

func referenceFilter(name byte, idOrAddress string) host.Filter {
	return host.Filter{Tags: []host.TagFilter{{Name: name, Values: []string{idOrAddress}}}, Limit: 1}
}

func (r *recorder) Held(ctx context.Context, id host.ID) (text []byte, err error) {
	r.notes.held = append(r.notes.held, host.Filter{IDs: []host.ID{id}})
	if r.view.held == nil {
		return nil, nil
	}
	r.read(func() { text, err = r.view.heldByID(ctx, id) })
	return text, err
}

func (r *recorder) HeldBy(ctx context.Context, f host.Filter) (found [][]byte, err error) {
	r.notes.held = append(r.notes.held, f)
	if r.view.held == nil {
		return nil, nil
	}
	r.read(func() { found, err = r.view.heldBy(ctx, f) })
	return found, err
}

// view is what has been committed, with changes of the open batch on top: the facts
// as they will be if that batch is committed. What it reads may be newer than the
// changes, which may have been committed meanwhile.
type view struct {
	stored host.Facts
	held   host.HeldFacts
	open   []change // shared; never changed
}

// last returns the last change of an event, nil if there is none.
func (v *view) last(id host.ID, held bool) *change {
	for i := len(v.open) - 1; i >= 0; i-- {
		if c := &v.open[i]; c.held == held && c.event.ID == id {
			return c
		}
	}
	return nil
}

func (c *change) text() []byte {
	if c.removed {
		return nil
	}
	return c.event.JSON
}

func (v *view) get(ctx context.Context, id host.ID) ([]byte, error) {
	if c := v.last(id, false); c != nil {
		return c.text(), nil
	}
	return v.stored.Get(ctx, id)
}

func (v *view) heldByID(ctx context.Context, id host.ID) ([]byte, error) {
	if c := v.last(id, true); c != nil {
		return c.text(), nil
	}
	return v.held.Held(ctx, id)
}

func (v *view) query(ctx context.Context, f host.Filter) ([][]byte, error) {
	return v.merge(ctx, f, false, v.stored.Query)
}

func (v *view) heldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	return v.merge(ctx, f, true, v.held.HeldBy)
}

func (v *view) referenced(ctx context.Context, idOrAddress string) (bool, error) {
	if len(v.open) == 0 {
		return v.stored.Referenced(ctx, idOrAddress)
	}
	for _, name := range []byte(host.ReferenceTags) {
		if found, err := v.query(ctx, referenceFilter(name, idOrAddress)); err != nil || len(found) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// merge answers a query with the changes that match its filter applied to what read
// finds, in the same order: newest first, ties by lowest id.
func (v *view) merge(ctx context.Context, f host.Filter, held bool,
	read func(context.Context, host.Filter) ([][]byte, error)) ([][]byte, error) {
	var added, removed []*host.Event
	for i := range v.open {
		c := &v.open[i]
		if c.held != held || !f.Matches(c.event) || v.last(c.event.ID, held) != c {
			continue
		}
		if c.removed {
			removed = append(removed, c.event)
		} else {
			added = append(added, c.event)
		}
	}
	if len(added) == 0 && len(removed) == 0 {
		return read(ctx, f)
	}
	limit := f.Limit
	if limit >= 0 {
		f.Limit += len(removed)
	}
	found, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	found = slices.Clone(found)
	for _, e := range removed {
		if i, is, err := position(found, e); err != nil {
			return nil, err
		} else if is {
			found = slices.Delete(found, i, i+1)
		}
	}
	for _, e := range added {
		if i, is, err := position(found, e); err != nil {
			return nil, err
		} else if !is {
			found = slices.Insert(found, i, e.JSON)
		}
	}
	if limit >= 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

// position returns where an event stands among the texts of events in the order of
// answers, or where it would, and whether it does.
func position(texts [][]byte, e *host.Event) (i int, is bool, err error) {
	var failure error
	i = sort.Search(len(texts), func(i int) bool {
		other, err := wire.ParseEvent(texts[i])
		if err != nil {
			failure = err
			return true
		}
		if other.ID == e.ID {
			is = true
			return true
		}
		return e.Before(other)
	})
	return i, is, failure
}
