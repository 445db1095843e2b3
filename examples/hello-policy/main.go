// Command hello-policy is the smallest useful policy: it refuses notes that
// shout, and has no opinion about anything else.
package main

import (
	_ "embed"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(hello))

func main() {}

type hello struct{ maxCapitals int64 }

func (h *hello) Configure(cfg policy.Config) error {
	h.maxCapitals = cfg.Int("max_capitals")
	return nil
}

func (h *hello) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if event.Kind() != 1 {
		return policy.Pass()
	}
	var row int64
	for _, c := range []byte(event.Content()) {
		switch {
		case 'A' <= c && c <= 'Z':
			row++
		case 'a' <= c && c <= 'z':
			row = 0
		}
		if row > h.maxCapitals {
			return policy.Reject("blocked", "please do not shout").By("shouting")
		}
	}
	return policy.Pass()
}
