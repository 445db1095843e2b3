package guest

import (
	"github.com/tetratelabs/wazero/api"

	"talon/sdk/abi"
)

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

// Sets are the lists that a plugin can look things up in.
type Sets interface {
	// Contains reports whether the set has the member, and whether there is such a
	// set.
	Contains(name, member []byte) (yes, known bool)
}
