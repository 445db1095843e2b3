package plugin

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/host"
	"talon/host/wire"
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
)

// capabilities are the functions of the module "talon", by the name under which
// a manifest asks for them.
var capabilities = map[string]hostFunc{
	abi.CapStoreGet:        {[]api.ValueType{i32, i32, i32}, []api.ValueType{i32}, storeGet},
	abi.CapStoreQuery:      {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, storeQuery},
	abi.CapStoreReferenced: {[]api.ValueType{i32, i32}, []api.ValueType{i32}, storeReferenced},
	abi.CapLog:             {[]api.ValueType{i32, i32, i32}, nil, logLine},
}

// define adds functions to a host module.
func define(b wazero.HostModuleBuilder, name string, f hostFunc) {
	run := f.run
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		c := ctx.(*call)
		c.enter()
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
func deliver(mem api.Memory, out, capacity uint64, answer []byte) uint64 {
	if len(answer) <= int(uint32(capacity)) && !mem.Write(uint32(out), answer) {
		panic(errPointer)
	}
	return uint64(len(answer))
}

func i32Result(v int32) uint64 { return uint64(uint32(v)) }

// store does one read of the store for a guest, within its limits. A failure of
// the host is kept for the caller of the guest; the guest is told Unavailable.
func (c *call) store(what string, f func(ctx context.Context) error) bool {
	limits := &c.inst.module.limits
	if c.storeCalls++; c.storeCalls > limits.StoreCalls {
		panic(errHostLimit)
	}
	if c.facts == nil {
		c.err = cmpErr(c.err, fmt.Errorf("%s: the store is not there while a module starts", what))
		return false
	}
	ctx, cancel := context.WithTimeout(c.Context, limits.StoreTime)
	defer cancel()
	if err := f(ctx); err != nil {
		c.err = cmpErr(c.err, fmt.Errorf("%s: %w", what, err))
		return false
	}
	return true
}

// cmpErr returns the first error.
func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// spend counts bytes of an answer.
func (c *call) spend(n int) {
	if c.storeBytes += n; c.storeBytes > c.inst.module.limits.StoreBytes {
		panic(errHostLimit)
	}
}

func storeGet(c *call, mem api.Memory, stack []uint64) {
	id := host.ID(read(mem, stack[0], 32))
	var text []byte
	if !c.store(abi.CapStoreGet, func(ctx context.Context) (err error) {
		text, err = c.facts.Get(ctx, id)
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	if text == nil {
		stack[0] = i32Result(abi.NotFound)
		return
	}
	answer, err := appendStored(nil, text, false)
	if err != nil {
		c.err = cmpErr(c.err, err)
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	c.spend(len(answer))
	stack[0] = deliver(mem, stack[1], stack[2], answer)
}

func storeQuery(c *call, mem api.Memory, stack []uint64) {
	filter, possible, err := readFilter(read(mem, stack[0], stack[1]))
	if err != nil {
		panic(err)
	}
	if !possible {
		stack[0] = deliver(mem, stack[2], stack[3], nil)
		return
	}
	var found [][]byte
	if !c.store(abi.CapStoreQuery, func(ctx context.Context) (err error) {
		found, err = c.facts.Query(ctx, filter)
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	var answer []byte
	for _, text := range found[:min(len(found), filter.Limit)] {
		before := len(answer)
		if answer, err = appendStored(answer, text, true); err != nil {
			c.err = cmpErr(c.err, err)
			stack[0] = i32Result(abi.Unavailable)
			return
		}
		c.spend(len(answer) - before)
	}
	stack[0] = deliver(mem, stack[2], stack[3], answer)
}

func appendStored(b, text []byte, inList bool) ([]byte, error) {
	e, err := wire.ParseEvent(text)
	if err != nil {
		return b, fmt.Errorf("parse a stored event: %w", err)
	}
	return appendEvent(b, e, inList), nil
}

// maxReference bounds the text of store.referenced: an address holds a d tag.
const maxReference = 4 << 10

func storeReferenced(c *call, mem api.Memory, stack []uint64) {
	if uint32(stack[1]) > maxReference {
		stack[0] = 0
		return
	}
	text := string(read(mem, stack[0], stack[1]))
	var yes bool
	switch {
	case !c.store(abi.CapStoreReferenced, func(ctx context.Context) (err error) {
		yes, err = c.facts.Referenced(ctx, text)
		return err
	}):
		stack[0] = i32Result(abi.Unavailable)
	case yes:
		stack[0] = 1
	default:
		stack[0] = 0
	}
}

func logLine(c *call, mem api.Memory, stack []uint64) {
	text := read(mem, stack[1], stack[2])
	c.log(int32(stack[0]), string(text[:min(len(text), c.inst.module.limits.LogLineBytes+4)]))
}

// maxFilterValues bounds ids, authors, kinds and tag values of one filter.
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
		if len(t.Name) != 1 || seen[t.Name[0]] {
			return f, false, fmt.Errorf("%w: want each tag once, by a single letter", errFilter)
		}
		seen[t.Name[0]] = true
		f.Tags = append(f.Tags, host.TagFilter{Name: t.Name[0], Values: t.Values})
	}
	f.Since, f.Until = wire.Since, wire.Until
	f.Limit = queryLimit
	if wire.Limit > 0 && wire.Limit < queryLimit {
		f.Limit = int(wire.Limit)
	}
	return f, !f.Empty() && (len(wire.Kinds) == 0 || f.Kinds != nil), nil
}
