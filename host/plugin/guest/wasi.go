package guest

import (
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
)

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

// write splits text into lines. It drops text beyond the maximum length of a line or the
// maximum number of lines.
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

// wait serves a guest that waits for its monotonic clock. It advances the clock and returns
// immediately: no time passes within a decision. A Go runtime waits in this way to let its
// own goroutines run, and a collection may depend on that. A guest that waits for anything
// else would wait for ever, so wait ends it.
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
