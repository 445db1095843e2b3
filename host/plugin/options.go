package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options says which modules run, in which order, and how.
type Options struct {
	Dir   string   // folder with <name>.wasm for each name of the chain
	Chain []string // module names in the order in which they are asked

	// Config holds each module's settings by module name, as they come from TOML.
	Config map[string]map[string]any

	OnFailure OnFailure
	Limits    Limits

	// CacheDir keeps compiled code between starts. Empty: none is kept.
	CacheDir string

	// Instances is how many calls of one module run at once; default GOMAXPROCS.
	Instances int

	Log *slog.Logger
}

// OnFailure is what happens to an event when a policy cannot decide: it trapped,
// ran out of fuel or answered garbage.
type OnFailure uint8

const (
	// FailClosed refuses the event with a reason that asks the client to try
	// again.
	FailClosed OnFailure = iota

	// FailOpen lets the next policy of the chain decide, as if the one that
	// failed had passed.
	FailOpen
)

// Limits bounds what one module may use. A zero field stands for its default.
type Limits struct {
	Fuel   int64 // most that a manifest may ask for one decision; default 20,000,000
	Memory int64 // most bytes of one instance that a manifest may ask for; default 64 MiB
	Output int   // most bytes of one verdict; default 4 KiB

	StoreCalls int           // reads of the store in one decision; default 64
	StoreTime  time.Duration // for one read; default 250 ms
	StoreBytes int           // answers of the store in one decision; default 1 MiB
	HostCalls  int           // calls of any host function in one decision; default 10,000

	LogLines     int // of one call; default 10
	LogLineBytes int // default 512
	LogRate      int // lines of one module in a second; default 50
}

// Budgets where a manifest asks for none.
const (
	defaultFuel   = 2_000_000
	defaultMemory = 16 << 20
	defaultOutput = 4 << 10

	// startFuel is for the start function, _initialize, and talon_configure, each.
	// A Go runtime spends about a million on starting.
	startFuel = 500_000_000

	// fuelPerByte is added to the fuel of a decision for each byte of the request,
	// so that a budget need not be made for the largest event.
	fuelPerByte = 100

	maxModuleSize = 32 << 20
	queryLimit    = 500 // events of one store.query
)

func (l Limits) withDefaults() Limits {
	return Limits{
		Fuel:         cmp.Or(l.Fuel, 20_000_000),
		Memory:       cmp.Or(l.Memory, 64<<20),
		Output:       cmp.Or(l.Output, defaultOutput),
		StoreCalls:   cmp.Or(l.StoreCalls, 64),
		StoreTime:    cmp.Or(l.StoreTime, 250*time.Millisecond),
		StoreBytes:   cmp.Or(l.StoreBytes, 1<<20),
		HostCalls:    cmp.Or(l.HostCalls, 10_000),
		LogLines:     cmp.Or(l.LogLines, 10),
		LogLineBytes: cmp.Or(l.LogLineBytes, 512),
		LogRate:      cmp.Or(l.LogRate, 50),
	}
}

func (o Options) withDefaults() Options {
	o.Limits = o.Limits.withDefaults()
	o.Instances = max(cmp.Or(o.Instances, runtime.GOMAXPROCS(0)), 1)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o *Options) validate() error {
	if len(o.Chain) == 0 {
		return errors.New("the policy chain is empty: no event would be accepted")
	}
	for i, name := range o.Chain {
		if !isModuleName(name) {
			return fmt.Errorf("policy %q: want the name of a file in %s without .wasm: letters, digits, - and _", name, o.Dir)
		}
		if slices.Contains(o.Chain[:i], name) {
			return fmt.Errorf("policy %q is in the chain twice", name)
		}
	}
	for name := range o.Config {
		if !slices.Contains(o.Chain, name) {
			return fmt.Errorf("there is configuration for policy %q, which is not in the chain %s", name, strings.Join(o.Chain, ","))
		}
	}
	return nil
}

func isModuleName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
