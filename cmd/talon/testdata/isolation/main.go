// Command isolation is a policy whose decisions cost what the first word of an
// event says.
package main

import (
	_ "embed"
	"strings"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, isolation{})

func main() {}

type isolation struct{}

func (isolation) Configure(policy.Config) error { return nil }

func (isolation) Admit(in policy.Input) policy.Verdict {
	word, _, _ := strings.Cut(in.Event().Content(), " ")
	switch word {
	case "repeats":
		// Refuses what was said within a minute.
		recent := policy.Filter{Kinds: []int{in.Event().Kind()}, Since: in.Now() - 60}
		for found := in.Query(recent); found.Next(); {
			if found.Event().Content() == in.Event().Content() {
				return policy.Reject("blocked", "said within a minute")
			}
		}
	case "broad":
		for range 64 {
			in.Query(policy.Filter{Since: 1})
		}
	case "loop":
		for {
		}
	}
	return policy.Pass()
}
