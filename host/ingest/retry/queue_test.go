package retry

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
)

// fake decides by a function, within Submit.
type fake struct {
	decide    func(*host.Event) host.Verdict
	submitted []*host.Item
}

func (f *fake) Submit(_ context.Context, it *host.Item) error {
	f.submitted = append(f.submitted, it)
	it.Done(f.decide(it.Event), nil)
	return nil
}

func (f *fake) SubmitRelease(_ context.Context, a *host.ReleaseRequest) error {
	a.Done([]host.Released{
		{Status: host.StatusReleased, Event: note(ann, 30617, 1)},
		{Status: host.StatusExpired, Event: note(ben, 30617, 1)},
		{Status: host.StatusAbsent},
	}, nil)
	return nil
}

var (
	ann = host.PubKey{1}
	ben = host.PubKey{2}
)

func note(author host.PubKey, kind host.Kind, at int64) *host.Event {
	return &host.Event{PubKey: author, Kind: kind, CreatedAt: at, JSON: []byte("{}")}
}

const issue host.Kind = 1621

// strangers refuses whatever is of an author without an issue.
func strangers() *fake {
	here := make(map[host.PubKey]bool)
	return &fake{decide: func(e *host.Event) host.Verdict {
		here[e.PubKey] = here[e.PubKey] || e.Kind == issue
		if here[e.PubKey] {
			return host.Verdict{Code: host.Stored}
		}
		return host.Verdict{Code: host.Rejected, Reason: "blocked: who are you?", Retry: time.Minute}
	}}
}

// relay is a queue in front of a fake, with a client.
type relay struct {
	*Queue
	t      *testing.T
	fake   *fake
	source host.Source
	told   []host.Code
}

func start(t *testing.T, f *fake) *relay {
	ctx, stop := context.WithCancel(context.Background())
	r := &relay{Queue: New(f), t: t, fake: f, source: host.Source{Addr: netip.MustParseAddr("192.0.2.1")}}
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		n := 0
		for _, list := range r.authors {
			n += len(list)
		}
		if n != int(r.places.Used()) {
			t.Errorf("counts %d events, has %d", int(r.places.Used()), n)
		}
	})
	return r
}

// send submits an event as the client, and waits until nothing happens any more.
func (r *relay) send(e *host.Event) {
	r.t.Helper()
	err := r.Submit(context.Background(), &host.Item{Event: e, Source: &r.source, Done: func(v host.Verdict, _ error) {
		r.told = append(r.told, v.Code)
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// again expects the events that were submitted by the queue itself, and forgets what was
// submitted up to now.
func (r *relay) again(want ...*host.Event) {
	r.t.Helper()
	var got []*host.Event
	for _, it := range r.fake.submitted {
		if it.Source != &r.source {
			got = append(got, it.Event)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("submitted again: %v, want %v", got, want)
	}
	r.fake.submitted = nil
}

func (r *relay) has(n int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if int(r.places.Used()) != n {
		r.t.Errorf("remembers %d events, want %d", int(r.places.Used()), n)
	}
}

func TestProfileBeforeFirstIssue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strangers())
		profile := note(ann, 0, 1)
		r.send(profile)
		r.send(note(ben, issue, 2)) // of somebody else
		r.again()
		r.has(1)
		time.Sleep(59 * time.Second)
		r.send(note(ann, issue, 3))
		r.again(profile)
		r.has(0)
		if got := fmt.Sprint(r.told); got != fmt.Sprint([]host.Code{host.Rejected, host.Stored, host.Stored}) {
			t.Errorf("the client was told %s", got)
		}
		r.send(note(ann, issue, 4))
		r.again()
	})
}

func TestResubmittedAsTheClientSentIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strangers())
		authed := []host.PubKey{ben}
		err := r.Submit(context.Background(), &host.Item{Event: note(ann, 0, 1), Source: &r.source, Authed: authed, Done: func(host.Verdict, error) {}})
		if err != nil {
			t.Fatal(err)
		}
		r.send(note(ann, issue, 2))
		last := r.fake.submitted[len(r.fake.submitted)-1]
		if *last.Source != r.source || last.Source == &r.source || len(last.Authed) != 1 || last.Authed[0] != ben {
			t.Errorf("submitted by %+v with keys %v, want a source of its own like %+v", last.Source, last.Authed, r.source)
		}
	})
}

