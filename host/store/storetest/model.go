package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
)

// model is the store as simple as it can be said.
type model struct {
	events    map[host.ID]*host.Event
	deleted   map[host.ID]map[host.PubKey]bool
	addresses map[host.Address]int64 // deleted up to
}

func newModel() *model {
	return &model{map[host.ID]*host.Event{}, map[host.ID]map[host.PubKey]bool{}, map[host.Address]int64{}}
}

func (m *model) at(a host.Address) *host.Event {
	for _, e := range m.events {
		if b, ok := e.Address(); ok && a == b {
			return e
		}
	}
	return nil
}

func (m *model) put(e *host.Event, now int64) (out host.Outcome) {
	if at, ok := e.Expiration(); ok && at <= now {
		return host.Outcome{Code: host.Rejected, Reason: semantics.ReasonExpired}
	}
	if m.events[e.ID] != nil {
		return host.Outcome{Code: host.Duplicate, Reason: semantics.ReasonHave}
	}
	if m.unwanted(e) {
		return host.Outcome{Code: host.Rejected, Reason: semantics.ReasonUnwanted}
	}
	a, addressed := e.Address()
	if addressed {
		if old := m.at(a); old != nil && old.Before(e) {
			return host.Outcome{Code: host.Replaced, Reason: semantics.ReasonNewer}
		}
		if until, ok := m.addresses[a]; ok && e.CreatedAt <= until {
			return host.Outcome{Code: host.Rejected, Reason: semantics.ReasonDeleted}
		}
	}
	if e.Kind != host.KindDeletion && m.deleted[e.ID][e.PubKey] {
		return host.Outcome{Code: host.Rejected, Reason: semantics.ReasonDeleted}
	}
	remove := func(old *host.Event) {
		if old != nil {
			delete(m.events, old.ID)
			out.Removed = append(out.Removed, old)
		}
	}
	if addressed {
		remove(m.at(a))
	}
	m.events[e.ID] = e
	if e.Kind != host.KindDeletion {
		return out
	}
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		var id host.ID
		if tag[0] == "e" && host.ParseHex(id[:], tag[1]) {
			old := m.events[id]
			if old != nil && !mayDelete(e.PubKey, old) {
				continue // it stays, and nobody deleted it
			}
			if m.deleted[id] == nil {
				m.deleted[id] = map[host.PubKey]bool{}
			}
			m.deleted[id][e.PubKey] = true
			remove(old)
		}
		if a, ok := host.ParseAddress(tag[1]); tag[0] == "a" && ok && a.PubKey == e.PubKey {
			m.addresses[a] = max(m.addresses[a], e.CreatedAt)
			if old := m.at(a); old != nil && old.CreatedAt <= e.CreatedAt {
				remove(old)
			}
		}
	}
	return out
}

// mayDelete reports whether a deletion of a key that names the id of an event removes it.
func mayDelete(key host.PubKey, e *host.Event) bool {
	to := host.Tag{"p", key.String()}
	return e.PubKey == key && e.Kind != host.KindDeletion ||
		e.Kind == host.KindGiftWrap && slices.ContainsFunc(e.Tags, func(tag host.Tag) bool { return len(tag) > 1 && slices.Equal(tag[:2], to) })
}

// unwanted reports whether a recipient has deleted a gift wrap.
func (m *model) unwanted(e *host.Event) bool {
	for by := range m.deleted[e.ID] {
		if by != e.PubKey && mayDelete(by, e) {
			return true
		}
	}
	return false
}

func (m *model) sweep(now int64) (removed []*host.Event) {
	for _, e := range m.events {
		if at, ok := e.Expiration(); ok && at <= now {
			removed = append(removed, e)
		}
	}
	for _, e := range removed {
		delete(m.events, e.ID)
	}
	return removed
}

// matching returns what a filter matches, limit aside, in the order of answers.
func (m *model) matching(f host.Filter, now int64) (out []*host.Event) {
	for _, e := range m.events {
		if at, ok := e.Expiration(); f.Matches(e) && f.Reader.Receives(e.Audience) && !(ok && at <= now) {
			out = append(out, e)
		}
	}
	return ordered(out)
}

