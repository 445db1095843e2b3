package guest

import (
	"context"
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
	abi.CapUsageGet:        {[]api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}, usageGet},
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
	abi.CapUsageGet:        12_000,
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
	return group == "store" || group == "held" || group == "git" || group == "usage"
}
