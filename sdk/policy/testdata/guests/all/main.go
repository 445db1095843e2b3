// Command all is a policy for tests that uses every host function.
package main

import (
	_ "embed"
	"time"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, all{})

func main() {}

type all struct{}

func (all) Configure(policy.Config) error { return nil }

func (all) Admit(in policy.Input) policy.Verdict {
	pk := in.Event().PubKey()
	if _, ok := in.Get(in.Event().ID()); ok || in.Referenced("x") {
		return policy.Accept()
	}
	if list := in.Query(policy.Filter{Limit: 1}); list.Next() {
		return policy.Accept()
	}
	if _, ok := in.Held(policy.ID{}); ok {
		return policy.Accept()
	}
	if list := in.QueryHeld(policy.Filter{Limit: 1}); list.Next() {
		return policy.Accept()
	}
	in.Log(policy.Info, "x")
	in.Count("seen", 1)
	in.KVIncr(in.Key("bytes:", string(pk[:])), 1, 0)
	return policy.Pass()
}

func (all) Query(in policy.QueryInput) policy.Verdict {
	if yes, _ := in.InSet("friends", in.Client().Address()); yes {
		return policy.Pass()
	}
	if _, ok := in.Take(in.Key("query:", in.Client().Address()), 1, 5, time.Second); !ok {
		return policy.Reject("rate-limited", "slow down")
	}
	return policy.Pass()
}

func (all) Connect(in policy.ConnectInput) policy.Verdict {
	in.KVDelete("x")
	if value, ok := in.KVGet("x"); ok && !in.KVSet("x", value, 1) {
		return policy.Reject("blocked", "x")
	}
	return policy.Pass()
}

func (all) Push(in policy.PushInput) policy.Verdict {
	if object, ok := in.GitRef(in.Repo(), "refs/heads/main"); ok && in.GitHas(in.Repo(), object) {
		return policy.Accept()
	}
	return policy.Pass()
}
