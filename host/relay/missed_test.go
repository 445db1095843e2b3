package relay

import (
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
)

// TestMissed: after a gap, subscriptions that may lack an event are closed, and no others.
func TestMissed(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.Subscriptions = 4 }))
	c, other := w.dial(), w.dial()
	closed := func(id string) string { return fmt.Sprintf(`["CLOSED",%q,%q]`, id, eventsMissed) }
	for id, filter := range map[string]string{
		"all": `{"limit":0}`, "notes": `{"kinds":[1],"limit":0}`, "signals": `{"kinds":[1,20001],"limit":0}`,
	} {
		c.ask(`["REQ","`+id+`",`+filter+`]`, `["EOSE","`+id+`"]`)
	}
	other.ask(`["REQ","profiles",{"kinds":[7,8]},{"kinds":[0],"limit":0}]`, `["EOSE","profiles"]`)
	other.ask(`["REQ","none",{"kinds":[]}]`, `["EOSE","none"]`)
	w.relay.Missed()
	got := map[string]bool{c.recv(): true, c.recv(): true}
	if !got[closed("all")] || !got[closed("signals")] {
		t.Errorf("closed: %v", got)
	}
	other.expect(closed("profiles"))

	note := event(1, 1, 1000, "a")
	w.publish(note, event(1, 0, 1000, "b"))
	c.expect(subMessage("notes", note))
	// The places of the closed ones are free again, and their ids.
	for _, id := range []string{"all", "x", "y"} {
		c.ask(`["REQ","`+id+`",{"limit":0}]`, `["EOSE","`+id+`"]`)
	}
	last := event(1, 0, 1001, "c")
	w.publish(last)
	for range 3 {
		c.recv()
	}
	other.ask(`["CLOSE","profiles"]`)
	other.ask(`["REQ","profiles",{"kinds":[0]}]`, subMessage("profiles", last))
	other.recv()
	if n := testutil.ToFloat64(w.relay.metrics.subs); n != 6 {
		t.Errorf("%v subscriptions are counted, want 6", n)
	}
}

// TestMissedMeanwhile: a gap while the stored answer is on its way ends the subscription after it.
func TestMissedMeanwhile(t *testing.T) {
	w := newWorld(t)
	stored := event(1, 1, 1000, "a")
	w.publish(stored)
	var once sync.Once
	w.store.selecting = func() { once.Do(w.relay.Missed) }
	c := w.dial()
	c.ask(`["REQ","s",{}]`, subMessage("s", stored), fmt.Sprintf(`["CLOSED","s",%q]`, eventsMissed))
	w.relay.Publish([]host.Published{{Event: event(1, 20001, 1000, "late")}})
	c.ask(`["REQ","s",{"limit":0}]`, `["EOSE","s"]`)
}
