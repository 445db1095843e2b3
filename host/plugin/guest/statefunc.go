package guest

import (
	"github.com/tetratelabs/wazero/api"

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

// State is what a plugin remembers. All its instances and generations share it.
// Keys and values are valid only during the call, and what Get returns must not
// change. Times are unix seconds; ttl is in seconds, 0 for ever.
type State interface {
	// Get returns the value of a key, and whether there is one.
	Get(key []byte, now int64) ([]byte, bool)

	// Set keeps a value. It reports false if there is no room.
	Set(key, value []byte, ttl, now int64) bool

	Delete(key []byte)

	// Incr adds delta to a counter and returns what it is then.
	Incr(key []byte, delta, ttl, now int64) int64

	// Take takes n tokens of a bucket that holds up to burst and gets one back every
	// perMillis milliseconds. It returns 0 if they were taken, else in how many
	// milliseconds they would be there, or -1 if never.
	Take(key []byte, n, burst, perMillis, now int64) int64
}

// noState remembers nothing: there is no room for it.
type noState struct{}

func (noState) Get([]byte, int64) ([]byte, bool) { return nil, false }

func (noState) Set([]byte, []byte, int64, int64) bool { return false }

func (noState) Delete([]byte) {}

func (noState) Incr(_ []byte, delta int64, _, _ int64) int64 { return delta }

func (noState) Take(_ []byte, n, burst, _, _ int64) int64 {
	if n > burst {
		return -1
	}
	return 0
}
