// Package world draws a network of a scenario and a seed: its relays, who publishes what
// where and when, and what goes wrong. Everything random of a run is drawn here, before it
// begins, so that all strategies that are tried with a seed have the same events and
// faults.
//
// Invariants:
//
//  1. Equal scenarios and seeds make equal worlds, on every machine: no clock, no order of
//     maps, and functions of floating-point numbers that do not depend on the processor.
//  2. Each thing that is drawn has a random stream of its own, so that a change of one
//     leaves the others as they are.
//  3. A world is not changed after [Draw]: runs share it.
//  4. Each wanted event is sent to one relay, at least, from which it can be had, if its
//     repository lists an honest one and relays neither refuse nor drop nor remove it.
package world

import (
	"fmt"
	"maps"
	"slices"

	"talon/cmd/internal/lab/scenario"
	"talon/host"
	"talon/host/relaymodel"
)

// World is a network and what happens in it. Times are milliseconds from its begin.
type World struct {
	Scenario *scenario.Scenario
	Seed     uint64
	Start    int64 // unix milliseconds
	End      int64
	Relays   []*Relay // foreign ones
	Loses    bool     // some relays refuse, drop or remove events
	Git      []*GitServer
	Talons   []*Talon
	Repos    []*Repo
	Events   []*Event // in the order of their publishing
	Faults   []*Fault // in the order of their begin
	ByID     map[host.ID]*Event

	real      Reality // nil: a simulation
	publisher *publisher
}

// Relay is a foreign relay.
type Relay struct {
	Number    int
	Name      string // such as strfry-1
	Class     string
	URL       string
	Profile   *relaymodel.Profile
	Seed      uint64
	Bootstrap bool
	Honest    bool
	Latency   float64         // milliseconds one way
	Steps     []scenario.Step // in its place, if they were measured
	Jitter    float64
	Bandwidth int // bytes in a second; 0: any
	Away      []Away
}

// Away is a time span in which a relay is unreachable.
type Away struct{ From, To int64 }

// Talon is a server that runs the modules under test. As a place it comes after the
// relays.
type Talon struct {
	Number int
	Name   string
	URL    string // of the relay
	Web    string // URL below which its repositories are
	Domain string
}

// Place identifies a relay or a Talon that can have an event: a relay, or a Talon behind
// them.
type Place int

// Copy is an event that reaches a place.
type Copy struct {
	Place Place
	At    int64
}

// Event is a published event.
type Event struct {
	*host.Event
	Number  uint32
	At      int64 // below 0: before the begin
	Copies  []Copy
	Repo    *Repo  // nil: it is about nothing here
	Thread  *Event // that it is in; nil: it is none, or begins one
	Refused bool   // the policy refuses it
	Held    int64  // how long it waits for git data; 0: not
	Data    *Data  // git data that it waits for instead; nil: none
	Deletes *Event
	Ended   int64 // when it was deleted, or a newer version came; 0: never
}

// Repo is a repository.
type Repo struct {
	Number  int
	D       string
	Owner   int
	Address string
	Talons  []int
	Git     []int       // git servers that it names
	Gone    int64       // when its owner deleted the announcement; 0: never
	keeper  host.PubKey // who signs its states
	states  int         // so far
	pulls   int         // so far, with a commit
	lists   []list
	said    []*Event // roots and comments

	departure *Event // the deletion of its announcement; nil: there is none
}

// list is which relays a repository lists from a time.
type list struct {
	from   int64
	relays []int
}

// relaysAt returns which relays a repository lists at a time.
func (r *Repo) relaysAt(at int64) []int {
	for i := len(r.lists) - 1; i > 0; i-- {
		if r.lists[i].from <= at {
			return r.lists[i].relays
		}
	}
	return r.lists[0].relays
}

// Lists reports whether a repository lists a relay at the given time.
func (r *Repo) Lists(relay int, at int64) bool { return slices.Contains(r.relaysAt(at), relay) }

// ListsTalon reports whether a repository lists a Talon.
func (r *Repo) ListsTalon(talon int) bool { return slices.Contains(r.Talons, talon) }

