// Package devnet is a small nostr network on the loopback interface: relays that are
// not ours (khatru, and those of profiles of package relaymodel), git servers, and
// people who announce repositories, push to them, open issues and talk. A Talon syncs
// from them, and tests know exactly which events it must have in the end.
//
// A scenario of the lab describes the network, and package world draws it: the lab simulates the
// same world. Here keys, signatures and git objects are real, and time is that of the clock. Options
// of [Config] are a short form of a scenario.
//
// All of it is made from a seed: the same [Config] makes the same keys, events and git
// objects. Traffic, outages and lost messages of options follow the clock.
//
// Invariants:
//
//  1. It listens on the loopback interface alone, and contacts nothing but the Talon
//     that it compares with.
//  2. A relay's events are in memory, and gone with the process. Repositories are in
//     [Config.Dir], made by the git program.
//  3. A relay keeps all events that it was given. An outage only cuts it off from the
//     network: it goes on getting events.
//  4. Every event that Talon should have is sent to a relay that gives it. A dead or a lying
//     relay has only copies.
//  5. [Net.Expected] is what a GRASP service at [Config.Talon] keeps of what the relays
//     have: all that belongs to a repository that lists it, and nothing else.
//
// It is for tests and demonstrations. Anybody who reaches one of its relays can fill the
// memory.
package devnet

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"talon/cmd/internal/lab/scenario"
	"talon/host/relaymodel"
	"talon/sdk/grasp"
)

// Config describes the network. Start from [DefaultConfig].
type Config struct {
	Talon string // host or host:port of the Talon that repositories list
	Dir   string // of the repositories; it must be empty
	Seed  uint64
	Port  int // of the first relay; relays and then git servers take those that follow. 0: free ones

	// Scenario describes the network. nil: the fields up to Latency do.
	Scenario *scenario.Scenario

	Relays     int       // of khatru
	Foreign    []Foreign // further relays, behind these
	Bootstrap  int       // relays that have every announcement and state, as index relays do
	GitServers int       // with none, the commits of states and pull requests are nowhere

	Repos      int
	Roots      int           // issues, patches and pull requests of one repository, on average
	Comments   int           // on one root, and status changes, on average
	RelaysPer  int           // that a repository lists in addition to Talon
	ClonesPer  int           // git servers that a repository lists in addition to Talon
	Noise      float64       // repositories that do not list Talon, for each one that does
	Negentropy float64       // share of khatru's relays that compare (NIP-77)
	Latency    time.Duration // that all that servers send is late

	Split float64 // share of repositories whose servers have only a part of the objects each

	// How connections and khatru's relays fail. A profile has keys of its own.
	Drop      float64 // share of messages at which the connection breaks instead
	Lose      float64 // share of live messages that are not sent
	RateLimit float64 // subscriptions and events of a connection in a second; 0: not limited
	MaxLimit  int     // events of one answer; 0: not limited
	Rate      float64 // new events in a second, over all

	// Relays are cut off in turn, one after the other.
	OutageEvery time.Duration // 0: never
	OutageFor   time.Duration

	// Git servers fail in turn, with 404, 500, silence and a reset connection.
	GitFailing int // servers that fail at any time
	GitTurn    time.Duration

	Log *slog.Logger
}

// DefaultConfig is a small network with little load for a laptop.
var DefaultConfig = Config{
	Talon: "127.0.0.1:7334",
	Seed:  1,

	Relays:     6,
	Bootstrap:  1,
	GitServers: 3,

	Repos:     20,
	Roots:     5,
	Comments:  2,
	RelaysPer: 3,
	ClonesPer: 2,
	Split:     0.25,
	Noise:     0.2,

	Negentropy: 0.5,
	OutageFor:  5 * time.Second,
	GitTurn:    10 * time.Second,
}

// Foreign is relays of one profile.
type Foreign struct {
	Name  string // of a profile that is built in, or of Keys
	Keys  string // the text of a profile that is not; empty: it is built in
	Count int
}

