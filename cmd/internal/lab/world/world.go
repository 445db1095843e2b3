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
//  4. Each wanted event is at one relay, at least, from which it can be had, if its
//     repository lists an honest one.
package world

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
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
	Git      []*GitServer
	Talons   []*Talon
	Repos    []*Repo
	Events   []*Event // in the order of their publishing
	Faults   []*Fault // in the order of their begin
	ByID     map[host.ID]*Event
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
	Latency   float64 // milliseconds one way
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
	URL    string
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
	Git     []int // git servers that it names
	lists   []list
	said    []*Event // roots and comments
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

// Draw makes the world of a seed.
func Draw(s *scenario.Scenario, seed uint64) *World {
	w := &World{
		Scenario: s, Seed: seed, Start: int64(s.Start) * 1000, End: s.Duration.Milliseconds(), ByID: map[host.ID]*Event{},
	}
	w.drawRelays()
	w.drawGit()
	for i := range s.Talon.Count {
		domain := fmt.Sprintf("talon-%d.example", i)
		w.Talons = append(w.Talons, &Talon{i, fmt.Sprintf("talon-%d", i), "wss://" + domain, domain})
	}
	w.drawFaults()
	w.publish()
	return w
}

// drawRelays makes the relays, class by class.
func (w *World) drawRelays() {
	for _, class := range slices.Sorted(maps.Keys(w.Scenario.Relays)) {
		c := w.Scenario.Relays[class]
		r := newStream(w.Seed, "relays "+class)
		p := w.Scenario.Profile(class)
		for i := range c.Count {
			name := fmt.Sprintf("%s-%d", class, i)
			w.Relays = append(w.Relays, &Relay{
				Number: len(w.Relays), Name: name, Class: class, URL: "wss://" + name + ".example", Profile: p, Seed: r.Uint64(),
				Bootstrap: i < c.Bootstrap, Honest: p.Honest(), Latency: max(0.5, r.logNormal(c.LatencyMS, c.Spread)), Jitter: c.Jitter, Bandwidth: c.Bandwidth,
			})
		}
	}
}

