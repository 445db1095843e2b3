// Command thread-parents is a policy that completes threads. It accepts an event that a stored
// event refers to, from any client. It belongs late in the chain, so that earlier policies refuse
// unwanted events.
package main

import (
	_ "embed"
	"strconv"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, parents{})

func main() {}

type parents struct{}

func (parents) Configure(policy.Config) error { return nil }

// Admit makes strings, so that the garbage collector runs now and then within a
// decision: the manifest asks for the fuel of it.
func (parents) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if in.Referenced(event.ID().String()) {
		return policy.Accept().By("parent")
	}
	if kind := event.Kind(); 30000 <= kind && kind < 40000 { // addressable (NIP-01)
		d, _ := event.Tag("d")
		if in.Referenced(in.Key(strconv.Itoa(kind), ":", event.PubKey().String(), ":", d)) {
			return policy.Accept().By("parent")
		}
	}
	return policy.Pass()
}
