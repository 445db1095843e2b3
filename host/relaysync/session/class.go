package session

import (
	"strings"

	"talon/sdk/abi"
)

// classOf tells what a relay complains about. NIP-01 has prefixes for it; where a relay
// has none, its words must do.
func classOf(text string) uint32 {
	text = strings.ToLower(text[:min(len(text), 300)])
	prefix, _, _ := strings.Cut(text, ":")
	said := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case prefix == "rate-limited" || said("rate limit", "rate-limit", "ratelimit", "slow down", "too fast", "too many requests", "noting too much", "too many messages"):
		return abi.ClassRateLimited
	case prefix == "auth-required":
		return abi.ClassAuthRequired
	case said("too many", "maximum concurrent", "max subscriptions", "maximum number", "results_too_big", "too big", "too large", "more than", "exceed"):
		return abi.ClassTooMuch
	case prefix == "restricted" || prefix == "blocked":
		return abi.ClassRestricted
	case prefix == "unsupported" || prefix == "invalid" || said("unknown message", "unknown cmd", "unknown command", "unknown verb", "unrecognised", "unrecognized", "not supported", "not support", "bad msg", "negentropy disabled", "could not parse", "failed to parse", "unknown envelope"):
		return abi.ClassUnsupported
	case prefix == "error":
		return abi.ClassError
	}
	return abi.ClassOther
}

// maxReason bounds what a strategy is told of a relay's words.
const maxReason = 256

// Quote makes a relay's words fit for a strategy and a log: short, one line, UTF-8.
func Quote(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 4*maxReason)], "?"))
	if len(clean) <= maxReason {
		return clean
	}
	return strings.ToValidUTF8(clean[:maxReason-3], "") + "…"
}