// LatencyAt returns the one-way latency of a relay for a message that is sent at the
// given time.
func (r *Relay) LatencyAt(at int64) int64 {
	share := float64(float64(relaymodel.Mix(r.Seed^uint64(at/60_000))>>11)/(1<<52)) - 1 // from -1 to 1
	return int64(r.Latency + float64(float64(r.Latency*r.Jitter)*share))
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

// Sign fills in the id, the signature and the JSON. Ids are real; signatures only say that
// they were made here, which costs a hash: whether signatures are checked right is no
// question for a simulation.
func Sign(e *host.Event) error {
	if e.Tags == nil {
		e.Tags = host.Tags{}
	}
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.Sig = signature(e.ID)
	e.JSON = e.AppendJSON(make([]byte, 0, 400+len(e.Content)+80*len(e.Tags)))
	return nil
}

func signature(id host.ID) (sig host.Sig) {
	half := sha256.Sum256(id[:])
	copy(sig[:32], half[:])
	copy(sig[32:], id[:])
	return sig
}

var errForged = errors.New("the signature is wrong")

// Verify checks a signature of [Sign].
func Verify(e *host.Event) error {
	if e.Sig != signature(e.ID) {
		return errForged
	}
	return e.CheckID()
}

// stream is a source of random numbers of its own for one thing.
type stream struct{ *rand.Rand }

func newStream(seed uint64, name string) stream {
	h := fnv.New64a()
	h.Write([]byte(name))
	return stream{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// chance is true with a probability.
func (s stream) chance(p float64) bool { return s.Float64() < p }

// between returns a number from low to limit.
func (s stream) between(low, limit int) int { return low + s.IntN(max(1, limit-low+1)) }

// exponential returns a number with a mean.
func (s stream) exponential(mean float64) float64 { return -mean * ln(1-float64(s.Float64())) }

// logNormal returns a number with a median.
func (s stream) logNormal(median, sigma float64) float64 { return median * exp(sigma*s.normal()) }

// normal returns a number of a bell curve: the sum of twelve even ones, which needs no
// function that processors have their own way to compute.
func (s stream) normal() float64 {
	sum := -6.0
	for range 12 {
		sum += float64(s.Float64())
	}
	return sum
}

// exp is e to the x. The compiler may fuse a product and a sum on some processors: the
// conversions forbid it, so that all have the same bits.
func exp(x float64) float64 {
	x = min(max(x, -700), 700)
	y := 1 + float64(x/4096)
	for range 12 {
		y = float64(y * y)
	}
	return y
}

// ln is the natural logarithm of a positive number.
func ln(x float64) float64 {
	const ln2 = 0.693147180559945309417
	n := 0.0
	for ; x < 0.75; x *= 2 {
		n--
	}
	for ; x > 1.5; x /= 2 {
		n++
	}
	t := (x - 1) / (x + 1)
	square, sum, power := float64(t*t), 0.0, t
	for i := 1; i < 30; i += 2 {
		sum += power / float64(i)
		power = float64(power * square)
	}
	return float64(2*sum) + float64(n*ln2)
}

// weighted draws from things of different weight.
type weighted struct{ sums []float64 }

func (w *weighted) add(weight float64) {
	sum := weight
	if n := len(w.sums); n > 0 {
		sum += w.sums[n-1]
	}
	w.sums = append(w.sums, sum)
}

func (w *weighted) draw(s stream) int {
	at := float64(s.Float64() * w.sums[len(w.sums)-1])
	low, high := 0, len(w.sums)-1
	for low < high {
		if middle := (low + high) / 2; w.sums[middle] > at {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// GitServer is a git server that is not a Talon.
type GitServer struct {
	scenario.Git
	Number  int
	Name    string // such as forge-1
	Class   string
	Domain  string
	Latency float64 // milliseconds one way
	Away    []Away
}

// Data is the git data of an event.
type Data struct {
	Bytes   int64
	At      int64 // when it is pushed
	Servers []int // that it is pushed to, honest ones; none: nobody pushes it
	Direct  bool  // it is pushed to the Talons that are listed, too
}

// UpFor returns for how long a server was reachable in a time span.
func (g *GitServer) UpFor(from, to int64) int64 { return upFor(g.Away, from, to) }

// drawGit makes the git servers, class by class.
func (w *World) drawGit() {
	for _, class := range slices.Sorted(maps.Keys(w.Scenario.Git)) {
		c := w.Scenario.Git[class]
		r := newStream(w.Seed, "git "+class)
		for i := range c.Count {
			name := fmt.Sprintf("%s-%d", class, i)
			w.Git = append(w.Git, &GitServer{
				Git: c, Number: len(w.Git), Name: name, Class: class, Domain: name + ".example", Latency: max(0.5, r.logNormal(c.LatencyMS, c.Spread)),
			})
		}
	}
}

// gitPublisher draws which git servers repositories name, and what is pushed to them.
type gitPublisher struct {
	stream
	servers weighted
	numbers []int // by index in servers
}

func (w *World) newGitPublisher() *gitPublisher {
	if len(w.Git) == 0 {
		return nil
	}
	p := &gitPublisher{stream: newStream(w.Seed, "git data")}
	for _, g := range w.Git {
		if g.Weight > 0 {
			p.servers.add(g.Weight)
			p.numbers = append(p.numbers, g.Number)
		}
	}
	return p
}

// drawGitServers draws the git servers that a repository names, one that is honest among
// them.
func (p *publisher) drawGitServers() (servers []int) {
	s := &p.Scenario.Repositories
	n := p.git.between(s.GitMin, s.GitMax)
	for tries := 0; len(servers) < n; tries++ {
		g := p.git.numbers[p.git.servers.draw(p.git.stream)]
		lying := func(g int) bool { return p.Git[g].Lying }
		last := len(servers) == n-1 && lying(g) && !slices.ContainsFunc(servers, func(o int) bool { return !lying(o) })
		switch {
		case tries >= 10_000: // weights leave hardly a choice
			for _, g := range p.git.numbers {
				if !slices.Contains(servers, g) && !lying(g) {
					servers = append(servers, g)
					break
				}
			}
			return servers
		case !slices.Contains(servers, g) && !last:
			servers = append(servers, g)
		}
	}
	return servers
}

// drawData draws the git data of a state.
func (p *publisher) drawData(repo *Repo, at int64) *Data {
	r, s := p.git, &p.Scenario.Publishers
	d := &Data{
		Bytes: max(200, int64(r.logNormal(float64(p.Scenario.Repositories.GitBytes), p.Scenario.Repositories.GitSigma))),
		At:    at + int64(r.exponential(float64(s.PushAfter.Milliseconds()))),
	}
	unpushed := r.chance(s.Unpushed) && at >= 0
	for i, g := range repo.Git {
		reached := r.chance(s.Mirrored)
		if !p.Git[g].Lying && !unpushed && (reached || i == p.firstHonest(repo)) {
			d.Servers = append(d.Servers, g)
		}
	}
	return d
}

func (p *publisher) firstHonest(repo *Repo) int {
	return slices.IndexFunc(repo.Git, func(g int) bool { return !p.Git[g].Lying })
}
