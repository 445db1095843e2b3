package ingest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/host/store"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// digestPolicy decides by a hash of everything that it has read: a decision on other
// facts than those of its moment gives, mostly, another verdict.
func digestPolicy(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
	held := facts.(host.HeldFacts)
	sum := sha256.New()
	note := func(texts ...[]byte) {
		for _, text := range texts {
			fmt.Fprintf(sum, "%d %s", len(text), text)
		}
	}
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	e := it.Event
	sum.Write(e.ID[:])
	choice := e.ID[31]
	if choice&1 != 0 {
		found, err := facts.Query(ctx, host.Filter{Kinds: []host.Kind{1, 10002}, Limit: 2})
		check(err)
		note(found...)
	}
	if choice&2 != 0 {
		found, err := facts.Query(ctx, host.Filter{Authors: []host.PubKey{e.PubKey}, Limit: 3})
		check(err)
		note(found...)
	}
	if choice&4 != 0 {
		found, err := held.HeldBy(ctx, host.Filter{Authors: []host.PubKey{e.PubKey}, Limit: -1})
		check(err)
		note(found...)
	}
	for _, tag := range e.Tags {
		var id host.ID
		if tag[0] != "e" || !host.ParseHex(id[:], tag[1]) {
			continue
		}
		stored, err := facts.Get(ctx, id)
		check(err)
		waiting, err := held.Held(ctx, id)
		check(err)
		named, err := facts.Referenced(ctx, tag[1])
		check(err)
		note(stored, waiting, fmt.Append(nil, named))
	}
	digest := sum.Sum(nil)
	switch {
	case e.Kind == host.KindDeletion:
		return host.Ruling{Action: host.Accept}
	case digest[0] < 60:
		return host.Ruling{Action: host.Reject, Reason: fmt.Sprintf("blocked: %x", digest[:8])}
	case digest[0] < 110:
		return host.Ruling{Action: host.Hold, Reason: fmt.Sprintf("purgatory: %x", digest[:8])}
	}
	return host.Ruling{Action: host.Accept}
}

// releaseNewest plans to release what an author has in purgatory, the newest two
// events.
func releaseNewest(author host.PubKey) func(context.Context, host.RepoFacts, int64) (host.Release, error) {
	return func(ctx context.Context, facts host.RepoFacts, _ int64) (out host.Release, err error) {
		texts, err := facts.HeldBy(ctx, host.Filter{Authors: []host.PubKey{author}, Limit: 2})
		for _, text := range texts {
			var id host.ID
			host.ParseHex(id[:], string(text[7:7+64]))
			out.IDs = append(out.IDs, id)
		}
		return out, err
	}
}

// modelEvent makes an event of a client's random history.
func modelEvent(random *rand.Rand, client, n int, seen []host.ID) *host.Event {
	kinds := []host.Kind{1, 1, 1, 10002, 30000, host.KindDeletion, grasp.KindAnnouncement, grasp.KindPullRequest}
	e := &host.Event{
		Kind: kinds[random.IntN(len(kinds))], CreatedAt: int64(1000 + random.IntN(50)),
		PubKey: host.PubKey{byte(random.IntN(3))}, Content: fmt.Sprint(client, "/", n), Tags: host.Tags{},
	}
	if e.Kind == host.KindDeletion && random.IntN(2) == 0 {
		at := host.Address{Kind: []host.Kind{10002, 30000, grasp.KindAnnouncement}[random.IntN(3)], PubKey: e.PubKey}
		if at.Kind != 10002 {
			at.D = fmt.Sprint(random.IntN(3))
		}
		e.Tags = append(e.Tags, host.Tag{"a", at.String()})
	}
	if e.Kind.Class() == host.Addressable {
		e.Tags = append(e.Tags, host.Tag{"d", fmt.Sprint(random.IntN(3))})
	}
	if len(seen) > 0 && (e.Kind == host.KindDeletion || random.IntN(3) == 0) {
		e.Tags = append(e.Tags, host.Tag{"e", seen[random.IntN(len(seen))].String()})
	}
	testkit.Seal(e)
	return e
}

