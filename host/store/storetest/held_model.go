package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
)

// heldModel is a store with purgatory as simple as it can be said.
type heldModel struct {
	*model
	held   []*modelHeld // in the order in which they came
	gone   map[host.ID]int64
	limits semantics.HeldLimits

	released []string // what put has released
}

type modelHeld struct {
	*host.Event
	since   int64
	dormant bool
	reason  string
	parent  string // the reference of what it depends on, "" for nothing
	network string
	known   bool
	synced  bool
	wake    string // of one that a module holds
	until   int64
}

func (h *modelHeld) cause() purgatory.Cause {
	switch {
	case h.wake != "":
		return purgatory.CauseVerdict
	case h.parent != "":
		return purgatory.CauseParent
	}
	return purgatory.CauseGit
}

func (h *modelHeld) due() int64 {
	if h.wake != "" {
		return h.until
	}
	return purgatory.Due(h.Event, h.cause(), h.since, h.dormant)
}

func (h *modelHeld) phase(now int64) purgatory.Phase {
	if at, ok := h.Expiration(); ok && at <= now {
		return purgatory.Forgotten
	}
	if h.wake != "" {
		if now >= h.until {
			return purgatory.Forgotten
		}
		return purgatory.Waiting
	}
	return purgatory.Term{Announcement: h.Kind == 30617 && h.parent == "", Since: h.since}.Phase(now)
}

func (m *heldModel) find(id host.ID) *modelHeld {
	for _, h := range m.held {
		if h.ID == id {
			return h
		}
	}
	return nil
}

// drop removes all for which cond holds.
func (m *heldModel) drop(fates *[]string, fate host.HeldStatus, cond func(*modelHeld) bool) {
	var dropped []*modelHeld
	m.held = slices.DeleteFunc(m.held, func(h *modelHeld) bool {
		if !cond(h) {
			return false
		}
		note(fates, h.Event, fate)
		dropped = append(dropped, h)
		return true
	})
	for _, h := range dropped {
		if fate == host.StatusExpired || fate == host.StatusDeleted {
			m.dropDependents(fates, h)
		}
	}
}

func note(fates *[]string, e *host.Event, fate host.HeldStatus) {
	*fates = append(*fates, e.ID.String()+" "+fate.String())
}

func sameAddress(a, b *host.Event) bool {
	x, ok := a.Address()
	y, also := b.Address()
	return ok && also && x == y
}

// deletes reports whether a deletion (kind 5) deletes e, stored or held: by an e tag with
// its id, or by an a tag with its address if e is not younger than the deletion. Of the
// same second is not younger. Only the author's deletion counts, and of a gift wrap that of its
// recipient (NIP-59). A deletion is not deleted (NIP-09).
func deletes(deletion, e *host.Event) bool {
	if deletion.Kind != host.KindDeletion || !mayDelete(deletion.PubKey, e) {
		return false
	}
	id, address := e.ID.String(), ""
	if a, ok := e.Address(); ok && deletion.PubKey == e.PubKey && e.CreatedAt <= deletion.CreatedAt {
		address = a.String()
	}
	for _, tag := range deletion.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			if tag[1] == id {
				return true
			}
		case "a":
			if address != "" && tag[1] == address {
				return true
			}
		}
	}
	return false
}

func (m *heldModel) put(e *host.Event, now int64) (host.Outcome, []string) {
	var fates []string
	out := m.model.put(e, now)
	if out.Code != host.Stored {
		return out, nil
	}
	if e.Kind == host.KindDeletion {
		for _, name := range []string{"e", "a"} {
			part := *e
			part.Tags = slices.DeleteFunc(slices.Clone(e.Tags), func(tag host.Tag) bool { return len(tag) == 0 || tag[0] != name })
			m.drop(&fates, host.StatusDeleted, func(h *modelHeld) bool { return deletes(&part, h.Event) })
		}
	}
	before := len(m.held)
	m.drop(&fates, host.StatusReleased, func(h *modelHeld) bool { return h.ID == e.ID })
	m.drop(&fates, host.StatusReplaced, func(h *modelHeld) bool { return sameAddress(h.Event, e) && e.Before(h.Event) })
	if len(m.held) < before {
		released, more := m.releaseDependents(e, now)
		m.released = append(m.released, released...)
		fates = append(fates, more...)
	}
	return out, fates
}

