package main

import (
	"cmp"
	"slices"

	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
)

// cover says to which relays of each repository is listened.
type cover struct {
	places []place    // by number of the repository
	due    layers.Set // repositories that are to be looked at
}

// place is one repository.
type place struct {
	relays []uint32 // that it named when it was last looked at
	live   []uint32 // of them, those that are listened to for it
	seen   bool     // one of them is compared with, or was
	again  bool     // lots are to be drawn again
	drawn  int64    // when they were drawn last
	events uint8    // that were delivered since then
}

// unit is the weight of a repository for which no relay has been compared yet. Each of its relays
// gets its share.
const unit = 1 << 12

// weigh adds the shares of a repository to those of its relays, or takes them away.
func (s *mirror) weigh(pl *place, sign int) {
	if pl.seen {
		return
	}
	for _, n := range pl.relays {
		s.at(n).weight += sign * unit / len(pl.relays)
	}
}

// claim notes that a relay is being compared. Other relays with the same repositories then become
// less urgent.
func (s *mirror) claim(r *relay) {
	for n := range s.Index.ReposOf(r.peer.Number()).All() {
		if pl := s.place(n); !pl.seen {
			s.weigh(pl, -1)
			pl.seen = true
		}
	}
}

func (s *mirror) place(repo uint32) *place {
	for int(repo) >= len(s.cover.places) {
		s.cover.places = append(s.cover.places, place{})
	}
	return &s.cover.places[repo]
}

// chooseWork is the work of choosing the relays of one repository.
const chooseWork = 3

// choose decides to which relays is listened for a repository: those that it has stay
// unless they are gone or lots are drawn again.
func (s *mirror) choose(repo uint32) {
	pl := s.place(repo)
	if relays := s.Index.RelaysOf(repo); !slices.Equal(relays, pl.relays) {
		s.weigh(pl, -1)
		pl.relays, pl.seen = relays, false
		s.weigh(pl, 1)
	}
	var chosen []uint32
	fits := func(n uint32) bool {
		r := s.at(n)
		return r.up && !r.visitor && slices.Contains(pl.relays, n) && !slices.Contains(chosen, n)
	}
	if !pl.again {
		for _, n := range pl.live {
			if fits(n) && len(chosen) < s.live {
				chosen = append(chosen, n)
			}
		}
	}
	type lot struct {
		relay uint32
		drawn int64
	}
	var lots []lot
	if len(chosen) < s.live {
		for _, n := range pl.relays {
			if fits(n) {
				lots = append(lots, lot{n, s.draw(s.at(n))})
			}
		}
		slices.SortStableFunc(lots, func(a, b lot) int { return cmp.Compare(b.drawn, a.drawn) })
		for _, l := range lots[:min(len(lots), s.live-len(chosen))] {
			chosen = append(chosen, l.relay)
		}
	}
	for _, n := range pl.live {
		if r := s.at(n); !slices.Contains(chosen, n) && r.live.Has(repo) {
			r.live.Remove(layers.SetOf(repo))
			s.change(r)
			s.deafen(r)
		}
	}
	for _, n := range chosen {
		if r := s.at(n); !r.live.Has(repo) {
			r.live.Add(repo)
			s.change(r)
		}
	}
	if pl.again {
		pl.drawn, pl.events = s.Now(), 0
	}
	pl.live, pl.again = slices.Clip(chosen), false
	if pl.relays == nil {
		*pl = place{}
	}
}

// deafen lets the next comparison with a spared relay come soon, because it is listened to for less.
func (s *mirror) deafen(r *relay) {
	if shortest, _ := s.visits(r.cost); r.liveOnly && r.up && r.interval > shortest {
		r.interval = shortest
		if r.state == idle {
			s.After(r.peer, layers.Delay, max(r.next()-s.Now(), strategy.Second))
		}
	}
}

// change notes that a relay may have to be listened to for other repositories.
func (s *mirror) change(r *relay) {
	if !r.changed {
		r.changed = true
		s.changed = append(s.changed, r)
	}
}

const (
	maxTrials = 32 // of a relay: then all count half
	drawEvery = 8  // events of a repository, before lots are drawn again for it
	drawTime  = 2 * strategy.Minute
	newsAge   = 3600
	liveAge   = 60 // seconds: an event that is older is not taken for a live one
)