// effect is one item in the order in which items took effect, and its answer.
type effect struct {
	event    *host.Event
	author   host.PubKey // of a release request
	answer   string
	released []host.Released
}

// TestSerializable runs random histories of several clients, whose decisions read what
// the others write, and compares every answer with those of a pipeline that handles one
// item at a time in the same order.
func TestSerializable(t *testing.T) {
	for seed := range uint64(testkit.Sized(3, 6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { serializable(t, seed) })
	}
}

func serializable(t *testing.T, seed uint64) {
	const clients = 6
	db := openStore(t)
	r := start(t, digestPolicy, func(c *Config) {
		c.Store, c.Facts, c.Held = realStore{db}, testkit.Facts{Store: db, Now: 1}, db
		c.Batch = 16
	})
	var order []effect // written by the pipeline's goroutine
	var h modelHistory
	for client := range clients {
		h.client(t, r, rand.New(rand.NewPCG(seed, uint64(client))), client, func(x effect) { order = append(order, x) })
	}
	h.wait()
	r.stop()
	replay(t, order)
}

// modelHistory is what clients send, and which of their events others may name.
type modelHistory struct {
	mu        sync.Mutex
	ids       []host.ID // guarded by mu
	all, sent sync.WaitGroup
}

// client sends a random history to a pipeline. note is called by its goroutine.
func (h *modelHistory) client(t *testing.T, r *rig, random *rand.Rand, client int, note func(effect)) {
	const length = 60
	source := &host.Source{}
	h.sent.Go(func() {
		for n := range length {
			if random.IntN(10) == 0 {
				author := host.PubKey{byte(random.IntN(3))}
				h.all.Add(1)
				err := r.SubmitRelease(t.Context(), &host.ReleaseRequest{Plan: releaseNewest(author), Done: func(list []host.Released, err error) {
					note(effect{author: author, answer: released(list, err), released: list})
					h.all.Done()
				}})
				if err != nil {
					t.Error(err)
				}
			}
			h.mu.Lock()
			e := modelEvent(random, client, n, h.ids)
			h.ids = append(h.ids, e.ID)
			h.mu.Unlock()
			h.all.Add(1)
			answered := make(chan struct{})
			err := r.Submit(t.Context(), &host.Item{Event: e, Source: source, Done: func(v host.Verdict, err error) {
				note(effect{event: e, answer: fmt.Sprint(v.Code, v.Reason, err)})
				h.all.Done()
				close(answered)
			}})
			if err != nil {
				t.Error(err)
			}
			if random.IntN(4) == 0 {
				<-answered // otherwise several are in flight
			}
		}
	})
}

func (h *modelHistory) wait() {
	h.sent.Wait()
	h.all.Wait()
}

// replay compares every answer with that of a pipeline that handles one item at a time in
// the same order.
func replay(t *testing.T, order []effect) {
	t.Helper()
	reference := openStore(t)
	serial := start(t, digestPolicy, func(c *Config) {
		c.Store, c.Facts, c.Held = realStore{reference}, testkit.Facts{Store: reference, Now: 1}, reference
		c.Workers, c.Batch = 1, 1
	})
	for i, x := range order {
		// The event got no turn, because the machine paused. It changes nothing.
		if strings.Contains(x.answer, "changes too fast") {
			continue
		}
		var got string
		if x.event == nil {
			a := serial.arrive(t, releaseNewest(x.author))
			got = released(a.released, a.err)
		} else {
			a := serial.submit(t, &host.Source{}, x.event)[0]
			got = fmt.Sprint(a.verdict.Code, a.verdict.Reason, a.err)
		}
		if got != x.answer {
			t.Fatalf("item %d of %d: answered %q; one at a time %q", i, len(order), x.answer, got)
		}
	}
}

func released(list []host.Released, err error) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%v %v, ", r.ID, r.Status)
	}
	return fmt.Sprint(b.String(), err)
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Readers: 4, Held: store.HeldLimits{ByAuthor: 4}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
