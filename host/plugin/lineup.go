package plugin

import (
	"sync/atomic"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sets"
	"talon/host/plugin/sidecar"
)

// lineup is what decides at one moment: the plugins of every policy function in
// their order. It never changes. A decision is taken by one line-up from
// beginning to end, however often plugins are swapped meanwhile.
type lineup struct {
	refs  atomic.Int64 // calls under way, and one for being the current line-up
	ended func(*lineup)

	chains   [chains]chain
	fallback *generation // what on-failure = "bundled" asks; nil if nothing does

	about []host.Description // of those that enforce and say something

	generations []*generation // everything it keeps alive
	followers   []*sets.Sets
}

// chains is how many policy functions there are; a guest.Func below it is one.
const chains = int(guest.Push) + 1

// chain is the plugins of one function, in the order in which they are asked.
type chain struct {
	links []link
	names []string // of those that enforce, for the journal
	hosts int      // links up to the last that hosts; 0: none does
}

type link struct {
	*generation
	shadow bool
	hosts  bool // it makes repositories for announcements, or may, since it is missing
}

// newLineup makes a line-up of generations that are in order.
func newLineup(generations []*generation, fallback *generation, ended func(*lineup)) *lineup {
	l := &lineup{ended: ended, fallback: fallback, generations: generations}
	l.refs.Store(1)
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
		if g.file.Mode == sidecar.Enforce && (len(about.Grasps) > 0 || about.Criteria != "" || about.Curation != "" || about.Writes != host.WritesUnsaid) {
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
	return l
}

// decides reports whether a plugin that enforces is asked about events.
func (l *lineup) decides() bool { return len(l.chains[guest.Admit].names) > 0 }

// enter takes part in the line-up, if it has not ended.
func (l *lineup) enter() bool {
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

// leave ends what enter began. The last one to leave a line-up that is not
// current any more ends it.
func (l *lineup) leave() {
	if l.refs.Add(-1) == 0 {
		l.ended(l)
	}
}
