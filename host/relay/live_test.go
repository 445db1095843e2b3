package relay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"talon/host/inflate"
)

// TestLiveTexts sends events of many lengths to clients with and without compression.
func TestLiveTexts(t *testing.T) {
	w := newWorld(t)
	const offer = "permessage-deflate"
	id := strings.Repeat("s", 64)
	plain := w.dial()
	packed := []*client{deflateClient(w, offer), deflateClient(w, offer)}
	for _, c := range append(packed, plain) {
		c.ask(`["REQ","`+id+`",{"limit":0}]`, `["EOSE","`+id+`"]`)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 4000, 5000, 70_000, 500_000, 2_000_000} {
		random := make([]byte, n)
		for i := range random {
			random[i] = 'a' + byte(r.IntN(26))
		}
		for _, text := range []string{strings.Repeat("x", n), string(random)} {
			e := event(1, 1, 1, text)
			w.publish(e)
			for _, c := range append(packed, plain) {
				if got, want := c.recv(), subMessage(id, e); got != want {
					t.Fatalf("an event of %d bytes comes as %d bytes, want %d", n, len(got), len(want))
				}
			}
		}
	}
}

// TestLiveTextIsPackedOnce shows that the work does not grow with those who get the event.
func TestLiveTextIsPackedOnce(t *testing.T) {
	text := &liveText{json: []byte(strings.Repeat("abc", 10_000))}
	packed := text.deflated()
	if again := text.deflated(); &again[0] != &packed[0] {
		t.Error("the text is compressed again")
	}
	// Blocks before and after it belong to the same stream.
	whole := append(append(appendStored(nil, []byte("<")), packed...), append(appendStored(nil, []byte(">")), 0)...)
	got, err := inflate.Append(nil, whole, 1<<20)
	if want := "<" + string(text.json) + ">"; err != nil || string(got) != want {
		t.Errorf("got %d bytes and %v, want %d bytes", len(got), err, len(want))
	}
}

// TestEqualSubscriptions shows that the fifth subscription with the same filters is refused.
func TestEqualSubscriptions(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	for i, filters := range []string{
		`{"kinds":[1,2]},{"authors":[]}`, `{"kinds":[2,1],"limit":5},{"authors":[]}`, `{"authors":[]},{"kinds":[1,2]}`, `{"kinds":[1,2],"limit":0},{"ids":[]}`,
	} {
		c.ask(fmt.Sprintf(`["REQ","%d",%s]`, i, filters), fmt.Sprintf(`["EOSE","%d"]`, i))
	}
	c.ask(`["REQ","5",{"kinds":[1,2]},{"authors":[]}]`, `["CLOSED","5","restricted: …"]`)
	c.ask(`["REQ","6",{"kinds":[1,3]},{"authors":[]}]`, `["EOSE","6"]`)
	c.ask(`["REQ","3",{"kinds":[1,2]},{"authors":[]}]`, `["EOSE","3"]`) // replaces one of them
	c.send(`["CLOSE","0"]`)
	c.ask(`["REQ","5",{"kinds":[1,2]},{"authors":[]}]`, `["EOSE","5"]`)
}

// TestLiveBytes shows that a network that has had its share of live events is held back, and still
// gets all of them.
func TestLiveBytes(t *testing.T) {
	w := newWorld(t, behindProxy, limit(func(l *Limits) { l.LiveBytes = 10_000 }), ticking)
	dial := func(addr string) *client {
		c := w.connect(http.Header{"X-Forwarded-For": {addr}})
		c.expect(`["AUTH","…"]`)
		c.ask(`["REQ","s",{"limit":0}]`, `["EOSE","s"]`)
		return c
	}
	slow, other := dial("198.51.100.1"), dial("203.0.113.1")
	go io.Copy(io.Discard, dial("198.51.100.2").net)
	text := strings.Repeat("x", 10_000)
	for i := range 3 {
		w.publish(event(1, 1, int64(i), text))
		slow.recv()
		other.recv()
	}
	last := event(1, 1, 9, text)
	w.publish(last)
	other.expect(subMessage("s", last))
	slow.expect(subMessage("s", last))
	if n := value(t, w.relay, "talon_relay_limited_total", "live-bytes"); n == 0 {
		t.Error("nobody was held back")
	}
}
