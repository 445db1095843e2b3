package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/config"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/relay"
	"talon/sdk/abi"
)

// script is a throttle module that answers what a test says.
type script struct {
	answer  []byte
	err     error
	asked   abi.TickRequest
	changed chan struct{}
}

func (m *script) Call(_ context.Context, f guest.Func, request []byte, _ int64) ([]byte, bool, error) {
	if f != guest.ThrottleTick {
		return nil, false, fmt.Errorf("asked %s", f)
	}
	if err := m.asked.Decode(request); err != nil {
		return nil, false, err
	}
	return m.answer, false, m.err
}

func (m *script) Changed() <-chan struct{} { return m.changed }

func (m *script) says(l abi.ClientLimits) {
	m.err = nil
	m.answer = abi.AppendTickAnswer(nil, &abi.TickAnswer{Set: true, Limits: l})
}

// bench is ticks with a module, a clock and a log of a test.
type bench struct {
	*ticks
	module *script
	now    time.Time
	log    bytes.Buffer
}

func newBench() *bench {
	b := &bench{module: &script{changed: make(chan struct{}, 1)}, now: time.Unix(1_700_000_000, 0)}
	low, limit := clientClamps(&config.Config{ConnectionsPer: 100, Subscriptions: 64, Filters: 20, Message: 512 << 10})
	b.ticks = newTicks(b.module, tickConfig{
		min: low, max: limit, queue: 4096, processors: 2, memoryLimit: 1 << 30,
		log: slog.New(slog.NewTextHandler(&b.log, nil)), now: func() time.Time { return b.now },
	})
	return b
}

func (b *bench) ask() host.ClientLimits {
	b.tick(context.Background(), relay.Telemetry{Interval: tickEvery}, 0, 0)
	return b.Limits()
}

