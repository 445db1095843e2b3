package storetest

import (
	"slices"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
)

// testGiftWraps deletes stored, held and hidden gift wraps as their recipient, and brings them again.
func testGiftWraps(t *testing.T, x Engine) {
	s := open(t, x)
	to := host.Tag{"p", host.PubKey{2}.String()}
	stored, held, hidden := Event(1, 1, host.KindGiftWrap, 10, to), Event(2, 1, host.KindGiftWrap, 10, to), Event(3, 1, host.KindGiftWrap, 10, to)
	absent, other := Event(4, 1, host.KindGiftWrap, 10, to), Event(5, 1, host.KindGiftWrap, 10, host.Tag{"p", host.PubKey{3}.String()})
	note := Event(6, 1, 1, 10, to)
	all := []*host.Event{stored, held, hidden, absent, other, note}
	Put(t, s, 20, stored, hidden, other, note)
	Change(t, s, func(tx Tx) error {
		if _, err := tx.TakeDown(host.Takedown{Hide: []host.ID{hidden.ID}}, 20); err != nil {
			return err
		}
		_, err := tx.Hold(held, host.HoldOptions{Reason: "purgatory: waits"}, 20)
		return err
	})
	var tags []host.Tag
	for _, e := range all {
		tags = append(tags, host.Tag{"e", e.ID.String()})
	}
	Change(t, s, func(tx Tx) error {
		out, err := tx.Put(Event(9, 2, host.KindDeletion, 30, tags...), 30)
		if len(out.Removed) != 1 || out.Removed[0].ID != stored.ID || len(out.Held) != 1 || out.Held[0].Event.ID != held.ID {
			t.Errorf("the deletion removes %v, changes of purgatory %+v", out.Removed, out.Held)
		}
		return err
	})
	if total := s.Total(); total.Events != 3 || total.Held != 0 || total.Hidden != 0 {
		t.Errorf("after the deletion: %+v", total)
	}
	Change(t, s, func(tx Tx) error {
		for i, e := range all {
			put, err := tx.Put(e, 40)
			if err != nil {
				return err
			}
			want := semantics.ReasonUnwanted
			if i > 3 {
				want = semantics.ReasonHave
			}
			if put.Reason != want {
				t.Errorf("event %d comes again: %v %q, want %q", i, put.Code, put.Reason, want)
			}
		}
		hold, err := tx.Hold(held, host.HoldOptions{Reason: "purgatory: waits"}, 40)
		if hold.Reason != semantics.ReasonUnwanted {
			t.Errorf("hold again: %v %q", hold.Code, hold.Reason)
		}
		return err
	})
	Check(t, s)
}

