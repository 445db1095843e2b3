package policy

import (
	"testing"

	"talon/sdk/abi"
)

func TestVerdictsOnTheWire(t *testing.T) {
	for _, test := range []struct {
		verdict            Verdict
		action             uint32
		name, rule, reason string
	}{
		{Pass(), abi.ActionPass, "pass", "", ""},
		{Accept().By("a"), abi.ActionAccept, "accept", "a", ""},
		{Reject("blocked", "no").By("b"), abi.ActionReject, "reject", "b", "blocked: no"},
		{ShadowReject().By("c"), abi.ActionShadowReject, "shadow-reject", "c", ""},
		{Hold("wait").By("d"), abi.ActionHold, "hold", "d", "purgatory: wait"},
		{RequireAuth("log in").By("e"), abi.ActionRequireAuth, "auth-required", "e", "auth-required: log in"},
	} {
		var v abi.VerdictView
		if err := v.Decode(test.verdict.append(nil)); err != nil {
			t.Fatal(err)
		}
		if v.Action != test.action || test.verdict.Action.String() != test.name || string(v.Rule) != test.rule ||
			string(v.Reason) != test.reason || test.verdict.Reason() != test.reason {
			t.Errorf("%+v is written as %d %q %q", test.verdict, v.Action, v.Rule, v.Reason)
		}
	}
}
