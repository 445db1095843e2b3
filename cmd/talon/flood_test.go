package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

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
			if c.write([]byte(fmt.Sprintf(`["REQ","%d",{"authors":["%s"],"limit":0}]`, i, pubkey("flooder")))) != nil {
				return
			}
		}
	}()
	open, refused := 0, 0
	for range 10_000 {
		switch text := c.mustNext(t, "EOSE", "CLOSED"); {
		case strings.HasPrefix(text, `["EOSE"`):
			open++
		case strings.Contains(text, `"rate-limited: `):
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
	s := start(t, newData(t))
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
		deaf := connect(t, s)
		wg.Go(func() {
			for i := 0; i < 5000; i++ {
				if deaf.write([]byte(`["REQ","x",{"limit":500}]`)) != nil {
					return // cut off, or no longer read from
				}
			}
		})
		loud := connect(t, s)
		wg.Go(func() {
			for i := 0; i < 20_000; i++ {
				if loud.write([]byte(`["COUNT","x",{"ids":[]}]`)) != nil {
					return
				}
			}
		})
		// A reader of everything, so that the loud one is not stopped by its own ears.
		go func() {
			for {
				if _, err := loud.read(); err != nil {
					return
				}
			}
		}()
		t.Cleanup(deaf.close)
	}
	for range 10 {
		b.served(t, s)
	}
	// Writes that hang end with their connections.
	s.mustStop(t)
	wg.Wait()
}
