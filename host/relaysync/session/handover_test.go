package session

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/sdk/abi"
)

// A relay stores an event, answers a new live request, and only then delivers the event: to the
// requests that are older than the event (strfry). The one whose place is taken still brings it.
func TestHandover(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("old", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.take()
	g.do(live("new", kinds(1, 2)))
	g.do(Unsubscribe{ID: "old"})
	g.pass(5000)
	g.want("messages before the answer", g.take(), `"REQ" "s2"`)
	g.say(`["EOSE","s2"]`)
	g.pass(handoverTime / 2)
	list := notes(1)
	g.event("s1", list[0])
	if len(g.stored) != 1 {
		t.Error("the event of the old request is not here")
	}
	g.want("messages soon after it", g.take())
	g.pass(handoverTime/2 + 1)
	g.want("messages later", g.take(), `"CLOSE" "s1"`)
	if g.next < g.now+handoverTime {
		t.Errorf("the next turn is after %d ms, and nothing is to be done", g.next-g.now)
	}
}

// A request waits ten seconds for one that the relay does not answer, and not for later ones. If the
// answer comes after that, the session fetches what came in that time.
func TestHandoverEnds(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("0", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.do(live("1", kinds(1)))
	g.do(Unsubscribe{ID: "0"})
	g.take()
	g.pass(handoverLimit - 1)
	g.want("messages without an answer", g.take())
	g.pass(1)
	g.want("messages after a while", g.take(), `"CLOSE" "s1"`)
	g.say(`["EOSE","s2"]`)
	g.want("messages after the answer", g.take(), `"REQ" "s3"`)
	g.say(`["EOSE","s3"]`)
	g.want("messages after the fetch", g.take(), `"CLOSE" "s3"`)
	g.do(live("2", kinds(1)))
	g.say(`["EOSE","s4"]`)
	g.do(Unsubscribe{ID: "1"})
	g.pass(handoverTime / 2)
	g.do(live("3", kinds(1))) // it is not in the place of the second
	g.take()
	g.pass(handoverTime/2 + 1)
	g.want("messages", g.take(), `"CLOSE" "s2"`)
}

// Where the relay has no room, requests that are leaving make some. A request for stored events waits
// for them, since it brings nothing that they would lose.
func TestHandoverMakesRoom(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 5} })
	g.do(live("a", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.do(live("b", kinds(2)))
	g.say(`["EOSE","s2"]`)
	g.do(Unsubscribe{ID: "a"})
	g.take()
	g.do(live("c", kinds(3)))
	g.want("messages while there is room", g.take(), `"REQ" "s3"`)
	g.do(live("d", kinds(4)))
	// The second was open for less time than the relay may need to deliver an event.
	g.want("messages without room", g.take(), `"CLOSE" "s1"`, `"REQ" "s4"`, `"REQ" "s5"`)
	g.say(`["EOSE","s5"]`)
	g.want("messages after the fetch", g.take(), `"CLOSE" "s5"`)

	// The relay does not say how many it takes.
	g = newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.do(live("b", kinds(2)))
	g.do(Unsubscribe{ID: "a"})
	g.take()
	g.say(`["CLOSED","s2","error: too many concurrent REQs"]`)
	g.want("messages after the refusal", g.take(), `"CLOSE" "s1"`, `"REQ" "s3"`)
	g.say(`["EOSE","s3"]`)
	if n := g.Capabilities().MaxSubscriptions; n != 0 {
		t.Errorf("the relay is believed to take %d subscriptions", n)
	}
}

// More requests leave at once than subscriptions are allowed: the first of them closes before its time. The
// session fetches what those in its place may have missed.
func TestHandoverOfMany(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Limits.Subscriptions = 2 })
	for i := range 3 {
		g.do(live(fmt.Sprint("old", i), kinds(host.Kind(i))))
		g.say(`["EOSE","s%d"]`, i+1)
	}
	g.pass(handoverLimit)
	g.do(live("new", kinds(0, 1, 2)))
	g.take()
	g.do(Unsubscribe{ID: "old0"})
	g.do(Unsubscribe{ID: "old1"})
	g.want("messages while there is room", g.take())
	g.do(Unsubscribe{ID: "old2"})
	g.want("messages when there is none", g.take(), `"CLOSE" "s1"`)
	g.say(`["EOSE","s4"]`)
	g.want("reports", g.reports(), "eose old0 events=0 new=0", "eose old1 events=0 new=0", "eose old2 events=0 new=0", "eose new events=0 new=0", "delayed 1")
	text := strings.Join(g.sent, "")
	if !strings.Contains(text, `"REQ","s5",{"kinds":[0,1,2],"since":`) {
		t.Errorf("it asks %s", text)
	}
	list := notes(1)
	g.event("s5", list[0])
	g.say(`["EOSE","s5"]`)
	if g.want("later reports", g.reports(), "delayed 0"); len(g.stored) != 1 {
		t.Error("the event of the time between is not here")
	}
	g.take()
	g.pass(handoverTime + 1)
	g.want("messages later", g.take(), `"CLOSE" "s2"`, `"CLOSE" "s3"`)

	// The relay ends one that is leaving.
	g.do(live("newer", kinds(0, 1, 2)))
	g.do(Unsubscribe{ID: "new"})
	g.say(`["EOSE","s6"]`)
	g.take()
	g.say(`["CLOSED","s4","error: restart"]`)
	g.want("messages after the end", g.take(), `"REQ" "s7"`)
	g.say(`["EOSE","s7"]`)
	g.pass(handoverLimit)
	for _, r := range g.openRequests() {
		if r.again != nil {
			t.Errorf("%s keeps its filters", r.id)
		}
	}
	if len(g.young) != 0 {
		t.Errorf("%d requests are young", len(g.young))
	}
}
