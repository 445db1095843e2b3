package engine

import (
	"slices"
	"strconv"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host/gitfetch"
	"talon/host/gitfetch/queue"
	"talon/sdk/abi"
)

// gitServer is a git server as the Talons see it: a foreign one, or another Talon.
type gitServer struct {
	*world.GitServer
	e       *engine
	talon   *talon  // nil: it is foreign
	away    int     // outages that it has now
	status  int     // of those
	dumb    int     // faults in which nothing arrives
	slow    float64 // factor of the latency
	free    []int64 // when each of its workers is
	begins  []int64 // when requests that wait begin
	clients []gitClient
	flights []*gitFlight // that it works on
	counts  result.Git
}

// gitClient is an address that a server knows: a Talon.
type gitClient struct {
	paid   int64 // until when its requests are paid for by the rate
	banned int64
}

func newGitServer(e *engine, w *world.GitServer, t *talon) *gitServer {
	return &gitServer{GitServer: w, e: e, talon: t, slow: 1, free: make([]int64, w.Capacity), clients: make([]gitClient, len(e.w.Talons))}
}

// newTalonServer is a Talon as others fetch from it.
func newTalonServer(e *engine, t *talon) *gitServer {
	w := &world.GitServer{Name: t.Name, Class: "talon", Domain: t.Domain, Latency: e.w.Scenario.Talon.LatencyMS, Git: scenario.Git{}}
	w.SetDefaults()
	return newGitServer(e, w, t)
}

// gitReply is how a request will end.
type gitReply struct {
	at     int64
	result queue.Result
	has    []*world.Event // whose data it brings
	worked bool           // the server works on it
}

// slowAnswer is the delay, in milliseconds, of the answer of a slow server.
const slowAnswer = 20_000

// stall is how long a fetch waits for an answer.
var stall = gitfetch.DefaultLimits.Stall.Milliseconds()

func (g *gitServer) latency() int64 { return max(1, int64(g.Latency*g.slow)) }

// ask has a Talon fetch what events wait for.
func (g *gitServer) ask(from int, wants []*world.Event) gitReply {
	now := g.e.Now()
	answer := now + firstTrips*g.latency()
	switch {
	case g.dumb > 0:
		return gitReply{at: now + stall, result: queue.Result{Outcome: abi.OutcomeTimeout}}
	case g.away > 0 && g.status == 0:
		return gitReply{at: now + 2*g.latency(), result: queue.Result{Outcome: abi.OutcomeUnreachable}}
	case g.away > 0:
		return gitReply{at: answer, result: statusResult(g.status, 0)}
	}
	if g.overRate(from) {
		switch g.Refuse {
		case "silence":
			return gitReply{at: now + stall, result: queue.Result{Outcome: abi.OutcomeTimeout}}
		case "slow":
			answer += slowAnswer
		default:
			status, _ := strconv.Atoi(g.Refuse) // the schema says which there are
			return gitReply{at: answer, result: statusResult(status, int64(g.RetryS)*1000)}
		}
	}
	g.begins = slices.DeleteFunc(g.begins, func(at int64) bool { return at <= now })
	if len(g.begins) >= g.Waiting {
		return gitReply{at: answer, result: statusResult(503, int64(g.RetryS)*1000)}
	}
	worker := 0
	for i := range g.free {
		if g.free[i] < g.free[worker] {
			worker = i
		}
	}
	begin := max(answer, g.free[worker])
	if begin > answer+stall {
		return gitReply{at: answer + stall, result: queue.Result{Outcome: abi.OutcomeTimeout}}
	}
	r := gitReply{worked: true}
	r.result.Bytes = 2000 // refs, and a pack of nothing
	for _, ev := range wants {
		if g.has(ev, begin) {
			r.has = append(r.has, ev)
			r.result.Bytes += ev.Data.Bytes
		}
	}
	r.at = begin + int64(g.ServiceMS) + r.result.Bytes*1000/int64(g.Bandwidth)
	g.free[worker] = r.at
	if begin > now {
		g.begins = append(g.begins, begin)
	}
	r.at += g.latency()
	return r
}

// has reports whether the data of an event can be had there at a time.
func (g *gitServer) has(ev *world.Event, at int64) bool {
	if g.talon != nil {
		return g.talon.data[ev.Number]
	}
	return ev.Data.At <= at && slices.Contains(ev.Data.Servers, g.Number)
}

// overRate counts a request of a Talon, and reports whether it is one too many.
func (g *gitServer) overRate(from int) bool {
	if g.Rate == 0 {
		return false
	}
	c, now := &g.clients[from], g.e.Now()
	each := int64(60_000 / g.Rate)
	switch {
	case now < c.banned:
		return true
	case c.paid-now > each*int64(g.Burst-1):
		c.banned = now + int64(g.BanS)*1000
		return true
	}
	c.paid = max(now, c.paid) + each
	return false
}

func statusResult(status int, retryAfter int64) queue.Result {
	return queue.Result{Outcome: gitfetch.OutcomeOfStatus(status), Status: status, RetryAfter: retryAfter}
}

// fault begins or ends one.
func (g *gitServer) fault(f *world.Fault, begins bool) {
	change := map[bool]int{true: 1, false: -1}[begins]
	switch f.What {
	case "outage":
		g.setAway(change, f.Status)
	case "half-open", "partition":
		if g.dumb += change; begins {
			for _, f := range g.takeFlights() {
				f.abortAt(g.e.Now()+stall, abi.OutcomeTimeout)
			}
		}
	case "reset":
		g.reset()
	case "slow":
		if begins {
			g.slow *= f.Factor
		} else {
			g.slow /= f.Factor
		}
	}
}

// setAway begins or ends an outage.
func (g *gitServer) setAway(change, status int) {
	if g.away += change; change > 0 {
		g.status = status
		g.reset()
	}
}

// reset ends what it works on.
func (g *gitServer) reset() {
	for _, f := range g.takeFlights() {
		f.abortAt(g.e.Now()+g.latency(), abi.OutcomeUnreachable)
	}
	clear(g.free)
	g.begins = nil
}

func (g *gitServer) takeFlights() (list []*gitFlight) {
	list, g.flights = g.flights, nil
	return list
}
