package guest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// Prepared has machine code of modules, as [Prepare] returned it.
type Prepared interface {
	// Code returns the code of the module with a SHA-256, nil if there is none.
	Code(module [sha256.Size]byte) ([]byte, error)
}

// Source returns the bytes of the file of a module.
type Source func(ctx context.Context) ([]byte, error)

// Options says how one module runs.
type Options struct {
	Name string // of the plugin: letters, digits, - and _

	// SHA256 is the module's, if the caller has it; zero: it is computed.
	SHA256 [sha256.Size]byte

	// Grants reports whether the operator lets the module import a capability. Nil:
	// all that the host has.
	Grants func(capability string) bool

	Config  map[string]any // the operator's settings, as they come from TOML
	Budgets Budgets
	Limits  Limits

	// The sources of the host functions. Nil: the source is empty.
	State State
	Sets  Sets
	Held  host.HeldFacts // where the facts of a decision have none
	Git   Git

	Service host.Service // how the relay is reached from outside

	// CacheDir keeps compiled code, and which modules have passed their self-test,
	// between starts. Empty: nothing is kept.
	CacheDir string

	// Prepared has machine code of some modules, which came with the program and is trusted
	// like the program. Nil: there is none.
	Prepared Prepared

	// Elsewhere loads and tests the module with these options in another process, which
	// writes the result to CacheDir. Load calls it if CacheDir does not hold the module
	// yet. Nil: Load does this in its own process.
	Elsewhere func(ctx context.Context, wasm []byte) error

	// Source returns the module again. With it, a module that nobody has called for a minute
	// leaves the memory, and the next call loads it from CacheDir, or compiles it if that is
	// lost. Nil: the module stays in memory.
	Source Source

	// Interpret runs the module without machine code, many times slower, to compare the
	// two. Nothing is kept then.
	Interpret bool

	// Patient is for a process of low priority, whose time on processors is bounded:
	// compiling and self-tests have no limit of their own.
	Patient bool

	// Instances is how many calls of the module run at the same time; default GOMAXPROCS.
	Instances int

	// Waits is how many more may wait for a disk, each with its instance; default 16.
	Waits int

	Events  *EventCache // shared by all modules; nil: nothing is kept
	Metrics *Metrics    // shared by all modules; nil: none are kept
	Log     *slog.Logger
	Clock   func() time.Time // default: the time since the program began, which no step of the system's clock changes

	// elapsed is what has passed on Clock since the program began. Each call of a guest reads
	// it, and subtracts, which costs a [time.Time] more.
	elapsed func() time.Duration
}

// Budgets is what the operator gives a module. A zero field is what its manifest
// asks for, or else the host's default.
type Budgets struct {
	Fuel     int64 // of one call
	Memory   int64 // bytes of one instance
	Output   int64 // bytes that one call returns
	LogLines int   // of one call
	LogRate  int   // lines in a second

	Time      time.Duration // of the reads of one call together: a guard, not a measure of work
	Reads     int           // of store, purgatory and repositories in one call
	Bytes     int           // that host functions move in one call
	HostCalls int           // calls of any host function in one call
}

// BudgetsOf returns what a side-car gives a module.
func BudgetsOf(b *sidecar.Budgets) Budgets {
	return Budgets{
		Fuel: b.Fuel, Memory: b.Memory, Output: b.Output, LogLines: b.LogLines, LogRate: b.LogRate,
		Time: time.Duration(b.TimeMS) * time.Millisecond, Reads: b.Reads, Bytes: int(b.Bytes), HostCalls: b.HostCalls,
	}
}

// Limits bounds what one module may use. A zero field means its default.
type Limits struct {
	Fuel   int64 // most of one call, by manifest or operator; default 20,000,000
	Memory int64 // most bytes of one instance, likewise; default 64 MiB
	Output int   // most bytes that one call returns, likewise; default 1 MiB

	// Most that the operator may choose for one call.
	Time      time.Duration // default 10 s
	Reads     int           // default 1024
	Bytes     int           // default 64 MiB
	HostCalls int           // default 100,000

	LogLines     int // most of one call that the operator may choose; default 100
	LogLineBytes int // default 512
	LogRate      int // most lines of one module in a second, likewise; default 1000
}

// Budgets where neither operator nor manifest asks for any. A reducer is called
// rarely, and answers with many actions.
const (
	defaultFuel        = 2_000_000
	defaultMemory      = 16 << 20
	defaultOutput      = 4 << 10
	defaultReducerFuel = 20_000_000
	defaultReducerOut  = 1 << 20
	defaultLogLines    = 10
	defaultLogRate     = 50
	defaultTime        = 5 * time.Second
	defaultReads       = 64
	defaultBytes       = 4 << 20
	defaultHostCalls   = 10_000
	defaultWaits       = 16

	// startFuel is for the start function, _initialize, and talon_configure, each.
	// A Go runtime spends about a million on starting.
	startFuel = 500_000_000

	// fuelPerByte is added to the fuel of a call for each byte of the request. So a budget
	// need not cover the largest event, or the one with the largest number of tags. A Go
	// guest needs some 2,000 to look at a tag, which may have 3 bytes.
	fuelPerByte = 1000

	// fuelBytes are the bytes that fuel is added for: what is larger, the state of a
	// repository with many refs, must not pay for a loop of seconds.
	fuelBytes = 512 << 10

	maxModuleSize = 32 << 20
	queryLimit    = 500 // events of one store.query or held.query
	queryBytes    = 512 << 10
)

