package ingest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/bound"
	"talon/host/store"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// quotaRig is a pipeline on a real store whose policy holds what says so, and counts how
// often it is asked.
type quotaRig struct {
	*rig
	db    *store.Store
	users users
	asked atomic.Int64
}

func startQuota(t *testing.T, db *store.Store, q Quota) *quotaRig {
	t.Helper()
	r := &quotaRig{db: db}
	r.rig = start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
		r.asked.Add(1)
		if strings.HasPrefix(it.Event.Content, "hold") {
			return host.Ruling{Action: host.Hold}
		}
		return host.Ruling{Action: host.Accept}
	}, func(c *Config) {
		c.Store, c.Facts, c.Held = realStore{db}, testkit.Facts{Store: db, Now: 1}, db
		c.Quota, c.EachHeld, c.Users = q, db.EachHeld, &r.users
	})
	return r
}

// users is a set of known people: one author. It notes who brought which event first.
type users struct {
	known   host.PubKey
	mu      sync.Mutex // guards brought
	brought []string
}

func (u *users) Knows(author host.PubKey, _ netip.Addr) bool {
	return u.known != (host.PubKey{}) && author == u.known
}

func (u *users) Holder(addr netip.Addr, proven []host.PubKey) bound.Holder {
	by := bound.Holder{Addr: addr}
	for _, key := range proven {
		if u.Knows(key, addr) {
			by.Known, by.Key = true, key
		}
	}
	return by
}

func (u *users) Brought(e *host.Event, addr netip.Addr, proven bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.brought = append(u.brought, fmt.Sprint(e.Content, " ", addr, " ", proven))
}

// TestKnownPeople: a known author is held although its network has its share. The first accepted
// copy that a client brings is noted, stored or held; copies, refusals and sync are not.
func TestKnownPeople(t *testing.T) {
	r := startQuota(t, openStore(t), Quota{ByNetwork: 1})
	r.users.known = host.PubKey{9}
	home := &host.Source{Addr: netip.MustParseAddr("192.0.2.1")}
	first := repoEvent(9, grasp.KindAnnouncement, 100, "b", "hold known")
	plain := repoEvent(9, 1, 100, "", "plain")
	r.answers(t, home,
		quotaStep{repoEvent(1, grasp.KindAnnouncement, 100, "a", "hold stranger"), "held", true},
		quotaStep{repoEvent(2, grasp.KindAnnouncement, 100, "c", "hold refused"), "rejected rate-limited: ", false},
		quotaStep{first, "held", true},
		quotaStep{first, "held", true},
		quotaStep{plain, "stored", true},
		quotaStep{plain, "duplicate", false},
	)
	r.answers(t, &host.Source{Origin: host.FromSync}, quotaStep{repoEvent(9, 1, 101, "", "synced"), "stored", true})
	r.stop()
	want := []string{"hold stranger 192.0.2.1 false", "hold known 192.0.2.1 false", "plain 192.0.2.1 false"}
	if !slices.Equal(r.users.brought, want) {
		t.Errorf("brought: %q, want %q", r.users.brought, want)
	}
}

// repoEvent makes an event of an author about a repository.
func repoEvent(author byte, kind host.Kind, at int64, d, content string) *host.Event {
	return testkit.Unsigned(host.PubKey{author}, kind, at, content, host.Tag{"d", d})
}

// answers submits events one after the other, and checks how each answer begins and
// whether the policy was asked.
func (r *quotaRig) answers(t *testing.T, source *host.Source, steps ...quotaStep) {
	t.Helper()
	for i, s := range steps {
		before := r.asked.Load()
		got := r.submit(t, source, s.event)[0]
		answer := fmt.Sprint(got.verdict.Code, " ", got.verdict.Reason)
		if got.err != nil || !strings.HasPrefix(answer, s.want) {
			t.Errorf("step %d: answered %q %v; want %q", i, answer, got.err, s.want)
		}
		if asked := r.asked.Load() > before; asked != s.asked {
			t.Errorf("step %d: the policy was asked: %v", i, asked)
		}
	}
}

type quotaStep struct {
	event *host.Event
	want  string
	asked bool
}