func (m *heldModel) hold(e *host.Event, hd host.HoldOptions, now int64) (host.Code, string, []string) {
	var fates []string
	if at, ok := e.Expiration(); ok && at <= now {
		return host.Rejected, semantics.ReasonExpired, nil
	}
	if h := m.find(e.ID); h != nil {
		m.age(&fates, h, now)
		if h.wake != "" && hd.Wake != nil && m.find(e.ID) != nil {
			h.wake = string(hd.Wake)
			return host.Held, h.reason, fates
		}
		if m.find(e.ID) != nil && h.wake == "" {
			if e.Kind == 30617 && !hd.Synced {
				m.restart(&fates, h, now)
			}
			m.restartAll(&fates, hd.ExtendDeadline, now)
			return host.Held, h.reason, fates
		}
	}
	if m.events[e.ID] != nil {
		return host.Duplicate, semantics.ReasonHave, fates
	}
	if m.unwanted(e) {
		return host.Rejected, semantics.ReasonUnwanted, fates
	}
	if a, ok := e.Address(); ok {
		if old := m.at(a); old != nil && old.Before(e) {
			return host.Replaced, semantics.ReasonNewer, fates
		}
		if until, ok := m.addresses[a]; ok && e.CreatedAt <= until {
			return host.Rejected, semantics.ReasonDeleted, fates
		}
	}
	if e.Kind != host.KindDeletion && m.deleted[e.ID][e.PubKey] {
		return host.Rejected, semantics.ReasonDeleted, fates
	}
	if e.Kind == 30617 && hd.Synced && m.gone[e.ID] > now {
		return host.Rejected, semantics.ReasonGone, fates
	}
	var old *modelHeld
	for _, h := range m.held {
		if e.Kind == 30617 && sameAddress(h.Event, e) {
			old = h
		}
	}
	if old != nil && old.Before(e) {
		return host.Replaced, semantics.ReasonNewer, fates
	}
	row := &modelHeld{Event: e, since: now, reason: hd.Reason, network: hd.Network, known: hd.Known, synced: hd.Synced}
	waited := m.find(e.ID)
	if waited != nil {
		row.network, row.known, row.synced = waited.network, waited.known, waited.synced
	}
	if hd.Wake != nil {
		row.wake, row.until = string(hd.Wake), now+min(hd.Wait, purgatory.MaxWait)
		if at, ok := e.Expiration(); ok {
			row.until = min(row.until, at)
		}
	}
	if hd.Parent != "" && !m.depend(row, hd.Parent, now) {
		return host.Rejected, semantics.ReasonNoParent, fates
	}
	if prefix := m.room(&fates, row, old); prefix != "" {
		return host.Rejected, prefix, fates
	}
	if old != nil {
		m.drop(&fates, host.StatusReplaced, func(h *modelHeld) bool { return h == old })
	}
	if waited != nil {
		m.drop(&fates, host.StatusReplaced, func(h *modelHeld) bool { return h == waited })
	}
	m.held = append(m.held, row)
	delete(m.gone, e.ID)
	note(&fates, e, host.StatusHeld)
	m.restartAll(&fates, hd.ExtendDeadline, now)
	return host.Held, hd.Reason, fates
}

func (m *heldModel) age(fates *[]string, h *modelHeld, now int64) {
	if p := m.parentOf(h.parent); h.due() <= now && p != nil && waits(p, now) {
		if h.since = max(h.since, p.since); p.wake != "" {
			h.since = now
		}
	}
	switch phase := h.phase(now); {
	case phase >= purgatory.Gone:
		if phase == purgatory.Gone {
			m.gone[h.ID] = h.since + purgatory.HoldFor + purgatory.ReviveFor + purgatory.RefuseFor
		}
		m.drop(fates, host.StatusExpired, func(x *modelHeld) bool { return x == h })
	case phase == purgatory.Dormant && !h.dormant:
		h.dormant = true
		note(fates, h.Event, host.StatusDormant)
		m.dropDependents(fates, h)
	}
}

func (m *heldModel) restart(fates *[]string, h *modelHeld, now int64) {
	next, ok := purgatory.Term{Announcement: h.parent == "", Since: h.since}.Restart(now)
	if !ok {
		return
	}
	if h.dormant {
		note(fates, h.Event, host.StatusRevived)
	}
	h.since, h.dormant = next.Since, false
}

func (m *heldModel) restartAll(fates *[]string, addresses []host.Address, now int64) {
	for _, want := range addresses {
		for _, h := range m.held {
			if a, ok := h.Address(); ok && a == want && h.Kind == 30617 {
				m.restart(fates, h, now)
			}
		}
	}
}

func (m *heldModel) sweep(now int64) (fates []string) {
	for _, h := range slices.Clone(m.held) {
		if slices.Contains(m.held, h) { // it may have gone with its parent
			m.age(&fates, h, now)
		}
	}
	for id, until := range m.gone {
		if until <= now {
			delete(m.gone, id)
		}
	}
	return fates
}