func ordered(events []*host.Event) []*host.Event {
	slices.SortFunc(events, func(a, b *host.Event) int {
		if a.ID == b.ID {
			return 0
		}
		if a.Before(b) {
			return -1
		}
		return 1
	})
	return slices.Compact(events)
}

// world draws events and filters from few values, so that they meet.
type world struct {
	*rand.Rand
	n    int
	past []*host.Event
}

func pick[T any](r *world, list ...T) T { return list[r.IntN(len(list))] }

func (w *world) event(now int64) *host.Event {
	if len(w.past) > 0 && w.IntN(8) == 0 {
		return pick(w, w.past...) // again
	}
	w.n++
	kind := pick[host.Kind](w, 0, 1, 1, 1, 3, 5, 5, 7, 1059, 1059, 1111, 1621, 10002, 30000, 30617, 40000, 65535)
	e := Event(w.n, byte(w.IntN(4)), kind, int64(w.IntN(12)))
	if w.IntN(4) == 0 { // an id that starts like another
		copy(e.ID[:], []byte{1, 2, 3, 4, 5, 6, 7, 8})
	}
	for range w.IntN(4) {
		tag := pick(w, "e", "p", "t", "T", "d", "-", "alt", "é", "maintainers", "subject", "a")
		e.Tags = append(e.Tags, host.Tag{tag, w.value(tag), w.value("x")}[:w.IntN(3)+1])
	}
	if kind == host.KindDeletion {
		for range w.IntN(3) {
			e.Tags = append(e.Tags, w.target(e))
		}
	}
	if w.IntN(6) == 0 {
		at := strconv.FormatInt(now+int64(w.IntN(12))-2, 10)
		e.Tags = append(e.Tags, host.Tag{"expiration", pick(w, at, at, at, "soon", "1e9")})
	}
	if w.IntN(3) == 0 {
		e.Audience = w.audience()
	}
	e.JSON = e.AppendJSON(nil)
	w.past = append(w.past, e)
	return e
}

func (w *world) value(tag string) string {
	switch tag {
	case "e":
		if len(w.past) > 0 {
			return pick(w, w.past...).ID.String()
		}
	case "p", "maintainers":
		return host.PubKey{byte(w.IntN(4))}.String()
	case "a":
		return pick(w, "30617:", "30023:") + host.PubKey{byte(w.IntN(4))}.String() + ":" + w.value("d")
	}
	return pick(w, "", "mylib", "mylib-extra", "x", "\x00\"")
}

// asked is a value that a filter may ask for.
func (w *world) asked(name byte) string {
	switch name {
	case host.AddressOf:
		if len(w.past) > 0 {
			if a, ok := pick(w, w.past...).Address(); ok {
				return a.String()
			}
		}
		return "30617:x:mylib"
	case host.MaintainerOf:
		return host.Maintains(host.PubKey{byte(w.IntN(4))}, w.value("d"))
	case host.WordOf:
		return pick(w, "event", "mylib", "extra", "x", strconv.Itoa(w.IntN(w.n+1)))
	}
	return w.value(string(name))
}

// target is what a deletion might name: its own, another's, nonsense.
func (w *world) target(e *host.Event) host.Tag {
	if w.IntN(8) == 0 || len(w.past) == 0 {
		return pick(w, host.Tag{"e", e.ID.String()}, host.Tag{"e", "zz"}, host.Tag{"e"}, host.Tag{"a", "1::"}, host.Tag{"a", "30617"})
	}
	old := pick(w, w.past...)
	if a, ok := old.Address(); ok && w.IntN(2) == 0 {
		return host.Tag{"a", a.String()}
	}
	if w.IntN(8) == 0 { // what has not come yet
		return host.Tag{"e", Event(w.n+1+w.IntN(3), 0, 1, 0).ID.String()}
	}
	return host.Tag{"e", old.ID.String()}
}

// audience is who may receive an event.
func (w *world) audience() *host.Audience {
	switch w.IntN(4) {
	case 0:
		return host.Nobody
	case 1:
		return &host.Audience{Set: pick(w, "a", "b"), Repository: w.IntN(2) == 0}
	}
	a := &host.Audience{}
	for key := range byte(3) {
		if w.IntN(2) == 0 || key == 2 && a.Keys == nil {
			a.Keys = append(a.Keys, host.PubKey{key})
		}
	}
	return a
}

