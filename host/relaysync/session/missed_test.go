package session

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// wantMissed fails the test unless the relay is asked once for what a live request missed since a
// time, and answers it.
func (g *rig) wantMissed(id string, since int64) {
	g.t.Helper()
	g.want("what it may have missed", g.take(), fmt.Sprintf(`"REQ" %q`, id))
	if want, got := fmt.Sprintf(`"since":%d`, since/1000-missedMargin), g.all[len(g.all)-1]; !strings.Contains(got, want) || strings.Contains(got, `"limit":0`) {
		g.t.Errorf("it asks with %s, want %s", got, want)
	}
	g.want("reports before that is here", g.reports())
}

// A relay may have fewer live requests than the strategy counts on. The session then fetches
// the events of that time, and only then reports the subscription as open.
func TestMissed(t *testing.T) {
	for name, run := range map[string]func(t *testing.T){
		"the relay passes over a REQ for nothing stored": func(t *testing.T) {
			g := newRig(t, nil)
			began := g.now
			g.do(live("a", kinds(1)))
			g.pass(limits.AnswerTime + 10)
			g.take()
			g.say(`["EOSE","s2"]`)
			g.wantMissed("s3", began)
			g.event("s3", notes(1)[0])
			g.say(`["EOSE","s3"]`)
			if g.want("reports", g.reports(), "eose a events=0 new=0"); len(g.stored) != 1 {
				t.Error("what was missed is not here")
			}
		},
		"the relay wants a proof of the key": func(t *testing.T) {
			g := newRig(t, nil)
			began := g.now
			g.do(live("a", kinds(1)))
			g.say(`["CLOSED","s1","auth-required: who are you"]`)
			g.pass(5000)
			g.say(`["AUTH","challenge"]`)
			g.take()
			g.say(`["OK","%s",true,""]`, g.auth.event)
			g.want("messages", g.take(), `"REQ" "s1"`)
			g.say(`["EOSE","s1"]`)
			g.wantMissed("s2", began)
		},
		"what it takes the place of is closed in a rest": func(t *testing.T) {
			g := newRig(t, nil)
			g.do(live("a", kinds(1)))
			g.say(`["EOSE","s1"]`)
			g.do(CoolDown{g.now + 60_000})
			g.do(live("new", kinds(1)))
			g.do(Unsubscribe{ID: "a"})
			g.pass(10_000)
			began := g.now
			g.say(`["CLOSED","s1","error: restarting"]`)
			g.pass(51_000)
			g.take()
			g.reports()
			g.say(`["EOSE","s2"]`)
			g.wantMissed("s3", began)
			g.say(`["EOSE","s3"]`)
			g.want("reports", g.reports(), "eose new events=0 new=0")
		},
	} {
		t.Run(name, run)
	}
}

// missing is a rig with a live request of which something was missed, and is asked for.
func missing(t *testing.T) *rig {
	g := newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.say(`["NOTICE","rate limited"]`)
	g.pass(lostTime + 10)
	g.say(`["EOSE","s2"]`)
	g.take()
	g.reports()
	return g
}

