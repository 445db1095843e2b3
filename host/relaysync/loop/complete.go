package loop

import (
	"hash/maphash"
	"slices"

	"talon/host"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// Incomplete is a reason why a relay that is connected is not complete.
type Incomplete uint8

// Reasons. Those of the strategy's report hold until its next report.
const (
	IncompleteNothing      Incomplete = iota // nothing was asked for yet
	IncompleteStored                         // subscriptions and historics whose stored events have not all come
	IncompletePast                           // the strategy says that it has not fetched all
	IncompleteOldDates                       // it says that events with old dates, from an absence, are not fetched
	IncompleteClosed                         // it says that the relay closed a subscription that is to be opened again
	IncompleteRepositories                   // repositories that list the relay and have no subscription there
	IncompleteRoots                          // root events that have none, for want of room
	IncompleteAuthors                        // authors of comments whose deletions have none, for want of room
	IncompleteRest                           // the relay rests: nothing new is asked for
	IncompletePartial                        // a historic was cut short, and the strategy reports no progress
)

// Reasons is the number of reasons.
const Reasons = int(IncompletePartial) + 1

func (why Incomplete) String() string {
	return [Reasons]string{"nothing asked", "stored events", "comparison", "old dates", "closed subscriptions", "repositories", "root events", "authors", "rest", "cut short"}[why]
}

// reason is how much of a reason there is at a relay, and since when.
type reason struct {
	count int   // 0: none
	since int64 // unix milliseconds
}

// reasonsOf returns the reasons why a connected relay is not complete. It alone decides that:
// the status, the metrics and the coverage of repositories read what [Loop.progress] keeps.
func (s *Loop) reasonsOf(r *relay) (counts [Reasons]int) {
	flag := func(why Incomplete, set bool) {
		if set {
			counts[why] = 1
		}
	}
	flag(IncompleteNothing, len(r.subs) == 0 && !r.productive)
	counts[IncompleteStored] = r.pending()
	flag(IncompletePast, r.reported.past)
	flag(IncompleteOldDates, r.reported.oldDates)
	flag(IncompleteClosed, r.reported.closed)
	flag(IncompleteRest, r.restUntil > s.clock)
	flag(IncompletePartial, r.partial && !r.reports)
	counts[IncompleteRoots] = int(r.uncovered.roots)
	counts[IncompleteAuthors] = int(r.uncovered.authors)
	counts[IncompleteRepositories] = max(int(r.uncovered.repositories), s.unheard(r))
	return counts
}

// progress notes what is open at a relay, and since when nothing is.
func (s *Loop) progress(r *relay) {
	var counts [Reasons]int
	complete := r.up
	if r.up {
		counts = s.reasonsOf(r)
	}
	for why, count := range counts {
		switch at := &r.open[why]; {
		case count == 0:
			*at = reason{}
		case at.count == 0:
			*at = reason{count, s.clock}
		default:
			at.count = count
		}
		complete = complete && count == 0
	}
	switch {
	case !complete:
		r.completeSince = 0
	case r.completeSince == 0:
		r.completeSince = s.clock
		r.uncovered.since = 0
	}
	if complete != (r.counted.complete == 1) {
		s.update(r)
		value := 0
		if complete {
			value = 1
		}
		s.perform(MetricChange{What: MeasuredComplete, Relay: r.url, Value: value})
	}
}

// report is what a strategy reports of a relay.
type report struct {
	past, closed, oldDates bool
	nextCheck              int64 // unix milliseconds; 0: not known
}

// setProgress takes a strategy's report.
func (s *Loop) setProgress(r *relay, a *abi.StepAction) {
	r.reported = report{past: a.Past, closed: a.Closed, oldDates: a.OldDates, nextCheck: a.NextCheck}
	r.reports, s.reports = true, true
	if r.back {
		r.back = false
		s.countReconnection(a.Anew)
	}
	s.progress(r)
}

// reconnected counts a connection after one that was lost. A strategy that reports progress says
// whether the absence was too long to continue.
func (s *Loop) reconnected(r *relay) {
	r.back, r.away = s.reports, s.clock-r.disconnectedAt
	if !s.reports {
		s.countReconnection(r.away > shortAbsence)
	}
}

func (s *Loop) countReconnection(long bool) {
	if long {
		s.stats.Reconnections[1]++
	} else {
		s.stats.Reconnections[0]++
	}
}

// shortAbsence is how long what is known of a relay counts for a strategy that does not report
// progress. The source documents have this time.
const shortAbsence = 15 * minute

// rest notes that nothing new is asked of a relay for a time.
func (s *Loop) rest(r *relay, wait int64) {
	r.restUntil = max(r.restUntil, s.clock+wait)
	s.update(r)
	s.progress(r)
	s.perform(Execute{r.conn, session.CoolDown{Until: s.clock + wait}})
}

// listed has the repositories that are ours by the relays that they list, as hashes of their
// addresses. Repositories whose announcement is held are not in it: of these, nothing is
// wanted that tags them.
type listed struct {
	seed  maphash.Seed
	repos map[string]map[uint64]struct{}
}

func newListed() listed {
	return listed{maphash.MakeSeed(), make(map[string]map[uint64]struct{})}
}

func (l *listed) hash(address string) uint64 { return maphash.String(l.seed, address) }

func (l *listed) add(address string, r *repo) {
	if r == nil || r.level != abi.SyncLevelFull {
		return
	}
	for _, url := range r.relays {
		if l.repos[url] == nil {
			l.repos[url] = make(map[uint64]struct{})
		}
		l.repos[url][l.hash(address)] = struct{}{}
	}
}

func (l *listed) remove(address string, r *repo) {
	if r == nil {
		return
	}
	for _, url := range r.relays {
		if delete(l.repos[url], l.hash(address)); len(l.repos[url]) == 0 {
			delete(l.repos, url)
		}
	}
}

// relist notes that a repository has changed.
func (s *Loop) relist(address string, was, now *repo) {
	s.listed.remove(address, was)
	s.listed.add(address, now)
	for _, list := range []*repo{was, now} {
		if list == nil {
			continue
		}
		for _, url := range list.relays {
			if r := s.relays[url]; r != nil && r.up {
				s.progress(r)
			}
		}
	}
}

// relistAll notes that all repositories were read.
func (s *Loop) relistAll() {
	clear(s.listed.repos)
	for address, r := range s.repos {
		s.listed.add(address, r)
	}
	for _, url := range sortedKeys(s.relays) {
		if r := s.relays[url]; r.up {
			s.progress(r)
		}
	}
}

// unheard returns how many repositories that list a relay have no open subscription there.
func (s *Loop) unheard(r *relay) (count int) {
	if r.wide > 0 {
		return 0
	}
	for hash := range s.listed.repos[r.url] {
		if r.heard[hash] == 0 {
			count++
		}
	}
	return count
}

// heardBy returns the repositories for which filters ask for whatever tags them by a, as
// hashes of their addresses. wide says that one of the filters asks for everything.
func (s *Loop) heardBy(filters []abi.Filter) (repos []uint64, wide bool) {
	for i := range filters {
		f := &filters[i]
		narrow := len(f.Kinds) > 0 && slices.ContainsFunc(rootKinds, func(k host.Kind) bool { return !slices.Contains(f.Kinds, uint32(k)) })
		switch {
		case narrow || len(f.IDs)+len(f.Authors) > 0 || f.Until != nil:
		case len(f.Tags) == 0:
			wide = true
		case len(f.Tags) == 1 && f.Tags[0].Name == "a":
			for _, address := range f.Tags[0].Values {
				repos = append(repos, s.listed.hash(address))
			}
		}
	}
	return repos, wide
}

// countHeard notes that a subscription is open, or is not any more.
func (r *relay) countHeard(sub *subRecord, sign int32) {
	if sub.wide {
		r.wide += int(sign)
	}
	for _, repo := range sub.repos {
		if r.heard == nil {
			r.heard = make(map[uint64]int32)
		}
		if r.heard[repo] += sign; r.heard[repo] <= 0 {
			delete(r.heard, repo)
		}
	}
}

// forgetSub forgets a subscription.
func (r *relay) forgetSub(id string) {
	if sub := r.subs[id]; sub != nil {
		if sub.eose {
			r.countHeard(sub, -1)
		}
		delete(r.subs, id)
	}
}
