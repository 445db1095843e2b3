package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
)

// TestPut tells small stories: events in the order in which they come, and what
// is left.
func TestPut(t *testing.T) {
	const now = 1000
	withID := func(e *host.Event, first byte) *host.Event {
		e.ID = host.ID{first}
		e.JSON = e.AppendJSON(nil)
		return e
	}
	d := func(v string) host.Tag { return host.Tag{"d", v} }
	e := func(of *host.Event) host.Tag { return host.Tag{"e", of.ID.String()} }
	a := func(kind host.Kind, author byte, d string) host.Tag {
		return host.Tag{"a", host.Address{Kind: kind, PubKey: host.PubKey{author}, D: d}.String()}
	}
	note, others := fake(1, 1, 1, 10), fake(2, 2, 1, 10)
	lib, extra := fake(3, 1, 30617, 10, d("mylib")), fake(4, 1, 30617, 10, d("mylib-extra"))
	lib2 := fake(5, 1, 30617, 11, d("mylib"))
	none, bare, emptyD := fake(6, 1, 30000, 10), fake(7, 1, 30000, 11, host.Tag{"d"}), fake(8, 1, 30000, 12, d(""))
	low, high := withID(fake(9, 1, 0, 10), 1), withID(fake(10, 1, 0, 10), 2)
	del := fake(11, 1, 5, 20, e(note))
	delDel := fake(12, 1, 5, 21, e(del))
	delOthers := fake(13, 1, 5, 20, e(others), a(30617, 2, "theirs"))
	theirs := fake(14, 2, 30617, 10, d("theirs"))
	delAddress := fake(15, 1, 5, 11, a(30617, 1, "mylib"))
	lib3 := fake(16, 1, 30617, 12, d("mylib"))
	delEarlier := fake(17, 1, 5, 10, a(30617, 1, "mylib"))
	nonsense := fake(18, 1, 5, 20, host.Tag{"e"}, host.Tag{"e", "xyz"}, host.Tag{"e", strings.ToUpper(note.ID.String())}, host.Tag{"a", "30617:zz:mylib"}, host.Tag{"a", ""}, host.Tag{})
	many := fake(19, 1, 5, 20, e(note), a(30617, 1, "mylib"), e(fake(20, 1, 1, 1)))

	for _, tt := range []struct {
		name    string
		put     []*host.Event
		codes   string // s, d or r for each, which is rejected or replaced
		reason  string // of the last
		left    []*host.Event
		removed int // by the last
	}{
		{"twice", []*host.Event{note, note}, "sd", reasonHave, []*host.Event{note}, 0},
		{"d is compared whole", []*host.Event{extra, lib, lib2}, "sss", "", []*host.Event{extra, lib2}, 1},
		{"older version", []*host.Event{lib2, lib}, "sr", reasonNewer, []*host.Event{lib2}, 0},
		{"missing and empty d", []*host.Event{none, bare, emptyD}, "sss", "", []*host.Event{emptyD}, 1},
		{"same second, lower id comes last", []*host.Event{high, low}, "ss", "", []*host.Event{low}, 1},
		{"same second, lower id comes first", []*host.Event{low, high}, "sr", reasonNewer, []*host.Event{low}, 0},
		{"delete", []*host.Event{note, del}, "ss", "", []*host.Event{del}, 1},
		{"delete, then again", []*host.Event{note, del, note}, "ssr", reasonDeleted, []*host.Event{del}, 0},
		{"deletion comes first", []*host.Event{del, note}, "sr", reasonDeleted, []*host.Event{del}, 0},
		{"deletion twice", []*host.Event{del, del}, "sd", reasonHave, []*host.Event{del}, 0},
		{"a deletion cannot be deleted", []*host.Event{note, del, delDel, note}, "sssr", reasonDeleted, []*host.Event{del, delDel}, 0},
		{"nor before it comes", []*host.Event{delDel, del}, "ss", "", []*host.Event{del, delDel}, 0},
		{"only one's own", []*host.Event{others, theirs, delOthers}, "sss", "", []*host.Event{others, theirs, delOthers}, 0},
		{"only one's own, deletion first", []*host.Event{delOthers, others, theirs}, "sss", "", []*host.Event{others, theirs, delOthers}, 0},
		{"address", []*host.Event{extra, lib2, delAddress}, "sss", "", []*host.Event{extra, delAddress}, 1},
		{"address, then older versions", []*host.Event{delAddress, lib, lib2}, "srr", reasonDeleted, []*host.Event{delAddress}, 0},
		{"address, then a newer version", []*host.Event{delAddress, lib3}, "ss", "", []*host.Event{delAddress, lib3}, 0},
		{"address, newer version is here", []*host.Event{lib3, delAddress}, "ss", "", []*host.Event{lib3, delAddress}, 0},
		{"address, an earlier deletion after a later", []*host.Event{delAddress, delEarlier, lib2}, "ssr", reasonDeleted, []*host.Event{delAddress, delEarlier}, 0},
		{"nonsense", []*host.Event{note, lib, nonsense}, "sss", "", []*host.Event{note, lib, nonsense}, 0},
		{"several targets", []*host.Event{note, lib, many}, "sss", "", []*host.Event{many}, 2},
		{"expired", []*host.Event{fake(21, 1, 1, 1, host.Tag{"expiration", "1000"})}, "r", reasonExpired, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			out := put(t, s, now, tt.put...)
			codes := ""
			for _, o := range out {
				codes += o.Code.String()[:1]
			}
			last := out[len(out)-1]
			if codes != tt.codes || last.Reason != tt.reason || len(last.Removed) != tt.removed {
				t.Errorf("got %s, last %q that removed %d; want %s, %q, %d", codes, last.Reason, len(last.Removed), tt.codes, tt.reason, tt.removed)
			}
			if got, want := selected(t, s, now, host.Filter{Limit: -1}), texts(tt.left...); !slices.Equal(got, want) {
				t.Errorf("left:\n got %q\nwant %q", got, want)
			}
			check(t, s)
		})
	}
}

