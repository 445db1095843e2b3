// Command allow-rate is a policy that accepts events of the authors on a list, a limited number of
// each in a minute. The folders allow-rate-c, allow-rate-rust and allow-rate-assemblyscript have
// the same policy in other languages, with the same manifest.
package main

import (
	_ "embed"
	"strconv"
	"time"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(allowRate))

func main() {}

type allowRate struct {
	allow map[policy.PubKey]bool
	burst int
	every time.Duration // one event more
}

func (a *allowRate) Configure(cfg policy.Config) error {
	a.allow = make(map[policy.PubKey]bool)
	for _, author := range cfg.Strings("allow") {
		key, err := policy.ParsePubKey(author)
		if err != nil {
			return policy.WrongValue("allow", author, "an npub or 64 hex digits")
		}
		a.allow[key] = true
	}
	a.burst = int(cfg.Int("burst"))
	a.every = time.Minute / time.Duration(cfg.Int("per_minute"))
	return nil
}

// Idle spares the relay questions while there is no list.
func (a *allowRate) Idle() []string {
	if len(a.allow) > 0 {
		return nil
	}
	return []string{"admit"}
}

func (a *allowRate) Admit(in policy.Input) policy.Verdict {
	author := in.Event().Author()
	switch {
	case len(a.allow) == 0:
		return policy.Pass()
	case !a.allow[*author]:
		return policy.Reject("restricted", "only some authors may write here").By("not-allowed")
	case in.Origin() == policy.FromImport, in.Origin() == policy.FromSync:
		return policy.Accept().By("allowed")
	}
	// A bucket belongs to the name of the module's file: all instances share it, and
	// it outlives a new version and a restart.
	wait, ok := in.Take(in.Key("author:", string(author[:])), 1, a.burst, a.every)
	switch {
	case ok:
		return policy.Accept().By("allowed")
	case wait < 0:
		return policy.Reject("rate-limited", "no events of this author are accepted at present").By("too-fast")
	}
	seconds := int((wait + time.Second - 1) / time.Second)
	return policy.Reject("rate-limited", "too many events of this author, try again in "+strconv.Itoa(seconds)+" s").By("too-fast")
}
