package retry

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"talon/host"
)

const now = 1_700_000_000

// event makes an event; nobody here checks it.
func event(n byte, kind host.Kind, tags ...host.Tag) *host.Event {
	e := &host.Event{ID: host.ID{n}, PubKey: host.PubKey{n}, Kind: kind, Tags: tags, CreatedAt: now}
	e.JSON = e.AppendJSON(nil)
	return e
}

// by gives an event another author.
func by(author byte, e *host.Event) *host.Event {
	e.PubKey = host.PubKey{author}
	return e
}

// due takes all events that are due.
func due(s *Set) string {
	var list []string
	for {
		a, ok := s.Next()
		if !ok {
			return strings.Join(list, " ")
		}
		s.Dequeue()
		list = append(list, fmt.Sprint(a.Event.ID[0]))
	}
}

// arrive reports an arrival to the set, and takes all events that are due.
func arrive(s *Set, e *host.Event) string {
	s.Arrived(e)
	return due(s)
}

// add records a refusal, and reports whether an event is due immediately.
func add(s *Set, e *host.Event, mark uint64) bool {
	s.Add(e, "one", mark, now)
	return due(s) != ""
}

// A comment names the announcements of four maintainers, which are held and then released,
// and its root, which comes last: it is not out of tries then.
func TestManyMaintainers(t *testing.T) {
	s := New(DefaultLimits)
	root := event(1, 1621)
	comment := event(2, 1111, host.Tag{"E", root.ID.String()})
	var announcements []*host.Event
	for n := byte(10); n < 14; n++ {
		a := event(n, 30617, host.Tag{"d", "x"})
		address, _ := a.Address()
		comment.Tags = append(comment.Tags, host.Tag{"A", address.String()})
		announcements = append(announcements, a)
	}
	if add(s, comment, s.Position()) {
		t.Error("it is tried at once")
	}
	for range 2 {
		for _, a := range announcements {
			if got := arrive(s, a); got != "2" {
				t.Errorf("%q is tried again", got)
			}
			add(s, comment, s.Position())
		}
	}
	if got := arrive(s, root); got != "2" {
		t.Errorf("%q is tried again when the root comes", got)
	}
}

// An issue comes before its repository, a comment before the issue: the announcement
// brings in the issue, and that the comment.
func TestChain(t *testing.T) {
	s := New(DefaultLimits)
	announcement := event(1, 30617, host.Tag{"d", "x:y"})
	address, _ := announcement.Address()
	issue := event(2, 1621, host.Tag{"a", address.String()})
	comment := event(3, 1111, host.Tag{"E", issue.ID.String()}, host.Tag{"A", address.String()})
	stranger := event(4, 1, host.Tag{"e", host.ID{99}.String()})
	for _, e := range []*host.Event{comment, issue, stranger} {
		if add(s, e, s.Position()) {
			t.Errorf("event %d is tried although nothing arrived", e.ID[0])
		}
	}
	if got := arrive(s, announcement); got != "3 2" { // oldest first
		t.Fatalf("the announcement brings in %q", got)
	}
	// The comment is decided before the issue is stored.
	if add(s, comment, s.Position()) {
		t.Error("tried once more for nothing")
	}
	if got := arrive(s, issue); got != "3" {
		t.Errorf("the issue brings in %q", got)
	}
	s.Arrived(comment)
	if s.Len() != 1 || s.Bytes() != len(stranger.JSON) {
		t.Errorf("%d events, %d bytes", s.Len(), s.Bytes())
	}
}

// TestKeys covers an event that names the other, one of the same repository, and one of the same
// author.
func TestKeys(t *testing.T) {
	repo := event(1, 30617, host.Tag{"d", "demo"}, host.Tag{"maintainers", host.PubKey{7}.String()})
	for name, tt := range map[string]struct {
		refused, arrives *host.Event
		want             bool
	}{
		"named by e":                {event(2, 1), event(3, 1, host.Tag{"e", host.ID{2}.String()}), true},
		"named by q":                {event(2, 1), event(3, 1, host.Tag{"q", host.ID{2}.String()}), true},
		"named by address":          {event(2, 30023, host.Tag{"d", "x"}), event(3, 1, host.Tag{"a", "30023:" + host.PubKey{2}.String() + ":x"}), true},
		"named by p":                {event(2, 1), event(3, 1, host.Tag{"p", host.PubKey{2}.String()}), false},
		"state of a repository":     {event(2, 30618, host.Tag{"d", "demo"}), repo, true},
		"co-maintainer's":           {event(2, 30617, host.Tag{"d", "demo"}), repo, true},
		"another identifier":        {event(2, 30618, host.Tag{"d", "other"}), repo, false},
		"profile of a maintainer":   {event(7, 0), repo, true},
		"profile of the author":     {by(9, event(2, 0)), by(9, event(3, 1621)), true},
		"profile of somebody":       {event(8, 0), repo, false},
		"a sibling":                 {event(2, 1, host.Tag{"e", host.ID{50}.String()}), event(3, 1, host.Tag{"e", host.ID{50}.String()}), false},
		"a note of the same author": {by(9, event(2, 1)), by(9, event(3, 1621)), false},
	} {
		s := New(DefaultLimits)
		s.Add(tt.refused, "one", s.Position(), now)
		if got := arrive(s, tt.arrives) != ""; got != tt.want {
			t.Errorf("%s: tried %v", name, got)
		}
	}
}

