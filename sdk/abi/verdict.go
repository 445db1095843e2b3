package abi

import "unicode/utf8"

// Actions of a verdict, as in talon.proto.
const (
	ActionPass         = 0
	ActionAccept       = 1
	ActionReject       = 2
	ActionShadowReject = 3
	ActionHold         = 4
	ActionRequireAuth  = 5
)

// AppendVerdict appends a verdict whose reason is "prefix: text", or empty if
// both are. The pieces are joined here so that a policy need not.
func AppendVerdict(b []byte, action uint32, rule, prefix, reason string) []byte {
	b = appendUint(b, 1, uint64(action))
	b = appendNonEmpty(b, 2, rule)
	if prefix == "" {
		return appendNonEmpty(b, 3, reason)
	}
	b = appendVarint(appendKey(b, 3, wireBytes), uint64(len(prefix)+2+len(reason)))
	b = append(b, prefix...)
	b = append(b, ": "...)
	return append(b, reason...)
}

// VerdictView reads a Verdict in place.
type VerdictView struct {
	Action uint32
	Rule   []byte // valid UTF-8
	Reason []byte // valid UTF-8
}

// Decode makes v a view of b. Whether the values make sense is for the caller.
func (v *VerdictView) Decode(b []byte) error {
	*v = VerdictView{}
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.is(1, wireVarint):
			v.Action = uint32(min(r.num, 1<<32-1))
		case r.is(2, wireBytes):
			v.Rule = r.data
		case r.is(3, wireBytes):
			v.Reason = r.data
		}
	}
	if r.bad || !utf8.Valid(v.Rule) || !utf8.Valid(v.Reason) {
		return ErrMalformed
	}
	return nil
}
