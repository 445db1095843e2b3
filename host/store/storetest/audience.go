package storetest

import (
	"context"
	"slices"
	"testing"

	"talon/host"
)

// testWithheld asks by every sort of condition for events that are withheld.
func testWithheld(t *testing.T, x Engine) {
	s, ctx := open(t, x), context.Background()
	wrap := func(n int, to byte) *host.Event {
		e := Event(n, 9, 1059, int64(n), host.Tag{"p", host.PubKey{to}.String()})
		return e.For(&host.Audience{Keys: []host.PubKey{{to}}})
	}
	note := Event(1, 1, 1, 1, host.Tag{"p", host.PubKey{1}.String()})
	member := Event(2, 1, 1, 2).For(&host.Audience{Set: "members"})
	nobody := Event(3, 1, 1, 3).For(host.Nobody)
	one, other, also := wrap(4, 1), wrap(5, 2), wrap(6, 1)
	Put(t, s, 0, note, member, nobody, one, other, also)
	Check(t, s)
	if n := s.Total().Withheld; n != 5 {
		t.Errorf("total: %d withheld, want 5", n)
	}
	key := &host.Reader{Keys: []host.PubKey{{1}}}
	ids := []host.ID{note.ID, member.ID, nobody.ID, one.ID, other.ID, also.ID}
	p := []host.TagFilter{{Name: 'p', Values: []string{host.PubKey{1}.String(), host.PubKey{2}.String()}}}
	for _, tt := range []struct {
		name string
		f    host.Filter
		want []*host.Event
	}{
		{"a stranger asks for everything", host.Filter{}, []*host.Event{note}},
		{"a stranger knows the ids", host.Filter{IDs: ids}, []*host.Event{note}},
		{"a stranger names kinds", host.Filter{Kinds: []host.Kind{1, 1059}}, []*host.Event{note}},
		{"a stranger names the author", host.Filter{Authors: []host.PubKey{{9}}}, nil},
		{"a stranger names the recipient", host.Filter{Tags: p}, []*host.Event{note}},
		{"a recipient asks for everything", host.Filter{Reader: key}, []*host.Event{also, one, note}},
		{"a recipient knows the ids", host.Filter{IDs: ids, Reader: key}, []*host.Event{also, one, note}},
		{"a recipient names the kind", host.Filter{Kinds: []host.Kind{1059}, Reader: key}, []*host.Event{also, one}},
		{"a recipient names the author", host.Filter{Authors: []host.PubKey{{9}}, Reader: key}, []*host.Event{also, one}},
		{"a recipient names recipients", host.Filter{Tags: p, Reader: key}, []*host.Event{also, one, note}},
		{"a recipient has a limit", host.Filter{Limit: 2, Reader: key}, []*host.Event{also, one}},
		{"a member asks", host.Filter{Reader: &host.Reader{Sets: []string{"members"}}}, []*host.Event{member, note}},
		{"a member of another set asks", host.Filter{Reader: &host.Reader{Sets: []string{"others"}}}, []*host.Event{note}},
		{"the host asks", host.Filter{Reader: host.Everything}, []*host.Event{also, other, one, nobody, member, note}},
	} {
		if tt.f.Limit == 0 {
			tt.f.Limit = -1
		}
		if got, want := Selected(t, s, 0, tt.f), Texts(tt.want...); !slices.Equal(got, want) {
			t.Errorf("%s: selected %q, want %q", tt.name, got, want)
		}
		if tt.f.Limit > 0 {
			continue
		}
		if n, err := s.Count(ctx, []host.Filter{tt.f}, 0); err != nil || n != int64(len(tt.want)) {
			t.Errorf("%s: counted %d, %v; want %d", tt.name, n, err, len(tt.want))
		}
		compareScan(t, s, tt.want, tt.f, 0)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// testWithheldInPurgatory releases an event that is not for everybody.
func testWithheldInPurgatory(t *testing.T, x Engine) {
	s, ctx := open(t, x), context.Background()
	e := Event(1, 1, 30617, 1, host.Tag{"d", "x"}).For(&host.Audience{Set: "members", Repository: true})
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if out, err := tx.Hold(e, host.HoldOptions{Reason: host.ReasonHeld}, 1); err != nil || out.Code != host.Held {
		t.Fatalf("hold: %+v, %v", out, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	Check(t, s)
	if h, ok, err := s.HeldEvent(ctx, e.ID); err != nil || !ok || !h.Audience.Equal(e.Audience) {
		t.Errorf("held: audience %v, %v, %v; want %v", h.Audience, ok, err, e.Audience)
	}
	if tx, err = s.Begin(); err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	out, err := tx.Release(host.Release{IDs: []host.ID{e.ID}}, 2)
	if err != nil || len(out.Events) != 1 || !out.Events[0].Event.Audience.Equal(e.Audience) {
		t.Fatalf("release: %+v, %v", out, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	Check(t, s)
	if got := Selected(t, s, 2, host.Filter{Limit: -1}); len(got) != 0 {
		t.Errorf("everybody gets %q", got)
	}
	if got := Selected(t, s, 2, host.Filter{Limit: -1, Reader: &host.Reader{Sets: []string{"members"}}}); len(got) != 1 {
		t.Errorf("a member gets %q", got)
	}
}

// testRepositoryAudience asks for the audience of stored, held and hidden events of repositories.
func testRepositoryAudience(t *testing.T, x Engine) {
	s, ctx := open(t, x), context.Background()
	repository := func(set string) *host.Audience { return &host.Audience{Set: set, Repository: true} }
	public := Event(1, 1, 1, 1)
	wrap := Event(2, 1, 1059, 2).For(&host.Audience{Keys: []host.PubKey{{1}}})
	stored := Event(3, 1, 1621, 3).For(repository("a"))
	other := Event(4, 1, 1621, 4).For(repository("b"))
	held := Event(5, 1, 30617, 5, host.Tag{"d", "x"}).For(repository("a"))
	hidden := Event(6, 1, 1621, 6).For(repository("a"))
	Put(t, s, 0, public, wrap, stored, other, hidden)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Hold(held, host.HoldOptions{Reason: host.ReasonHeld}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.TakeDown(host.Takedown{Hide: []host.ID{hidden.ID}}, 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	found := map[host.ID]string{}
	err = s.HiddenAudiences(ctx, func(id host.ID, a *host.Audience) { found[id] = a.String() })
	if err != nil || len(found) != 1 || found[hidden.ID] != "set a" {
		t.Errorf("hidden events that are not for everybody: %v, %v", found, err)
	}
	for _, tt := range []struct {
		name string
		ids  []host.ID
		want *host.Audience
	}{
		{"nothing", nil, nil},
		{"nothing that is here", []host.ID{{9}}, nil},
		{"no repository", []host.ID{public.ID, wrap.ID}, nil},
		{"stored", []host.ID{public.ID, wrap.ID, stored.ID}, repository("a")},
		{"held", []host.ID{held.ID}, repository("a")},
		{"hidden", []host.ID{hidden.ID, {9}}, repository("a")},
		{"two repositories", []host.ID{stored.ID, other.ID}, &host.Audience{Repository: true}},
	} {
		if a, err := s.RepositoryAudience(ctx, tt.ids); err != nil || !a.Equal(tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.name, a, err, tt.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
