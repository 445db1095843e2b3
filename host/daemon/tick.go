package daemon

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/config"
	"talon/host/contain"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/relay"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// tickEvery is how often the throttle says what clients may do. It is short enough
// that relief comes before clients give up (30 seconds for most), and long enough that
// a single large answer or commit is not called load.
const tickEvery = 10 * time.Second

// Limits that no module can go below. A client still reads and writes with them, slowly.
const (
	minConnections   = 1
	minSubscriptions = 4 // an ordinary client's, of one page
	minFilters       = 1
	minEvents        = 10
	minQueries       = 20
	minBytesOut      = 16 << 10
)

// ticks asks the throttle module what clients may do, and keeps its answer.
type ticks struct {
	module  tickModule
	cfg     tickConfig
	current atomic.Pointer[host.ClientLimits]

	failures prometheus.Counter
	said     time.Time // when a failure was logged last; belongs to the goroutine of Run
}

// tickModule is the throttle module. *plugin.Reducer is one.
type tickModule interface {
	Call(ctx context.Context, f guest.Func, request []byte, now int64) (answer []byte, fresh bool, err error)
	Changed() <-chan struct{}
}

// tickConfig is what ticks need to know of the host.
type tickConfig struct {
	min, max    host.ClientLimits
	queue       int // events that may wait for the writer
	usage       func() (cpu time.Duration, memory int64)
	processors  int
	memoryLimit int64 // 0: none
	log         *slog.Logger
	now         func() time.Time
	panics      *contain.Guard // around each tick; may be nil
}

func (d *Daemon) openTicks(core *Core) *ticks {
	low, limit := clientClamps(d.cfg)
	return newTicks(core.Plugins.Reducer(manifest.WorldThrottle, nil), tickConfig{
		min: low, max: limit,
		queue:       d.cfg.Queue,
		usage:       usage,
		processors:  runtime.GOMAXPROCS(0),
		memoryLimit: memoryLimit(),
		log:         d.log,
		now:         time.Now,
		panics:      d.parts,
	})
}

// clientClamps returns the operator's limits. limit has the configured limits of a client, and low
// the part that no module can take away. max-message-rate is not among them: it is for floods, and
// holds in addition to the limits of a module.
func clientClamps(cfg *config.Config) (low, limit host.ClientLimits) {
	limit = host.ClientLimits{
		Connections:   int64(cfg.ConnectionsPer),
		Subscriptions: int64(cfg.Subscriptions),
		Filters:       int64(cfg.Filters),
	}
	low = host.ClientLimits{
		Connections:   minConnections,
		Subscriptions: minSubscriptions,
		Filters:       minFilters,
		Events:        minEvents,
		Queries:       minQueries,
		// The largest message must come through in half the time that it may take.
		BytesIn:  max(16<<10, cfg.Message*2/int64(relay.DefaultLimits.MessageTime/time.Second)),
		BytesOut: minBytesOut,
	}
	// An operator may want less.
	return low.Within(host.ClientLimits{}, limit), limit
}

func newTicks(module tickModule, cfg tickConfig) *ticks {
	t := &ticks{module: module, cfg: cfg}
	t.current.Store(&cfg.max)
	t.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "talon_client_limits_failures_total",
		Help: "Ticks without a valid answer of the throttle module, after which the limits of clients stayed.",
	})
	return t
}

// Limits returns what each client may do now.
func (t *ticks) Limits() host.ClientLimits { return *t.current.Load() }

// Run asks the module at intervals until ctx ends.
func (t *ticks) Run(ctx context.Context, telemetry func() relay.Telemetry, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	before, _ := t.cfg.usage()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		cpu, memory := t.cfg.usage()
		_ = t.cfg.panics.Run(func() error { // limits stay as they were after a panic
			t.tick(ctx, telemetry(), cpu-before, memory)
			return nil
		})
		before = cpu
	}
}

// tick asks the module once. Limits belong to the module that set them: after a swap
// the next one begins with the operator's. An error leaves them as they are.
func (t *ticks) tick(ctx context.Context, seen relay.Telemetry, cpu time.Duration, memory int64) {
	old := t.Limits()
	limits := old
	select {
	case <-t.module.Changed():
		limits = t.cfg.max
	default:
	}
	now := t.cfg.now()
	request := abi.TickRequest{
		Now:       now.UnixMilli(),
		Telemetry: t.telemetry(seen, cpu, memory),
		Current:   toModule(limits),
		Least:     toModule(t.cfg.min),
		Most:      toModule(t.cfg.max),
	}
	var answer abi.TickAnswer
	b, _, err := t.module.Call(ctx, guest.ThrottleTick, abi.AppendTickRequest(nil, &request), now.Unix())
	if err == nil {
		answer, err = abi.DecodeTickAnswer(b)
	}
	switch {
	case errors.Is(err, plugin.ErrNoPlugin):
		limits = t.cfg.max
	case err != nil:
		t.failed(ctx, err, now)
	case answer.Set:
		limits = fromModule(answer.Limits).Within(t.cfg.min, t.cfg.max)
	}
	if limits != old {
		t.current.Store(&limits)
		t.cfg.log.Info("what clients may do has changed", "connections", limits.Connections, "subscriptions", limits.Subscriptions,
			"filters", limits.Filters, "events", limits.Events, "queries", limits.Queries, "bytes-in", limits.BytesIn, "bytes-out", limits.BytesOut)
	}
}

