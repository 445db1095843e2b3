// Command members-only is a policy for a relay with members: it answers
// auth-required until a client has proven who it is (NIP-42). The operator names the
// members in the side-car file, as the set "members".
package main

import (
	_ "embed"

	"talon/sdk/abi"
	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, members{})

func main() {}

type members struct{}

func (members) Configure(policy.Config) error { return nil }

// Admit lets a member bring any event, also that of another author.
func (members) Admit(in policy.Input) policy.Verdict {
	if in.Origin() != policy.FromClient {
		return policy.Pass() // an import or another relay is the operator's own choice
	}
	if v, ok := check(in.Facts, in.Keys()); !ok {
		return v
	}
	return policy.Accept().By("member")
}

// Query passes the queries of members: other policies may still refuse them.
func (members) Query(in policy.QueryInput) policy.Verdict {
	v, _ := check(in.Facts, in.Client().Keys())
	return v
}

// check reports whether one of the keys that a client has proven is a member's. It also returns the
// answer if none is.
func check(facts policy.Facts, keys abi.BytesIter) (policy.Verdict, bool) {
	proven := false
	for keys.Next() {
		if yes, _ := facts.PubKeyInSet("members", keys.Key()); yes {
			return policy.Pass(), true
		}
		proven = true
	}
	if proven {
		return policy.Reject("restricted", "you are not a member").By("not-a-member"), false
	}
	return policy.RequireAuth("only members may do this, prove that you are one").By("who-are-you"), false
}
