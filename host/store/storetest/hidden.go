package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
	"talon/internal/testkit"
)

// testHiddenModel runs the same random story on two databases. In one of them, random events are
// hidden meanwhile. All answers about events that come are the same, and in the end, when all are
// shown again, so are the databases: hidden events replace, are replaced, are deleted and expire.
func testHiddenModel(t *testing.T, x Engine) {
	for seed := range uint64(max(testkit.Sized(1, 2), x.Rounds()/10)) {
		r := rand.New(rand.NewPCG(seed, 7))
		plain, hiding := open(t, x), open(t, x)
		var all []host.ID
		for n := range steps(x, 120) {
			now := int64(100 + n)
			if r.IntN(4) == 0 {
				hideSome(t, hiding, r, all, now)
			}
			e := randomEvent(r, n, all)
			all = append(all, e.ID)
			var codes [2]string
			for i, s := range []Store{plain, hiding} {
				Change(t, s, func(tx Tx) error {
					out, err := tx.Put(e, now)
					if err != nil {
						t.Fatal(err)
					}
					codes[i] = fmt.Sprint(out.Code, out.Reason)
					if n%10 == 0 {
						if _, err := tx.Sweep(now, 100); err != nil {
							t.Fatal(err)
						}
					}
					return nil
				})
			}
			if codes[0] != codes[1] {
				t.Fatalf("seed %d: event %d (kind %d): %s, and %s where events are hidden", seed, n, e.Kind, codes[0], codes[1])
			}
		}
		for {
			list, err := hiding.HiddenAfter(t.Context(), 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			var ids []host.ID
			for _, h := range list {
				ids = append(ids, h.ID)
			}
			Change(t, hiding, func(tx Tx) error {
				_, err := tx.TakeDown(host.Takedown{Show: ids}, 50)
				return err
			})
		}
		for _, s := range []Store{plain, hiding} {
			Change(t, s, func(tx Tx) error {
				_, err := tx.Sweep(1000, 1000)
				return err
			})
			Check(t, s)
		}
		if a, b := exported(t, plain), exported(t, hiding); !slices.Equal(a, b) {
			t.Fatalf("seed %d: %d events, and %d where some were hidden meanwhile", seed, len(a), len(b))
		}
	}
}

// randomEvent makes an event, sometimes one that replaces, deletes or expires.
func randomEvent(r *rand.Rand, n int, all []host.ID) *host.Event {
	author, d := byte(r.IntN(2)), host.Tag{"d", fmt.Sprint(r.IntN(2))}
	kinds := []host.Kind{1, 1, 0, 30000, host.KindAnnouncement, host.KindDeletion}
	kind := kinds[r.IntN(len(kinds))]
	tags := []host.Tag{d}
	switch {
	case kind == host.KindDeletion && len(all) > 0:
		tags = []host.Tag{{"e", all[r.IntN(len(all))].String()}}
		if r.IntN(3) == 0 {
			tags = append(tags, host.Tag{"a", host.Address{Kind: 30000, PubKey: host.PubKey{author}, D: d[1]}.String()})
		}
	case kind == host.KindAnnouncement:
		tags = append(tags, host.Tag{"maintainers", host.PubKey{9}.String()})
	case r.IntN(5) == 0:
		tags = append(tags, host.Tag{"expiration", fmt.Sprint(100 + n + r.IntN(60))})
	}
	if len(all) > 0 && r.IntN(8) == 0 {
		n = r.IntN(len(all)) // once more, or another text with the same id
	}
	e := Event(n, author, kind, int64(r.IntN(30)), tags...)
	return e
}

func hideSome(t *testing.T, s Store, r *rand.Rand, all []host.ID, now int64) {
	t.Helper()
	var ids []host.ID
	for _, id := range all {
		if r.IntN(4) == 0 {
			ids = append(ids, id)
		}
	}
	Change(t, s, func(tx Tx) error {
		out, err := tx.TakeDown(host.Takedown{Hide: ids}, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Removed {
			if !slices.Contains(ids, e.ID) {
				t.Errorf("event %s is hidden, and was not named", e.ID)
			}
		}
		return nil
	})
	if missing, err := s.Missing(t.Context(), ids); err != nil || len(missing) != len(ids) {
		t.Fatalf("%d of %d hidden events are stored, %v", len(ids)-len(missing), len(ids), err)
	}
}

func exported(t *testing.T, s Store) (list []string) {
	t.Helper()
	if err := s.Export(t.Context(), func(json []byte) error {
		list = append(list, string(json))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// testTakeDown hides, shows and purges events of each sort, and reads them as the rules of
// repositories do.
func testTakeDown(t *testing.T, x Engine) {
	name := x.New(t)
	s := openWith(t, x, name, Options{})
	listed := host.PubKey{3}
	announcement := Event(1, 1, host.KindAnnouncement, 10, host.Tag{"d", "tool"}, host.Tag{"maintainers", listed.String()})
	state := Event(2, 1, 30618, 11, host.Tag{"d", "tool"})
	note := Event(3, 1, 1, 12, host.Tag{"t", "x"})
	waits := Event(4, 1, 30618, 13, host.Tag{"d", "other"})
	all := []host.ID{announcement.ID, state.ID, note.ID, waits.ID}
	Change(t, s, func(tx Tx) error {
		for _, e := range []*host.Event{announcement, state, note} {
			if _, err := tx.Put(e, 20); err != nil {
				t.Fatal(err)
			}
		}
		_, err := tx.Hold(waits, host.HoldOptions{Reason: "purgatory: waits"}, 20)
		return err
	})
	takeDown := func(down host.Takedown) (out host.TakedownOutcome) {
		t.Helper()
		Change(t, s, func(tx Tx) error {
			var err error
			out, err = tx.TakeDown(down, 30)
			return err
		})
		Check(t, s)
		return out
	}
	out := takeDown(host.Takedown{Hide: all})
	if len(out.Removed) != 3 || len(out.Held) != 1 || out.Held[0].Status != host.StatusExpired || out.Purged != 0 {
		t.Errorf("hide: %d removed, changes %+v, %d purged", len(out.Removed), out.Held, out.Purged)
	}
	if total := s.Total(); total.Hidden != 3 || total.Events != 0 || total.Held != 0 || total.HiddenBytes == 0 {
		t.Errorf("hidden: %+v", total)
	}
	reads := func() {
		t.Helper()
		address := host.Address{Kind: host.KindAnnouncement, PubKey: host.PubKey{1}, D: "tool"}
		for name, f := range map[string]struct {
			filter host.Filter
			want   int
		}{
			"id":         {host.Filter{IDs: all, Limit: -1}, 3},
			"address":    {host.Filter{Tags: []host.TagFilter{{Name: host.AddressOf, Values: []string{address.String()}}}, Limit: -1}, 1},
			"maintainer": {host.Filter{Tags: []host.TagFilter{{Name: host.MaintainerOf, Values: []string{host.Maintains(listed, "tool")}}}, Limit: 5}, 1},
			"states":     {host.Filter{Kinds: []host.Kind{30618}, Authors: []host.PubKey{{1}, {2}}, Tags: []host.TagFilter{{Name: 'd', Values: []string{"tool"}}}, Limit: 5}, 1},
			"others":     {host.Filter{Authors: []host.PubKey{{1}}, Limit: -1}, 0},
			"header":     {host.Filter{IDs: all, Limit: 2, Header: true}, 2},
		} {
			if found, err := s.HiddenBy(t.Context(), f.filter); err != nil || len(found) != f.want {
				t.Errorf("%s: %d hidden events found, want %d, %v", name, len(found), f.want, err)
			}
			if found, err := s.Select(t.Context(), []host.Filter{f.filter}, 30); err != nil || len(found.Rows) != 0 {
				t.Errorf("%s: %d events in the answer to a filter, %v", name, len(found.Rows), err)
			}
		}
	}
	reads()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, x, name, Options{})
	reads()
	out = takeDown(host.Takedown{Show: []host.ID{note.ID, waits.ID}})
	if len(out.Published) != 1 || out.Published[0].Event.ID != note.ID || out.Published[0].Seq == 0 {
		t.Errorf("show: %+v", out.Published)
	}
	out = takeDown(host.Takedown{Purge: all})
	if out.Purged != 3 || len(out.Removed) != 3 {
		t.Errorf("purge: %d purged, %d removed", out.Purged, len(out.Removed))
	}
	if total := s.Total(); total.Hidden != 0 || total.HiddenBytes != 0 || total.Events != 0 {
		t.Errorf("purged: %+v", total)
	}
	refused := map[host.ID]int64{}
	if err := s.Refused(t.Context(), func(one semantics.RefusedID) { refused[one.ID] = one.CreatedAt }); err != nil {
		t.Fatal(err)
	}
	other := host.ID{77}
	if rest, err := s.NotTakenDown(t.Context(), append(all, other)); err != nil || !slices.Equal(rest, []host.ID{waits.ID, other}) {
		t.Errorf("not taken down: %v, %v", rest, err)
	}
	if len(refused) != 3 || refused[note.ID] != 12 || refused[state.ID] != 11 {
		t.Errorf("refused ids: %v", refused)
	}
	// An id that is noted again is the newest: the oldest give way.
	Change(t, s, func(tx Tx) error {
		_, err := tx.Put(announcement, 20)
		return err
	})
	takeDown(host.Takedown{Purge: []host.ID{announcement.ID, announcement.ID}})
	var order []host.ID
	if err := s.Refused(t.Context(), func(one semantics.RefusedID) { order = append(order, one.ID) }); err != nil {
		t.Fatal(err)
	}
	if len(order) != 3 || order[2] != announcement.ID {
		t.Errorf("the order of refused ids: %v", order)
	}
	takeDown(host.Takedown{Forget: true})
	if rest, err := s.NotTakenDown(t.Context(), all); err != nil || len(rest) != len(all) {
		t.Errorf("after the ids are forgotten: %v, %v", rest, err)
	}
}
