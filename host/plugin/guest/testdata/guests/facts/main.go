// Command facts is a policy for tests that uses every host function.
package main

import (
	_ "embed"
	"encoding/hex"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, policy.Func(admit))

func main() {}

func admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if in.Referenced(event.ID().String()) {
		return policy.Accept().By("referenced")
	}
	parent, _ := event.Tag("e")
	var id policy.ID
	if _, err := hex.Decode(id[:], []byte(parent)); err != nil {
		return policy.Reject("invalid", "the e tag is not an id").By("bad-parent")
	}
	found, ok := in.Get(id)
	if !ok {
		in.Log(policy.Info, "no parent "+parent)
		return policy.Reject("blocked", "the event that this one replies to is not here").By("no-parent")
	}
	if found.ID() != id || found.Content() == "" {
		panic("the store gave another event")
	}
	n := 0
	for list := in.Query(policy.Filter{
		Authors: []policy.PubKey{event.PubKey()}, Kinds: []int{1}, Since: in.Now() - 3600, Limit: 3,
	}); list.Next(); {
		if list.Event().Kind() != 1 {
			panic("the store gave another kind")
		}
		n++
	}
	if n >= 3 {
		return policy.Reject("rate-limited", "three events are enough").By("many")
	}
	return policy.Accept().By("few")
}