// failed counts the faults of the module, and logs one a minute. A module without ticks has no
// fault.
func (t *ticks) failed(ctx context.Context, err error, now time.Time) {
	wrong := new(abi.AnswerError)
	if ctx.Err() != nil || guest.AsFailure(err) == nil && !errors.Is(err, abi.ErrMalformed) && !errors.As(err, &wrong) {
		t.cfg.log.Debug("the throttle is not asked about clients", "err", err)
		return
	}
	t.failures.Inc()
	if since := now.Sub(t.said); since >= time.Minute || since < 0 {
		t.said = now
		t.cfg.log.Warn("the throttle does not say what clients may do: it stays as it is", "err", err)
	}
}

func (t *ticks) telemetry(seen relay.Telemetry, cpu time.Duration, memory int64) abi.Telemetry {
	share := 0.0
	if all := seen.Interval.Seconds() * float64(t.cfg.processors); all > 0 {
		share = min(max(cpu.Seconds()/all, 0), 1)
	}
	return abi.Telemetry{
		Interval:      seen.Interval.Milliseconds(),
		CPU:           share,
		Memory:        memory,
		MemoryLimit:   t.cfg.memoryLimit,
		Connections:   uint32(seen.Connections),
		Subscriptions: uint32(seen.Subscriptions),
		Events:        seen.Events,
		Queries:       seen.Queries,
		BytesIn:       seen.BytesIn,
		BytesOut:      seen.BytesOut,
		Queue:         uint32(max(seen.InFlight, 0)),
		QueueLimit:    uint32(t.cfg.queue),
		AnswerTime:    seen.AnswerTime.Microseconds(),
		SlowClients:   uint32(seen.SlowClients),
	}
}

// toModule converts limits for a module. A limit that its numbers cannot hold becomes no limit.
func toModule(l host.ClientLimits) abi.ClientLimits {
	small := func(n int64) uint32 {
		if n > math.MaxUint32 {
			return 0
		}
		return uint32(n)
	}
	return abi.ClientLimits{
		Connections: small(l.Connections), Subscriptions: small(l.Subscriptions), Filters: small(l.Filters),
		Events: small(l.Events), Queries: small(l.Queries), BytesIn: l.BytesIn, BytesOut: l.BytesOut,
	}
}

func fromModule(l abi.ClientLimits) host.ClientLimits {
	return host.ClientLimits{
		Connections: int64(l.Connections), Subscriptions: int64(l.Subscriptions), Filters: int64(l.Filters),
		Events: int64(l.Events), Queries: int64(l.Queries), BytesIn: l.BytesIn, BytesOut: l.BytesOut,
	}
}

// Collectors returns the limits of the moment, and how often the module failed.
func (t *ticks) Collectors() []prometheus.Collector {
	list := []prometheus.Collector{t.failures}
	for name, of := range map[string]func(host.ClientLimits) int64{
		"connections":   func(l host.ClientLimits) int64 { return l.Connections },
		"subscriptions": func(l host.ClientLimits) int64 { return l.Subscriptions },
		"filters":       func(l host.ClientLimits) int64 { return l.Filters },
		"events":        func(l host.ClientLimits) int64 { return l.Events },
		"queries":       func(l host.ClientLimits) int64 { return l.Queries },
		"bytes-in":      func(l host.ClientLimits) int64 { return l.BytesIn },
		"bytes-out":     func(l host.ClientLimits) int64 { return l.BytesOut },
	} {
		list = append(list, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "talon_client_limit",
			Help:        "The current limits of one client: connections of an address; of a connection the subscriptions, filters at once, events and queries in a minute, bytes in a second; 0: no limit.",
			ConstLabels: prometheus.Labels{"limit": name},
		}, func() float64 { return float64(of(t.Limits())) }))
	}
	return list
}

// usage is what this process has used of processors since it began, and what it keeps
// in memory: what lives, since garbage goes when there is need.
func usage() (cpu time.Duration, memory int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	live := []rtmetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	rtmetrics.Read(live)
	for _, s := range live {
		if s.Value.Kind() == rtmetrics.KindUint64 {
			memory += int64(s.Value.Uint64())
		}
	}
	return cpu, memory
}

// memoryLimit is that of the runtime, 0 if there is none.
func memoryLimit() int64 {
	if n := debug.SetMemoryLimit(-1); n != math.MaxInt64 {
		return n
	}
	return 0
}
