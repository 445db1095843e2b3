package loop

import (
	"encoding/json"
	"slices"
	"strconv"

	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// record is what is kept of a relay across restarts.
type record struct {
	LastConnected  int64      `json:"last_connected,omitempty"`
	DisconnectedAt int64      `json:"disconnected_at,omitempty"`
	Negentropy     uint32     `json:"negentropy,omitempty"`
	Learnt         limitsSeen `json:"learnt,omitzero"`
}

// load takes the records that were kept.
func (s *Loop) load(all map[string][]byte) {
	for _, url := range sortedKeys(all) {
		var rec record
		if u, ok := Normalise(url); !ok || u != url || s.own.has(u) || json.Unmarshal(all[url], &rec) != nil {
			continue
		}
		r := s.relay(url)
		if r == nil {
			continue
		}
		// Times ahead of us are from a clock that was wrong.
		r.lastConnected = min(rec.LastConnected, s.clock)
		r.disconnectedAt = min(rec.DisconnectedAt, s.clock)
		if rec.Negentropy == abi.SupportYes {
			r.caps.Negentropy = abi.SupportYes
		}
		r.learnt = rec.Learnt
		r.learnt.At = min(r.learnt.At, s.clock)
		r.learnt.merge(&r.caps)
	}
}

// Records returns the records of relays to save. A relay that is connected was seen just
// now: after a crash that is when it was lost.
func (s *Loop) Records(now int64) map[string][]byte {
	s.tick(now)
	out := make(map[string][]byte)
	for url, r := range s.relays {
		if !s.changed[url] && !r.up {
			continue
		}
		rec := record{LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt, Negentropy: r.caps.Negentropy, Learnt: r.learnt}
		if r.up {
			rec.DisconnectedAt = s.clock
		}
		out[url] = rec.encode()
	}
	for url := range s.changed {
		if s.relays[url] == nil {
			out[url] = nil
		}
	}
	clear(s.changed)
	return out
}

// encode writes a record as JSON. The records of connected relays are written each minute, and
// json.Marshal takes ten times as long.
func (r *record) encode() []byte {
	b := appendNumbers(make([]byte, 0, 256), []number{
		{"last_connected", r.LastConnected}, {"disconnected_at", r.DisconnectedAt}, {"negentropy", int64(r.Negentropy)},
	})
	if l := &r.Learnt; *l != (limitsSeen{}) {
		b = append(b, `,"learnt":`...)
		start := len(b)
		if l.Version != "" {
			version, _ := json.Marshal(l.Version) // of a text: it cannot fail
			b = append(append(b, `,"version":`...), version...)
		}
		b = object(appendNumbers(b, []number{
			{"at", l.At}, {"subscriptions", int64(l.Subscriptions)}, {"values", int64(l.Values)}, {"filters", int64(l.Filters)},
			{"limit", int64(l.Limit)}, {"message", int64(l.Message)}, {"fit", int64(l.Fit)}, {"over", int64(l.Over)}, {"pace", int64(l.Pace)},
		}), start)
	}
	return object(b, 0)
}

type number struct {
	key   string
	value int64
}

// appendNumbers appends the members that are not 0, each after a comma.
func appendNumbers(b []byte, list []number) []byte {
	for _, n := range list {
		if n.value != 0 {
			b = append(append(append(b, `,"`...), n.key...), `":`...)
			b = strconv.AppendInt(b, n.value, 10)
		}
	}
	return b
}

// object makes a JSON object of the members from start on, each of which follows a comma.
func object(b []byte, start int) []byte {
	if len(b) == start {
		return append(b, "{}"...)
	}
	b[start] = '{'
	return append(b, '}')
}

// save keeps what has changed.
func (s *Loop) save() {
	if records := s.Records(s.clock); len(records) > 0 {
		s.saving = true
		s.perform(Save{records})
	}
}

// Saved reports that a Save has ended.
func (s *Loop) Saved(now int64, err error) {
	s.tick(now)
	s.saving = false
	if err != nil {
		s.log(session.Error, "save what is known of relays", "err", err)
	}
}

// Stop ends all connections, and returns the records to save.
func (s *Loop) Stop(now int64) map[string][]byte {
	s.tick(now)
	for _, url := range sortedKeys(s.relays) {
		if r := s.relays[url]; r.conn != 0 {
			s.isDown(r)
		}
	}
	return s.Records(now)
}

// RelayStatus is the status of a relay. Times are unix milliseconds; 0 is none.
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
	Pace           uint32           // messages that it takes in a minute; 0: it has not complained
	LastConnected  int64
	DisconnectedAt int64

	Subscriptions int
	Filters       int          // of these
	Pending       int          // subscriptions and historics whose past is not all here
	CompleteSince int64        // since when nothing is open; 0: something is
	Open          []OpenReason // why it is not complete
	RestUntil     int64        // nothing new is asked for before; 0: it does not rest
	NextCheck     int64        // when the strategy compares all again; 0: not known
	Partial       bool         // a historic of this connection was not complete
	Received      int64        // bytes, of connections that ended

	// The relay has no room for subscriptions to these.
	UncoveredRepositories, UncoveredRoots, UncoveredAuthors uint32
	UncoveredSince                                          int64 // 0: everything has one
}

// Status returns the status of all relays, by URL.
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
		Capabilities: r.caps, Pace: r.learnt.Pace, LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt,
		Subscriptions: len(r.subs), Pending: r.pending(), CompleteSince: r.completeSince, Partial: r.partial, Received: r.received,
	}
	for _, sub := range r.subs {
		st.Filters += sub.count
	}
	if r.up {
		st.RestUntil, st.NextCheck = r.restUntil, r.reported.nextCheck
	}
	for why, at := range r.open {
		if at.count > 0 {
			st.Open = append(st.Open, OpenReason{Incomplete(why), at.count, at.since})
		}
	}
	if u := &r.uncovered; u.any() {
		st.UncoveredRepositories, st.UncoveredRoots, st.UncoveredAuthors, st.UncoveredSince = u.repositories, u.roots, u.authors, u.since
	}
	return st
}

// OpenReason is a reason why a relay is not complete.
type OpenReason struct {
	Why   Incomplete
	Count int   // 1 for what is not counted
	Since int64 // unix milliseconds
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

// CompareAgain starts new comparisons with relays, whatever is known of them: those that
// are up are reconnected. An empty URL is all that are kept. It returns how many, and
// whether the relay is known. A relay's failures stay.
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
		s.disconnectRelay(r, "the operator has a relay compared again")
		s.step(&abi.RelayDisconnected{
			Relay: r.url, Class: abi.ClassOther, Reason: "the operator has it compared again", Connected: true, RetryAt: r.retryAt,
		})
	}
	return count, true
}

// Unbar clears the failures of a relay, connects to it immediately if it is kept, and
// reports whether the relay is known.
func (s *Loop) Unbar(now int64, url string) bool {
	s.tick(now)
	r := s.relays[url]
	if r == nil {
		return false
	}
	s.deps.Health.Reset(url)
	r.retryAt = 0
	s.setState(r, State{})
	s.log(session.Info, "the operator unbars a relay", "relay", url)
	return true
}
