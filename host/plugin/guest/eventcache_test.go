package guest

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// TestEventCache: what comes from the cache is what is encoded without one, whichever
// form was asked for first, and it stays within its bound.
func TestEventCache(t *testing.T) {
	c := NewEventCache()
	var texts [][]byte
	for n := range 20 {
		texts = append(texts, item(host.Kind(n), strings.Repeat("x", 3000*n)).Event.AppendJSON(nil))
	}
	for round := range 3 {
		for _, text := range texts {
			for _, inList := range []bool{round == 0, round != 0} {
				for _, header := range []bool{false, true} {
					// A copy: the cache compares the bytes of texts.
					got, err := c.append([]byte("before"), bytes.Clone(text), inList, header)
					want, wantErr := (*EventCache)(nil).append([]byte("before"), text, inList, header)
					if err != nil || wantErr != nil || !bytes.Equal(got, want) {
						t.Fatalf("list %v, header %v: %q %v; want %q %v", inList, header, got, err, want, wantErr)
					}
				}
			}
		}
	}
	if _, err := c.append(nil, []byte("{"), true, false); err == nil {
		t.Error("what is no event was encoded")
	}
	text := func(n, i int) []byte {
		return item(1, fmt.Sprint(n, " ", i, strings.Repeat("x", 4000))).Event.AppendJSON(nil)
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				if _, err := c.append(nil, text(n%2, i), true, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	size := 0
	for n := range 2 {
		for i := range 3000 {
			key := eventKey{hash: maphash.Bytes(c.seed, text(n, i))}
			if x, _, ok := c.shards[key.hash%eventShards].events.Get(key); ok {
				size += x.cost()
			}
		}
	}
	if size > eventCacheBytes || size < eventCacheBytes/4 {
		t.Errorf("%d bytes are kept", size)
	}
}

// TestEventCacheCollision: an event of another text is never given out.
func TestEventCacheCollision(t *testing.T) {
	s := &NewEventCache().shards[1]
	key := eventKey{hash: 1}
	s.add(key, &encodedEvent{[]byte("one"), []byte("event")})
	if s.get(key, []byte("two")) != nil || string(s.get(key, []byte("one"))) != "event" {
		t.Error("texts are not compared")
	}
}

// TestAnswerThatDoesNotFit: a guest that asks again with more room gets the answer
// whose size it got before, and the facts are asked once. It pays for both.
func TestAnswerThatDoesNotFit(t *testing.T) {
	filter := string(abi.AppendFilter(nil, &abi.Filter{Limit: 7}))
	small := hostCall{abi.CapStoreQuery, funcType(wasmtest.I32, 4), consts(messageAddr, int32(len(filter)), scratchAddr, 0)}
	large := hostCall{abi.CapStoreQuery, funcType(wasmtest.I32, 4), consts(messageAddr, int32(len(filter)), scratchAddr, 4096)}
	spent := func(args ...wasmtest.Code) (fuel int64, asked int) {
		g := small.guest(0)
		g.message, g.admit = []byte(filter), nil
		for _, a := range args {
			g.admit = append(g.admit, wasmtest.Body(a, wasmtest.Call(0), wasmtest.Drop)...)
		}
		g.admit = append(g.admit, wasmtest.I64Const(0)...)
		facts := &fakeFacts{answer: [][]byte{storedJSON(t)}}
		_, fuel, err := mustLoad(t, g.assemble(), nil).Rule(t.Context(), Admit, nil, facts, now, "client")
		if err != nil {
			t.Fatal(err)
		}
		return fuel, len(facts.filters)
	}
	one, _ := spent(large.args)
	none, _ := spent(small.args)
	both, asked := spent(small.args, large.args)
	if asked != 1 {
		t.Errorf("the facts were asked %d times", asked)
	}
	empty, _ := spent()
	if both != one+none-empty {
		t.Errorf("both cost %d, one alone %d and %d", both, one, none)
	}
	if _, asked := spent(large.args, large.args); asked != 2 {
		t.Errorf("an answer that fits was kept: the facts were asked %d times", asked)
	}
}
