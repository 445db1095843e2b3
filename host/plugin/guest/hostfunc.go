package guest

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/sdk/abi"
)

// hostFunc is a function that a guest can import.
type hostFunc struct {
	params, results []api.ValueType
	run             func(c *call, mem api.Memory, stack []uint64)
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
	f64 = api.ValueTypeF64
)

// capabilities are the functions of the module "talon", by the name under which
// a manifest asks for them.
var capabilities = map[string]hostFunc{
	abi.CapStoreGet:        {[]api.ValueType{i32, i32, i32}, []api.ValueType{i32}, storeGet},
	abi.CapStoreQuery:      {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, storeQuery},
	abi.CapStoreReferenced: {[]api.ValueType{i32, i32}, []api.ValueType{i32}, storeReferenced},
	abi.CapHeldGet:         {[]api.ValueType{i32, i32, i32}, []api.ValueType{i32}, heldGet},
	abi.CapHeldQuery:       {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, heldQuery},
	abi.CapGitHas:          {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, gitHas},
	abi.CapGitRef:          {[]api.ValueType{i32, i32, i32, i32, i32, i32}, []api.ValueType{i32}, gitRef},
	abi.CapKVGet:           {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, kvGet},
	abi.CapKVSet:           {[]api.ValueType{i32, i32, i32, i32, i64}, []api.ValueType{i32}, kvSet},
	abi.CapKVDelete:        {[]api.ValueType{i32, i32}, nil, kvDelete},
	abi.CapKVIncr:          {[]api.ValueType{i32, i32, i64, i64}, []api.ValueType{i64}, kvIncr},
	abi.CapSetsContains:    {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, setsContains},
	abi.CapBucketTake:      {[]api.ValueType{i32, i32, i32, i32, i64}, []api.ValueType{i64}, bucketTake},
	abi.CapMetric:          {[]api.ValueType{i32, i32, i32, f64}, nil, metric},
	abi.CapLog:             {[]api.ValueType{i32, i32, i32}, nil, logLine},
}

// define adds functions to a host module. With asks, what they answer does not follow from
// the module and its configuration alone.
func define(b wazero.HostModuleBuilder, name string, f hostFunc, asks bool) {
	run, fuel := f.run, priceOf(name)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		c := ctx.(*call)
		c.asked = c.asked || asks
		c.enter(fuel)
		run(c, mod.Memory(), stack)
	}), f.params, f.results).Export(name)
}

// read returns guest memory; it is valid until the guest runs again.
func read(mem api.Memory, addr, length uint64) []byte {
	if mem == nil {
		panic(errPointer)
	}
	b, ok := mem.Read(uint32(addr), uint32(length))
	if !ok {
		panic(errPointer)
	}
	return b
}

// deliver writes an answer for the guest if it fits, and returns its length.
func (c *call) deliver(mem api.Memory, out, capacity uint64, answer []byte) uint64 {
	if len(answer) <= int(uint32(capacity)) {
		c.chargeBytes(len(answer))
		if !mem.Write(uint32(out), answer) {
			panic(errPointer)
		}
	}
	return uint64(len(answer))
}

func i32Result(v int32) uint64 { return uint64(uint32(v)) }