// If the relay refuses the request for missed events, the session sends it again. If that does not
// help, the strategy opens the subscription again, and fetches. If the answer may be cut, the session asks
// page by page, and the subscription stays.
func TestMissedRefused(t *testing.T) {
	closed := fmt.Sprintf("closed a class=%d", abi.ClassError)
	g := missing(t)
	g.say(`["CLOSED","s3","rate-limited: slow down"]`)
	g.do(CoolDown{g.now + 60_000})
	g.pass(59_000)
	g.want("messages in the rest", g.take())
	g.pass(2000)
	g.want("messages after it", g.take(), `"REQ" "s4"`)
	g.say(`["EOSE","s4"]`)
	g.want("reports", g.reports(), "learnt neg=0 subs=0 message=0 pace=38", "limited", "eose a events=0 new=0")

	g = missing(t)
	for i := range maxMissedTries {
		g.say(`["CLOSED","s%d","error: not now"]`, i+3)
	}
	g.want("reports when it is refused again and again", g.reports(), closed)

	var some []*host.Event
	for i := range unstatedLimit {
		some = append(some, alice.Event(1, epoch-int64(i), ""))
	}
	cut := func() {
		g = missing(t)
		for _, e := range some {
			g.event("s3", e)
		}
		g.take()
		g.say(`["EOSE","s3"]`)
		g.want("messages when the answer may be cut", g.take(), `"CLOSE" "s3"`, `"REQ" "s4"`)
		g.want("reports then", g.reports())
	}
	cut()
	if got := g.all[len(g.all)-1]; !strings.Contains(got, `"since":`) || !strings.Contains(got, `"limit":500`) {
		t.Errorf("the page asks with %s", got)
	}
	for _, e := range some {
		g.event("s4", e)
	}
	g.say(`["EOSE","s4"]`)
	g.pass(1000) // the relay has said that it takes few messages
	g.want("messages after a page", g.take(), `"CLOSE" "s4"`, `"REQ" "s5"`)
	g.event("s5", some[unstatedLimit-1])
	g.say(`["EOSE","s5"]`)
	g.want("messages after the last page", g.take(), `"CLOSE" "s5"`)
	g.want("reports after it", g.reports(), "eose a events=0 new=0")
	cut()
	g.say(`["CLOSED","s4","error: not now"]`)
	g.want("reports when a page is refused", g.reports(), closed)

	g = missing(t)
	g.do(Unsubscribe{ID: "a"})
	g.say(`["CLOSED","s3","error: not now"]`)
	g.pass(limits.AnswerTime)
	g.want("reports of one that is not wanted any more", g.reports())
	if n := len(g.requests); n > 0 {
		t.Errorf("%d requests stay open", n)
	}
}

// wantDelayed fails the test unless the relay is asked for what a live request missed since a time,
// while the subscription counts as open.
func (g *rig) wantDelayed(id string, since int64) {
	g.t.Helper()
	g.want("what it may have missed", g.take(), fmt.Sprintf(`"REQ" %q`, id))
	if want, got := fmt.Sprintf(`"since":%d`, since/1000-missedMargin), g.all[len(g.all)-1]; !strings.Contains(got, want) || strings.Contains(got, `"limit":0`) {
		g.t.Errorf("it asks with %s, want %s", got, want)
	}
}