func (m *heldModel) release(r host.Release, now int64) (events, fates []string) {
	ids := slices.Clone(r.IDs)
	slices.SortFunc(ids, func(a, b host.ID) int { return strings.Compare(string(b[:]), string(a[:])) })
	ids = slices.Compact(ids)
	at := func(id host.ID) int64 {
		if h := m.find(id); h != nil {
			return h.CreatedAt
		}
		return 0
	}
	slices.SortStableFunc(ids, func(a, b host.ID) int { return int(at(a) - at(b)) })
	done := map[string]bool{}
	for _, id := range ids {
		if done[id.String()] {
			continue // with its parent
		}
		h := m.find(id)
		var list, more []string
		switch {
		case h != nil && h.wake != "":
			list = []string{id.String() + " " + host.StatusHeld.String()}
		case h != nil:
			list, more = m.releaseRow(h, now)
		case m.events[id] != nil:
			list = []string{id.String() + " " + host.StatusStored.String()}
		case m.gone[id] != 0:
			list = []string{id.String() + " " + host.StatusExpired.String()}
		case len(m.deleted[id]) > 0:
			list = []string{id.String() + " " + host.StatusDeleted.String()}
		default:
			list = []string{id.String() + " " + host.StatusAbsent.String()}
		}
		for _, one := range list {
			name, _, _ := strings.Cut(one, " ")
			done[name] = true
		}
		events, fates = append(events, list...), append(fates, more...)
	}
	for _, id := range r.Refused {
		m.drop(&fates, host.StatusExpired, func(h *modelHeld) bool { return h.ID == id && h.wake != "" })
	}
	m.restartAll(&fates, r.ExtendDeadline, now)
	return events, fates
}

// heldEvent draws from fewer kinds than event, so that more of them meet in purgatory.
func (w *world) heldEvent(now int64) *host.Event {
	before := len(w.past)
	e := w.event(now)
	if e.Kind != host.KindDeletion && w.IntN(3) > 0 && len(w.past) > before {
		e.Kind = pick[host.Kind](w, 30617, 30617, 30617, 30618, 1618)
		e.JSON = e.AppendJSON(nil)
	}
	return e
}

func fatesOf(changes []host.HeldChange) (list []string) {
	for _, c := range changes {
		note(&list, c.Event, c.Status)
	}
	return list
}

func sameFates(t *testing.T, what string, got []host.HeldChange, want []string) {
	t.Helper()
	a := fatesOf(got)
	slices.Sort(a)
	slices.Sort(want)
	if !slices.Equal(a, want) {
		t.Errorf("%s: purgatory says %q, want %q", what, a, want)
	}
}

// testHeldModel does the same to purgatory and to the model and compares all that
// can be asked.
func testHeldModel(t *testing.T, x Engine) {
	for seed := range x.Rounds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dir := x.New(t)
			opts := Options{Held: semantics.HeldLimits{Events: 16, ByAuthor: 5, Bytes: 6000, Dependents: 6, ByParent: 3, Verdicts: 16, VerdictsByAuthor: 4, VerdictBytes: 5000}}
			if seed%3 == 0 {
				opts.Held = semantics.HeldLimits{Events: 1000, ByAuthor: 1000, Bytes: 1 << 20, Dependents: 1000, ByParent: 1000, Verdicts: 1000, VerdictsByAuthor: 1000, VerdictBytes: 1 << 20}
			}
			s := openWith(t, x, dir, opts)
			m := &heldModel{model: newModel(), gone: map[host.ID]int64{}, limits: opts.Held}
			w := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 2))}
			now := int64(1_700_000_000)
			for step := range steps(x, 60) {
				compareHolds(t, s, m, w, &now)
				compareHeldReads(t, s, m, w)
				compareReads(t, s, m.model, w, now)
				Check(t, s)
				if step%10 == 9 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = openWith(t, x, dir, opts)
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
		})
	}
}