// TestQuotaOfAuthor checks the quota of an author with a full share. Events that would be held are
// refused before the policy decides. Events that may need no git data are served.
func TestQuotaOfAuthor(t *testing.T) {
	db := openStore(t)
	r := startQuota(t, db, Quota{ByAuthor: 2})
	me := &host.Source{}
	const announcement, state, pull = grasp.KindAnnouncement, grasp.KindState, grasp.KindPullRequest
	first := repoEvent(1, announcement, 100, "first", "hold")
	held, refused, stored := "held", "rejected restricted: 2 events of yours wait", "stored"
	r.answers(t, me,
		quotaStep{repoEvent(1, announcement, 100, "stored", ""), stored, true},
		quotaStep{first, held, true},
		quotaStep{repoEvent(1, state, 100, "first", "hold"), held, true},

		quotaStep{repoEvent(1, announcement, 100, "second", "hold"), refused, false},
		quotaStep{repoEvent(1, state, 100, "second", ""), refused, false},
		quotaStep{repoEvent(1, pull, 100, "", "hold"), refused, false},

		quotaStep{first, held, true},
		quotaStep{repoEvent(1, announcement, 101, "first", "hold again"), held, true},
		quotaStep{repoEvent(1, announcement, 101, "stored", ""), stored, true},
		quotaStep{repoEvent(1, state, 101, "stored", ""), stored, true},
		quotaStep{repoEvent(1, 1, 101, "", ""), stored, true},
		quotaStep{repoEvent(2, announcement, 100, "second", "hold"), held, true},
	)
	if n := testutil.ToFloat64(r.metrics.overQuota.WithLabelValues("author")); n != 3 {
		t.Errorf("%v events were counted", n)
	}

	// An event that leaves makes room, also for an event that was sent right after.
	deletion := repoEvent(1, host.KindDeletion, 200, "", "")
	deletion.Tags = host.Tags{{"a", host.Address{Kind: announcement, PubKey: host.PubKey{1}, D: "first"}.String()}}
	deletion.JSON = deletion.AppendJSON(nil)
	got := r.submit(t, me, deletion, repoEvent(1, announcement, 201, "third", "hold"))
	if got[0].verdict.Code != host.Stored || got[1].verdict.Code != host.Held {
		t.Errorf("after a deletion: %v", got)
	}

	// It is known after a start too.
	r.stop()
	again := startQuota(t, db, Quota{ByAuthor: 2})
	again.answers(t, me,
		quotaStep{repoEvent(1, announcement, 202, "fourth", "hold"), refused, false},
		quotaStep{repoEvent(1, announcement, 202, "third", "hold"), held, true},
	)
}

// Clients of one network do not fill purgatory.
func TestQuotaOfNetwork(t *testing.T) {
	r := startQuota(t, openStore(t), Quota{ByNetwork: 2})
	const announcement, pull = grasp.KindAnnouncement, grasp.KindPullRequest
	from := func(address string) *host.Source { return &host.Source{Addr: netip.MustParseAddr(address)} }
	held, refused := "held", "rejected rate-limited: too many events from your network"
	last := repoEvent(2, announcement, 100, "b", "hold")
	r.answers(t, from("2001:db8::1"),
		quotaStep{repoEvent(1, announcement, 100, "a", "hold"), held, true},
		quotaStep{last, held, true},
	)
	r.answers(t, from("2001:db8::2"),
		quotaStep{repoEvent(3, announcement, 100, "c", "hold"), refused, false},
		quotaStep{repoEvent(3, pull, 100, "", "hold"), refused, true},
		quotaStep{repoEvent(3, pull, 101, "", "it is here"), "stored", true},
		quotaStep{repoEvent(2, announcement, 101, "b", "hold, a newer one"), held, true},
	)
	r.answers(t, from("2001:db8:0:1::"), quotaStep{repoEvent(4, announcement, 100, "d", "hold"), held, true})
	r.answers(t, from("127.0.0.1"), quotaStep{repoEvent(5, announcement, 100, "e", "hold"), held, true})
	r.answers(t, &host.Source{Origin: host.FromSync}, quotaStep{repoEvent(6, announcement, 100, "f", "hold"), held, true})

	newest := repoEvent(2, announcement, 101, "b", "hold, a newer one")
	if got := r.arrive(t, host.ReleaseOf(newest.ID)); len(got.released) != 1 || got.released[0].Status != host.StatusReleased {
		t.Fatalf("released %v", got)
	}
	r.answers(t, from("2001:db8::2"), quotaStep{repoEvent(3, announcement, 102, "c", "hold"), held, true})
}

