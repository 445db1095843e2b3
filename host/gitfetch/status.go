package gitfetch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/gitfetch/queue"
	"talon/host/throttle"
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
type Refused = queue.Refused

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
	h.drainPending()
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
	h.drainPending()
	r, ok := h.queue.Repository(identifier)
	h.mu.Unlock()
	if !ok {
		return RepositoryStatus{}, false
	}
	return repositoryStatus(&r), true
}

func repositoryStatus(r *queue.Repository) RepositoryStatus {
	return RepositoryStatus{
		Identifier: r.Key, Repository: r.Name, Since: at(r.Since), Expires: at(r.Expires), Next: at(r.Next),
		Rounds: int(r.Attempts), Missing: int(r.Missing), Asking: r.Asking, WaitsFor: r.Waiting, Refused: r.Refused, Last: lastOf(r.Last),
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

// maxLabels bounds how many domains have a label of their own: the first ones do.
const maxLabels = 100

// outcomes are the labels of results, by their number in package abi.
var outcomes = [...]string{
	abi.OutcomeUnspecified: "ours", abi.OutcomeOK: "ok", abi.OutcomePartial: "partial", abi.OutcomeNotFound: "not-found",
	abi.OutcomeRateLimited: "rate-limited", abi.OutcomeRefused: "refused", abi.OutcomeServer: "server", abi.OutcomeTimeout: "timeout",
	abi.OutcomeUnreachable: "unreachable", abi.OutcomeDNS: "dns", abi.OutcomeTLS: "tls", abi.OutcomeProtocol: "protocol",
	abi.OutcomeTooLarge: "too-large",
}

// OutcomeName returns an outcome of package abi as a word.
func OutcomeName(outcome uint32) string {
	if outcome < uint32(len(outcomes)) {
		return outcomes[outcome]
	}
	return "unknown"
}

// metrics are those that the source document plans, and more. Their prefix is the
// operator's.
type metrics struct {
	all []prometheus.Collector

	attempts prometheus.Counter
	objects  prometheus.Counter
	bytes    prometheus.Counter
	ended    [queue.Ends]prometheus.Counter
	age      prometheus.Observer
	results  [len(outcomes)]prometheus.Counter
	seconds  prometheus.Observer
	failures [throttle.Questions]prometheus.Counter

	inFlight *prometheus.GaugeVec
	requests *prometheus.CounterVec
	labels   map[string]bool // guarded by Hunter.mu
}

func newMetrics(prefix string, size func() float64) *metrics {
	name := func(s string) string { return prefix + "_purgatory_" + s }
	counter := func(s, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name(s), Help: help})
	}
	m := &metrics{labels: make(map[string]bool)}
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: name("sync_queue_size"), Help: "Repositories whose git data is searched for.",
	}, size)
	m.attempts = counter("sync_attempts_total", "Rounds of searches over all URLs of a repository.")
	m.objects = counter("sync_oids_fetched_total", "Objects that were missing and have been fetched.")
	m.bytes = counter("sync_bytes_total", "Bytes that git servers have sent.")
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name("sync_ended_total"), Help: "Searches that have ended, by how: complete also when a push brought the data.",
	}, []string{"how"})
	for e := range m.ended {
		m.ended[e] = ended.WithLabelValues(queue.Outcome(e).String())
	}
	age := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name("sync_age_seconds"), Help: "From a search's beginning to its end.", Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600},
	})
	m.age = age
	results := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name("sync_results_total"), Help: "Requests to git servers that have ended, by their outcome.",
	}, []string{"outcome"})
	for o, label := range outcomes {
		m.results[o] = results.WithLabelValues(label)
	}
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name("sync_request_seconds"), Help: "How long requests to git servers took.", Buckets: prometheus.ExponentialBuckets(0.05, 2.5, 10),
	})
	m.seconds = seconds
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name("sync_throttle_failures_total"), Help: "Questions that the throttle module did not answer.",
	}, []string{"question"})
	for q := range m.failures {
		m.failures[q] = failures.WithLabelValues(throttle.Function(q).String())
	}
	m.inFlight = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: name("domain_in_flight"), Help: "Requests to a domain that are under way.",
	}, []string{"domain"})
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name("domain_requests_total"), Help: "Requests to a domain.",
	}, []string{"domain"})
	m.all = []prometheus.Collector{
		queued, m.attempts, m.objects, m.bytes, ended, age, results, seconds, failures, m.inFlight, m.requests,
	}
	return m
}

// label returns the label of a domain. REQUIRES: Hunter.mu.
func (m *metrics) label(domain string) string {
	if !m.labels[domain] {
		if len(m.labels) >= maxLabels {
			return "other"
		}
		m.labels[domain] = true
	}
	return domain
}

func (m *metrics) started(label string) {
	m.inFlight.WithLabelValues(label).Inc()
	m.requests.WithLabelValues(label).Inc()
}

func (m *metrics) done(label string, r *queue.Result, took time.Duration) {
	m.inFlight.WithLabelValues(label).Dec()
	m.objects.Add(float64(r.Found))
	m.bytes.Add(float64(r.Bytes))
	m.seconds.Observe(took.Seconds())
	if r.Outcome < uint32(len(m.results)) {
		m.results[r.Outcome].Inc()
	}
}
