// Command open is the policy of an open relay: it accepts every valid event, if the
// setting "every" is on.
//
// It has an opinion about every event then, so it belongs after what refuses
// events. Policies after it are not asked, but for one that hosts repositories, which
// holds what waits for git data.
package main

import (
	_ "embed"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(open))

func main() {}

type open struct{ every bool }

func (o *open) Configure(cfg policy.Config) error {
	o.every = cfg.Bool("every")
	return nil
}

func (o *open) Admit(policy.Input) policy.Verdict {
	if o.every {
		return accepted
	}
	return policy.Pass()
}

var accepted = policy.Accept().By("open")

// Idle returns admit while the relay is not open.
func (o *open) Idle() []string {
	if o.every {
		return nil
	}
	return []string{"admit"}
}

// Describe says that the relay is not for repositories alone.
func (o *open) Describe() (d policy.Description) {
	if o.every {
		d.Criteria = "Every valid event is stored, whatever it is about."
		d.Writes = policy.WritesOpen
	}
	return d
}
