// Command mirror is the strategy that Talon runs by default. It asks each relay for as
// little as it can: it listens to a relay unless it costs less to compare with it from
// time to time, the more often the more that brings. To two relays of each repository,
// those that deliver first, it listens in any case.
//
// Comparisons take turns, few relays in parallel. In a first sync, relays come first whose
// repositories have few relays. Relays with little in common are compared at the same time. So
// later relays have nothing left that would be fetched twice.
package main

import (
	_ "embed"

	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(mirror))

func main() {}

type mirror struct {
	layers.Driver

	max                   int // filters, before all are opened again
	live                  int // relays of a repository that are listened to
	slots                 int // relays that are compared with at the same time
	min, longest          int64
	overlapShort, overlap int64 // seconds; overlap 0: without bound
	adaptive              bool  // all of the second level is asked for where most of it is wanted
	authors               bool  // where it is not, deletions by the authors of comments are
	check                 int64 // from one fetch of everything to the next, if a relay without NIP-77 was away
	daily, over           int64

	relays  []*relay // by number in the index
	changed []*relay // that may have to be listened to for other repositories
	queue   []*relay // whose turn comes
	running []*relay
	burst   int   // root events
	burstAt int64 // since when
	came    int   // events that were new, in first comparisons
	lacked  int   // events that were here and not there, in these
	ended   int   // one more than turns so far
	cover   cover

	repeated int // live events that relays delivered after others
	firsts   int // and before others
}

func (s *mirror) Configure(cfg strategy.Config) error {
	set, err := layers.Common(cfg)
	if err != nil {
		return err
	}
	s.max, s.live, s.slots = int(cfg.Int("consolidate_above_filters")), int(cfg.Int("live_relays")), int(cfg.Int("relays_at_once"))
	s.min = cfg.Int("compare_minutes_from") * strategy.Minute
	s.longest = max(s.min, cfg.Int("compare_minutes_to")*strategy.Minute)
	s.overlapShort = set.Margin
	s.check = cfg.Int("check_minutes_pages") * strategy.Minute
	if s.overlap = cfg.Int("overlap_hours") * strategy.Hour / strategy.Second; s.overlap > 0 {
		s.overlap = max(s.overlap, s.overlapShort)
	}
	if s.daily, s.over, err = layers.Hours(cfg, "daily_hours_from", "daily_hours_to"); err != nil {
		return err
	}
	s.adaptive = set.SecondLevel == layers.GitSecondLevel
	set.Window, set.Eager = cfg.Int("batch_seconds")*strategy.Second, true
	set.Method, set.Apart = strategy.MethodAuto, true
	s.authors, set.AskAuthors = set.Authors, false // not before a relay has shown that it has many other deletions
	s.Driver.Configure(s, set)
	return nil
}

// Step takes one input of the strategy.
func (s *mirror) Step(in strategy.Input, out *strategy.Actions) {
	switch in.Kind() {
	case strategy.Init:
		if in.Init().First() {
			s.relays, s.changed, s.queue, s.running, s.ended, s.cover = nil, nil, nil, nil, 1, cover{}
			s.came, s.lacked, s.repeated, s.firsts = 0, 0, 0, 0
		}
	case strategy.LocalEvent:
		s.note(in)
		s.credit(in)
	case strategy.Repeats:
		s.repeats(in)
	}
	s.Driver.Step(in, out)
}

// Fresh handles a relay of which too little is known to be here, and once a day.
func (s *mirror) Fresh(p *layers.Peer, purpose uint32) {
	r := s.relay(p)
	if purpose == strategy.PurposeDaily {
		r.all = true
	}
	s.met(r)
}

// Resume handles a relay that is back.
func (s *mirror) Resume(p *layers.Peer, _ int64) { s.met(s.relay(p)) }

var (
	live   = layers.Opening{Live: true}
	stored = layers.Opening{Track: true} // what is stored, then what is new
)

