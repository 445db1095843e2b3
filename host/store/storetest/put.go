package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
)

// putStory has events in the order in which they come, and what is left.
type putStory struct {
	name    string
	put     []*host.Event
	codes   string // s, d or r for each, which is rejected or replaced
	reason  string // of the last
	left    []*host.Event
	removed int // by the last
}

// putStories returns small stories. Those of another number are of other authors: each may be
// told to a store that knows others.
func putStories(number int) []putStory {
	before := 10 * number // the author before those of these stories
	Event := func(n int, author int, kind host.Kind, at int64, tags ...host.Tag) *host.Event {
		return Event(100*number+n, byte(before+author), kind, at, tags...)
	}
	withID := func(e *host.Event, first byte) *host.Event {
		e.ID = host.ID{first, byte(number)}
		e.JSON = e.AppendJSON(nil)
		return e
	}
	d := func(v string) host.Tag { return host.Tag{"d", v} }
	e := func(of *host.Event) host.Tag { return host.Tag{"e", of.ID.String()} }
	a := func(kind host.Kind, author int, d string) host.Tag {
		return host.Tag{"a", host.Address{Kind: kind, PubKey: host.PubKey{byte(before + author)}, D: d}.String()}
	}
	note, others := Event(1, 1, 1, 10), Event(2, 2, 1, 10)
	lib, extra := Event(3, 1, 30617, 10, d("mylib")), Event(4, 1, 30617, 10, d("mylib-extra"))
	lib2 := Event(5, 1, 30617, 11, d("mylib"))
	none, bare, emptyD := Event(6, 1, 30000, 10), Event(7, 1, 30000, 11, host.Tag{"d"}), Event(8, 1, 30000, 12, d(""))
	low, high := withID(Event(9, 1, 0, 10), 1), withID(Event(10, 1, 0, 10), 2)
	del := Event(11, 1, 5, 20, e(note))
	delDel := Event(12, 1, 5, 21, e(del))
	delOthers := Event(13, 1, 5, 20, e(others), a(30617, 2, "theirs"))
	theirs := Event(14, 2, 30617, 10, d("theirs"))
	delAddress := Event(15, 1, 5, 11, a(30617, 1, "mylib"))
	lib3 := Event(16, 1, 30617, 12, d("mylib"))
	delEarlier := Event(17, 1, 5, 10, a(30617, 1, "mylib"))
	nonsense := Event(18, 1, 5, 20, host.Tag{"e"}, host.Tag{"e", "xyz"}, host.Tag{"e", strings.ToUpper(note.ID.String())}, host.Tag{"a", "30617:zz:mylib"}, host.Tag{"a", ""}, host.Tag{})
	many := Event(19, 1, 5, 20, e(note), a(30617, 1, "mylib"), e(Event(20, 1, 1, 1)))

	return []putStory{
		{"twice", []*host.Event{note, note}, "sd", semantics.ReasonHave, []*host.Event{note}, 0},
		{"d is compared whole", []*host.Event{extra, lib, lib2}, "sss", "", []*host.Event{extra, lib2}, 1},
		{"older version", []*host.Event{lib2, lib}, "sr", semantics.ReasonNewer, []*host.Event{lib2}, 0},
		{"missing and empty d", []*host.Event{none, bare, emptyD}, "sss", "", []*host.Event{emptyD}, 1},
		{"same second, lower id comes last", []*host.Event{high, low}, "ss", "", []*host.Event{low}, 1},
		{"same second, lower id comes first", []*host.Event{low, high}, "sr", semantics.ReasonNewer, []*host.Event{low}, 0},
		{"delete", []*host.Event{note, del}, "ss", "", []*host.Event{del}, 1},
		{"delete, then again", []*host.Event{note, del, note}, "ssr", semantics.ReasonDeleted, []*host.Event{del}, 0},
		{"deletion comes first", []*host.Event{del, note}, "sr", semantics.ReasonDeleted, []*host.Event{del}, 0},
		{"deletion twice", []*host.Event{del, del}, "sd", semantics.ReasonHave, []*host.Event{del}, 0},
		{"a deletion cannot be deleted", []*host.Event{note, del, delDel, note}, "sssr", semantics.ReasonDeleted, []*host.Event{del, delDel}, 0},
		{"nor before it comes", []*host.Event{delDel, del}, "ss", "", []*host.Event{del, delDel}, 0},
		{"only one's own", []*host.Event{others, theirs, delOthers}, "sss", "", []*host.Event{others, theirs, delOthers}, 0},
		{"only one's own, deletion first", []*host.Event{delOthers, others, theirs}, "sss", "", []*host.Event{others, theirs, delOthers}, 0},
		{"address", []*host.Event{extra, lib2, delAddress}, "sss", "", []*host.Event{extra, delAddress}, 1},
		{"address, then older versions", []*host.Event{delAddress, lib, lib2}, "srr", semantics.ReasonDeleted, []*host.Event{delAddress}, 0},
		{"address, then a newer version", []*host.Event{delAddress, lib3}, "ss", "", []*host.Event{delAddress, lib3}, 0},
		{"address, newer version is here", []*host.Event{lib3, delAddress}, "ss", "", []*host.Event{lib3, delAddress}, 0},
		{"address, an earlier deletion after a later", []*host.Event{delAddress, delEarlier, lib2}, "ssr", semantics.ReasonDeleted, []*host.Event{delAddress, delEarlier}, 0},
		{"nonsense", []*host.Event{note, lib, nonsense}, "sss", "", []*host.Event{note, lib, nonsense}, 0},
		{"several targets", []*host.Event{note, lib, many}, "sss", "", []*host.Event{many}, 2},
		{"expired", []*host.Event{Event(21, 1, 1, 1, host.Tag{"expiration", "1000"})}, "r", semantics.ReasonExpired, nil, 0},
	}
}

