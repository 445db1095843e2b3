// Command busystrategy is a strategy that never rests: each step spends most of its
// fuel, and asks for the next one now.
package main

import (
	_ "embed"

	"talon/sdk/strategy"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(busy))

func main() {}

type busy struct{ sum uint64 }

func (*busy) Configure(strategy.Config) error { return nil }

func (b *busy) Step(in strategy.Input, out *strategy.Actions) {
	for i := range uint64(1 << 20) {
		b.sum = b.sum*31 + i
	}
	out.SetTimer("again", in.Now())
}
