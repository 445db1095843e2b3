package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestOrder sends messages of one connection without waiting for answers: each
// sees what came before it.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t))
	c := connect(t, s)
	expectOK := func(t *testing.T, e *nostr.Event, ok bool) {
		t.Helper()
		a, err := parseOK(c.mustNext(t, "OK"))
		if err != nil || a.id != e.ID || a.ok != ok {
			t.Fatalf("got %+v %v, want %v for %s", a, err, ok, e)
		}
	}
	t.Run("an event and its readers", func(t *testing.T) {
		for i := range 100 {
			e := signAs(t, "order", nostr.Event{Kind: 1, Content: strconv.Itoa(i)})
			c.send(t, string(message(e)))
			c.send(t, `["REQ","r",{"ids":["`+e.ID+`"]}]`)
			c.send(t, `["COUNT","n",{"ids":["`+e.ID+`"]}]`)
			expectOK(t, e, true)
			if got := c.untilEOSE(t, "r"); len(got) != 1 {
				t.Fatalf("event %d is not in the answer that was asked for after it", i)
			}
			if got, want := c.mustNext(t, "COUNT"), `["COUNT","n",{"count":1}]`; got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	})
	t.Run("a chain of replies", func(t *testing.T) {
		var chain []*nostr.Event
		for i := range 150 {
			e := nostr.Event{Kind: 1, Content: strconv.Itoa(i), Tags: nostr.Tags{}}
			if i > 0 {
				e.Tags = nostr.Tags{{"e", chain[i-1].ID}}
			}
			chain = append(chain, signAs(t, "chain", e))
			c.send(t, string(message(chain[i])))
		}
		for _, e := range chain {
			expectOK(t, e, true)
		}
		for i, e := range chain[:len(chain)-1] {
			if got := c.query(t, `{"#e":["`+e.ID+`"]}`); len(got) != 1 || got[0].ID != chain[i+1].ID {
				t.Fatalf("the reply to event %d is %v", i, got)
			}
		}
	})
	t.Run("publish, delete, publish again", func(t *testing.T) {
		for i := range 50 {
			e := signAs(t, "fickle", nostr.Event{Kind: 1, Content: strconv.Itoa(i)})
			gone := signAs(t, "fickle", nostr.Event{Kind: 5, Content: strconv.Itoa(i), Tags: nostr.Tags{{"e", e.ID}}})
			for _, x := range []*nostr.Event{e, gone, e} {
				c.send(t, string(message(x)))
			}
			c.send(t, `["REQ","r",{"ids":["`+e.ID+`"]}]`)
			expectOK(t, e, true)
			expectOK(t, gone, true)
			expectOK(t, e, false)
			if got := c.untilEOSE(t, "r"); len(got) != 0 {
				t.Fatalf("a deleted event is served: %s", got[0])
			}
		}
	})
	t.Run("versions", func(t *testing.T) {
		at := nostr.Now() - 1000
		var versions []*nostr.Event
		for i := range 100 {
			e := signAs(t, "author", nostr.Event{Kind: 30617, CreatedAt: at + nostr.Timestamp(i), Tags: nostr.Tags{{"d", "repo"}}})
			c.send(t, string(message(e)))
			versions = append(versions, e)
		}
		c.send(t, `["REQ","r",{"kinds":[30617]}]`)
		for _, e := range versions {
			expectOK(t, e, true)
		}
		if got := c.untilEOSE(t, "r"); len(got) != 1 || got[0].ID != versions[len(versions)-1].ID {
			t.Fatalf("got %v, want the last version only", got)
		}
	})
}

