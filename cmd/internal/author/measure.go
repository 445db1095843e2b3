package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/guest"
)

// Measured is the cost of a module's decisions.
type Measured struct {
	Decisions  int           `json:"decisions"`
	Mean       time.Duration `json:"mean_ns"` // of one decision, the encoding of the request included
	P50        time.Duration `json:"p50_ns"`
	P99        time.Duration `json:"p99_ns"`
	CPU        time.Duration `json:"cpu_ns"` // of one decision in the mean, of all processes that take part
	Fuel50     int64         `json:"fuel_p50,omitempty"`
	Fuel99     int64         `json:"fuel_p99,omitempty"`
	MaxFuel    int64         `json:"fuel_most,omitempty"`
	FuelBudget int64         `json:"fuel_budget,omitempty"` // of one decision, without what is added for each byte of the request

	Cold        time.Duration `json:"start_ns,omitempty"`      // from the bytes to a first instance, with compiling
	Warm        time.Duration `json:"warm_start_ns,omitempty"` // likewise, where compiled code was kept
	Memory      int64         `json:"memory,omitempty"`        // of one instance, bytes
	MemoryLimit int64         `json:"memory_limit,omitempty"`
	Size        int           `json:"size,omitempty"` // of the module, bytes
}

// maxTimes is how many decisions are timed one by one.
const maxTimes = 2_000_000

// Bench times the module's answers to questions about events, repeated for a while. The
// error is about a question that it did not answer.
func (s *Source) Bench(ctx context.Context, questions []*Case, during time.Duration, o Options) (m Measured, err error) {
	if len(questions) == 0 {
		return m, errors.New("there is no question to measure with: the file is empty")
	}
	fresh := o
	fresh.Fresh = true
	if m.Cold, err = s.timeStart(ctx, fresh); err != nil {
		return m, err
	}
	// The first fills what is kept of compiled code. Of the others the least counts: what
	// else the machine did is not the module's.
	for i := range 4 {
		took, err := s.timeStart(ctx, o)
		if err != nil {
			return m, err
		}
		if i <= 1 || took < m.Warm {
			m.Warm = took
		}
	}
	r, err := s.Run(ctx, o)
	if err != nil {
		return m, err
	}
	defer r.Close()
	if err := m.decide(ctx, r, questions, during); err != nil {
		return m, err
	}
	m.FuelBudget, m.MemoryLimit, m.Size = r.module.Fuel(), r.module.MemoryLimit(), len(s.Wasm)
	m.Memory = r.module.MemoryUsed() / int64(max(r.module.Instances(), 1))
	return m, nil
}

func (s *Source) timeStart(ctx context.Context, o Options) (time.Duration, error) {
	start := time.Now()
	r, err := s.Run(ctx, o)
	if err != nil {
		return 0, err
	}
	return time.Since(start), r.Close()
}

// decide asks about each event once, which warms up and tells the fuel, then in
// turn until the time is over.
func (m *Measured) decide(ctx context.Context, r *Runner, questions []*Case, during time.Duration) error {
	var tally Stats
	items, stores := make([]*host.Item, len(questions)), make([]*memfacts.Facts, len(questions))
	for i, q := range questions {
		a := r.Ask(ctx, q)
		if a.Err != nil {
			return fmt.Errorf("%s: %w", q.Where, a.Err)
		}
		if q.function() != guest.Admit {
			return fmt.Errorf("%s: only events are measured: leave lines with function %s out", q.Where, q.Vector.Function)
		}
		tally.Add(q, &a)
		items[i], stores[i] = itemOf(q), factsOf(r.store, &q.Vector)
	}
	m.Fuel50, m.Fuel99, m.MaxFuel = tally.Fuel()
	if !r.module.Calls(guest.Admit) {
		return errors.New("there is nothing to measure: with these settings the module passes every event, and a relay does not ask it")
	}
	var request guest.Request
	return m.time(ctx, len(items), during, ownCPU, func(i int) error {
		q := questions[i]
		at := q.Vector.Now
		r.sets.question = q.Vector.Sets
		if a := r.rule(ctx, guest.Admit, request.Admit(items[i], at), stores[i], at, "client"); a.Err != nil {
			return fmt.Errorf("%s: %w", q.Where, a.Err)
		}
		return nil
	})
}