// profile returns the behaviour of such relays.
func (f *Foreign) profile() (*relaymodel.Profile, error) {
	if f.Keys != "" {
		return relaymodel.Parse([]byte(f.Keys))
	}
	return relaymodel.Builtin(f.Name)
}

// all returns whether what each of the relays has can be had from it.
func (c *Config) all() (honest []bool, err error) {
	for range c.Relays {
		honest = append(honest, true)
	}
	for _, f := range c.Foreign {
		p, err := f.profile()
		if err != nil {
			return nil, err
		}
		for range f.Count {
			honest = append(honest, p.Honest())
		}
	}
	return honest, nil
}

// check refuses what makes no sense, in the words of the command's options.
func (c *Config) check() error {
	if c.Scenario == nil {
		if err := c.checkNetwork(); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		option string
		value  float64
		max    float64
	}{
		{"drop", c.Drop, 1}, {"lose", c.Lose, 1}, {"split", c.Split, 1}, {"rate-limit", c.RateLimit, 1e6}, {"rate", c.Rate, 1e4},
	} {
		if !(s.value >= 0 && s.value <= s.max) {
			return fmt.Errorf("the value %v of option %s is wrong: want 0 to %v", s.value, s.option, s.max)
		}
	}
	switch {
	case c.Port < 0 || c.Port > 60_000:
		return fmt.Errorf("the value %d of option port is wrong: want 0 to 60000", c.Port)
	case c.MaxLimit < 0 || c.MaxLimit > 1<<30:
		return fmt.Errorf("the value %d of option max-limit is wrong: want 0 to %d", c.MaxLimit, 1<<30)
	case c.OutageEvery < 0 || c.Latency < 0 || c.OutageEvery > 0 && c.OutageFor <= 0 || c.GitFailing > 0 && c.GitTurn <= 0:
		return errors.New("a time of the options outage-every, outage-for, latency or git-turn is wrong: it must be positive")
	}
	if _, err := grasp.ParseService(c.Talon); err != nil {
		return fmt.Errorf("the value of option talon is wrong: %w", err)
	}
	if c.Dir == "" || c.Log == nil {
		return errors.New("set up the network: it has no folder, or no log")
	}
	return nil
}

// checkNetwork checks the fields that a scenario has in their place.
func (c *Config) checkNetwork() error {
	const maxRelays = 1000
	for _, f := range c.Foreign {
		if f.Count < 1 || f.Count > maxRelays {
			return fmt.Errorf("the value %s:%d of option relays is wrong: want 1 to %d of a profile", f.Name, f.Count, maxRelays)
		}
	}
	if c.Relays < 0 || c.Relays > maxRelays {
		return fmt.Errorf("the value %d of option relays is wrong: want 0 to %d", c.Relays, maxRelays)
	}
	honest, err := c.all()
	if err != nil {
		return err
	}
	relays := len(honest)
	for _, n := range []struct {
		option    string
		value     int
		low, high int
	}{
		{"relays", relays, 1, maxRelays},
		{"bootstrap", c.Bootstrap, 1, relays},
		{"git-servers", c.GitServers, 0, 100},
		{"repos", c.Repos, 0, 100_000},
		{"roots", c.Roots, 0, 10_000},
		{"comments", c.Comments, 0, 1000},
		{"relays-per", c.RelaysPer, 1, min(relays, 64)},
		{"clones-per", c.ClonesPer, min(c.GitServers, 1), min(c.GitServers, 64)},
		{"git-failing", c.GitFailing, 0, c.GitServers},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("the value %d of option %s is wrong: want %d to %d", n.value, n.option, n.low, n.high)
		}
	}
	if i := slices.Index(honest[:c.Bootstrap], false); i >= 0 {
		return fmt.Errorf("relay %d of option relays cannot be a bootstrap relay (option bootstrap): what it has cannot be had from it; name another profile first", i+1)
	}
	for option, value := range map[string]float64{"negentropy": c.Negentropy, "noise": c.Noise / 100} {
		if !(value >= 0 && value <= 1) {
			return fmt.Errorf("the value of option %s is wrong: want 0 to %d", option, map[string]int{"negentropy": 1, "noise": 100}[option])
		}
	}
	return nil
}