func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strangers())
		r.send(note(ann, 0, 1))
		time.Sleep(time.Minute)
		r.send(note(ann, issue, 2))
		r.again()

		r.send(note(ben, 0, 1))
		r.has(1)
		time.Sleep(time.Minute + expireEvery)
		synctest.Wait()
		r.has(0)
	})
}

// TestRefusedAgain checks that an event that is refused again is kept only for the time of its
// first refusal.
func TestRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{decide: func(e *host.Event) host.Verdict {
			if e.Kind == issue {
				return host.Verdict{Code: host.Held}
			}
			return host.Verdict{Code: host.Rejected, Retry: time.Minute}
		}}
		r := start(t, f)
		profile := note(ann, 0, 1)
		r.send(profile)
		time.Sleep(40 * time.Second)
		r.send(note(ann, issue, 2))
		r.again(profile)
		r.has(1)
		time.Sleep(21 * time.Second)
		r.send(note(ann, issue, 3))
		r.again()
	})
}

func TestArrivalReleasesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strangers())
		profile := note(ann, 0, 1)
		r.send(profile)
		r.send(note(ben, 0, 1))
		answered := 0
		if err := r.SubmitRelease(context.Background(), &host.ReleaseRequest{Done: func(l []host.Released, _ error) { answered = len(l) }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.again(profile)
		if answered != 3 {
			t.Errorf("the arrival was answered with %d events, want 3", answered)
		}
	})
}

func TestNewestOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strangers())
		newest, relays := note(ann, 0, 5), note(ann, 10002, 1)
		for _, e := range []*host.Event{note(ann, 0, 4), newest, note(ann, 0, 3), relays} {
			r.send(e)
		}
		r.has(2)
		r.send(note(ann, issue, 6))
		if n := len(r.fake.submitted); n != 7 {
			t.Errorf("%d were submitted, want 5 and 2", n)
		}
		for _, it := range r.fake.submitted[5:] {
			if it.Event != newest && it.Event != relays {
				t.Errorf("%+v was submitted again", it.Event)
			}
		}
	})
}

func TestNotRemembered(t *testing.T) {
	protected := note(ann, 0, 1)
	protected.Tags = host.Tags{{"-"}}
	large := note(ann, 0, 1)
	large.JSON = []byte(strings.Repeat(" ", maxBytes+1))
	for _, test := range []struct {
		name   string
		event  *host.Event
		origin host.Origin
		v      host.Verdict
	}{
		{"protected", protected, host.FromClient, host.Verdict{Code: host.Rejected, Retry: time.Minute}},
		{"large", large, host.FromClient, host.Verdict{Code: host.Rejected, Retry: time.Minute}},
		{"of another relay", note(ann, 0, 1), host.FromSync, host.Verdict{Code: host.Rejected, Retry: time.Minute}},
		{"of a file", note(ann, 0, 1), host.FromImport, host.Verdict{Code: host.Rejected, Retry: time.Minute}},
		{"refused for good", note(ann, 0, 1), host.FromClient, host.Verdict{Code: host.Rejected}},
		{"shadow-rejected", note(ann, 0, 1), host.FromClient, host.Verdict{Code: host.ShadowRejected, Retry: time.Minute}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, &fake{decide: func(*host.Event) host.Verdict { return test.v }})
			r.source.Origin = test.origin
			r.send(test.event)
			r.mu.Lock()
			defer r.mu.Unlock()
			if int(r.places.Used()) != 0 {
				t.Errorf("%s: remembered", test.name)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strangers())
		next := 0
		flood := func(n int) {
			for range n {
				next++
				r.send(note(host.PubKey{byte(next), byte(next >> 8), 9}, 0, 1))
			}
		}
		flood(maxNetwork + 5)
		r.has(maxNetwork)
		for i := 0; r.places.Used() < maxEvents; i++ {
			r.source.Addr = netip.AddrFrom4([4]byte{198, byte(i >> 8), byte(i), 1})
			flood(maxNetwork)
		}
		// A newcomer's event takes the place of the oldest of the heaviest network.
		r.source.Addr = netip.MustParseAddr("203.0.113.1")
		newcomer := note(host.PubKey{1, 2, 3}, 0, 1)
		r.send(newcomer)
		r.has(maxEvents)
		r.mu.Lock()
		if len(r.authors[newcomer.PubKey]) != 1 {
			t.Error("a newcomer's event is not remembered, for strangers have all places")
		}
		r.mu.Unlock()
		time.Sleep(time.Minute + expireEvery)
		synctest.Wait()
		r.has(0)
	})
}