// met starts with a relay that is connected. It subscribes to new events immediately. Stored events
// are compared when the relay has its turn.
func (s *mirror) met(r *relay) {
	p := r.peer
	if r.up {
		// The next turn compares everything again.
		s.enqueue(r)
		return
	}
	r.absent = r.absent || r.compared > 0
	p.Unchecked = true
	r.up, r.metAt, r.brought = true, s.Now(), false
	r.heardAt, r.twice = s.Now(), 0
	s.After(p, layers.Daily, s.daily+s.Random(s.over))
	r.visitor = p.Visitor()
	p.Open(layers.Announcements, live)
	s.cover.due.AddSet(s.Index.ReposOf(p.Number()))
	if r.visitor {
		r.notBefore = 0 // its turn is now
	}
	if s.Now() < r.notBefore {
		p.Later = p.Plan()
	}
	s.enqueue(r)
}

// New takes newly wanted items. It asks immediately for a few that have live subscriptions at the
// relay, and for the rest when the relay has its turn.
func (s *mirror) New(p *layers.Peer, items layers.Items) {
	r := s.relay(p)
	heard := both(items, s.heard(r))
	// A turn may take long. Live events do not wait for its end.
	if n := heard.Len(); n > 0 && n <= atOnce && s.burst <= maxBurst && !s.starting() && (r.state != idle || p.Quiet()) && !p.Crowded(heard, s.max, true) {
		listening := p.Listening()
		p.Open(layers.Of(layers.Plan(heard, listening, layers.Items{})), stored)
		p.Fetch(layers.Of(both(heard, listening)), layers.Fetching{Purpose: strategy.PurposeStartup, Track: true})
		items.RemoveItems(heard)
		heard, r.asked = layers.Items{}, true
	}
	if r.state != idle {
		p.Later.AddItems(items)
		return
	}
	p.Later.AddItems(items)
	switch {
	case items.Empty():
	case !heard.Empty():
		s.enqueue(r)
	default:
		s.After(p, layers.Delay, s.soon(r))
	}
}

// both are the items that are in a and in b.
func both(a, b layers.Items) layers.Items {
	return layers.Plan(a, layers.Plan(a, b, layers.Items{}), layers.Items{})
}

const (
	atOnce    = 30 // items are asked for without waiting for a turn
	maxBurst  = 5  // if no more root events than that have come in burstTime
	burstTime = 5 * strategy.Second
)

// note counts root events that come in a short time: many of them are a past that is
// being fetched, whose rest had better not come from two relays at the same time.
func (s *mirror) note(in strategy.Input) {
	if in.Now()-s.burstAt > burstTime {
		s.burstAt, s.burst = in.Now(), 0
	}
	if in.LocalEvent().Kind != 30617 {
		s.burst++
	}
}

// Settled has nothing to do: Turn looks at all that is on its way.
func (s *mirror) Settled(*layers.Peer) {}

func (s *mirror) Timer(p *layers.Peer, kind layers.Kind) {
	r := s.relay(p)
	switch kind {
	case layers.Daily:
		s.After(p, layers.Daily, s.daily+s.Random(s.over))
		r.all = true
		if r.wide == tooWide {
			r.wide = unknown
		}
		s.enqueue(r)
	case layers.Delay:
		s.enqueue(r)
	case layers.Deadline:
		s.waited(r)
	}
}

// Ended handles a relay that is not connected any more.
func (s *mirror) Ended(p *layers.Peer) {
	r := s.relay(p)
	if !r.up {
		return
	}
	r.up = false
	if r.state == idle && r.compared >= r.metAt && !r.visitor && !r.liveOnly {
		r.heardUntil = p.CoveredUntil()
	}
	switch {
	case r.brought || s.Now()-r.metAt >= unproductive:
		r.fruitless = 0
	case !r.visitor && r.turnAt >= r.metAt: // it had its turn, and it is not us who end it
		r.fruitless++
		r.notBefore = max(r.notBefore, s.Now()+r.penance())
	}
	s.leave(r)
	s.ended++
	r.whole, r.stage, r.failed, r.looksAt, r.defers = false, narrow, false, false, false
	s.cover.due.AddSet(r.live)
	r.live = layers.Set{}
}
