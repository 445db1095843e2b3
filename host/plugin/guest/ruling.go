package guest

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

const (
	otherRule   = "other"
	unnamedRule = "unnamed"
	maxReason   = 1 << 10

	// maxRetry bounds how long a refused event is remembered for a module.
	maxRetry = time.Minute
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
	abi.ActionRestrict:     host.Restrict,
}

// mayAnswer says which actions are answers to which function, by their indexes.
var mayAnswer = func() (table [Audience + 1][len(actions)]bool) {
	for f := range table {
		for action := range actions {
			table[f][action] = manifest.MayAnswer(Func(f).String(), uint32(action))
		}
	}
	return table
}()

// rule is what an instance remembers of a rule code with an action, so that
// deciding by it again allocates nothing.
type rule struct {
	key   ruleKey
	code  string // as metrics and logs have it
	count prometheus.Counter

	given  []byte // reason as the guest last gave it
	reason string // and as it is sent
}

type ruleKey struct {
	action host.Action
	source string
	code   string
}

// lastVerdict is what an instance has answered last, and what that means. Most events get
// the same answer as the one before.
type lastVerdict struct {
	f      Func
	answer []byte
	ruling host.Ruling
	rule   *rule // nil: there is none
}

// maxLastVerdict is the longest answer that is kept.
const maxLastVerdict = 256

// is reports whether an answer is the last one again.
func (l *lastVerdict) is(f Func, source string, answer []byte) bool {
	return l.rule != nil && l.f == f && l.rule.key.source == source && bytes.Equal(l.answer, answer)
}

// keep keeps an answer, unless it is a long one.
func (l *lastVerdict) keep(f Func, answer []byte, ruling host.Ruling, r *rule) {
	if len(answer) > maxLastVerdict {
		l.rule = nil
		return
	}
	l.f, l.answer, l.ruling, l.rule = f, append(l.answer[:0], answer...), ruling, r
}

// cachedVerdict returns what the instance knows of a rule.
func (inst *instance) cachedVerdict(action host.Action, source string, code []byte) *rule {
	if r := inst.rules[ruleKey{action, source, string(code)}]; r != nil {
		return r
	}
	name := unnamedRule
	switch {
	case len(code) == 0 && action == host.Pass:
		name = ""
	case isRule(code):
		if name = string(code); !inst.module.metrics.rules.admit(name) {
			name = otherRule
		}
	}
	r := &rule{key: ruleKey{action, source, string(code)}, code: name, count: inst.module.metrics.verdict(action, name, source)}
	// The guest chooses the codes, so what is remembered is bounded.
	if len(inst.rules) < 4*maxRules && len(code) <= 64 {
		inst.rules[r.key] = r
	}
	return r
}

// ruling makes a ruling of a verdict, and returns the rule that it counts for.
func (inst *instance) ruling(f Func, v *abi.VerdictView, source string) (host.Ruling, *rule, *Failure) {
	if int(v.Action) >= len(actions) {
		return host.Ruling{}, nil, &Failure{Cause: CauseGarbage, what: "answered with an unknown action"}
	}
	action := actions[v.Action]
	if !mayAnswer[f][v.Action] {
		return host.Ruling{}, nil, &Failure{Cause: CauseGarbage, what: fmt.Sprintf("answered %s with %s", f.export(), action)}
	}
	r := inst.cachedVerdict(action, source, v.Rule)
	ruling := host.Ruling{Action: action, Rule: r.code, Module: inst.module.name}
	switch action {
	case host.Reject, host.Hold, host.RequireAuth:
		if r.reason == "" || !bytes.Equal(r.given, v.Reason) {
			r.given = append(r.given[:0], v.Reason...)
			r.reason = Reason(action, string(v.Reason))
		}
		ruling.Reason = r.reason
	}
	if action == host.Pass || action == host.Accept || action == host.Hold {
		ruling.Limits = host.UsageLimits{Author: max(v.MaxAuthorBytes, 0), Repository: max(v.MaxRepositoryBytes, 0)}
	}
	ruling.End = v.End && (f == Admit || f == Query)
	if action == host.Reject && f == Admit {
		ruling.Retry = min(time.Duration(v.Retry)*time.Second, maxRetry)
	}
	if action == host.Hold {
		ruling.Parent = string(v.Parent)
		var failure *Failure
		if ruling.Wake, failure = wake(v); failure != nil {
			return host.Ruling{}, nil, failure
		}
		if ruling.Wake != "" {
			ruling.Wait = int64(v.Wait)
		}
	}
	if action == host.Restrict {
		var failure *Failure
		if ruling.Audience, failure = inst.module.audience(v); failure != nil {
			return host.Ruling{}, nil, failure
		}
	}
	return ruling, r, nil
}