// testVanish notes requests to vanish, and brings what they concern, also after a restart.
func testVanish(t *testing.T, x Engine) {
	name := x.New(t)
	s := openWith(t, x, name, Options{})
	gone, other := host.PubKey{1}, host.PubKey{2}
	to := host.Tag{"p", gone.String()}
	author := gone
	Change(t, s, func(tx Tx) error {
		for n, e := range []*host.Event{Event(1, 1, 1, 10), Event(2, 2, host.KindGiftWrap, 10, to), Event(3, 2, 1, 10)} {
			if _, err := tx.Put(e, 10+int64(n)); err != nil {
				return err
			}
		}
		_, err := tx.TakeDown(host.Takedown{Hide: []host.ID{Event(1, 1, 1, 10).ID, Event(2, 2, host.KindGiftWrap, 10, to).ID}}, 20)
		return err
	})
	if list, err := s.HiddenOf(t.Context(), &author, 0, 0, 10); err != nil || len(list) != 1 || list[0].Kind != 1 {
		t.Errorf("hidden of the author: %v, %v", list, err)
	}
	if list, err := s.HiddenOf(t.Context(), nil, host.KindGiftWrap, 0, 10); err != nil || len(list) != 1 || list[0].PubKey != other {
		t.Errorf("hidden gift wraps: %v, %v", list, err)
	}
	vanish := func(n int, at int64, want host.Code) {
		t.Helper()
		Change(t, s, func(tx Tx) error {
			out, err := tx.Vanish(vanishOf(n, 1, at))
			if out.Code != want || out.Seq != 0 {
				t.Errorf("the request of %d: %+v, want %v", at, out, want)
			}
			return err
		})
	}
	repository := host.Address{Kind: host.KindAnnouncement, PubKey: gone, D: "tool"}
	refused := func(until int64) {
		t.Helper()
		for i, tt := range []struct {
			e    *host.Event
			want string
		}{
			{Event(20, 1, 1, until), semantics.ReasonVanished},
			{Event(21, 1, host.KindAnnouncement, until, host.Tag{"d", "tool"}), semantics.ReasonVanished},
			{Event(22, 1, host.KindDeletion, until), semantics.ReasonVanished},
			{Event(23, 2, host.KindGiftWrap, until, to), semantics.ReasonRecipientVanished},
			{Event(24, 2, host.KindGiftWrap, until, host.Tag{"p", other.String()}), ""},
			{Event(25, 2, 1, until, to), ""},
			{Event(26, 1, 1, until+1), ""},
			{Event(27, 2, host.KindGiftWrap, until+1, to), ""},
		} {
			Change(t, s, func(tx Tx) error {
				out, err := tx.Hold(tt.e, host.HoldOptions{Reason: "waits"}, until)
				if out.Reason != tt.want && tt.want != "" {
					t.Errorf("hold %d: %v %q, want %q", i, out.Code, out.Reason, tt.want)
				}
				if err == nil {
					out, err = tx.Put(tt.e, until)
				}
				if out.Reason != tt.want {
					t.Errorf("put %d: %v %q, want %q", i, out.Code, out.Reason, tt.want)
				}
				if err == nil && tt.want == "" {
					_, err = tx.TakeDown(host.Takedown{Drop: []host.ID{tt.e.ID}}, until)
				}
				return err
			})
		}
		for _, at := range []int64{until, until + 1} {
			if deleted, err := s.DeletedAddress(t.Context(), repository, at); err != nil || deleted != (at == until) {
				t.Errorf("the address at %d: deleted %v, %v", at, deleted, err)
			}
		}
	}
	vanish(10, 100, host.Stored)
	refused(100)
	vanish(10, 100, host.Duplicate)
	vanish(11, 90, host.Duplicate)
	vanish(12, 200, host.Stored)
	refused(200)
	Change(t, s, func(tx Tx) error { // what waits is not stored later
		early := Event(30, 3, 1, 150)
		if _, err := tx.Hold(early, host.HoldOptions{Reason: "waits"}, 150); err != nil {
			return err
		}
		if _, err := tx.Vanish(vanishOf(31, 3, 160)); err != nil {
			return err
		}
		out, err := tx.Release(host.Release{IDs: []host.ID{early.ID}}, 170)
		if len(out.Events) != 1 || out.Events[0].Status != host.StatusDeleted {
			t.Errorf("released: %+v", out.Events)
		}
		return err
	})
	Check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, x, name, Options{})
	refused(200)
	list, err := s.VanishedAfter(t.Context(), 0, 10)
	if err != nil || len(list) != 2 || s.Total().Vanished != 2 {
		t.Fatalf("requests: %+v, %d in total, %v", list, s.Total().Vanished, err)
	}
	if v := list[0]; v.Number != 2 || v.PubKey != gone || v.Until != 200 || v.ID != vanishOf(12, 1, 200).ID || !slices.Contains([]byte(v.JSON), '{') {
		t.Errorf("the first request: %+v", v)
	}
	if list, err := s.VanishedAfter(t.Context(), 2, 1); err != nil || len(list) != 1 || list[0].Number != 3 {
		t.Errorf("requests after the first: %+v, %v", list, err)
	}
	Check(t, s)
}

// vanishOf returns a request of an author.
func vanishOf(n int, author byte, at int64) *host.VanishRequest {
	e := Event(n, author, host.KindVanish, at, host.Tag{"relay", "ALL_RELAYS"})
	return &host.VanishRequest{ID: e.ID, PubKey: e.PubKey, Until: at, JSON: e.JSON}
}
