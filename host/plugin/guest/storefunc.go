package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"talon/host"
	"talon/sdk/abi"
)

// errNoFacts is why a module cannot read the store while it starts.
var errNoFacts = errors.New("the store is not there")

func storeGet(c *call, mem api.Memory, stack []uint64) {
	c.get(abi.CapStoreGet, mem, stack, func(ctx context.Context, id host.ID) ([]byte, error) {
		if c.facts == nil {
			return nil, errNoFacts
		}
		return c.facts.Get(ctx, id)
	})
}

func heldGet(c *call, mem api.Memory, stack []uint64) {
	c.get(abi.CapHeldGet, mem, stack, func(ctx context.Context, id host.ID) ([]byte, error) {
		if held := c.held(); held != nil {
			return held.Held(ctx, id)
		}
		return nil, nil
	})
}

// held is the purgatory as the facts of the decision have it, so that the decision
// is taken again if it rests on what changes; nil if there is none.
func (c *call) held() host.HeldFacts {
	if held, ok := c.facts.(host.HeldFacts); ok {
		return held
	}
	return c.inst.module.held
}

// get answers with the event that f finds for the id at the first parameter.
func (c *call) get(what string, mem api.Memory, stack []uint64, f func(context.Context, host.ID) ([]byte, error)) {
	id := host.ID(read(mem, stack[0], 32))
	var text []byte
	if !c.read(what, func(ctx context.Context) (err error) {
		text, err = f(ctx, id)
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	if text == nil {
		stack[0] = i32Result(abi.NotFound)
		return
	}
	c.charge(int64(len(text)) * fuelPerStored)
	answer, err := c.inst.module.events.append(nil, text, false, false)
	if err != nil {
		c.unavailable(err)
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	stack[0] = c.deliver(mem, stack[1], stack[2], answer)
}

func storeQuery(c *call, mem api.Memory, stack []uint64) {
	c.query(abi.CapStoreQuery, mem, stack, func(ctx context.Context, f host.Filter) ([][]byte, error) {
		if c.facts == nil {
			return nil, errNoFacts
		}
		return c.facts.Query(ctx, f)
	})
}

func heldQuery(c *call, mem api.Memory, stack []uint64) {
	c.query(abi.CapHeldQuery, mem, stack, func(ctx context.Context, f host.Filter) ([][]byte, error) {
		if held := c.held(); held != nil {
			return held.HeldBy(ctx, f)
		}
		return nil, nil
	})
}

// query answers with the events that f finds for the filter of the first two
// parameters. An answer that does not fit is kept for the guest to ask for it again,
// with more room, which costs the same.
func (c *call) query(what string, mem api.Memory, stack []uint64, f func(context.Context, host.Filter) ([][]byte, error)) {
	encoded := read(mem, stack[0], stack[1])
	c.chargeBytes(len(encoded))
	if q := c.unfit; q != nil && q.what == what && bytes.Equal(q.filter, encoded) {
		c.countRead()
		c.charge(q.fuel)
		stack[0] = c.deliver(mem, stack[2], stack[3], q.answer)
		return
	}
	c.unfit = nil
	filter, possible, err := readFilter(encoded)
	if err != nil {
		panic(err)
	}
	if !possible {
		stack[0] = c.deliver(mem, stack[2], stack[3], nil)
		return
	}
	var found [][]byte
	if !c.read(what, func(ctx context.Context) (err error) {
		found, err = f(ctx, filter)
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	b := answers.Get().(*[]byte)
	defer answers.Put(b)
	answer, fuel, err := c.encode((*b)[:0], found, &filter)
	if err != nil {
		c.unavailable(err)
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	*b = answer
	if len(answer) > int(uint32(stack[3])) {
		c.unfit = &unfitAnswer{what, bytes.Clone(encoded), bytes.Clone(answer), fuel}
	}
	stack[0] = c.deliver(mem, stack[2], stack[3], answer)
}

// answers are buffers for answers to queries.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// unfitAnswer is the answer to a query that had more bytes than the guest had room for.
type unfitAnswer struct {
	what   string
	filter []byte // encoded
	answer []byte
	fuel   int64 // for what was found
}

// encode appends the answer to a query, and returns the fuel that it has cost.
func (c *call) encode(answer []byte, found [][]byte, filter *host.Filter) (_ []byte, fuel int64, err error) {
	more := len(found) >= filter.Limit
	for _, text := range found[:min(len(found), filter.Limit)] {
		if !filter.Header {
			price := int64(len(text)) * fuelPerStored
			fuel += price
			c.charge(price)
		}
		longer, err := c.inst.module.events.append(answer, text, true, filter.Header)
		if err != nil {
			return nil, fuel, err
		}
		if len(longer) > queryBytes {
			more = true
			break
		}
		answer = longer
	}
	if more {
		answer = abi.AppendMore(answer)
	}
	return answer, fuel, nil
}

// maxReference bounds the text of an address: it holds a d tag.
const maxReference = 4 << 10

func storeReferenced(c *call, mem api.Memory, stack []uint64) {
	if uint32(stack[1]) > maxReference {
		stack[0] = 0
		return
	}
	text := string(read(mem, stack[0], stack[1]))
	var yes bool
	if !c.read(abi.CapStoreReferenced, func(ctx context.Context) (err error) {
		if c.facts == nil {
			return errNoFacts
		}
		yes, err = c.facts.Referenced(ctx, text)
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	stack[0] = boolResult(yes)
}

// Limits on one filter: ids, authors, kinds and tag values, and its encoding.
const (
	maxFilterValues = 1000
	maxFilterBytes  = 256 << 10
)

// readFilter reads a guest's filter. It reports false for one that no event can
// match.
func readFilter(b []byte) (f host.Filter, possible bool, err error) {
	if len(b) > maxFilterBytes {
		return f, false, fmt.Errorf("%w: it is larger than %d bytes", errFilter, maxFilterBytes)
	}
	wire, err := abi.DecodeFilter(b, maxFilterValues)
	if err != nil {
		return f, false, fmt.Errorf("%w: %w", errFilter, err)
	}
	for _, id := range wire.IDs {
		f.IDs = append(f.IDs, id)
	}
	for _, pk := range wire.Authors {
		f.Authors = append(f.Authors, pk)
	}
	for _, kind := range wire.Kinds {
		if kind <= 65535 {
			f.Kinds = append(f.Kinds, host.Kind(kind))
		}
	}
	var seen [256]bool
	for _, t := range wire.Tags {
		name, ok := tagName(t.Name)
		if !ok || seen[name] {
			return f, false, fmt.Errorf("%w: want each tag once, by a single letter", errFilter)
		}
		seen[name] = true
		f.Tags = append(f.Tags, host.TagFilter{Name: name, Values: t.Values})
	}
	f.Header = wire.Header
	f.Since, f.Until = wire.Since, wire.Until
	f.Limit = queryLimit
	if wire.Limit > 0 && wire.Limit < queryLimit {
		f.Limit = int(wire.Limit)
	}
	return f, !f.Empty() && (len(wire.Kinds) == 0 || f.Kinds != nil), nil
}

// tagName returns what a filter's tag is called within the host.
func tagName(s string) (name byte, ok bool) {
	switch {
	case s == "address":
		return host.AddressOf, true
	case s == "maintainer":
		return host.MaintainerOf, true
	case len(s) != 1 || s[0] == host.AddressOf || s[0] == host.MaintainerOf || s[0] == host.WordOf:
		return 0, false
	}
	return s[0], true
}