func TestTickClamps(t *testing.T) {
	b := newBench()
	if got, want := b.Limits(), (host.ClientLimits{Connections: 100, Subscriptions: 64, Filters: 20}); got != want {
		t.Errorf("before the first answer: %+v, want the operator's %+v", got, want)
	}
	limit := uint32(1<<32 - 1)
	for _, tt := range []struct {
		name string
		says abi.ClientLimits
		want host.ClientLimits
	}{
		{"no limits", abi.ClientLimits{}, host.ClientLimits{Connections: 100, Subscriptions: 64, Filters: 20}},
		{
			"the door shut",
			abi.ClientLimits{Connections: 1, Subscriptions: 1, Filters: 1, Events: 1, Queries: 1, BytesIn: 1, BytesOut: 1},
			host.ClientLimits{Connections: 1, Subscriptions: 4, Filters: 1, Events: 10, Queries: 20, BytesIn: 512 << 10 * 2 / 30, BytesOut: 16 << 10},
		},
		{
			"the door wide open",
			abi.ClientLimits{Connections: limit, Subscriptions: limit, Filters: limit, Events: limit, Queries: limit, BytesIn: 1<<63 - 1, BytesOut: 1<<63 - 1},
			host.ClientLimits{Connections: 100, Subscriptions: 64, Filters: 20, Events: 1<<32 - 1, Queries: 1<<32 - 1, BytesIn: 1<<63 - 1, BytesOut: 1<<63 - 1},
		},
		{
			"something between",
			abi.ClientLimits{Connections: 5, Subscriptions: 6, Filters: 7, Events: 80, Queries: 90, BytesIn: 100_000, BytesOut: 200_000},
			host.ClientLimits{Connections: 5, Subscriptions: 6, Filters: 7, Events: 80, Queries: 90, BytesIn: 100_000, BytesOut: 200_000},
		},
	} {
		b.module.says(tt.says)
		if got := b.ask(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	// Its next input has the limits that are in force.
	b.ask()
	if got, want := b.module.asked.Current, (abi.ClientLimits{Connections: 5, Subscriptions: 6, Filters: 7, Events: 80, Queries: 90, BytesIn: 100_000, BytesOut: 200_000}); got != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	// The operator may want less than a module can take away.
	low, most2 := clientClamps(&config.Config{ConnectionsPer: 100, Subscriptions: 2, Filters: 20, Message: 1 << 10})
	if low.Subscriptions != 2 || most2.Subscriptions != 2 || low.BytesIn != 16<<10 {
		t.Errorf("clamps %+v and %+v", low, most2)
	}
}

func TestTickTelemetry(t *testing.T) {
	b := newBench()
	b.tick(context.Background(), relay.Telemetry{
		Interval: 10 * time.Second, Connections: 1, Subscriptions: 2, Events: 3.5, Queries: 4.5, BytesIn: 5.5, BytesOut: 6.5,
		InFlight: 7, AnswerTime: 8 * time.Millisecond, SlowClients: 9,
	}, 5*time.Second, 10)
	want := abi.Telemetry{
		Interval: 10_000, CPU: 0.25, Memory: 10, MemoryLimit: 1 << 30, Connections: 1, Subscriptions: 2, Events: 3.5, Queries: 4.5,
		BytesIn: 5.5, BytesOut: 6.5, Queue: 7, QueueLimit: 4096, AnswerTime: 8000, SlowClients: 9,
	}
	if got := b.module.asked.Telemetry; got != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	if got := b.module.asked.Now; got != b.now.UnixMilli() {
		t.Errorf("told that it is %d", got)
	}
	for _, tt := range []struct {
		interval, cpu time.Duration
		want          float64
	}{{0, time.Second, 0}, {time.Second, time.Hour, 1}, {time.Second, -time.Hour, 0}} {
		if got := b.telemetry(relay.Telemetry{Interval: tt.interval}, tt.cpu, 0).CPU; got != tt.want {
			t.Errorf("%v of processors in %v: %v, want %v", tt.cpu, tt.interval, got, tt.want)
		}
	}
}

// TestTickFails checks that faults of a module change nothing, and are logged once a minute.
func TestTickFails(t *testing.T) {
	b := newBench()
	b.module.says(abi.ClientLimits{Events: 50})
	want := b.ask()
	if want.Events != 50 {
		t.Fatalf("%+v", want)
	}
	b.log.Reset()
	negative := abi.AppendTickAnswer(nil, &abi.TickAnswer{Set: true, Limits: abi.ClientLimits{Events: 11, BytesIn: -1}})
	for i, wrong := range []struct {
		answer []byte
		err    error
	}{
		{nil, fmt.Errorf("throttle x: %w", &guest.Failure{Cause: guest.CauseTrap})},
		{[]byte{0xff, 0xff, 0xff}, nil},
		{[]byte("I am no message"), nil},
		{negative, nil},
		{[]byte{1<<3 | 2, 2, 0x20, 0x80}, nil}, // limits that end in the middle of a number
	} {
		b.module.answer, b.module.err = wrong.answer, wrong.err
		if got := b.ask(); got != want {
			t.Errorf("answer %d: %+v, want %+v", i, got, want)
		}
		if got := gathered(t, b.ticks)["talon_client_limits_failures_total"]; got != float64(i+1) {
			t.Errorf("after answer %d: %v failures are counted", i, got)
		}
		if i < 4 {
			b.now = b.now.Add(tickEvery)
		}
	}
	if n := strings.Count(b.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &b.log)
	}
	b.now = b.now.Add(time.Minute)
	b.ask()
	if n := strings.Count(b.log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings after a minute:\n%s", n, &b.log)
	}
	// A module that has nothing to say about clients does nothing wrong.
	b.now = b.now.Add(time.Hour)
	b.module.err = errors.New("plugin x does not answer throttle_tick")
	if got := b.ask(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := strings.Count(b.log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings:\n%s", n, &b.log)
	}
	b.module.err, b.module.answer = nil, nil
	if got := b.ask(); got != want {
		t.Errorf("after an answer without limits: %+v, want %+v", got, want)
	}
}

// Limits end with the module that set them.
func TestTickSwap(t *testing.T) {
	b := newBench()
	operators := b.Limits()
	b.module.says(abi.ClientLimits{Events: 50})
	b.ask()
	b.module.changed <- struct{}{}
	b.module.err = errors.New("plugin x does not answer throttle_tick")
	if got := b.ask(); got != operators {
		t.Errorf("after a swap: %+v, want %+v", got, operators)
	}
	if got := b.module.asked.Current; got.Events != 0 {
		t.Errorf("the next module was told of %+v", got)
	}
	b.module.says(abi.ClientLimits{Events: 50})
	b.ask()
	b.module.err = fmt.Errorf("throttle: %w", plugin.ErrNoPlugin)
	if got := b.ask(); got != operators {
		t.Errorf("without a module: %+v, want %+v", got, operators)
	}
}

func TestTickRun(t *testing.T) {
	b := newBench()
	b.module.says(abi.ClientLimits{Events: 50})
	spent := time.Duration(0)
	b.cfg.usage = func() (time.Duration, int64) { spent += time.Second; return spent, 42 }
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	read := make(chan host.ClientLimits)
	go func() { // as connections do
		for b.Limits().Events == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		read <- b.Limits()
	}()
	err := b.Run(ctx, func() relay.Telemetry {
		if asked++; asked == 3 {
			cancel()
		}
		return relay.Telemetry{Interval: time.Second}
	}, time.Millisecond)
	if got := <-read; err != nil || got.Events != 50 {
		t.Errorf("%v, %+v", err, got)
	}
	if got := b.module.asked.Telemetry; got.CPU != 0.5 || got.Memory != 42 {
		t.Errorf("told %+v", got)
	}
}

func TestUsage(t *testing.T) {
	before, memory := usage()
	if before <= 0 || memory <= 0 {
		t.Errorf("%v of processors, %d bytes", before, memory)
	}
	for {
		if now, _ := usage(); now > before {
			return
		}
	}
}

func TestTickMetrics(t *testing.T) {
	b := newBench()
	b.module.says(abi.ClientLimits{Connections: 5, Subscriptions: 6, Filters: 7, Events: 80, Queries: 90, BytesIn: 100_000})
	b.ask()
	got := gathered(t, b.ticks)
	for name, want := range map[string]float64{
		"connections": 5, "subscriptions": 6, "filters": 7, "events": 80, "queries": 90, "bytes-in": 100_000, "bytes-out": 0,
	} {
		if n, ok := got["talon_client_limit "+name]; !ok || n != want {
			t.Errorf("%s is %v, %v, want %v", name, n, ok, want)
		}
	}
}

// gathered are the metrics of ticks by name and label.
func gathered(t *testing.T, of *ticks) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(of.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			if len(m.Label) > 0 {
				name += " " + m.Label[0].GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}