func testPut(t *testing.T, x Engine) {
	const now = 1000
	s := open(t, x)
	for i := range putStories(0) {
		tt := putStories(i)[i]
		authors := []host.PubKey{{byte(10*i + 1)}, {byte(10*i + 2)}}
		t.Run(tt.name, func(t *testing.T) {
			out := Put(t, s, now, tt.put...)
			codes := ""
			for _, o := range out {
				codes += o.Code.String()[:1]
			}
			last := out[len(out)-1]
			if codes != tt.codes || last.Reason != tt.reason || len(last.Removed) != tt.removed {
				t.Errorf("got %s, last %q that removed %d; want %s, %q, %d", codes, last.Reason, len(last.Removed), tt.codes, tt.reason, tt.removed)
			}
			if got, want := Selected(t, s, now, host.Filter{Authors: authors, Limit: -1}), Texts(tt.left...); !slices.Equal(got, want) {
				t.Errorf("left:\n got %q\nwant %q", got, want)
			}
			Check(t, s)
		})
	}
}

// testDrop drops events by their ids, in a transaction that commits and in one that does not.
// Nobody has deleted them, so they may come again.
func testDrop(t *testing.T, x Engine) {
	name := x.New(t)
	s := openWith(t, x, name, Options{})
	a, b, c := Event(1, 1, 1, 10), Event(2, 1, 30000, 20), Event(3, 2, 1, 30)
	Put(t, s, 100, a, b, c)
	drop := func(commit bool, want int, ids ...host.ID) {
		t.Helper()
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		out, err := tx.TakeDown(host.Takedown{Drop: ids}, 100)
		if err != nil || len(out.Removed) != want {
			t.Fatalf("removed %d, %v; want %d", len(out.Removed), err, want)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...*host.Event) {
		t.Helper()
		for _, f := range []host.Filter{{Limit: -1}, {IDs: []host.ID{a.ID, b.ID, c.ID}, Limit: -1}, {Authors: []host.PubKey{a.PubKey, c.PubKey}, Limit: -1}} {
			if got, want := Selected(t, s, 100, f), Texts(want...); !slices.Equal(got, want) {
				t.Errorf("left:\n got %q\nwant %q", got, want)
			}
		}
	}
	drop(false, 2, a.ID, b.ID)
	left(c, b, a)
	drop(true, 2, a.ID, b.ID, host.ID{99})
	left(c)
	drop(true, 0, a.ID)
	drop(true, 0)
	Check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, x, name)
	left(c)
	Put(t, s, 100, b)
	left(c, b)
}

func testPutRefusesEphemeral(t *testing.T, x Engine) {
	s := open(t, x)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Put(Event(1, 1, 20001, 1), 0); !errors.Is(err, semantics.ErrEphemeral) {
		t.Errorf("got %v, want %v", err, semantics.ErrEphemeral)
	}
}

