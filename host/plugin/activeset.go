package plugin

import (
	"sync/atomic"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sets"
	"talon/host/plugin/sidecar"
)

// activeSet is what decides at one moment: the plugins of every policy function in
// their order. It never changes. A decision is taken by one active set from
// beginning to end. Swaps do not change that.
type activeSet struct {
	refs  atomic.Int64 // calls under way, and one for being the current active set
	ended func(*activeSet)

	chains [chains]chain

	audiences audiences

	about []host.Description // of those that enforce and say something

	generations []*generation // everything it keeps alive
	followers   []*sets.Sets
}

// chains is how many policy functions there are; a guest.Func below it is one.
const chains = int(guest.Audience) + 1

// newActiveSet makes an active set of generations that are in order.
func newActiveSet(generations []*generation, fallback *generation, ended func(*activeSet)) *activeSet {
	l := &activeSet{ended: ended, generations: generations}
	l.refs.Store(1)
	for f := range l.chains {
		l.chains[f].fallback = fallback
	}
	for _, g := range generations {
		if g == fallback && g.hidden {
			continue
		}
		if g.sets != nil {
			l.followers = append(l.followers, g.sets)
		}
		if g.leftOut {
			continue // it serves another world
		}
		about := g.about()
		if g.file.Mode == sidecar.Enforce && about.Says() {
			l.about = append(l.about, about)
		}
		for f := range chains {
			if !g.calls(guest.Func(f)) {
				continue
			}
			c := &l.chains[f]
			shadow := g.file.Mode == sidecar.Shadow
			hosts := !shadow && (about.Hosts() || g.absent)
			c.links = append(c.links, link{g, shadow, hosts})
			if !shadow {
				c.names = append(c.names, g.name)
			}
			if hosts {
				c.hosts = len(c.links)
			}
		}
	}
	l.audiences = newAudiences(&l.chains[guest.Audience])
	return l
}

// decides reports whether a plugin that enforces is asked about events.
func (l *activeSet) decides() bool { return len(l.chains[guest.Admit].names) > 0 }

// first returns the plugin that is asked in a world of which one is asked.
func (l *activeSet) first(world string) *generation {
	for _, g := range l.generations {
		if !g.hidden && g.file.Mode == sidecar.Enforce && g.serves(world) {
			return g
		}
	}
	return nil
}

// acquire keeps the active set from ending, if it has not ended.
func (l *activeSet) acquire() bool {
	for {
		n := l.refs.Load()
		if n == 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends what acquire began. The last release of an active set that is not
// current any more ends it.
func (l *activeSet) release() {
	if l.refs.Add(-1) == 0 {
		l.ended(l)
	}
}
