package gitfetch

import (
	"time"

	"talon/host/gitfetch/queue"
	"talon/sdk/abi"
)

// Status is the status of the hunt, for the operator.
type Status struct {
	Waiting      int                `json:"waiting"`      // searches
	Requests     int                `json:"requests"`     // that are under way
	Repositories []RepositoryStatus `json:"repositories"` // those that are due first
	Domains      []DomainStatus     `json:"domains"`      // the busiest first
}

// RepositoryStatus is the status of a search.
type RepositoryStatus struct {
	Identifier string    `json:"identifier"`
	Repository string    `json:"repository"` // an address of the identifier, 30617:pubkey:d
	Since      time.Time `json:"since"`
	Expires    time.Time `json:"expires"`
	Next       time.Time `json:"next,omitzero"` // the next round; none during one
	Rounds     int       `json:"rounds"`        // since its latest event
	Missing    int       `json:"missing"`       // objects, at the latest look
	Asking     []string  `json:"asking"`        // URLs that are being asked
	WaitsFor   []string  `json:"waits_for"`     // domains that have no room
	Refused    []Refused `json:"refused,omitempty"`
	Last       *Request  `json:"last,omitempty"`
}

// Refused is a URL of an event that is not asked. At most five of a search are kept.
type Refused struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// DomainStatus is the status of a domain.
type DomainStatus struct {
	Domain     string    `json:"domain"`
	InFlight   int       `json:"in_flight"`
	Waiting    int       `json:"waiting"` // repositories
	Requests   uint64    `json:"requests"`
	LastMinute int       `json:"last_minute"` // requests
	Health     string    `json:"health"`
	Failures   int       `json:"failures"` // in a row
	Failing    time.Time `json:"failing_since,omitzero"`
	NotBefore  time.Time `json:"not_before,omitzero"`
	Reason     string    `json:"reason,omitempty"`
	Last       *Request  `json:"last,omitempty"`
}

// Request is a request that has ended.
type Request struct {
	At      time.Time `json:"at"`
	URL     string    `json:"url"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
}

// Status returns the status of the hunt, with at most the given number of repositories
// and of domains.
func (h *Hunter) Status(limit int) Status {
	h.mu.Lock()
	h.tell()
	repositories, domains := h.queue.Repositories(limit), h.queue.Domains(h.now(), limit)
	s := Status{Waiting: h.queue.Len(), Requests: h.queue.InFlight()}
	h.mu.Unlock()
	s.Repositories, s.Domains = make([]RepositoryStatus, len(repositories)), make([]DomainStatus, len(domains))
	for i := range repositories {
		s.Repositories[i] = repositoryStatus(&repositories[i])
	}
	for i := range domains {
		d := &domains[i]
		s.Domains[i] = DomainStatus{
			Domain: d.Name, InFlight: d.InFlight, Waiting: d.Waiting, Requests: d.Requests, LastMinute: d.LastMinute,
			Health: healthName(d.Health), Failures: int(d.Failures), Failing: at(d.FailingSince), NotBefore: at(d.NotBefore),
			Reason: d.Reason, Last: lastOf(d.Last),
		}
	}
	return s
}

// Search returns the status of the search for an identifier, and false if there is none.
func (h *Hunter) Search(identifier string) (RepositoryStatus, bool) {
	h.mu.Lock()
	h.tell()
	r, ok := h.queue.Repository(identifier)
	h.mu.Unlock()
	if !ok {
		return RepositoryStatus{}, false
	}
	return repositoryStatus(&r), true
}

func repositoryStatus(r *queue.Repository) RepositoryStatus {
	var refused []Refused
	for _, u := range r.Refused {
		refused = append(refused, Refused(u))
	}
	return RepositoryStatus{
		Identifier: r.Key, Repository: r.Name, Since: at(r.Since), Expires: at(r.Expires), Next: at(r.Next),
		Rounds: int(r.Attempts), Missing: int(r.Missing), Asking: r.Asking, WaitsFor: r.Waiting, Refused: refused, Last: lastOf(r.Last),
	}
}

func lastOf(l queue.Last) *Request {
	if l.At == 0 {
		return nil
	}
	return &Request{at(l.At), l.URL, OutcomeName(l.Outcome), l.Reason}
}

func at(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

func healthName(health uint32) string {
	switch health {
	case abi.HealthHealthy:
		return "healthy"
	case abi.HealthDegraded:
		return "degraded"
	case abi.HealthDead:
		return "dead"
	case abi.HealthBarred:
		return "barred"
	}
	return "unknown"
}