// TestNoGap subscribes again and again while others publish: what is stored and
// what is live together are every event, each once.
func TestNoGap(t *testing.T) {
	t.Parallel()
	const publishers, each, readers = 4, 500, 24
	s := start(t, newData(t), "--max-message-rate", "100000")
	all := make([][]*nostr.Event, publishers)
	want := map[string]bool{}
	for p := range all {
		for i := range each {
			e := signAs(t, "publisher "+strconv.Itoa(p), nostr.Event{Kind: 1, Content: strconv.Itoa(i), Tags: nostr.Tags{{"t", "gap"}}})
			all[p] = append(all[p], e)
			want[e.ID] = true
		}
	}
	// Reader i subscribes when so much has been answered.
	progress := make(chan struct{}, publishers*each)
	failed, fail := context.WithCancel(t.Context())
	defer fail()
	var wg sync.WaitGroup
	for _, events := range all {
		c := connect(t, s)
		wg.Go(func() {
			for _, e := range events {
				if err := c.write(message(e)); err != nil {
					t.Errorf("publish: %v", err)
					fail()
					return
				}
			}
		})
		wg.Go(func() {
			for range events {
				text, err := c.next("OK")
				if a, perr := parseOK(text); err != nil || perr != nil || !a.ok {
					t.Errorf("publish: %s %v", text, err)
					fail()
					return
				}
				progress <- struct{}{}
			}
		})
	}
	filters := []string{`{"#t":["gap"],"limit":5000}`, `{"kinds":[1],"limit":5000}`, `{"limit":5000}`,
		`{"#t":["gap"],"limit":5000},{"kinds":[1],"limit":5000}`}
	for i := range readers {
		for range publishers * each / readers {
			select {
			case <-progress:
			case <-failed.Done():
				return
			}
		}
		c := connect(t, s)
		wg.Go(func() {
			if err := c.write([]byte(`["REQ","gap",` + filters[i%len(filters)] + `]`)); err != nil {
				t.Errorf("subscribe: %v", err)
				return
			}
			if err := c.collect(want); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// collect reads until it has every event, each once.
func (c *client) collect(want map[string]bool) error {
	got := map[string]bool{}
	for len(got) < len(want) {
		text, err := c.next("EVENT", "CLOSED")
		if err != nil {
			return fmt.Errorf("after %d of %d events: %w", len(got), len(want), err)
		}
		var verb, sub string
		var e nostr.Event
		if err := json.Unmarshal([]byte(text), &[]any{&verb, &sub, &e}); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		switch {
		case !want[e.ID]:
			return fmt.Errorf("an event that nobody published: %s", text)
		case got[e.ID]:
			return fmt.Errorf("event %s came twice", e.ID)
		}
		got[e.ID] = true
	}
	return nil
}

// TestTenThousandSubscriptions opens more than a connection may have: the rest is
// CLOSED, those that are open live on.
func TestTenThousandSubscriptions(t *testing.T) {
	t.Parallel()
	// The allowance of a connection would stretch this over half a minute.
	s := start(t, newData(t), "--max-message-rate", "1000000")
	b := newBystander(t, s)
	c := connect(t, s)
	go func() {
		for i := range 10_000 {
			if c.write([]byte(fmt.Sprintf(`["REQ","%d",{"authors":["%s"],"since":%d,"limit":0}]`, i, pubkey("flooder"), i))) != nil {
				return
			}
		}
	}()
	open, refused := 0, 0
	for range 10_000 {
		switch text := c.mustNext(t, "EOSE", "CLOSED"); {
		case strings.HasPrefix(text, `["EOSE"`):
			open++
		case strings.Contains(text, `"error: too many subscriptions`):
			refused++
		default:
			t.Fatalf("got %s", text)
		}
	}
	if open != 64 || refused != 10_000-64 {
		t.Errorf("%d are open and %d refused, want 64 and the rest", open, refused)
	}
	b.served(t, s)
	// The open ones hear.
	if a := connect(t, s).publish(t, signAs(t, "flooder", nostr.Event{Kind: 1})); !a.ok {
		t.Fatal(a.reason)
	}
	for range 64 {
		c.mustNext(t, "EVENT")
	}
}

// TestFlood sends as fast as it can on one connection, and reads nothing on
// another. Both wait or are cut off; nobody else does.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t), "--shutdown", "1s") // nobody reads at the end, so it takes as long
	b := newBystander(t, s)
	publisher := connect(t, s)
	for i := range 100 {
		publisher.send(t, string(message(signAs(t, "flooder", nostr.Event{Kind: 1, Content: strconv.Itoa(i) + strings.Repeat("x", 10_000)}))))
	}
	for range 100 {
		publisher.mustNext(t, "OK")
	}

	// Each of these asks for a megabyte again and again without reading.
	var wg sync.WaitGroup
	for range 4 {
		deaf, err := open(s.url)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := 0; i < 5000; i++ {
				if deaf.write([]byte(`["REQ","x",{"limit":500}]`)) != nil {
					return // cut off, or no longer read from
				}
			}
		})
		// It reads everything, so that it is not stopped by its own ears.
		loud := connect(t, s)
		wg.Go(func() {
			for i := 0; i < 20_000; i++ {
				if loud.write([]byte(`["COUNT","x",{"ids":[]}]`)) != nil {
					return
				}
			}
		})
		t.Cleanup(deaf.close)
	}
	for range 10 {
		b.served(t, s)
	}
	// Writes that hang end with their connections.
	s.mustStop(t)
	wg.Wait()
}
