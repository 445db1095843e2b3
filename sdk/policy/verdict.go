package policy

import "talon/sdk/abi"

// Action is what a verdict says of an event.
type Action uint32

const (
	ActionPass         Action = abi.ActionPass
	ActionAccept       Action = abi.ActionAccept
	ActionReject       Action = abi.ActionReject
	ActionShadowReject Action = abi.ActionShadowReject
	ActionHold         Action = abi.ActionHold
	ActionRequireAuth  Action = abi.ActionRequireAuth
)

func (a Action) String() string {
	names := [...]string{"pass", "accept", "reject", "shadow-reject", "hold", "auth-required"}
	if int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// Verdict is a policy's decision.
type Verdict struct {
	Action Action
	Rule   string // stable code of the rule that decided: a-z 0-9 - . _, at most 64 bytes
	Prefix string // standard prefix of the reason (NIP-01, NIP-42)
	Text   string // the reason after its prefix, for people
}

// Pass has no opinion: the next policy decides. If all pass, the event is
// refused.
func Pass() Verdict { return Verdict{} }

// Accept stores the event; policies further down the chain are not asked.
func Accept() Verdict { return Verdict{Action: ActionAccept} }

// Reject refuses the event. The client is told "prefix: text"; the prefix is
// one of blocked, invalid, pow, rate-limited, restricted, error.
func Reject(prefix, text string) Verdict {
	return Verdict{Action: ActionReject, Prefix: prefix, Text: text}
}

// ShadowReject refuses the event, and tells the client that it was stored.
func ShadowReject() Verdict { return Verdict{Action: ActionShadowReject} }

// Hold keeps the event in purgatory: it is not served until it is released. A host
// without a purgatory refuses the event.
func Hold(text string) Verdict {
	return Verdict{Action: ActionHold, Prefix: "purgatory", Text: text}
}

// RequireAuth refuses the event until the client authenticates (NIP-42).
func RequireAuth(text string) Verdict {
	return Verdict{Action: ActionRequireAuth, Prefix: "auth-required", Text: text}
}

// By returns v with the code of the rule that decided, for the operator's
// metrics and logs. It must not change between versions of a module.
func (v Verdict) By(rule string) Verdict {
	v.Rule = rule
	return v
}

// Reason is what the client is told.
func (v Verdict) Reason() string {
	if v.Prefix == "" {
		return v.Text
	}
	return v.Prefix + ": " + v.Text
}

func (v Verdict) append(b []byte) []byte {
	return abi.AppendVerdict(b, uint32(v.Action), v.Rule, v.Prefix, v.Text)
}
