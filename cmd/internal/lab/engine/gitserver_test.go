package engine

import (
	"testing"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/internal/simclock"
	"talon/sdk/abi"
)

// gitWorld is an engine with one git server, which is asked by hand.
func gitWorld(change func(*scenario.Git)) (*engine, *gitServer, []*world.Event) {
	e := &engine{Clock: simclock.New(0), w: &world.World{Talons: make([]*world.Talon, 2)}}
	w := &world.GitServer{Name: "g", Latency: 10}
	w.SetDefaults()
	change(&w.Git)
	wants := []*world.Event{{Number: 1, Data: &world.Data{Bytes: 2_000_000, At: 50, Servers: []int{0}}}}
	return e, newGitServer(e, w, nil), wants
}

// A server takes what its rate has room for, refuses in its manner, and takes more later.
func TestGitRate(t *testing.T) {
	for refuse, want := range map[string]struct {
		outcome           uint32
		after, retryAfter int64
	}{
		"429":     {abi.OutcomeRateLimited, 60, 7000},
		"503":     {abi.OutcomeServer, 60, 7000},
		"403":     {abi.OutcomeRefused, 60, 7000},
		"silence": {abi.OutcomeTimeout, stall, 0},
	} {
		e, g, wants := gitWorld(func(s *scenario.Git) { s.Rate, s.Burst, s.Refuse, s.RetryS, s.BanS = 60, 3, refuse, 7, 100 })
		for range 3 {
			if r := g.ask(0, wants); !r.worked {
				t.Fatalf("%s: a request within the rate is refused", refuse)
			}
		}
		r := g.ask(0, wants)
		if r.worked || r.result.Outcome != want.outcome || r.at != want.after || r.result.RetryAfter != want.retryAfter {
			t.Errorf("%s: a request over the rate ends %+v", refuse, r)
		}
		if r := g.ask(1, wants); !r.worked {
			t.Errorf("%s: another address is refused", refuse)
		}
		if e.RunUntil(99_000); g.ask(0, wants).worked {
			t.Errorf("%s: an address is served that is banned", refuse)
		}
		if e.RunUntil(100_000); !g.ask(0, wants).worked {
			t.Errorf("%s: an address is refused whose ban has ended", refuse)
		}
	}
}

// Requests wait for a worker, for a bounded time and in a bounded number.
func TestGitCapacity(t *testing.T) {
	e, g, wants := gitWorld(func(s *scenario.Git) { s.Capacity, s.Waiting, s.ServiceMS, s.Bandwidth = 1, 2, 20_000, 1_000_000 })
	first := g.ask(0, nil)
	if first.at != 60+20_000+2+10 || !first.worked {
		t.Errorf("the first request ends %+v", first)
	}
	second := g.ask(0, wants)
	if len(second.has) != 1 || second.at != 60+20_002+20_000+2002+10 {
		t.Errorf("the second request, whose data come meanwhile, ends %+v", second)
	}
	if third := g.ask(0, wants); third.worked || third.result.Outcome != abi.OutcomeServer || third.result.Status != 503 {
		t.Errorf("a request for which there is no room ends %+v", third)
	}
	e.RunUntil(70)
	if third := g.ask(0, wants); third.worked || third.result.Outcome != abi.OutcomeTimeout || third.at != e.Now()+60+stall {
		t.Errorf("a request that would wait for long ends %+v", third)
	}
}

// A server gives only data that it has. It gives none before the push, and none if it lies.
func TestGitData(t *testing.T) {
	e, g, wants := gitWorld(func(*scenario.Git) {})
	wants[0].Data.At = 61
	if r := g.ask(0, wants); !r.worked || len(r.has) != 0 {
		t.Errorf("before the push, a request ends %+v", r)
	}
	if e.RunUntil(1); len(g.ask(0, wants).has) != 1 {
		t.Error("after the push, the data are not given")
	}
	wants[0].Data.Servers = nil
	if len(g.ask(0, wants).has) != 0 {
		t.Error("data are given that were not pushed there")
	}
}

// An outage ends what a server works on, and refuses what comes.
func TestGitOutage(t *testing.T) {
	e, g, wants := gitWorld(func(*scenario.Git) {})
	l := &gitFlight{server: g, reply: g.ask(0, wants)}
	g.flights = append(g.flights, l)
	g.fault(&world.Fault{What: "outage"}, true)
	if l.reply.worked || l.reply.result.Outcome != abi.OutcomeUnreachable || l.reply.at != 10 {
		t.Errorf("a request during which the server goes ends %+v", l.reply)
	}
	if r := g.ask(0, wants); r.result.Outcome != abi.OutcomeUnreachable {
		t.Errorf("a request to a server that is away ends %+v", r)
	}
	g.fault(&world.Fault{What: "outage"}, false)
	g.fault(&world.Fault{What: "outage", Status: 502}, true)
	if r := g.ask(0, wants); r.result.Outcome != abi.OutcomeServer || r.result.Status != 502 {
		t.Errorf("a request to a server that answers 502 ends %+v", r)
	}
	g.fault(&world.Fault{What: "outage"}, false)
	g.fault(&world.Fault{What: "half-open"}, true)
	if r := g.ask(0, wants); r.result.Outcome != abi.OutcomeTimeout || r.at != e.Now()+stall {
		t.Errorf("a request to a server that answers nothing ends %+v", r)
	}
	g.fault(&world.Fault{What: "half-open"}, false)
	if r := g.ask(0, wants); !r.worked {
		t.Errorf("a server that is back does not serve: %+v", r)
	}
}

// Time to data counts from when both are there, over an event that is held twice, and what
// never came counts.
func TestGitCounts(t *testing.T) {
	e := &engine{Clock: simclock.New(0), w: &world.World{}, gits: make([]*gitServer, 0, 1)}
	e.gits = append(e.gits, &gitServer{})
	repo := &world.Repo{}
	for i := range 3 {
		e.w.Events = append(e.w.Events, &world.Event{Number: uint32(i), Repo: repo, Data: &world.Data{At: 5000, Servers: []int{0}}})
	}
	e.w.Talons = make([]*world.Talon, 1)
	tal := &talon{Talon: &world.Talon{}}
	c := &e.watch.git
	c.begin(e)
	for i, ev := range e.w.Events {
		e.RunUntil(int64(1000 * i))
		c.held(tal, ev)
	}
	e.RunUntil(9000)
	c.held(tal, e.w.Events[0])
	c.arrived(tal, e.w.Events[0]) // after 4 s
	c.arrived(tal, e.w.Events[0])
	e.RunUntil(15_000)
	e.w.Events[1].Ended = 14_000 // replaced, and not missed
	var run result.Run
	c.result(&run)
	p50, _ := run.Measures.Get(result.DataP50)
	p99, _ := run.Measures.Get(result.DataP99)
	if p50 < 3.8 || p50 > 4.2 || p99 < 9.5 || p99 > 10.5 {
		t.Errorf("time to data %v and %v, want 4 and 10", p50, p99)
	}
}