func TestPutRefusesEphemeral(t *testing.T) {
	s := open(t)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Put(fake(1, 1, 20001, 1), 0); !errors.Is(err, ErrEphemeral) {
		t.Errorf("got %v, want %v", err, ErrEphemeral)
	}
}

// TestTagValues finds long, odd and equal-looking values, and only those asked for.
func TestTagValues(t *testing.T) {
	s := open(t)
	long := strings.Repeat("x", 76_000)
	values := []string{"", "\x00", "a", "A", long, long[1:] + "y", "é", "a\x00b", strings.Repeat("ab", 32)}
	var events []*host.Event
	for i, v := range values {
		e := fake(2*i, 1, 1, int64(i), host.Tag{"t", v, "second"}, host.Tag{"t", v})
		big := fake(2*i+1, 1, 1, int64(i), host.Tag{"T", v})
		events = append(events, e, big)
	}
	put(t, s, 0, events...)
	for i, v := range values {
		for j, name := range []byte("tT") {
			f := host.Filter{Tags: []host.TagFilter{{Name: name, Values: []string{v}}}, Limit: 10}
			if got, want := selected(t, s, 0, f), texts(events[2*i+j]); !slices.Equal(got, want) {
				t.Errorf("%c %.20q: found %d events", name, v, len(got))
			}
		}
	}
	if got := selected(t, s, 0, host.Filter{Tags: []host.TagFilter{{Name: 't', Values: []string{"second"}}}, Limit: 10}); len(got) != 0 {
		t.Errorf("second values: found %q", got)
	}
	check(t, s)
}

// TestManyTags stores the 5,000 people of a contact list, some twice.
func TestManyTags(t *testing.T) {
	s := open(t)
	var tags []host.Tag
	for i := range 5000 {
		tags = append(tags, host.Tag{"p", fmt.Sprint(i % 4999)})
	}
	e := fake(1, 1, 3, 1, tags...)
	put(t, s, 0, e)
	for _, v := range []string{"0", "17", "4998"} {
		f := host.Filter{Tags: []host.TagFilter{{Name: 'p', Values: []string{v}}}, Limit: 10}
		if got := selected(t, s, 0, f); !slices.Equal(got, texts(e)) {
			t.Errorf("%s: found %d", v, len(got))
		}
	}
	check(t, s)
	put(t, s, 0, fake(2, 1, 3, 2))
	check(t, s)
}

// TestRemoveDamaged replaces an event whose text cannot be read any more.
func TestRemoveDamaged(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	put(t, s, 0, fake(1, 1, 0, 1, host.Tag{"t", "x"}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), `UPDATE event SET json = x'7b7d'; UPDATE total SET bytes = 2`)
	s = reopen(t, dir)
	e := fake(2, 1, 0, 2)
	put(t, s, 0, e)
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(e)) {
		t.Errorf("got %q", got)
	}
	check(t, s)
}

// TestFailure makes the database full in the middle of a transaction.
func TestFailure(t *testing.T) {
	s := merged(t, t.TempDir())
	before := fake(0, 1, 1, 1)
	put(t, s, 0, before)
	limit := func(pages int64) {
		if _, err := s.writer.conn.number(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := s.writer.conn.number(context.Background(), `PRAGMA page_count`)
	if err != nil {
		t.Fatal(err)
	}
	limit(pages + 5)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; err == nil; n++ {
		if n > 10_000 {
			t.Fatal("the database does not get full")
		}
		_, err = tx.Put(fake(n, 1, 1, 1, host.Tag{"t", fmt.Sprint(n)}), 0)
	}
	if code(err) != 13 {
		t.Errorf("got %v, want that the database is full", err)
	}
	if _, err := tx.Put(fake(1, 1, 1, 1), 0); err == nil {
		t.Error("a broken transaction goes on")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a broken transaction can be committed")
	}
	check(t, s)

	// The index is written by the commit.
	tx, err = s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var tags []host.Tag
	for n := range 250 {
		tags = append(tags, host.Tag{"t", fmt.Sprint(n)})
	}
	if _, err := tx.Put(fake(1, 1, 1, 1, tags...), 0); err != nil {
		t.Fatal(err)
	}
	limit(pages)
	if err := tx.Commit(); code(err) != 13 {
		t.Errorf("commit: got %v, want that the database is full", err)
	}
	check(t, s)
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(before)) {
		t.Errorf("got %q", got)
	}

	limit(1 << 30)
	after := fake(1, 1, 1, 2)
	put(t, s, 0, after)
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(before, after)) {
		t.Errorf("with room again: got %q", got)
	}
	check(t, s)
}

func TestRollback(t *testing.T) {
	s := open(t)
	keep := fake(1, 1, 0, 1, host.Tag{"expiration", "50"})
	put(t, s, 0, keep)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*host.Event{fake(2, 1, 0, 2), fake(3, 1, 1, 1, host.Tag{"expiration", "20"})} {
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
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(keep)) {
		t.Errorf("got %q", got)
	}
	if at, ok := s.NextExpiry(); !ok || at != 50 {
		t.Errorf("next expiry: got %d %v, want 50", at, ok)
	}
	check(t, s)
}