// credit notes which relay was the first to deliver an event. Those that were listened to
// for its repository and were not the first have lost.
func (s *mirror) credit(in strategy.Input) {
	e := in.LocalEvent()
	if e.Relay == "" {
		return
	}
	n, ok := s.Index.Find(e.Relay)
	if !ok {
		return
	}
	first := s.at(n)
	first.brought = true
	if e.CreatedAt < in.Now()/1000-newsAge {
		return
	}
	if e.Kind != 30617 && e.Kind != 30618 && first.compared > 0 && first.compared >= first.metAt && e.CreatedAt >= in.Now()/1000-liveAge {
		first.alone.first++
		s.firsts++
	}
	for it := e.Repositories(); it.Next(); {
		repo, ok := s.Index.Repo(it.Text())
		if !ok {
			continue
		}
		pl := s.place(repo)
		for _, other := range pl.relays {
			if r := s.at(other); r != first && (r.up && !r.liveOnly || slices.Contains(pl.live, other)) {
				r.trial(0, 1)
			}
		}
		first.trial(1, 0)
		if pl.events < drawEvery {
			pl.events++
		}
		if pl.events >= drawEvery && len(pl.relays) > s.live && s.Now() >= pl.drawn+drawTime {
			pl.again = true
			s.cover.due.Add(repo)
		}
	}
}

// repeats counts events that a relay delivered after others did. An event that only other relays
// have is not counted: it is no reason to spare this one.
func (s *mirror) repeats(in strategy.Input) {
	e := in.Repeats()
	if n, ok := s.Index.Find(e.Relay); ok {
		r := s.at(n)
		events := int(min(e.Events, maxRepeats))
		r.twice += events
		s.repeated += events
		r.alone.own += events
		s.weighUp(r)
		r.alone.turn(s.firsts, s.repeated)
	}
}

// alone says whether a relay has live events that no other relay has. Each event that it delivers first,
// and that another relay has as well, is a repeat there. So it has some alone if it delivers more events
// first than all others repeat. It may itself repeat any number of events: a relay that syncs itself
// repeats all that the others have. Where one relay does so, its repeats say little about the others: as long as
// the others repeat less than half of all events, each relay is taken to have some alone.
type alone struct {
	first  int   // events that it delivered first
	before int   // of them, those up to its latest report: the others have reported theirs since
	own    int   // repeats of its own
	base   int   // repeats of all others that do not count any more
	all    int   // events that relays delivered first, up to its latest report
	gone   int   // of all events that relays delivered first, those that do not count any more
	since  int64 // its first report; 0: there was none
}

// others returns the repeats of other relays, of all repeats.
func (a *alone) others(repeated int) int { return repeated - a.own - a.base }

// turn begins the time until the next report. Old events count less.
func (a *alone) turn(firsts, repeated int) {
	if others := a.others(repeated); a.first+others > maxAlone {
		a.base += others - others/2
		a.gone += (firsts - a.gone) - (firsts-a.gone)/2
		a.first /= 2
	}
	a.before, a.all = a.first, firsts-a.gone
}

const (
	maxAlone  = 256             // events that are remembered
	aloneTime = strategy.Minute // in which a relay without rivals shows whether it has events alone
)

// hasAlone reports whether a relay may have live events alone. If no other relay repeats
// anything, it has some time to show one.
func (s *mirror) hasAlone(r *relay) bool {
	others := r.alone.others(s.repeated)
	if r.alone.since == 0 {
		r.alone.since = s.Now()
	}
	return r.alone.before > others || r.alone.all > 2*others && others > 0 || others == 0 && s.Now() < r.alone.since+aloneTime
}

// maxRepeats is how many events of one report count.
const maxRepeats = 1 << 20

// trial adds to the record of how often a relay delivers first.
func (r *relay) trial(won, lost int) {
	r.won += won
	r.lost += lost
	if r.won+r.lost > maxTrials {
		r.won, r.lost = r.won/2, r.lost/2
	}
}