// testTagValues finds long, odd and equal-looking values, and only those asked for.
func testTagValues(t *testing.T, x Engine) {
	s := open(t, x)
	long := strings.Repeat("x", 76_000)
	values := []string{"", "\x00", "a", "A", long, long[1:] + "y", "é", "a\x00b", strings.Repeat("ab", 32)}
	var events []*host.Event
	for i, v := range values {
		e := Event(2*i, 1, 1, int64(i), host.Tag{"t", v, "second"}, host.Tag{"t", v})
		big := Event(2*i+1, 1, 1, int64(i), host.Tag{"T", v})
		events = append(events, e, big)
	}
	Put(t, s, 0, events...)
	for i, v := range values {
		for j, name := range []byte("tT") {
			f := host.Filter{Tags: []host.TagFilter{{Name: name, Values: []string{v}}}, Limit: 10}
			if got, want := Selected(t, s, 0, f), Texts(events[2*i+j]); !slices.Equal(got, want) {
				t.Errorf("%c %.20q: found %d events", name, v, len(got))
			}
		}
	}
	if got := Selected(t, s, 0, host.Filter{Tags: []host.TagFilter{{Name: 't', Values: []string{"second"}}}, Limit: 10}); len(got) != 0 {
		t.Errorf("second values: found %q", got)
	}
	Check(t, s)
}

// testManyTags stores the 5,000 people of a contact list, some twice.
func testManyTags(t *testing.T, x Engine) {
	s := open(t, x)
	var tags []host.Tag
	for i := range 5000 {
		tags = append(tags, host.Tag{"p", fmt.Sprint(i % 4999)})
	}
	e := Event(1, 1, 3, 1, tags...)
	Put(t, s, 0, e)
	for _, v := range []string{"0", "17", "4998"} {
		f := host.Filter{Tags: []host.TagFilter{{Name: 'p', Values: []string{v}}}, Limit: 10}
		if got := Selected(t, s, 0, f); !slices.Equal(got, Texts(e)) {
			t.Errorf("%s: found %d", v, len(got))
		}
	}
	Check(t, s)
	Put(t, s, 0, Event(2, 1, 3, 2))
	Check(t, s)
}

func testRollback(t *testing.T, x Engine) {
	s := open(t, x)
	keep := Event(1, 1, 0, 1, host.Tag{"expiration", "50"})
	Put(t, s, 0, keep)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*host.Event{Event(2, 1, 0, 2), Event(3, 1, 1, 1, host.Tag{"expiration", "20"})} {
		if _, err := tx.Put(e, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("commit after rollback: no error")
	}
	if got := Selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, Texts(keep)) {
		t.Errorf("got %q", got)
	}
	if at, ok := s.NextExpiry(); !ok || at != 50 {
		t.Errorf("next expiry: got %d %v, want 50", at, ok)
	}
	Check(t, s)
}

// testManyDeletions deletes what 3,000 tags name, some of it here, some another's, some
// twice.
func testManyDeletions(t *testing.T, x Engine) {
	s := open(t, x)
	var own, others []*host.Event
	var tags []host.Tag
	for n := range 1000 {
		mine, theirs, absent := Event(3*n, 1, 1, int64(n)), Event(3*n+1, 2, 1, int64(n)), Event(3*n+2, 1, 1, int64(n))
		own, others = append(own, mine), append(others, theirs)
		tags = append(tags, host.Tag{"e", mine.ID.String()}, host.Tag{"e", theirs.ID.String()}, host.Tag{"e", absent.ID.String()}, host.Tag{"e", mine.ID.String()})
	}
	Put(t, s, 0, append(own, others...)...)
	deletion := Event(9999, 1, host.KindDeletion, 5, tags...)
	out := Put(t, s, 0, deletion)[0]
	if got, want := Texts(out.Removed...), Texts(own...); !slices.Equal(got, want) {
		t.Errorf("removed %d events, want the author's %d", len(got), len(want))
	}
	if got, want := Selected(t, s, 0, host.Filter{Limit: -1}), Texts(append(others, deletion)...); !slices.Equal(got, want) {
		t.Errorf("%d events are left, want %d", len(got), len(want))
	}
	if out := Put(t, s, 0, Event(2, 1, 1, 0))[0]; out.Reason != semantics.ReasonDeleted {
		t.Errorf("what was deleted before it came: %+v", out)
	}
	if got := s.RemovedTotal(); got != 1000 {
		t.Errorf("%d events have left", got)
	}
	Check(t, s)
}
