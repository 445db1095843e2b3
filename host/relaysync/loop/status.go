package loop

import (
	"slices"
	"strings"

	"talon/sdk/abi"
)

// RelayStatus is how it stands with a relay. Times are unix milliseconds, lengths of time
// milliseconds; 0 is none.
type RelayStatus struct {
	URL            string `json:"url"`
	Bootstrap      bool   `json:"bootstrap,omitempty"`
	Wanted         bool   `json:"wanted"`
	Priority       uint32 `json:"priority,omitempty"`
	Reason         string `json:"reason,omitempty"` // why the strategy wants it
	Connection     string `json:"connection"`       // none, dialing, connected
	ConnectedSince int64  `json:"connected_since,omitempty"`
	LastConnected  int64  `json:"last_connected,omitempty"`
	DisconnectedAt int64  `json:"disconnected_at,omitempty"`

	Health       string `json:"health"` // unknown, healthy, degraded, dead
	HealthReason string `json:"health_reason,omitempty"`
	Failures     int    `json:"failures,omitempty"` // in a row
	FailingFor   int64  `json:"failing_for,omitempty"`
	LastError    string `json:"last_error,omitempty"` // how the latest attempt or connection ended; hostile text
	NextAttempt  int64  `json:"next_attempt,omitempty"`

	Limits LearntLimits `json:"limits"` // what the relay says, or showed

	Subscriptions []OpenStatus `json:"subscriptions,omitempty"`
	Historics     []OpenStatus `json:"historics,omitempty"`
	Open          int          `json:"open"`    // subscriptions that everything stored has come for
	Pending       int          `json:"pending"` // subscriptions and historics for which that is to come
	CompleteSince int64        `json:"complete_since,omitempty"`
	Partial       bool         `json:"partial,omitempty"` // a historic of this connection was not complete

	Received int64 `json:"received_bytes"` // of this connection
}

// LearntLimits is what a relay takes; 0 is not known.
type LearntLimits struct {
	Negentropy    string `json:"negentropy"` // unknown, yes, no
	Subscriptions uint32 `json:"subscriptions,omitempty"`
	Filters       uint32 `json:"filters,omitempty"`
	Limit         uint32 `json:"limit,omitempty"`
	MessageBytes  uint32 `json:"message_bytes,omitempty"`
	Auth          bool   `json:"auth,omitempty"`
}

// OpenStatus is a subscription or a historic.
type OpenStatus struct {
	ID       string `json:"id"`
	Live     bool   `json:"live,omitempty"`
	Complete bool   `json:"complete"` // everything stored has come
	Purpose  uint32 `json:"purpose,omitempty"`
}

// Status returns how it stands with all relays, by URL.
func (s *Loop) Status() []RelayStatus {
	list := make([]RelayStatus, 0, len(s.relays))
	for _, r := range s.relays {
		list = append(list, r.status())
	}
	slices.SortFunc(list, func(a, b RelayStatus) int { return strings.Compare(a.URL, b.URL) })
	return list
}

func (r *relay) status() RelayStatus {
	st := RelayStatus{
		URL: r.url, Bootstrap: r.bootstrap, Wanted: r.wanted, Priority: r.priority, Reason: r.reason, Connection: "none",
		LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt,
		Health: r.state.Status.String(), HealthReason: r.state.Reason, Failures: r.state.Failures, FailingFor: r.state.Failing,
		LastError: r.last.Reason, Pending: r.pending(), CompleteSince: r.completeSince, Partial: r.partial,
		Limits: LearntLimits{
			Negentropy: [...]string{"unknown", "yes", "no"}[min(r.caps.Negentropy, abi.SupportNo)], Subscriptions: r.caps.MaxSubscriptions,
			Filters: r.caps.MaxFilters, Limit: r.caps.MaxLimit, MessageBytes: r.caps.MaxMessage, Auth: r.caps.AuthRequired,
		},
	}
	switch {
	case r.up:
		st.Connection, st.ConnectedSince = "connected", r.since
	case r.conn != 0:
		st.Connection = "dialing"
	case r.kept():
		st.NextAttempt = r.retryAt
	}
	for _, id := range sortedKeys(r.subs) {
		sub := r.subs[id]
		st.Subscriptions = append(st.Subscriptions, OpenStatus{ID: id, Live: sub.live, Complete: sub.eose, Purpose: sub.purpose})
		if sub.eose {
			st.Open++
		}
	}
	for _, id := range sortedKeys(r.hists) {
		st.Historics = append(st.Historics, OpenStatus{ID: id, Purpose: r.hists[id].purpose})
	}
	return st
}

// Conn returns the connection of a relay, 0 if it has none that is up.
func (s *Loop) Conn(url string) ConnID {
	if r := s.relays[url]; r != nil && r.up {
		return r.conn
	}
	return 0
}

// RepositoryStatus is a repository that is ours.
type RepositoryStatus struct {
	Address string   `json:"address"`
	Full    bool     `json:"full"` // its announcement is stored, not only held
	Relays  []string `json:"relays,omitempty"`
}

// Repositories returns the repositories that are ours, by address.
func (s *Loop) Repositories() []RepositoryStatus {
	list := make([]RepositoryStatus, 0, len(s.repos))
	for _, address := range sortedKeys(s.repos) {
		r := s.repos[address]
		list = append(list, RepositoryStatus{Address: address, Full: r.level == abi.SyncLevelFull, Relays: slices.Clone(r.relays)})
	}
	return list
}