// A live request that waited for room, by a known limit or after a refusal, is reported as open at
// once. The session fetches the events of that time when it fetches nothing else.
func TestDelayed(t *testing.T) {
	for name, run := range map[string]func(t *testing.T){
		"it waits for room": func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 3} })
			g.do(live("a", kinds(2)))
			g.say(`["EOSE","s1"]`)
			began := g.now
			g.do(live("b", kinds(1)))
			g.pass(20_000)
			g.do(Unsubscribe{ID: "a"})
			g.take()
			g.reports()
			g.say(`["EOSE","s2"]`)
			g.want("reports", g.reports(), "eose b events=0 new=0", "delayed 1")
			g.wantDelayed("s3", began)
			g.event("s3", notes(1)[0])
			g.say(`["EOSE","s3"]`)
			if g.want("reports", g.reports(), "delayed 0"); len(g.stored) != 1 {
				t.Error("what was missed is not here")
			}
		},
		"the relay refuses it for a while": func(t *testing.T) {
			g := newRig(t, nil)
			g.do(live("a", kinds(1)))
			g.say(`["EOSE","s1"]`)
			began := g.now
			g.do(live("b", kinds(2)))
			g.say(`["CLOSED","s2","error: too many subscriptions, at most 3"]`)
			g.pass(1000)
			g.do(Unsubscribe{ID: "a"})
			g.take()
			g.reports()
			g.say(`["EOSE","s3"]`)
			g.want("reports", g.reports(), "eose b events=0 new=0", "delayed 1")
			g.wantDelayed("s4", began)
		},
		"fetches go first": func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 3} })
			g.do(live("a", kinds(1)))
			g.say(`["EOSE","s1"]`)
			began := g.now
			g.do(live("b", kinds(2)))
			g.do(&Fetch{ID: "past", Filter: kinds(3), Method: abi.MethodREQ})
			g.want("messages", g.take()[1:], `"REQ" "s2"`)
			g.do(Unsubscribe{ID: "a"})
			g.take()
			g.reports()
			g.say(`["EOSE","s3"]`)
			g.want("reports", g.reports(), "eose b events=0 new=0", "delayed 1")
			g.pass(5000)
			g.want("messages while a fetch runs", g.take())
			g.say(`["EOSE","s2"]`)
			if sent := g.take(); len(sent) != 2 {
				t.Fatal("after the fetch: ", sent)
			}
			if got := g.all[len(g.all)-1]; !strings.Contains(got, fmt.Sprintf(`"since":%d`, began/1000-missedMargin)) {
				t.Errorf("it asks with %s", got)
			}
		},
		"the subscription ends before": func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 3} })
			g.do(live("a", kinds(1)))
			g.say(`["EOSE","s1"]`)
			g.do(live("b", kinds(2)))
			g.do(&Fetch{ID: "past", Filter: kinds(3), Method: abi.MethodREQ})
			g.do(Unsubscribe{ID: "a"})
			g.say(`["EOSE","s3"]`)
			g.do(Unsubscribe{ID: "b"})
			g.reports()
			g.take()
			g.say(`["EOSE","s2"]`)
			g.want("messages", g.take(), `"CLOSE" "s2"`)
			if reports := g.reports(); reports[len(reports)-1] != "delayed 0" {
				t.Error("reports: ", reports)
			}
		},
		"the answer may be cut": func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 3} })
			g.do(live("a", kinds(2)))
			g.say(`["EOSE","s1"]`)
			g.do(live("b", kinds(1)))
			g.do(Unsubscribe{ID: "a"})
			g.say(`["EOSE","s2"]`)
			g.reports()
			for _, e := range notes(unstatedLimit) {
				g.event("s3", e)
			}
			g.say(`["EOSE","s3"]`)
			g.want("reports", g.reports())
			g.say(`["EOSE","s4"]`)
			g.want("reports after the page", g.reports(), "delayed 0")
		},
	} {
		t.Run(name, run)
	}
}

// A strategy replaces subscriptions that wait, again and again, before the relay answers any. The session
// asks for what twice the limit of them missed. The others count until the connection ends.
func TestReplacedOften(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Limits.Subscriptions = 3 })
	g.do(live("a", kinds(0)))
	g.say(`["EOSE","s1"]`)
	g.say(`["NOTICE","rate-limited: slow down"]`)
	const times = 9
	for i := range times {
		g.do(live(fmt.Sprint("old", i), kinds(host.Kind(i))))
	}
	g.do(Unsubscribe{ID: "a"})
	g.say(`["CLOSED","s1","error: restart"]`)
	ended := g.now
	g.do(live("new", kinds(0, 1, 2, 3, 4, 5, 6, 7, 8)))
	for i := range times {
		g.do(Unsubscribe{ID: fmt.Sprint("old", i)})
	}
	if reports := g.reports(); reports[len(reports)-1] != fmt.Sprint("delayed ", times) {
		t.Fatal("reports: ", reports)
	}
	g.remote = func(m *wire.Message, _ string) {
		if m.Verb == wire.Req {
			g.say(`["EOSE",%q]`, m.SubID)
		}
	}
	g.pass(200_000)
	if reports := g.reports(); reports[len(reports)-1] != "delayed 3" {
		t.Error("reports in the end: ", reports)
	}
	asked := strings.Join(g.all, "")
	for _, kinds := range []string{"0", "1", "2", "3", "4", "5", "0,1,2,3,4,5,6,7,8"} {
		want := fmt.Sprintf(`{"kinds":[%s],"since":%d`, kinds, ended/1000-missedMargin)
		if len(kinds) > 1 {
			want = fmt.Sprintf(`{"kinds":[%s],"limit":0}`, kinds)
		}
		if !strings.Contains(asked, want) {
			t.Errorf("no request has %s:\n%s", want, strings.Join(g.all, "\n"))
		}
	}
}