// forReducers are the limits of strategies and throttles, which are called a few
// times a second, and may have a large world to look through: in one step of many, the
// guest's runtime collects its garbage.
func (l Limits) forReducers() Limits {
	l.Fuel *= 20
	l.Memory *= 2
	l.Output *= 8
	return l
}

func (l *Limits) setDefaults() {
	*l = Limits{
		Fuel:         cmp.Or(l.Fuel, 20_000_000),
		Memory:       cmp.Or(l.Memory, 64<<20),
		Output:       cmp.Or(l.Output, 1<<20),
		Time:         cmp.Or(l.Time, 10*time.Second),
		Reads:        cmp.Or(l.Reads, 1024),
		Bytes:        cmp.Or(l.Bytes, 64<<20),
		HostCalls:    cmp.Or(l.HostCalls, 100_000),
		LogLines:     cmp.Or(l.LogLines, 100),
		LogLineBytes: cmp.Or(l.LogLineBytes, 512),
		LogRate:      cmp.Or(l.LogRate, 1000),
	}
}

// setDefaults fills in what is not given; the hash is that of wasm.
func (o *Options) setDefaults(wasm []byte) {
	if o.SHA256 == ([sha256.Size]byte{}) {
		o.SHA256 = sha256.Sum256(wasm)
	}
	o.Limits.setDefaults()
	o.Instances = max(cmp.Or(o.Instances, runtime.GOMAXPROCS(0)), 1)
	o.Waits = max(cmp.Or(o.Waits, defaultWaits), 0)
	if o.Grants == nil {
		o.Grants = func(string) bool { return true }
	}
	if o.State == nil {
		o.State = noState{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	switch clock := o.Clock; {
	case o.elapsed != nil: // the defaults are set
	case clock == nil:
		o.Clock, o.elapsed = monotonic, sinceBegan
	default:
		o.elapsed = func() time.Duration { return clock().Sub(began) }
	}
}

// limited bounds the time of something that takes long, unless nobody waits.
func (o *Options) limited(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	if o.Patient {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, cause)
}

// check refuses what the operator must not choose.
func (o *Options) check() error {
	if !sidecar.IsName(o.Name) {
		return fmt.Errorf("name %.80q: want letters, digits, - and _, at most 64", o.Name)
	}
	for _, b := range []struct {
		what       string
		value, max int64
	}{
		{"fuel", o.Budgets.Fuel, o.Limits.Fuel},
		{"memory", o.Budgets.Memory, o.Limits.Memory},
		{"output", o.Budgets.Output, int64(o.Limits.Output)},
		{"log lines", int64(o.Budgets.LogLines), int64(o.Limits.LogLines)},
		{"log rate", int64(o.Budgets.LogRate), int64(o.Limits.LogRate)},
		{"reads", int64(o.Budgets.Reads), int64(o.Limits.Reads)},
		{"bytes", int64(o.Budgets.Bytes), int64(o.Limits.Bytes)},
		{"host calls", int64(o.Budgets.HostCalls), int64(o.Limits.HostCalls)},
	} {
		if b.value < 0 || b.value > b.max {
			return fmt.Errorf("budget %s = %d: want 1 to %d, or 0 for what the module asks for", b.what, b.value, b.max)
		}
	}
	if o.Budgets.Time < 0 || o.Budgets.Time > o.Limits.Time {
		return fmt.Errorf("budget time = %v: want at most %v, or 0 for the default", o.Budgets.Time, o.Limits.Time)
	}
	return nil
}

// resolve returns the budgets of a module of which the manifest asks for these: the
// operator's choice, or else the manifest's, or else the host's.
func (o *Options) resolve(wanted *manifest.Budgets, reduces bool) Budgets {
	fuel, output := int64(defaultFuel), int64(defaultOutput)
	if reduces {
		fuel, output = defaultReducerFuel, defaultReducerOut
	}
	b, l := o.Budgets, o.Limits
	return Budgets{
		Fuel:      cmp.Or(b.Fuel, wanted.Fuel, min(fuel, l.Fuel)),
		Memory:    cmp.Or(b.Memory, wanted.MemoryBytes, min(defaultMemory, l.Memory)),
		Output:    cmp.Or(b.Output, wanted.OutputBytes, min(output, int64(l.Output))),
		LogLines:  cmp.Or(b.LogLines, min(defaultLogLines, l.LogLines)),
		LogRate:   cmp.Or(b.LogRate, min(defaultLogRate, l.LogRate)),
		Time:      cmp.Or(b.Time, min(defaultTime, l.Time)),
		Reads:     cmp.Or(b.Reads, min(defaultReads, l.Reads)),
		Bytes:     cmp.Or(b.Bytes, min(defaultBytes, l.Bytes)),
		HostCalls: cmp.Or(b.HostCalls, min(defaultHostCalls, l.HostCalls)),
	}
}