// TestMark checks that an arrival during the decision counts, also if the set hears of the refusal
// later.
func TestMark(t *testing.T) {
	s := New(DefaultLimits)
	root := event(1, 1621)
	reply := event(2, 1, host.Tag{"e", root.ID.String()})
	mark := s.Position()
	s.Arrived(root)
	if !add(s, reply, mark) {
		t.Error("what arrived in between was missed")
	}
	if add(s, reply, s.Position()) {
		t.Error("tried for what it was decided with")
	}
	// Longer ago than is remembered: tried to be sure.
	mark = s.Position()
	for i := range recentKeys {
		s.Arrived(&host.Event{ID: host.ID{3, byte(i), byte(i >> 8)}, Kind: 1})
	}
	if !add(s, event(9, 1, host.Tag{"e", host.ID{8}.String()}), mark) {
		t.Error("what nobody remembers is not tried")
	}
}

func TestTries(t *testing.T) {
	s := New(Limits{Events: 10, Bytes: 1 << 20, Age: 100, Tries: 2})
	root := event(1, 1621)
	reply := event(2, 1, host.Tag{"e", root.ID.String()})
	s.Add(reply, "one", s.Position(), now)
	for i, want := range []string{"2", "2", ""} {
		if got := arrive(s, root); got != want {
			t.Fatalf("arrival %d: %q", i, got)
		}
		if got := arrive(s, root); got != "" {
			t.Fatalf("given out twice: %q", got)
		}
		s.Add(reply, "one", s.Position(), now)
	}
	if s.Len() > 1 {
		t.Errorf("%d events", s.Len())
	}
	// An attempt that failed to begin does not count.
	s = New(Limits{Events: 10, Bytes: 1 << 20, Age: 100, Tries: 1})
	s.Add(reply, "one", s.Position(), now)
	for range 3 {
		if got := arrive(s, root); got != "2" {
			t.Fatalf("%q", got)
		}
		s.Requeue(reply.ID)
	}
}

// TestDue checks that an event stays due, once, until it is taken or gone.
func TestDue(t *testing.T) {
	s := New(DefaultLimits)
	root := event(1, 1621)
	for n := range byte(5) {
		s.Add(event(10+n, 1, host.Tag{"e", root.ID.String()}), "one", s.Position(), now)
	}
	mark := s.Position()
	s.Arrived(root)
	s.Arrived(root)
	s.Add(event(11, 1, host.Tag{"e", root.ID.String()}), "two", mark, now) // another copy
	s.Requeue(host.ID{12})                                                 // nobody took it
	s.Forget(host.ID{13})
	if got := due(s); got != "10 11 12 14" {
		t.Errorf("%q are due", got)
	}
	if s.TryAll(); due(s) != "" {
		t.Error("tried while they are decided")
	}
	for n := range byte(5) {
		s.Add(event(10+n, 1, host.Tag{"e", root.ID.String()}), "one", s.Position(), now)
	}
	if s.TryAll(); due(s) != "10 11 12 14 13" {
		t.Error("not all are tried")
	}
}

// An event that was refused because its date has not come is tried when it has, whatever
// was tried before, and however long that takes; not one that is dated years ahead.
func TestDated(t *testing.T) {
	const hour = 3600
	s := New(Limits{Events: 10, Bytes: 1 << 20, Age: hour, Tries: 2, Ahead: 24 * hour})
	dated := func(n byte, at int64) *host.Event {
		e := event(n, 1, host.Tag{"e", host.ID{9}.String()})
		e.CreatedAt = at
		return e
	}
	soon, later, never := dated(1, now+2*hour), dated(2, now+5*hour), dated(3, now+25*hour)
	for _, e := range []*host.Event{later, soon, never} {
		if add(s, e, s.Position()) {
			t.Errorf("event %d is tried at once", e.ID[0])
		}
	}
	// The events that it names arrive. It is tried as often as others, and stays.
	for range 3 {
		arrive(s, event(9, 1))
		s.Add(soon, "one", s.Position(), now)
		s.Add(later, "one", s.Position(), now)
		s.Add(never, "one", s.Position(), now)
	}
	at := func(time int64) string {
		s.Expire(time)
		return due(s)
	}
	for _, step := range []struct {
		at   int64
		want string
	}{{now + hour, ""}, {now + 2*hour - 1, ""}, {now + 2*hour, "1"}, {now + 2*hour + 1, ""}, {now + 6*hour, "2"}} {
		if got := at(step.at); got != step.want {
			t.Errorf("after %d s: %q, want %q", step.at-now, got, step.want)
		}
	}
	// Refused again, it is one as all others.
	s.Add(later, "one", s.Position(), now+6*hour)
	if at(now+7*hour) != "" || s.Len() != 0 {
		t.Errorf("%d events are left", s.Len())
	}
}

