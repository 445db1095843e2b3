package plugin

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/sdk/abi"
)

// maxRules is how many rule codes of one module are told apart; later ones
// count as otherRule, since they are labels of metrics.
const (
	maxRules    = 64
	otherRule   = "other"
	unnamedRule = "unnamed"
	maxReason   = 1 << 10
)

// prefixes may start a reason (NIP-01, NIP-42, GRASP purgatory).
var prefixes = []string{
	"blocked", "invalid", "pow", "rate-limited", "restricted", "mute", "error", "duplicate", "auth-required", "purgatory",
}

// actions translates a verdict's action, the index.
var actions = [...]host.Action{
	abi.ActionPass:         host.Pass,
	abi.ActionAccept:       host.Accept,
	abi.ActionReject:       host.Reject,
	abi.ActionShadowReject: host.ShadowReject,
	abi.ActionHold:         host.Hold,
	abi.ActionRequireAuth:  host.RequireAuth,
}

// rule is what an instance remembers of a rule code with an action, so that
// deciding by it again allocates nothing.
type rule struct {
	code  string
	count prometheus.Counter

	given  []byte // reason as the guest last gave it
	reason string // and as it is sent
}

type ruleKey struct {
	action host.Action
	code   string
}

// rule returns what the instance knows of a rule.
func (inst *instance) rule(action host.Action, code []byte) *rule {
	if r := inst.rules[ruleKey{action, string(code)}]; r != nil {
		return r
	}
	name := unnamedRule
	switch {
	case len(code) == 0 && action == host.Pass:
		name = ""
	case isRule(code):
		name = inst.module.ruleNames.admit(string(code))
	}
	r := &rule{code: name, count: inst.module.metrics.verdict(action, name)}
	// The guest chooses the codes, so what is remembered is bounded.
	if len(inst.rules) < 4*maxRules && len(code) <= 64 {
		inst.rules[ruleKey{action, string(code)}] = r
	}
	return r
}

// ruling makes a ruling of a verdict.
func (inst *instance) ruling(v *abi.VerdictView) (host.Ruling, *failure) {
	if int(v.Action) >= len(actions) {
		return host.Ruling{}, &failure{cause: causeGarbage, what: "answered with an unknown action"}
	}
	action := actions[v.Action]
	r := inst.rule(action, v.Rule)
	r.count.Inc()
	ruling := host.Ruling{Action: action, Rule: r.code, Module: inst.module.name}
	switch action {
	case host.Reject, host.Hold, host.RequireAuth:
		if r.reason == "" || !bytes.Equal(r.given, v.Reason) {
			r.given = append(r.given[:0], v.Reason...)
			r.reason = reason(action, string(v.Reason))
		}
		ruling.Reason = r.reason
	}
	return ruling, nil
}

// reason makes what a module says fit for an OK message: one line with a
// standard prefix, of bounded length.
func reason(action host.Action, text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, cut(text, maxReason)))
	want := "blocked"
	switch action {
	case host.Hold:
		want = "purgatory"
	case host.RequireAuth:
		want = "auth-required"
	}
	prefix, _, ok := strings.Cut(text, ": ")
	switch {
	case ok && action != host.Reject && prefix == want:
		return text
	case ok && action == host.Reject && isPrefix(prefix):
		return text
	case text == "":
		return want + ": refused by policy"
	}
	return want + ": " + cut(text, maxReason-len(want)-2)
}

func isPrefix(s string) bool {
	for _, p := range prefixes {
		if s == p {
			return true
		}
	}
	return false
}

func isRule(code []byte) bool {
	for _, c := range code {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return len(code) > 0 && len(code) <= 64
}
