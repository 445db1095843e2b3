package grasp

import (
	"strconv"
	"strings"
	"testing"

	"talon/sdk/nip19"
)

// key returns a key or an id that is easy to tell.
func key(n int) [32]byte {
	return [32]byte{byte(n >> 16), byte(n >> 8), byte(n), 31: 1}
}

func npub(n int) string { return nip19.EncodeNpub(key(n)) }

// oid returns the name of an object.
func oid(n int) string {
	s := strconv.Itoa(n)
	return strings.Repeat("a", 40-len(s)) + s
}

var none = strings.Repeat("0", 40)

// event returns an event; each tag is written with spaces between its items.
func event(kind, author int, at int64, tags ...string) *Event {
	e := &Event{Stamp: Stamp{ID: key(1000*author + int(at)), PubKey: key(author), CreatedAt: at}, Kind: kind}
	for _, tag := range tags {
		e.Tags = append(e.Tags, strings.Split(tag, " "))
	}
	return e
}

func announcement(t testing.TB, author int, at int64, tags ...string) *Announcement {
	t.Helper()
	a, err := ParseAnnouncement(event(KindAnnouncement, author, at, append([]string{"d repo"}, tags...)...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func state(t testing.TB, author int, at int64, tags ...string) *State {
	t.Helper()
	s, err := ParseState(event(KindState, author, at, append([]string{"d repo"}, tags...)...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func service(t testing.TB, s string) Service {
	t.Helper()
	service, err := ParseService(s)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func list(t testing.TB, entries ...string) List {
	t.Helper()
	l, err := ParseList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
