package guest

import (
	"strings"

	"talon/sdk/abi"
)

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