// draw draws a relay's lot (Thompson sampling): a value of the beta distribution of how often it
// delivers first, given its record. That is the k-th least of n even random numbers.
func (s *mirror) draw(r *relay) int64 {
	var drawn [maxTrials + 1]int64
	n := r.won + r.lost + 1
	for i := range n {
		drawn[i] = s.Random(1 << 62)
	}
	slices.Sort(drawn[:n])
	return drawn[r.won]
}

// heard returns the items of a relay that have live subscriptions.
func (s *mirror) heard(r *relay) layers.Items {
	switch {
	case r.visitor:
		return layers.Items{}
	case r.liveOnly:
		return r.peer.Wanted(s.Index.ItemsOf(r.live))
	}
	return r.peer.Wanted(s.Index.Targets(r.peer.Number()))
}

// listen opens live subscriptions for items without one. If much of the open content is unwanted,
// or it takes too many filters, listen reopens all of it. A fetch brings missed events: a since in
// a live subscription would exclude new events with old dates. listen reports whether it asks for what is
// stored, too.
func (s *mirror) listen(r *relay) (asked bool) {
	p := r.peer
	if r.secondLevel != layers.NoSecondLevel && r.secondLevel != p.SecondLevel {
		p.SecondLevel = r.secondLevel
		p.Reannounce(live)
		if r.moreSecondLevel {
			p.Fetch(layers.AllSecondLevel, layers.Fetching{Purpose: strategy.PurposeStartup, Holdings: true})
		}
	}
	want, open := s.heard(r), p.Listening()
	more := layers.Plan(want, open, layers.Items{})
	s.Spend(100 + (want.Len()+open.Len())/10)
	missed := both(more, p.Confirmed)
	switch {
	case p.Quiet() && (open.Len()+more.Len() > 2*want.Len()+spare || p.Crowded(more, s.max, true)):
		if p.Replace() {
			s.enqueueWhole(r)
		}
		p.Open(layers.Announcements, live)
		p.Open(layers.Of(want), live)
	default:
		first, later := s.firstAsked(r, more)
		if !first.Empty() {
			how := layers.Opening{Track: true, Purpose: strategy.PurposeStartup}
			if r.whole {
				how.Purpose = r.how.Purpose
			}
			p.Open(layers.Of(first), how)
			asked, r.asked = true, true
		}
		more.RemoveItems(first)
		more.RemoveItems(later)
		p.Open(layers.Of(more), live)
	}
	if r.paged() && r.metAt > r.compared {
		return asked // its turn comes, and pages would bring the same twice
	}
	if !missed.Empty() && r.compared > 0 {
		p.Fetch(layers.Of(missed), layers.Fetching{Since: s.since(r.here(), s.overlapShort), Purpose: strategy.PurposeStartup})
	}
	return asked
}

// firstAsked divides items of a relay without NIP-77 where one REQ brings the past of items, and then what is new.
// A subscription and a fetch would send their values twice. It returns the items for such a REQ now, if the relay has
// its turn, and the items whose REQ comes soon, with its turn or after the turns of others that are asked for them.
func (s *mirror) firstAsked(r *relay, more layers.Items) (first, later layers.Items) {
	p := r.peer
	if !r.paged() {
		return first, later
	}
	unasked := layers.Plan(more, p.Pending(), p.Confirmed)
	switch {
	case unasked.Empty() || !p.FitsOnce(unasked) || p.Crowded(unasked, s.max, false):
		return first, later
	case r.state == running:
	case s.Now() < r.notBefore, r.state == idle && r.compared == 0, r.state == queued && !s.turnIsNext(r):
		return first, later
	default:
		return first, unasked
	}
	first = unasked.Clone()
	for _, other := range s.running {
		if other != r {
			first.RemoveItems(other.peer.Pending())
		}
	}
	if r.compared == 0 || r.metAt <= r.compared && s.Now() < r.metAt+firstTime {
		later = layers.Plan(unasked, first, layers.Items{})
	}
	return first, later
}

// firstTime is how long after its connection a relay may have a first sync.
const firstTime = strategy.Minute

// spare is how many items a relay may be listened to for in vain.
const spare = 50

// since returns the time millis as a filter has it, that many seconds earlier.
func (s *mirror) since(millis, earlier int64) int64 { return max(millis/1000-earlier, 1) }
