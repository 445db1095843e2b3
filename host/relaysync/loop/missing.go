package loop

import "talon/host/relaysync/session"

// missing gathers what comparisons show that relays lack, so that the log has one line a
// relay and hour: a relay that is new to a repository lacks much, and each of its filters
// is compared by itself.
type missing struct {
	relays map[string]*missingAt
	next   int64 // unix milliseconds; nothing is due before
}

type missingAt struct {
	count       uint32 // since the last line
	comparisons int
	example     *session.MissingAtRelay // of the last comparison
	next        int64                   // unix milliseconds; no line before
}

// missingEvery is between two lines about one relay.
const missingEvery = 60 * minute

func newMissing() missing { return missing{relays: make(map[string]*missingAt), next: never} }

func (m *missing) add(relay string, count uint32, example *session.MissingAtRelay) {
	at := m.relays[relay]
	if at == nil {
		at = new(missingAt)
		m.relays[relay] = at
	}
	m.next = min(m.next, at.next)
	at.count += count
	at.comparisons++
	at.example = example
}

// log writes the lines that are due, and forgets relays about which there was nothing to
// say for an hour.
func (m *missing) log(s *Loop) {
	if s.clock < m.next {
		return
	}
	m.next = never
	for _, relay := range sortedKeys(m.relays) {
		at := m.relays[relay]
		if s.clock < at.next {
			m.next = min(m.next, at.next)
			continue
		}
		if at.count == 0 {
			delete(m.relays, relay)
			continue
		}
		attrs := []any{"relay", relay, "count", at.count, "event", at.example.Event}
		switch repos := at.example.Repositories; {
		case at.comparisons > 1:
			attrs = append(attrs, "comparisons", at.comparisons)
		case len(repos) == 1:
			attrs = append(attrs, "repo", repos[0])
		case len(repos) > 1:
			attrs = append(attrs, "repos", len(repos))
		}
		s.log(Warn, "the relay lacks events that are here", attrs...)
		*at = missingAt{next: s.clock + missingEvery}
		m.next = min(m.next, at.next)
	}
}