// audience returns whom a verdict restricts an event to. The name of a set gets that of the
// module, so that it is the same for all modules.
func (m *Module) audience(v *abi.VerdictView) (*host.Audience, *Failure) {
	n := v.NumKeys()
	switch {
	case n > host.MaxAudienceKeys:
		return nil, &Failure{Cause: CauseGarbage, what: fmt.Sprintf("restricts an event to %d keys; the limit is %d", n, host.MaxAudienceKeys)}
	case n > 0 && len(v.Set) > 0:
		return nil, &Failure{Cause: CauseGarbage, what: "restricts an event to keys and to a set: want one of them"}
	case len(v.Set) > 64:
		return nil, &Failure{Cause: CauseGarbage, what: "restricts an event to a set whose name is longer than 64 bytes"}
	case len(v.Set) > 0:
		return &host.Audience{Set: m.name + "/" + string(v.Set)}, nil
	}
	a := &host.Audience{}
	seen := make(map[host.PubKey]struct{}, n)
	for i := range n {
		key := host.PubKey(v.Key(i))
		if _, twice := seen[key]; !twice {
			seen[key] = struct{}{}
			a.Keys = append(a.Keys, key)
		}
	}
	return a, nil
}

// maxWake bounds the filter of a verdict that holds an event, as JSON. The host keeps one for each
// such event.
const maxWake = 4 << 10

// wake returns the filter of the event for which a verdict has an event wait, as canonical JSON; empty
// if there is none. A filter without ids, authors and tags would match at every moment.
func wake(v *abi.VerdictView) (string, *Failure) {
	encoded := v.Wake.Encoded()
	if encoded == nil {
		return "", nil
	}
	f, possible, err := readFilter(encoded)
	if err != nil {
		return "", &Failure{Cause: CauseGarbage, what: "holds an event with a filter that is none", err: err}
	}
	for _, t := range f.Tags {
		if t.Name == host.AddressOf || t.Name == host.MaintainerOf {
			return "", &Failure{Cause: CauseGarbage, what: "holds an event with a filter by address or maintainer: want tags of one letter"}
		}
	}
	if !possible || f.IDs == nil && f.Authors == nil && f.Tags == nil {
		return "", &Failure{Cause: CauseGarbage, what: "holds an event with a filter that has no ids, authors and tags, or that matches nothing"}
	}
	f = f.Canonical()
	f.Limit, f.Header = -1, false
	text := wire.AppendFilter(nil, &f)
	if len(text) > maxWake {
		return "", &Failure{Cause: CauseGarbage, what: fmt.Sprintf("holds an event with a filter of %d bytes as JSON; the limit is %d", len(text), maxWake)}
	}
	return string(text), nil
}

// Reason makes what a plugin says fit for an OK message: one line with a
// standard prefix, of bounded length.
func Reason(action host.Action, text string) string {
	text = oneLine(text, maxReason)
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
	return want + ": " + truncate(text, maxReason-len(want)-2)
}

// oneLine makes a text of a module fit to be shown: without what moves the cursor,
// at most n bytes.
func oneLine(text string, n int) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, truncate(text, n)))
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
