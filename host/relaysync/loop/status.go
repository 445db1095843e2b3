package loop

import (
	"slices"

	"talon/sdk/abi"
)

// RelayStatus is how it stands with a relay. Times are unix milliseconds; 0 is none.
type RelayStatus struct {
	URL       string
	Conn      ConnID // 0: nothing is under way
	Up        bool   // the connection can be used
	Bootstrap bool
	Kept      bool   // the strategy, or the operator, wants it
	Why       string // the strategy wants it, or not

	State       State
	LastError   string // how the latest attempt or connection ended; hostile text
	NextAttempt int64

	Capabilities   abi.Capabilities // what the relay says, or showed
	LastConnected  int64
	DisconnectedAt int64

	Subscriptions int
	Filters       int   // of these
	Pending       int   // subscriptions and historics whose past is not all here
	CompleteSince int64 // since when nothing is
	Partial       bool  // a historic of this connection was not complete
	Received      int64 // bytes, of connections that ended
}

// Status returns how it stands with all relays, by URL.
func (s *Loop) Status() []RelayStatus {
	list := make([]RelayStatus, 0, len(s.relays))
	for _, url := range sortedKeys(s.relays) {
		list = append(list, s.relays[url].status())
	}
	return list
}

func (r *relay) status() RelayStatus {
	st := RelayStatus{
		URL: r.url, Conn: r.conn, Up: r.up, Bootstrap: r.bootstrap, Kept: r.kept(), Why: r.reason,
		State: r.state, LastError: r.last.Reason, NextAttempt: r.retryAt,
		Capabilities: r.caps, LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt,
		Subscriptions: len(r.subs), Pending: r.pending(), CompleteSince: r.completeSince, Partial: r.partial, Received: r.received,
	}
	for _, sub := range r.subs {
		st.Filters += sub.count
	}
	return st
}

// RepositoryStatus is a repository that is ours.
type RepositoryStatus struct {
	Address string
	Held    bool // its announcement is held, not stored
	Relays  []string
}

// Repositories returns the repositories that are ours, by address.
func (s *Loop) Repositories() []RepositoryStatus {
	list := make([]RepositoryStatus, 0, len(s.repos))
	for _, address := range sortedKeys(s.repos) {
		r := s.repos[address]
		list = append(list, RepositoryStatus{Address: address, Held: r.level == abi.SyncLevelState, Relays: slices.Clone(r.relays)})
	}
	return list
}

// CompareAgain has relays compared again, whatever is known of them: those that are up
// are connected to anew. An empty URL is all that are kept. It returns how many, and
// whether the relay is known. What speaks against a relay holds.
func (s *Loop) CompareAgain(now int64, url string) (count int, known bool) {
	s.tick(now)
	urls := []string{url}
	if url == "" {
		urls = sortedKeys(s.relays)
	} else if s.relays[url] == nil {
		return 0, false
	}
	for _, u := range urls {
		r := s.relays[u]
		if r == nil || !r.kept() {
			continue // a step before may have ended it
		}
		count++
		r.compareAgain = true
		if !r.up {
			continue
		}
		s.hangUp(r, "the operator has a relay compared again")
		s.step(&abi.RelayDisconnected{
			Relay: r.url, Class: abi.ClassOther, Reason: "the operator has it compared again", Connected: true, RetryAt: r.retryAt,
		})
	}
	return count, true
}

// Unbar forgets what has spoken against a relay, which is then connected to at once if it
// is kept, and reports whether the relay is known.
func (s *Loop) Unbar(now int64, url string) bool {
	s.tick(now)
	r := s.relays[url]
	if r == nil {
		return false
	}
	s.deps.Health.Reset(url)
	r.retryAt, s.dialAt = 0, 0
	s.setState(r, State{})
	s.log(Info, "the operator unbars a relay", "relay", url)
	return true
}