func boolResult(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func logLine(c *call, mem api.Memory, stack []uint64) {
	text := read(mem, stack[1], stack[2])
	c.charge(int64(min(len(text), c.inst.module.limits.LogLineBytes)))
	c.log(int32(stack[0]), string(text[:min(len(text), c.inst.module.limits.LogLineBytes+4)]))
}

// Host functions cost fuel, as the guest's own instructions do, so that a budget of
// fuel takes about the same time whatever it is spent on. A unit is about what a guest
// does in a nanosecond. TestPrices compares these with what the functions take.
const (
	bytesPerFuel = 4 // of what a host function copies

	// fuelPerStored is for each byte of a stored event, which is parsed and encoded.
	fuelPerStored = 2
)

// prices are those of one call, by the name of the function.
var prices = map[string]int64{
	abi.CapStoreGet:        8000,
	abi.CapStoreQuery:      12_000,
	abi.CapStoreReferenced: 8000,
	abi.CapHeldGet:         8000,
	abi.CapHeldQuery:       12_000,
	abi.CapGitHas:          12_000,
	abi.CapGitRef:          12_000,
	abi.CapKVGet:           200,
	abi.CapKVSet:           800,
	abi.CapKVDelete:        400,
	abi.CapKVIncr:          400,
	abi.CapSetsContains:    300,
	abi.CapBucketTake:      400,
	abi.CapMetric:          200,
	abi.CapLog:             1000,

	"fd_write":    1000,
	"poll_oneoff": 200,
}

// otherPrice is that of the functions of WASI that do next to nothing.
const otherPrice = 50

func priceOf(name string) int64 {
	if fuel, ok := prices[name]; ok {
		return fuel
	}
	return otherPrice
}

// waits reports whether the host may have to wait for a disk to answer the
// capability.
func waits(capability string) bool {
	group, _, _ := strings.Cut(capability, ".")
	return group == "store" || group == "held" || group == "git"
}

// Func is a function that the host calls in modules.
type Func uint8

const (
	Admit   Func = iota // an event
	Query               // the filters of a REQ, COUNT or NEG-OPEN
	Connect             // a client that has just come
	Push                // ref updates
	Step                // what happened to a strategy
	ThrottleDelay
	ThrottleAdmit
	ThrottleAfter
	ThrottlePick
	ThrottleTick
)

const functions = int(ThrottleTick) + 1

var functionNames = [functions]string{
	"admit", "query", "connect", "push", "step",
	"throttle_delay", "throttle_admit", "throttle_after", "throttle_pick", "throttle_tick",
}

// String returns the function's name as manifests have it.
func (f Func) String() string { return functionNames[f] }

// export is the name under which a module exports the function.
func (f Func) export() string { return "talon_" + functionNames[f] }

// policy reports whether the function answers with a verdict.
func (f Func) policy() bool { return f <= Push }

// wasiModule is the module name of WASI preview 1.
const wasiModule = "wasi_snapshot_preview1"

// Results of WASI functions.
const (
	wasiOK    = 0
	wasiBadFD = 8
)

// wasi are the functions of WASI that a Go 1.26 guest imports for its runtime,
// and for package os where it uses fmt. They are all there is: no files, no
// network, no clock. A module that imports another one is refused.
var wasi = map[string]hostFunc{
	"args_get":            {[]api.ValueType{i32, i32}, []api.ValueType{i32}, result(wasiOK)},
	"args_sizes_get":      {[]api.ValueType{i32, i32}, []api.ValueType{i32}, noStrings},
	"environ_get":         {[]api.ValueType{i32, i32}, []api.ValueType{i32}, result(wasiOK)},
	"environ_sizes_get":   {[]api.ValueType{i32, i32}, []api.ValueType{i32}, noStrings},
	"clock_time_get":      {[]api.ValueType{i32, i64, i32}, []api.ValueType{i32}, clockTimeGet},
	"random_get":          {[]api.ValueType{i32, i32}, []api.ValueType{i32}, randomGet},
	"fd_write":            {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, fdWrite},
	"fd_close":            {[]api.ValueType{i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"fd_fdstat_get":       {[]api.ValueType{i32, i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"fd_fdstat_set_flags": {[]api.ValueType{i32, i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"fd_prestat_get":      {[]api.ValueType{i32, i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"fd_prestat_dir_name": {[]api.ValueType{i32, i32, i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"fd_read":             {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"fd_seek":             {[]api.ValueType{i32, i64, i32, i32}, []api.ValueType{i32}, result(wasiBadFD)},
	"poll_oneoff":         {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, wait},
	"sched_yield":         {nil, []api.ValueType{i32}, result(wasiOK)},
	"proc_exit":           {[]api.ValueType{i32}, nil, exit},
}

func result(errno uint64) func(*call, api.Memory, []uint64) {
	return func(_ *call, _ api.Memory, stack []uint64) { stack[0] = errno }
}

// noStrings answers args_sizes_get and environ_sizes_get: none, of no length.
func noStrings(_ *call, mem api.Memory, stack []uint64) {
	put32(mem, stack[0], 0)
	put32(mem, stack[1], 0)
	stack[0] = wasiOK
}

// tick is what the monotonic clock moves on with each reading, in nanoseconds.
const tick = 1000

// clockTimeGet gives the time of the decision as the wall clock. The monotonic
// clock counts how often it was read: a Go runtime wants it to move.
func clockTimeGet(c *call, mem api.Memory, stack []uint64) {
	const realtime = 0
	var t uint64
	if uint32(stack[0]) == realtime {
		t = uint64(c.now) * 1e9
	} else {
		c.inst.ticks++
		t = c.inst.ticks * tick
	}
	if mem == nil || !mem.WriteUint64Le(uint32(stack[2]), t) {
		panic(errPointer)
	}
	stack[0] = wasiOK
}

// maxRandom bounds the bytes of one call into the guest.
const maxRandom = 64 << 10

// randomGet gives bytes that are the same in each instance, so that instances
// do not differ in what they decide (SplitMix64).
func randomGet(c *call, mem api.Memory, stack []uint64) {
	b := read(mem, stack[0], stack[1])
	if c.randomness += len(b); c.randomness > maxRandom {
		panic(errRandom)
	}
	c.charge(int64(len(b)))
	var word [8]byte
	for i := range b {
		if i%8 == 0 {
			c.inst.random += 0x9e3779b97f4a7c15
			z := c.inst.random
			z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			binary.LittleEndian.PutUint64(word[:], z^z>>31)
		}
		b[i] = word[i%8]
	}
	stack[0] = wasiOK
}

// fdWrite makes log lines of what a guest writes to its standard output or
// error: panics, mostly.
func fdWrite(c *call, mem api.Memory, stack []uint64) {
	if fd := uint32(stack[0]); fd != 1 && fd != 2 {
		stack[0] = wasiBadFD
		return
	}
	const maxVectors = 64
	n := min(uint32(stack[2]), maxVectors)
	vectors := read(mem, stack[1], uint64(n)*8)
	written := 0
	for ; len(vectors) > 0; vectors = vectors[8:] {
		addr, size := binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])
		text := read(mem, uint64(addr), uint64(size))
		c.chargeBytes(len(text))
		c.write(text)
		written += int(size)
	}
	put32(mem, stack[3], uint32(written))
	stack[0] = wasiOK
}

// write splits text into lines. What is beyond the length of a line, or the
// number of lines, is not kept.
func (c *call) write(text []byte) {
	limits := &c.inst.module.limits
	for len(text) > 0 && c.logLines <= c.inst.module.budgets.LogLines {
		line, rest := text, []byte(nil)
		ended := false
		for i, b := range text {
			if b == '\n' {
				line, rest, ended = text[:i], text[i+1:], true
				break
			}
		}
		c.line = append(c.line, line[:min(len(line), max(limits.LogLineBytes-len(c.line), 0))]...)
		if ended {
			if len(c.line) > 0 {
				c.log(infoLevel, string(c.line))
			}
			c.line = c.line[:0]
		}
		text = rest
	}
}

// Limits of one wait.
const (
	maxSubscriptions = 16
	longestWait      = 3_600_000_000_000 // nanoseconds
)

// wait returns immediately to a guest that waits for its monotonic clock, with the
// clock moved on: no time passes within a decision. A Go runtime waits so while it
// lets its own goroutines go on, without which a collection need not end. Whoever
// waits for anything else would wait for ever, and is ended.
func wait(c *call, mem api.Memory, stack []uint64) {
	const (
		size      = 48 // of a subscription
		clock     = 0
		monotonic = 1
		absolute  = 1
	)
	n := uint32(stack[2])
	if n == 0 || n > maxSubscriptions {
		panic(errWait)
	}
	c.chargeBytes(int(n) * size)
	subscriptions := read(mem, stack[0], uint64(n)*size)
	var first []byte // the one whose time comes first
	soonest := uint64(longestWait)
	for ; len(subscriptions) > 0; subscriptions = subscriptions[size:] {
		s := subscriptions[:size]
		if s[8] != clock || binary.LittleEndian.Uint32(s[16:]) != monotonic {
			continue
		}
		timeout := binary.LittleEndian.Uint64(s[24:])
		if binary.LittleEndian.Uint16(s[40:])&absolute != 0 {
			timeout -= min(timeout, c.inst.ticks*tick)
		}
		if timeout < soonest {
			first, soonest = s, timeout
		}
	}
	if first == nil {
		panic(errWait)
	}
	c.inst.ticks += soonest/tick + 1
	var event [32]byte
	copy(event[:8], first) // whose it is; no error, of a clock
	if !mem.Write(uint32(stack[1]), event[:]) {
		panic(errPointer)
	}
	put32(mem, stack[3], 1)
	stack[0] = wasiOK
}

func exit(_ *call, _ api.Memory, stack []uint64) { panic(exitError(stack[0])) }

func put32(mem api.Memory, addr uint64, v uint32) {
	if mem == nil || !mem.WriteUint32Le(uint32(addr), v) {
		panic(errPointer)
	}
}