// IsTalon returns the index of the Talon at a place.
func (w *World) IsTalon(p Place) (int, bool) { return int(p) - len(w.Relays), int(p) >= len(w.Relays) }

// TalonPlace returns the place of a Talon.
func (w *World) TalonPlace(talon int) Place { return Place(len(w.Relays) + talon) }

// MaxHeld is the time after which an event in purgatory expires, in milliseconds.
const MaxHeld = 30 * 60 * 1000

// Wants reports whether an event is wanted by a Talon: its repository lists it, its
// policy takes it, and its git data come.
func (w *World) Wants(talon int, e *Event) bool {
	return e.Repo != nil && !e.Refused && e.Held <= MaxHeld && e.Repo.ListsTalon(talon) && (e.Data == nil || len(e.Data.Servers) > 0)
}

// Draw makes the world of a seed for a simulation.
func Draw(s *scenario.Scenario, seed uint64) *World {
	w, err := draw(s, seed, nil)
	if err != nil {
		panic(err) // only a Reality fails
	}
	return w
}

func draw(s *scenario.Scenario, seed uint64, real Reality) (*World, error) {
	w := &World{
		Scenario: s, Seed: seed, Start: int64(s.Start) * 1000, End: s.Duration.Milliseconds(), ByID: map[host.ID]*Event{}, real: real,
	}
	w.drawRelays()
	w.drawGit()
	for i := range s.Talon.Count {
		domain := fmt.Sprintf("talon-%d.example", i)
		w.Talons = append(w.Talons, &Talon{i, fmt.Sprintf("talon-%d", i), "wss://" + domain, "https://" + domain, domain})
	}
	w.drawFaults()
	if real != nil {
		if err := real.Listen(w); err != nil {
			return nil, err
		}
	}
	return w, w.publish()
}

// drawRelays makes the relays, class by class.
func (w *World) drawRelays() {
	for _, class := range slices.Sorted(maps.Keys(w.Scenario.Relays)) {
		c := w.Scenario.Relays[class]
		r := newStream(w.Seed, "relays "+class)
		p := w.Scenario.Profile(class)
		w.Loses = w.Loses || p.Loses()
		latencies, err := c.MeasuredLatencies()
		if err != nil {
			panic(err) // the scenario is checked
		}
		for i := range c.Count {
			name := fmt.Sprintf("%s-%d", class, i)
			w.Relays = append(w.Relays, &Relay{
				Number: len(w.Relays), Name: name, Class: class, URL: "wss://" + name + ".example", Profile: p, Seed: r.Uint64(),
				Bootstrap: i < c.Bootstrap, Honest: p.Honest(), Latency: max(0.5, r.logNormal(c.LatencyMS, c.Spread)), Jitter: c.Jitter, Bandwidth: c.Bandwidth,
			})
			if len(latencies) > 0 {
				w.Relays[len(w.Relays)-1].Steps = latencies[i%len(latencies)]
			}
		}
	}
}

// LatencyAt returns the one-way latency of a relay for a message that is sent at the
// given time.
func (r *Relay) LatencyAt(at int64) int64 {
	share := float64(float64(relaymodel.Mix(r.Seed^uint64(at/60_000))>>11)/(1<<52)) - 1 // from -1 to 1
	latency := r.Latency
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if i == 0 || r.Steps[i].From.Milliseconds() <= at {
			latency = max(0.5, r.Steps[i].MS)
			break
		}
	}
	return int64(latency + float64(float64(latency*r.Jitter)*share))
}

// UpFor returns for how long a relay was reachable in a time span.
func (r *Relay) UpFor(from, to int64) int64 { return upFor(r.Away, from, to) }

// UpSince returns the time since which a relay has been reachable, as of the given time.
func (r *Relay) UpSince(now int64) (since int64) {
	for _, a := range r.Away {
		if a.From < now {
			since = min(a.To, now)
		}
	}
	return since
}

func upFor(away []Away, from, to int64) int64 {
	up := max(0, to-from)
	for _, a := range away {
		up -= max(0, min(a.To, to)-max(a.From, from))
	}
	return max(0, up)
}

// UpFor returns for how long a server was reachable in a time span.
func (g *GitServer) UpFor(from, to int64) int64 { return upFor(g.Away, from, to) }
