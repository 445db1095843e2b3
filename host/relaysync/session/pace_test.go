package session

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"talon/host/relaymodel"
	"talon/host/wire"
	"talon/sdk/abi"
)

// pacedRelay answers a session as a relay that counts all messages, 50 ms after each of them.
type pacedRelay struct {
	*rig
	relay   *relaymodel.Relay
	conn    uint64
	answers []pacedAnswer // that are on their way
}

type pacedAnswer struct {
	at   int64
	text []byte
}

func (p *pacedRelay) pass(ms int64, each func()) {
	for end := p.now + ms; p.now < end; {
		next := min(end, p.next)
		if len(p.answers) > 0 {
			next = min(next, p.answers[0].at)
		}
		p.now = max(p.now+1, next)
		for len(p.answers) > 0 && p.answers[0].at <= p.now {
			text := p.answers[0].text
			p.answers = p.answers[1:]
			p.Receive(p.now, text)
		}
		p.turn()
		each()
	}
}

// TestPace: a relay that takes 240 messages a minute, of any kind, says "rate limited". It is asked more slowly
// after its rest, so that a long fetch does not draw the same complaint after each rest. During the fetch a
// subscription opens before the pages. Later the relay is asked faster again.
func TestPace(t *testing.T) {
	g := newRig(t, nil)
	p := &pacedRelay{rig: g}
	profile := relaymodel.Default()
	profile.Limits.Limit, profile.Limits.Subscriptions = 20, 10
	profile.Negentropy.Supported = false
	profile.Rate.Messages = relaymodel.Rate{PerMinute: 240, By: "notice", Text: "rate limited"}
	p.relay = relaymodel.New(profile, 0, g.now)
	for _, e := range notes(400) {
		p.relay.Add(e, g.now)
	}
	p.conn, _, _ = p.relay.Open(netip.Addr{}, g.now)
	var rate []int // messages by second
	began := g.now
	g.remote = func(_ *wire.Message, text string) {
		for int64(len(rate)) <= (g.now-began)/1000 {
			rate = append(rate, 0)
		}
		rate[len(rate)-1]++
		for _, e := range p.relay.Receive(p.conn, []byte(text), g.now) {
			p.answers = append(p.answers, pacedAnswer{g.now + 50, e.Frame})
		}
	}
	const fetches = 60
	for i := range fetches {
		g.do(&Fetch{ID: fmt.Sprint(i), Filter: kinds(1), Method: abi.MethodREQ, Page: 20})
	}
	complete, rests, opened, ordered := 0, 0, int64(0), int64(0)
	look := func() {
		for _, r := range g.told {
			switch r := r.(type) {
			case *Limited:
				if g.pace.cooldownUntil < g.now+65_000 {
					rests++
					g.Execute(g.now, CoolDown{Until: g.now + 65_000})
				}
			case *Done:
				if !r.Input.Complete {
					t.Errorf("fetch %s: %s", r.Input.ID, r.Input.Reason)
				}
				complete++
			case *Eose:
				opened = g.now
			}
		}
		g.told = nil
	}
	for complete < fetches && g.now-began < 60*60_000 {
		p.pass(1000, look)
		if g.now-began > 10*60_000 && ordered == 0 {
			ordered = g.now
			g.do(live("live", kinds(2)))
		}
	}
	t.Logf("%d fetches are complete after %d s, %d rests, %d messages, %d a minute at the end", complete, (g.now-began)/1000, rests, len(g.all), g.pace.perMinute())
	if complete < fetches {
		t.Errorf("%d of %d fetches are complete", complete, fetches)
	}
	if rests == 0 || rests > 3 {
		t.Errorf("it rests %d times, want 1 to 3", rests)
	}
	if wait := opened - ordered; ordered == 0 || wait < 0 || wait > 2000 {
		t.Errorf("the subscription is open %d ms after it was ordered", wait)
	}
	if got := g.pace.perMinute(); got < 100 || got > 300 {
		t.Errorf("the pace is %d messages a minute, want about 240", got)
	}
	// Each REQ has a CLOSE: both are counted.
	reqs := 0
	for _, text := range g.all {
		if strings.HasPrefix(text, `["REQ"`) {
			reqs++
		}
	}
	if took := float64(len(g.all)) / float64(g.now-began) * 60_000; took < 100 || took > 300 || reqs < fetches*20 {
		t.Errorf("%.0f messages a minute were sent, %d of %d REQs", took, reqs, len(g.all))
	}
	p.pass(24*60*60_000, look)
	if g.pace.perMinute() != 0 {
		t.Errorf("a day later the pace is %d messages a minute, want the usual one", g.pace.perMinute())
	}
}

// A pace has bounds, and the complaints of one rest lower it once.
func TestSlowDown(t *testing.T) {
	l := &Limits{Requests: 20, Burst: 200}
	p := pace{tokens: 200}
	for range 3000 {
		p.message(1000)
	}
	for _, step := range []struct {
		now  int64
		want uint32
	}{
		{1000, 600}, {1500, 600}, // 3,000 messages in a minute: it is halved
		{200_000, 75},                // few: the eighth
		{300_000, 38}, {400_000, 38}, // the least
	} {
		p.slowDown(step.now, l)
		p.coolDown(step.now + 1000)
		if got := p.perMinute(); got != step.want {
			t.Errorf("at %d: %d messages a minute, want %d", step.now, got, step.want)
		}
	}
	if p.grow(400_000+growTime-1, l) || !p.grow(400_000+growTime, l) || p.perMinute() != 47 {
		t.Errorf("it grows to %d messages a minute", p.perMinute())
	}
	// A session that begins goes on with what was learnt.
	g := newRig(t, func(cfg *Config) { cfg.Pace = 60 })
	for i := range 30 {
		g.do(live(fmt.Sprint(i), kinds(2)))
	}
	if n := len(g.take()); n != 2 {
		t.Errorf("%d subscriptions open at once, want those of 2 seconds", n)
	}
	g.pass(5000)
	if n := len(g.take()); n < 4 || n > 5 {
		t.Errorf("%d subscriptions open within 5 seconds, want 5", n)
	}
}
