package githttp

import "github.com/prometheus/client_golang/prometheus"

// result is how a request ended; it is a label.
type result uint8

const (
	resultOK result = iota
	resultRefused
	resultNotFound
	resultMalformed
	resultBusy
	resultCutOff
	resultFailed
	results
)

func (r result) String() string {
	return [results]string{"ok", "refused", "not-found", "malformed", "busy", "cut-off", "failed"}[r]
}

// verb is what a request asks for; it is a label.
type verb uint8

const (
	verbRefs verb = iota
	verbFetch
	verbPush
	verbs
)

func (v verb) String() string { return [verbs]string{"info-refs", "fetch", "push"}[v] }

type metrics struct {
	all            []prometheus.Collector
	requests       [verbs][results]prometheus.Counter
	seconds        [verbs]prometheus.Observer
	running        [verbs]prometheus.Gauge
	lockSeconds    prometheus.Observer
	cpuSeconds     prometheus.Observer
	received, sent prometheus.Counter
}

func newMetrics() *metrics {
	m := new(metrics)
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "talon_git_requests_total", Help: "Requests of git clients that were answered, by what they asked and how it ended.",
	}, []string{"verb", "result"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_git_request_seconds", Help: "From a request's headers to the end of its answer.",
		Buckets: prometheus.ExponentialBuckets(0.002, 4, 10),
	}, []string{"verb"})
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "talon_git_running", Help: "Git processes that work for a client now.",
	}, []string{"verb"})
	lock := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "talon_git_lock_wait_seconds", Help: "How long pushes waited for the lock of their repository.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 8, 8),
	})
	cpu := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "talon_git_push_cpu_seconds", Help: "Processor time that git worked for a push.",
		Buckets: prometheus.ExponentialBuckets(0.01, 8, 7),
	})
	received := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "talon_git_received_bytes_total", Help: "Bytes of the bodies of requests, as they came over the wire.",
	})
	sent := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "talon_git_sent_bytes_total", Help: "Bytes of the bodies of answers.",
	})
	m.lockSeconds, m.cpuSeconds, m.received, m.sent = lock, cpu, received, sent
	for v := range verbs {
		m.seconds[v] = seconds.WithLabelValues(v.String())
		m.running[v] = running.WithLabelValues(v.String())
		for r := range results {
			m.requests[v][r] = requests.WithLabelValues(v.String(), r.String())
		}
	}
	m.all = []prometheus.Collector{requests, seconds, running, lock, cpu, received, sent}
	return m
}