// time calls decide with 0 to n-1, over and over, until the time is over. cpu is the
// processor time of all that take part.
func (m *Measured) time(ctx context.Context, n int, during time.Duration, cpu func() time.Duration, decide func(i int) error) error {
	times := make([]time.Duration, 0, 1<<16)
	begin, used := time.Now(), cpu()
	last := begin
	for last.Sub(begin) < during && len(times) < maxTimes {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range n {
			if err := decide(i); err != nil {
				return err
			}
			now := time.Now()
			times = append(times, now.Sub(last))
			last = now
		}
	}
	m.Decisions = len(times)
	m.Mean = last.Sub(begin) / time.Duration(len(times))
	m.CPU = (cpu() - used) / time.Duration(len(times))
	slices.Sort(times)
	m.P50, m.P99 = percentile(times, 50), percentile(times, 99)
	return nil
}

// itemOf makes of a question what a relay has in hand when it asks.
func itemOf(q *Case) *host.Item {
	it := &host.Item{Event: guest.VectorEvent(q.Vector.Event), Source: &host.Source{Relay: q.Vector.Source.Relay}}
	switch q.Vector.Source.Origin {
	case "import":
		it.Source.Origin = host.FromImport
	case "sync":
		it.Source.Origin = host.FromSync
	}
	it.Source.Addr, _ = netip.ParseAddr(string(q.Vector.Source.Address))
	for _, key := range q.Vector.Source.Authed {
		it.Authed = append(it.Authed, host.PubKey(key))
	}
	return it
}

// Stats counts answers by verdict, and keeps the fuel of each.
type Stats struct {
	Asked, Failed int
	FirstFailure  string // where, and why
	verdicts      map[string]int
	fuel          []int64
}

// maxVerdicts is more than a relay tells apart.
const maxVerdicts = 1000

// Add counts one answer.
func (t *Stats) Add(q *Case, a *Answer) {
	t.Asked++
	if a.Err != nil {
		if t.Failed++; t.Failed == 1 {
			t.FirstFailure = q.Where + ": " + a.Err.Error()
		}
	}
	verdict := a.Verdict()
	if t.verdicts == nil {
		t.verdicts = map[string]int{}
	}
	if _, known := t.verdicts[verdict]; !known && len(t.verdicts) >= maxVerdicts {
		verdict = "other verdicts"
	}
	t.verdicts[verdict]++
	t.fuel = append(t.fuel, a.Fuel)
}

// Count is the number of answers with one verdict.
type Count struct {
	Verdict string
	Count   int
}

// Verdicts returns the counts of all verdicts, the most frequent first.
func (t *Stats) Verdicts() []Count {
	var list []Count
	for _, v := range slices.Sorted(maps.Keys(t.verdicts)) {
		list = append(list, Count{v, t.verdicts[v]})
	}
	slices.SortStableFunc(list, func(a, b Count) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// Fuel returns the median, the 99th percentile and the maximum of the fuel of answers.
func (t *Stats) Fuel() (p50, p99, limit int64) {
	slices.Sort(t.fuel)
	return percentile(t.fuel, 50), percentile(t.fuel, 99), percentile(t.fuel, 100)
}

// percentile of a sorted list, by nearest rank; zero of none.
func percentile[T any](sorted []T, p int) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is the processor time that another process has used, without its children. It
// is 0 where the system does not tell.
func cpuOf(pid int) time.Duration {
	// The clock of a process (clock_getcpuclockid): the inverted number, and what is
	// counted, which is 2 for the scheduler's own figure.
	const scheduled = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