func compareHolds(t *testing.T, s Store, m *heldModel, w *world, now *int64) {
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for range w.IntN(8) {
		switch w.IntN(10) {
		default:
			e := w.heldEvent(*now)
			h := host.HoldOptions{Reason: fmt.Sprint("purgatory: ", e.Kind), Synced: w.IntN(3) == 0, ExtendDeadline: w.restarts()}
			h.Network, h.Known = pick(w, "", "na", "na", "nb", "nc", "nd", "ne", "ra"), w.IntN(4) == 0
			if len(m.held) > 0 && w.IntN(3) == 0 {
				h.Parent = reference(pick(w, m.held...).Event)
			}
			if h.Parent == "" && purgatory.MayAwait(e.Kind) && w.IntN(2) == 0 {
				h.Wake = pick(w, []byte(`{"kinds":[7]}`), []byte(`{"kinds":[1]}`))
				h.Wait = pick[int64](w, 5, 1000, 2*purgatory.HoldFor, 2*purgatory.MaxWait)
			}
			got, err := tx.Hold(e, h, *now)
			if err != nil {
				t.Fatal(err)
			}
			code, reason, fates := m.hold(e, h, *now)
			if got.Code != code || !strings.HasPrefix(got.Reason, reason) || got.Seq != 0 || got.Removed != nil {
				t.Errorf("hold %s: got %+v, want %v %q", e.JSON, got, code, reason)
			}
			sameFates(t, "hold", got.Held, fates)
		case 6:
			e := w.heldEvent(*now)
			got, err := tx.Put(e, *now)
			if err != nil {
				t.Fatal(err)
			}
			want, fates := m.put(e, *now)
			if got.Code != want.Code || got.Reason != want.Reason {
				t.Errorf("put %s: got %+v, want %+v", e.JSON, got, want)
			}
			sameFates(t, "put", got.Held, fates)
		case 7:
			var r host.Release
			for range w.IntN(5) {
				if len(w.past) > 0 {
					r.IDs = append(r.IDs, pick(w, w.past...).ID)
				}
			}
			if len(r.IDs) > 1 {
				r.Refused = r.IDs[:1]
			}
			r.ExtendDeadline = w.restarts()
			got, err := tx.Release(r, *now)
			if err != nil {
				t.Fatal(err)
			}
			events, fates := m.release(r, *now)
			var have []string
			for _, e := range got.Events {
				have = append(have, e.ID.String()+" "+e.Status.String())
			}
			slices.Sort(have)
			slices.Sort(events)
			if !slices.Equal(have, events) {
				t.Errorf("release: got %q, want %q", have, events)
			}
			sameFates(t, "release", got.Held, fates)
		case 8, 9:
			*now += pick[int64](w, 1, 5, purgatory.HoldFor/2, purgatory.HoldFor, purgatory.ReviveFor, purgatory.RefuseFor)
			got, err := tx.SweepHeld(*now, 1000)
			if err != nil {
				t.Fatal(err)
			}
			sameFates(t, "sweep", got, m.sweep(*now))
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// restarts are addresses that a state might start again.
func (w *world) restarts() (list []host.Address) {
	for range w.IntN(3) {
		list = append(list, host.Address{Kind: 30617, PubKey: host.PubKey{byte(w.IntN(4))}, D: pick(w, "", "mylib", "x")})
	}
	return list
}

func compareHeldReads(t *testing.T, s Store, m *heldModel, w *world) {
	ctx := context.Background()
	var size int64
	first := int64(math.MaxInt64)
	for _, h := range m.held {
		size += int64(len(h.JSON))
		first = min(first, h.due())
		if got, err := s.Held(ctx, h.ID); err != nil || string(got) != string(h.JSON) {
			t.Errorf("held %s: got %s, %v", h.ID, got, err)
		}
		if got, err := s.Get(ctx, h.ID); got != nil || err != nil {
			t.Errorf("a held event is stored: %s, %v", got, err)
		}
	}
	for _, until := range m.gone {
		first = min(first, until)
	}
	if at, ok := s.NextHeld(); at != first || ok != (first != math.MaxInt64) {
		t.Errorf("the next is due at %d, %v, want %d", at, ok, first)
	}
	if st := s.Total(); st.Held != int64(len(m.held)) || st.HeldBytes != size {
		t.Errorf("totals %+v, want %d held of %d bytes", st, len(m.held), size)
	}
	var got []string
	err := s.EachHeld(ctx, func(h host.HeldEvent) error {
		got = append(got, fmt.Sprintf("%s %d %d %v %v %v %s", h.JSON, h.Since, h.Due, h.Dormant, h.Dependent, h.Synced, h.Wake))
		return nil
	})
	var want []string
	for _, h := range m.held {
		want = append(want, fmt.Sprintf("%s %d %d %v %v %v %s", h.JSON, h.since, h.due(), h.dormant, h.parent != "", h.synced, h.wake))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("each: got %q, %v, want %q", got, err, want)
	}
	for range 12 {
		f := w.filter()
		f.Tags = slices.DeleteFunc(f.Tags, func(t host.TagFilter) bool { return t.Name == host.WordOf }) // searches find stored events
		var match []*host.Event
		for _, h := range m.held {
			if f.Matches(h.Event) {
				match = append(match, h.Event)
			}
		}
		match = ordered(match)
		if f.Limit >= 0 {
			match = match[:min(f.Limit, len(match))]
		}
		found, err := s.HeldBy(ctx, f)
		if err != nil {
			t.Error(err)
		}
		var list []string
		for _, b := range found {
			list = append(list, string(b))
		}
		if want := Texts(match...); !slices.Equal(list, want) {
			t.Errorf("held by %s:\n got %q\nwant %q", show([]host.Filter{f}), list, want)
		}
	}
}