// The time of an event comes while it is being decided: it may have been too early.
func TestDatedMeanwhile(t *testing.T) {
	s := New(Limits{Events: 10, Bytes: 1 << 20, Age: 100, Tries: 2, Ahead: 1000})
	e := event(1, 1, host.Tag{"e", host.ID{9}.String()})
	e.CreatedAt = now + 10
	add(s, e, s.Position())
	if got := arrive(s, event(9, 1)); got != "1" {
		t.Fatalf("tried: %q", got)
	}
	s.Expire(now + 10)
	if got := due(s); got != "" {
		t.Fatalf("tried twice at once: %q", got)
	}
	s.Add(e, "one", s.Position(), now+11)
	if got := due(s); got != "1" {
		t.Errorf("after its time: %q", got)
	}
}

// One source that sends rubbish pushes out its own.
func TestRoom(t *testing.T) {
	s := New(Limits{Events: 10, Bytes: 1 << 20, Age: 100, Tries: 3})
	for n := range byte(3) {
		s.Add(event(1+n, 1), "good", s.Position(), now)
	}
	for n := range byte(200) {
		s.Add(event(50+n, 1), "bad", s.Position(), now)
	}
	if s.Len() != 10 {
		t.Errorf("%d events", s.Len())
	}
	for n := range byte(3) {
		if s.entries[host.ID{1 + n}] == nil {
			t.Errorf("event %d was pushed out", 1+n)
		}
	}
	s.Expire(now + 99)
	if s.Len() != 10 {
		t.Error("too early")
	}
	s.Expire(now + 100)
	if s.Len() != 0 || s.Bytes() != 0 || len(s.waiting) != 0 || len(s.sources) != 0 {
		t.Errorf("%d events, %d bytes, %d keys, %d sources are left", s.Len(), s.Bytes(), len(s.waiting), len(s.sources))
	}
	big := event(1, 1)
	big.JSON = make([]byte, 2<<20)
	if s.Add(big, "one", 0, now); s.Len() != 0 {
		t.Error("one that has no room was taken")
	}
}

// TestBooks runs random steps in any order. The counters must agree with the content.
func TestBooks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := New(Limits{Events: 8, Bytes: 4000, Age: 20, Tries: 3, Ahead: 30})
	at := int64(now)
	for range 20_000 {
		n := r.IntN(20)
		e := event(byte(n), 1, host.Tag{"e", host.ID{byte(r.IntN(20))}.String()})
		if n%3 == 0 {
			e.CreatedAt = at + int64(r.IntN(40))
		}
		switch r.IntN(8) {
		case 7:
			s.TryAll()
		case 0, 1:
			s.Add(e, fmt.Sprint(r.IntN(3)), s.Position(), at)
		case 2:
			s.Arrived(e)
		case 3:
			s.Forget(e.ID)
		case 4:
			at += int64(r.IntN(3))
			s.Expire(at)
		case 5:
			if _, ok := s.Next(); ok {
				s.Dequeue()
			}
		case 6:
			s.Requeue(e.ID)
		}
		bytes, keys, mine, due := 0, 0, 0, 0
		for _, x := range s.entries {
			bytes += len(x.event.JSON)
			keys += len(x.keys)
			if x.due != nil {
				due++
			}
		}
		for _, list := range s.waiting {
			keys -= len(list)
		}
		for _, l := range s.sources {
			mine += l.Len()
		}
		for i, x := range s.scheduled.Items() {
			if x.heapIndex != i || x.all != nil || s.entries[x.event.ID] != x || s.scheduled.Top().event.CreatedAt > x.event.CreatedAt {
				t.Fatalf("entry %d of those that are dated ahead is wrong", i)
			}
		}
		if s.Len() > 8 || s.Bytes() > 4000 || bytes != s.Bytes() || keys != 0 || mine != s.Len() || s.order.Len()+s.scheduled.Len() != s.Len() || due != s.due.Len() {
			t.Fatalf("%d events, %d bytes (%d), %d keys too many, %d of sources, %d due (%d)", s.Len(), s.Bytes(), bytes, keys, mine, due, s.due.Len())
		}
	}
}