// TestQuotaCounts checks that the counts equal the held events, with each outcome of an event.
func TestQuotaCounts(t *testing.T) {
	q := newQuotas(Quota{ByAuthor: 1}, nil)
	e, other := repoEvent(1, grasp.KindAnnouncement, 1, "a", ""), repoEvent(1, grasp.KindAnnouncement, 1, "b", "")
	network := netip.MustParsePrefix("192.0.2.1/32")
	for _, step := range []struct {
		fate host.HeldStatus
		want limit
	}{
		{host.StatusHeld, ofAuthor}, {host.StatusDormant, noLimit}, {host.StatusRevived, ofAuthor}, {host.StatusExpired, noLimit},
		{host.StatusHeld, ofAuthor}, {host.StatusReleased, noLimit}, {host.StatusHeld, ofAuthor}, {host.StatusDeleted, noLimit},
		{host.StatusHeld, ofAuthor}, {host.StatusDormant, noLimit}, {host.StatusReplaced, noLimit},
	} {
		q.committed([]host.HeldChange{{Event: e, Status: step.fate}}, map[host.ID]netip.Prefix{e.ID: network})
		if got, _ := q.reached(&host.Item{Event: other}, &view{}); got != step.want {
			t.Errorf("after %v: %q, want %q", step.fate, got, step.want)
		}
	}
	if len(q.events)+len(q.authors)+len(q.networks) != 0 {
		t.Errorf("left behind: %v %v %v", q.events, q.authors, q.networks)
	}
}

// TestAwaits holds an event until another comes, and submits it again: it waits on while the policy
// has it wait or refuses it for now, and goes when the policy refuses it. Neither counts among the events
// that wait for git data.
func TestAwaits(t *testing.T) {
	db := openStore(t)
	var ruling atomic.Pointer[host.Ruling]
	wait := host.Ruling{Action: host.Hold, Reason: "purgatory: waits", Wake: `{"#p":["x"]}`, Wait: 60}
	ruling.Store(&wait)
	r := start(t, func(context.Context, *host.Item, host.Facts) host.Ruling { return *ruling.Load() }, func(c *Config) {
		c.Store, c.Facts, c.Held = realStore{db}, testkit.Facts{Store: db, Now: 1}, db
		c.Quota, c.EachHeld = Quota{ByAuthor: 1, ByNetwork: 1}, db.EachHeld
	})
	source := &host.Source{Addr: netip.MustParseAddr("192.0.2.7")}
	pull := func(n int) *host.Event {
		e := event(n)
		e.Kind = grasp.KindPullRequest
		e.JSON = e.AppendJSON(nil)
		return e
	}
	again := func(e *host.Event) host.Code {
		done := make(chan reply, 1)
		err := r.Submit(t.Context(), &host.Item{Event: e, Source: &host.Source{}, Woken: true, Done: func(v host.Verdict, err error) { done <- reply{v, err} }})
		if err != nil {
			t.Fatal(err)
		}
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		return got.verdict.Code
	}
	want := func(what string, got, want host.Code, held int64) {
		t.Helper()
		if n := db.Stats().Held; got != want || n != held {
			t.Errorf("%s: %v, want %v; %d events are held, want %d", what, got, want, n, held)
		}
	}
	for n := range 3 {
		want("an event that waits", r.submit(t, source, pull(n))[0].verdict.Code, host.Held, int64(n+1))
	}
	want("woken for nothing", again(pull(0)), host.Held, 3)
	for _, reason := range []string{"rate-limited: slowly", "error: a policy failed"} {
		ruling.Store(&host.Ruling{Action: host.Reject, Reason: reason})
		want(reason, again(pull(0)), host.Rejected, 3)
	}
	ruling.Store(&host.Ruling{Action: host.Hold})
	want("it waits for git data now", again(pull(0)), host.Held, 3)
	want("another one has no room beside it", r.submit(t, source, pull(7))[0].verdict.Code, host.Rejected, 3)
	ruling.Store(&host.Ruling{Action: host.Reject, Reason: "blocked: no"})
	want("a client's copy is refused, and the event waits on", r.submit(t, source, pull(1))[0].verdict.Code, host.Rejected, 3)
	want("refused", again(pull(1)), host.Rejected, 2)
	ruling.Store(&host.Ruling{Action: host.Accept})
	want("accepted", again(pull(2)), host.Stored, 1)
	if released := r.release(t, pull(0)); !slices.Equal(released.fates(), []string{"released"}) {
		t.Errorf("git data comes: %v", released.fates())
	}
}
