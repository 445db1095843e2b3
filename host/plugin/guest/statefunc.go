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
	c.tell(abi.CapKVGet)
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
	c.spend(len(value))
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
	c.tell(abi.CapKVIncr)
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
	c.tell(abi.CapBucketTake)
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
	c.spend(len(member))
	yes, known := c.inst.module.sets.Contains(name, member)
	if known {
		stack[0] = boolResult(yes)
	}
	if w, ok := c.facts.(Witness); ok {
		w.Contained(name, member, yes, known)
	}
}
