package abi

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

// AppendRetry appends to a verdict for how many seconds a refused event is decided
// about once more when another of its author is accepted.
func AppendRetry(b []byte, seconds uint32) []byte { return appendUint(b, 10, uint64(seconds)) }
