package relay

import (
	"testing"

	"talon/host/wire"
)

// TestSearch asks for stored and for live events by words (NIP-50).
func TestSearch(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	crash := event(1, 1621, 1000, "It CRASHES when pushing")
	slow := event(1, 1621, 1001, "Pushing is slow")
	note := event(1, 1, 1002, "pushing crashes")
	w.publish(crash, slow, note)
	c.send(`["REQ","s",{"search":"pushing crashes","limit":5}]`)
	c.expect(subMessage("s", crash))
	c.expect(`["EOSE","s"]`)
	c.ask(`["COUNT","c",{"search":"pushing"}]`, `["COUNT","c",{"count":2}]`)
	c.ask(`["NEG-OPEN","n",{"search":"pushing"},"61"]`, `["NEG-ERR","n","unsupported: …"]`)
	live := event(2, 1621, 1003, "pushing: again CRASHES")
	w.publish(event(2, 1621, 1003, "pushing"), event(2, 1, 1003, "pushing crashes"), live)
	c.expect(subMessage("s", live))
	c.send(`["CLOSE","s"]`)
	c.ask(`["COUNT","c",{"search":"pushing"}]`, `["COUNT","c",…]`)
	if n := w.relay.index.searches; n != 0 {
		t.Errorf("%d searches are left", n)
	}
}

func TestCanonicalSearch(t *testing.T) {
	key := func(text string) string {
		f, err := wire.ParseFilter([]byte(text), &wire.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		return f.Key()
	}
	one := key(`{"search":"one two","#t":["x"]}`)
	if key(`{"#t":["x"],"search":"Two ONE"}`) != one {
		t.Error("the order of words counts")
	}
	for _, other := range []string{`{"search":"one","#t":["x"]}`, `{"search":"one two"}`, `{"search":"one three","#t":["x"]}`} {
		if key(other) == one {
			t.Errorf("%s is taken for another", other)
		}
	}
}
