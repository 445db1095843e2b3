package guest

import (
	"bytes"
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tetratelabs/wazero/api"

	"talon/host"
	"talon/sdk/abi"
)

// Clients choose what keys and values are made of, so one that is too long is not
// the module's failure: nothing is kept under it. [State] judges the rest.

// readKey reads a key. It reports false for one that is too long.
func readKey(mem api.Memory, addr, length uint64) ([]byte, bool) {
	key := read(mem, addr, length)
	return key, len(key) <= abi.MaxKey
}

func kvGet(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapKVGet)
	if key, ok := readKey(mem, stack[0], stack[1]); ok {
		if value, ok := c.inst.module.state.Get(key, c.now); ok {
			stack[0] = c.deliver(mem, stack[2], stack[3], value)
			return
		}
	}
	stack[0] = i32Result(abi.NotFound)
}

func kvSet(c *call, mem api.Memory, stack []uint64) {
	key, ok := readKey(mem, stack[0], stack[1])
	value := read(mem, stack[2], stack[3])
	ttl := int64(stack[4])
	stack[0] = i32Result(abi.NoRoom)
	if !ok || len(value) > abi.MaxValue {
		return
	}
	c.chargeBytes(len(value))
	if c.inst.module.state.Set(key, value, ttl, c.now) {
		stack[0] = 0
	}
}

func kvDelete(c *call, mem api.Memory, stack []uint64) {
	if key, ok := readKey(mem, stack[0], stack[1]); ok {
		c.inst.module.state.Delete(key)
	}
}

func kvIncr(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapKVIncr)
	key, ok := readKey(mem, stack[0], stack[1])
	delta, ttl := int64(stack[2]), int64(stack[3])
	stack[0] = uint64(delta)
	if ok {
		stack[0] = uint64(c.inst.module.state.Incr(key, delta, ttl, c.now))
	}
}

// bucketTake refuses a key that is too long: a client must not get past its
// bucket by the length of what it says.
func bucketTake(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapBucketTake)
	key, ok := readKey(mem, stack[0], stack[1])
	n, burst, perMillis := int64(uint32(stack[2])), int64(uint32(stack[3])), int64(stack[4])
	wait := int64(abi.Never)
	if ok {
		wait = c.inst.module.state.Take(key, n, burst, perMillis, c.now)
	}
	stack[0] = uint64(wait)
}

func setsContains(c *call, mem api.Memory, stack []uint64) {
	name, member := read(mem, stack[0], stack[1]), read(mem, stack[2], stack[3])
	stack[0] = i32Result(abi.NotFound)
	if c.inst.module.sets == nil || len(name) > abi.MaxKey {
		return
	}
	c.chargeBytes(len(member))
	yes, known := c.inst.module.sets.Contains(name, member)
	if known {
		stack[0] = boolResult(yes)
	}
	if w, ok := c.facts.(Observer); ok {
		w.Contained(name, member, yes, known)
	}
}

// announcement is the kind of the event whose address names a repository
// (NIP-34).
const announcement = 30617

// maxRef bounds the name of a ref.
const maxRef = 1 << 10

// readRepo reads the address of a repository. It reports false for anything
// else: no repository has it.
func readRepo(mem api.Memory, addr, length uint64) (host.Address, bool) {
	text := read(mem, addr, length)
	if len(text) > maxReference {
		return host.Address{}, false
	}
	repo, ok := host.ParseAddress(string(text))
	return repo, ok && repo.Kind == announcement
}

// isObject reports whether text is the name of a git object: SHA-1 or SHA-256 as
// hex digits.
func isObject(text []byte) bool {
	if len(text) != 40 && len(text) != 64 {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isAsked reports whether text asks for an object, for an object that is a commit,
// or, empty, for the repository itself.
func isAsked(text []byte) bool {
	object, _ := bytes.CutSuffix(text, []byte(abi.OfCommit))
	return len(text) == 0 || isObject(object)
}

func gitHas(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapGitHas)
	repo, ok := readRepo(mem, stack[0], stack[1])
	object := read(mem, stack[2], stack[3])
	var yes bool
	if ok && isAsked(object) && c.inst.module.git != nil && !c.read(abi.CapGitHas, func(ctx context.Context) (err error) {
		c.wait(func() { yes, err = c.inst.module.git.Has(ctx, repo, string(object)) })
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	stack[0] = boolResult(yes)
}

func gitRef(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapGitRef)
	repo, ok := readRepo(mem, stack[0], stack[1])
	ref := read(mem, stack[2], stack[3])
	var object string
	var found bool
	if ok && len(ref) <= maxRef && c.inst.module.git != nil && !c.read(abi.CapGitRef, func(ctx context.Context) (err error) {
		c.wait(func() { object, found, err = c.inst.module.git.Ref(ctx, repo, string(ref)) })
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	if !found {
		stack[0] = i32Result(abi.NotFound)
		return
	}
	stack[0] = c.deliver(mem, stack[4], stack[5], []byte(object))
}

// values are the metrics that a module keeps itself. Each instance has its own,
// so that using one again takes no lock and allocates nothing.
type values struct {
	counters map[string]prometheus.Counter
	gauges   map[string]prometheus.Gauge
}

// metric adds to a counter or sets a gauge. Names are constants of the module,
// so one that is wrong, and one too many, is its failure.
func metric(c *call, mem api.Memory, stack []uint64) {
	name, value := read(mem, stack[1], stack[2]), api.DecodeF64(stack[3])
	if math.IsNaN(value) || math.IsInf(value, 0) {
		panic(errArgument)
	}
	switch v := &c.inst.values; uint32(stack[0]) {
	case abi.MetricCounter:
		if value < 0 {
			panic(errArgument)
		}
		counter, known := v.counters[string(name)]
		if !known {
			counter = c.inst.counter(name)
		}
		counter.Add(value)
	case abi.MetricGauge:
		gauge, known := v.gauges[string(name)]
		if !known {
			gauge = c.inst.gauge(name)
		}
		gauge.Set(value)
	default:
		panic(errArgument)
	}
}

// unseen are where values go for which there is no room.
var (
	unseenCounter = prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_total"})
	unseenGauge   = prometheus.NewGauge(prometheus.GaugeOpts{Name: "unseen"})
)

func (inst *instance) counter(name []byte) prometheus.Counter {
	counter := unseenCounter
	if m := inst.module.metrics; inst.mayName(name) {
		counter = m.all.counters.WithLabelValues(m.name, string(name))
	}
	inst.values.counters[string(name)] = counter
	return counter
}

func (inst *instance) gauge(name []byte) prometheus.Gauge {
	gauge := unseenGauge
	if m := inst.module.metrics; inst.mayName(name) {
		gauge = m.all.gauges.WithLabelValues(m.name, string(name))
	}
	inst.values.gauges[string(name)] = gauge
	return gauge
}

const maxMetricName = 64

// mayName checks a name that the instance has not used yet, and reports whether
// there is room for one more of the plugin.
func (inst *instance) mayName(name []byte) bool {
	if len(name) == 0 || len(name) > maxMetricName {
		panic(errArgument)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			panic(errArgument)
		}
	}
	if !inst.module.valueNames.admit(string(name)) {
		panic(errArgument)
	}
	return inst.module.metrics.values.admit(string(name))
}
