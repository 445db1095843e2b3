package policy

import (
	"unicode/utf8"

	"talon/sdk/abi"
)

// Action is what a verdict says of an event, a query, a connection or a push.
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
	Retry  uint32 // seconds, see [Verdict.RetryFor]
}

// Pass has no opinion: the next policy decides. If all pass, an event is refused;
// a query, a connection and a push are allowed.
func Pass() Verdict { return Verdict{} }

// Accept stores the event, or allows what is asked about; policies further down the chain are not asked.
func Accept() Verdict { return Verdict{Action: ActionAccept} }

// Reject refuses. The client gets "prefix: text"; the prefix is one of blocked, invalid,
// pow, rate-limited, restricted, error.
func Reject(prefix, text string) Verdict {
	return Verdict{Action: ActionReject, Prefix: prefix, Text: text}
}

// ShadowReject refuses the event, and answers the client that it was stored. It answers a
// query as if nothing were here.
func ShadowReject() Verdict { return Verdict{Action: ActionShadowReject} }

// Hold keeps the event in purgatory: it is not served until it is released. A host
// without a purgatory refuses the event. Only an event can be held.
func Hold(text string) Verdict {
	return Verdict{Action: ActionHold, Prefix: "purgatory", Text: text}
}

// RequireAuth refuses the event or the query until the client authenticates (NIP-42).
func RequireAuth(text string) Verdict {
	return Verdict{Action: ActionRequireAuth, Prefix: "auth-required", Text: text}
}

// By returns v with the code of the rule that decided, for the operator's
// metrics and logs. It must not change between versions of a module.
func (v Verdict) By(rule string) Verdict {
	v.Rule = rule
	return v
}

// RetryFor returns v, the refusal of an event, such that the host decides about the
// event once more when another of its author is accepted within that many seconds, at
// most 60. The client is answered immediately. The host remembers only what clients send,
// the newest event of an author and kind, and of a client only some.
func (v Verdict) RetryFor(seconds uint32) Verdict {
	v.Retry = seconds
	return v
}

// Reason returns the reason for the client.
func (v Verdict) Reason() string {
	if v.Prefix == "" {
		return v.Text
	}
	return v.Prefix + ": " + v.Text
}

// append appends the answer to the host, nothing for a pass without a rule. A guest pays
// for each call, and most verdicts have no text.
func (v *Verdict) append(b []byte) []byte {
	if len(v.Prefix)|len(v.Text)|int(v.Retry) == 0 {
		return abi.AppendVerdict(b, uint32(v.Action), v.Rule, "", "")
	}
	return v.appendReason(b)
}

func (v *Verdict) appendReason(b []byte) []byte {
	return abi.AppendRetry(abi.AppendVerdict(b, uint32(v.Action), v.Rule, v.Prefix, cut(v.Text)), v.Retry)
}

// cut returns what the host would keep of a text, 1 KiB: an answer that is much longer
// counts as a failure of the module, and what a client sends may be part of it.
func cut(text string) string {
	if len(text) <= 1<<10 {
		return text
	}
	n := 1 << 10
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