// reader is who reads.
func (w *world) reader() *host.Reader {
	switch w.IntN(5) {
	case 0:
		return nil
	case 1:
		return host.Everything
	}
	r := &host.Reader{WithheldOnly: w.IntN(4) == 0}
	for range w.IntN(3) {
		r.Keys = append(r.Keys, host.PubKey{byte(w.IntN(4))})
	}
	for range w.IntN(2) {
		r.Sets = append(r.Sets, pick(w, "a", "b", "c"))
	}
	return r
}

func (w *world) filter() host.Filter {
	f := host.Filter{Limit: pick(w, -1, -1, 0, 1, 2, 3, 5, 100), Reader: w.reader()}
	if w.IntN(6) == 0 {
		f.IDs = []host.ID{}
		for range w.IntN(6) {
			f.IDs = append(f.IDs, pick(w, append(w.past, Event(1<<20, 0, 0, 0))...).ID)
		}
	}
	if w.IntN(3) == 0 {
		f.Authors = []host.PubKey{}
		for range w.IntN(5) {
			f.Authors = append(f.Authors, host.PubKey{byte(w.IntN(5))})
		}
	}
	if w.IntN(2) == 0 {
		f.Kinds = []host.Kind{}
		for range w.IntN(12) {
			f.Kinds = append(f.Kinds, pick[host.Kind](w, 0, 1, 3, 5, 7, 1111, 1621, 10002, 30000, 30617, 40000, 65535, 9))
		}
	}
	for _, name := range []byte{'e', 'p', 't', 'T', 'd', host.AddressOf, host.MaintainerOf, host.WordOf, host.WordOf} {
		if w.IntN(7) == 0 {
			values, n := []string{}, w.IntN(12)
			if name == host.WordOf {
				n = 1
			}
			for range n {
				values = append(values, w.asked(name))
			}
			f.Tags = append(f.Tags, host.TagFilter{Name: name, Values: values})
		}
	}
	if w.IntN(3) == 0 {
		f.Since = ptr(int64(w.IntN(14)) - 1)
	}
	if w.IntN(3) == 0 {
		f.Until = ptr(int64(w.IntN(14)) - 1)
	}
	return f
}

