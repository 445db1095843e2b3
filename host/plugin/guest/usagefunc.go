package guest

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero/api"

	"talon/host"
	"talon/sdk/abi"
)

// errNoUsage is why a module cannot read how much of the store somebody takes.
var errNoUsage = errors.New("the facts of this decision have no usage")

// usageGet answers with as many numbers as the guest has room for.
func usageGet(c *call, mem api.Memory, stack []uint64) {
	key, ok := readUsageKey(mem, stack[0], stack[1])
	var found []host.Usage
	if ok && !c.read(abi.CapUsageGet, func(ctx context.Context) (err error) {
		facts, has := c.facts.(host.UsageFacts)
		if !has {
			return errNoUsage
		}
		found, err = facts.Usage(ctx, key)
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	var u host.Usage // nothing is under a name that nobody has
	if len(found) == 1 {
		u = found[0]
	}
	answer := abi.AppendUsage(nil, abi.Usage(u))
	c.deliver(mem, stack[2], stack[3], answer[:min(len(answer), int(uint32(stack[3])))])
	stack[0] = uint64(len(answer))
}

// readUsageKey reads the 32 bytes or the 64 hex digits of an author, or the address of a
// repository. It reports false for anything else.
func readUsageKey(mem api.Memory, addr, length uint64) (host.UsageKey, bool) {
	name := read(mem, addr, length)
	var author host.PubKey
	switch {
	case len(name) == len(author):
		return host.UsageOfAuthor(host.PubKey(name)), true
	case len(name) == 2*len(author) && host.ParseHex(author[:], string(name)):
		return host.UsageOfAuthor(author), true
	case len(name) > maxReference:
		return host.UsageKey{}, false
	}
	return host.ParseUsageName(string(name))
}