// testModel does the same to the store and to the model and compares all that
// can be asked.
func testModel(t *testing.T, x Engine) {
	for seed := range x.Rounds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dir := x.New(t)
			opts := Options{Small: seed%2 == 1}
			s, m := openWith(t, x, dir, opts), newModel()
			w := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
			now := int64(100)
			for step := range steps(x, 40) {
				compareWrites(t, s, m, w, now)
				for range 12 {
					compareReads(t, s, m, w, now)
				}
				Check(t, s)
				now += int64(w.IntN(3))
				if w.IntN(3) == 0 {
					compareSweep(t, s, m, now)
					Check(t, s)
				}
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

func compareWrites(t *testing.T, s Store, m *model, w *world, now int64) {
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for range w.IntN(12) {
		e := w.event(now)
		got, err := tx.Put(e, now)
		if err != nil {
			t.Fatal(err)
		}
		want := m.put(e, now)
		if got.Code != want.Code || got.Reason != want.Reason || (got.Seq != 0) != (got.Code == host.Stored) {
			t.Errorf("put %s: got %+v, want %+v", e.JSON, got, want)
		}
		if a, b := Texts(got.Removed...), Texts(want.Removed...); !slices.Equal(a, b) {
			t.Errorf("put %s: removed %q, want %q", e.JSON, a, b)
		}
	}
	for range w.IntN(3) {
		compareAudience(t, tx, m, w)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func compareAudience(t *testing.T, tx Tx, m *model, w *world) {
	if len(w.past) == 0 {
		return
	}
	e, a := pick(w, w.past...), w.audience()
	if w.IntN(3) == 0 {
		a = nil
	}
	got, err := tx.SetAudience(e.ID, a)
	if err != nil {
		t.Fatal(err)
	}
	old := m.events[e.ID]
	if old == nil || old.Audience.Equal(a) {
		if got != nil {
			t.Errorf("audience of %s: got %+v, want no change", e.ID, got)
		}
		return
	}
	m.events[e.ID] = old.For(a)
	switch {
	case got == nil:
		t.Errorf("audience of %s: got no change, want %v", e.ID, a)
	case got.Before.ID != e.ID || !got.Before.Audience.Equal(old.Audience) || !got.After.Audience.Equal(a) || got.Seq == 0:
		t.Errorf("audience of %s: got %v, then %v, seq %d; want %v, then %v", e.ID, got.Before.Audience, got.After.Audience, got.Seq, old.Audience, a)
	}
}

func compareSweep(t *testing.T, s Store, m *model, now int64) {
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	got, err := tx.Sweep(now, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := Texts(got...), Texts(m.sweep(now)...); !slices.Equal(a, b) {
		t.Errorf("swept %q, want %q", a, b)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if at, ok := s.NextExpiry(); ok && at <= now {
		t.Errorf("after a sweep at %d the next expiry is at %d", now, at)
	}
}

func compareReads(t *testing.T, s Store, m *model, w *world, now int64) {
	ctx := context.Background()
	filters := make([]host.Filter, 1+w.IntN(3))
	var limited, all []*host.Event
	for i := range filters {
		filters[i] = w.filter()
		found := m.matching(filters[i], now)
		all = append(all, found...)
		if n := filters[i].Limit; n >= 0 {
			found = found[:min(n, len(found))]
		}
		limited = append(limited, found...)
	}
	limited, all = ordered(limited), ordered(all)

	if got, want := Selected(t, s, now, filters...), Texts(limited...); !slices.Equal(got, want) {
		t.Errorf("select %s:\n got %q\nwant %q", show(filters), got, want)
	}
	if n, err := s.Count(ctx, filters, now); err != nil || n != int64(len(all)) {
		t.Errorf("count %s: got %d, %v; want %d", show(filters), n, err, len(all))
	}
	authors := map[host.PubKey]int{}
	for _, e := range all {
		authors[e.PubKey]++
	}
	withheld := map[host.ID]string{}
	if err := s.Withheld(ctx, func(id host.ID, a *host.Audience) error { withheld[id] = a.String(); return nil }); err != nil {
		t.Error(err)
	}
	for id, e := range m.events {
		if e.Audience != nil && withheld[id] != e.Audience.String() {
			t.Errorf("withheld: got %q for %s, want %s", withheld[id], id, e.Audience)
		}
		if e.Audience != nil {
			delete(withheld, id)
		}
	}
	if len(withheld) > 0 {
		t.Errorf("withheld: %v are not", withheld)
	}
	if err := s.Authors(ctx, filters, now, func(p host.PubKey) { authors[p]-- }); err != nil {
		t.Error(err)
	}
	for p, n := range authors {
		if n != 0 {
			t.Errorf("authors of %s: %s is %d times too few", show(filters), p, n)
		}
	}
	compareScan(t, s, m.matching(filters[0], now), filters[0], now)
}

func compareScan(t *testing.T, s Store, want []*host.Event, f host.Filter, now int64) {
	type item struct {
		at int64
		id host.ID
	}
	var got []item
	_, n, err := s.Scan(context.Background(), f, 1000, now, func(at int64, id host.ID) { got = append(got, item{at, id}) })
	if err != nil || n != len(got) {
		t.Errorf("scan %s: got %d items, said %d, %v", show([]host.Filter{f}), len(got), n, err)
	}
	if f.Limit >= 0 {
		want = want[:min(f.Limit, len(want))]
	}
	slices.SortFunc(got, func(a, b item) int {
		x, y := &host.Event{CreatedAt: a.at, ID: a.id}, &host.Event{CreatedAt: b.at, ID: b.id}
		if x.Before(y) {
			return -1
		}
		return 1
	})
	if !slices.EqualFunc(got, want, func(a item, b *host.Event) bool { return a.at == b.CreatedAt && a.id == b.ID }) {
		t.Errorf("scan %s: got %v, want %q", show([]host.Filter{f}), got, Texts(want...))
	}
}

func show(filters []host.Filter) string {
	out := ""
	for _, f := range filters {
		out += fmt.Sprintf("{ids %v authors %v kinds %v tags %q limit %d reader %+v", f.IDs, f.Authors, f.Kinds, f.Tags, f.Limit, f.Reader)
		if f.Since != nil {
			out += fmt.Sprint(" since ", *f.Since)
		}
		if f.Until != nil {
			out += fmt.Sprint(" until ", *f.Until)
		}
		out += "}"
	}
	return out
}
