package session

import (
	"strings"
	"testing"

	"talon/sdk/abi"
)

func TestClass(t *testing.T) {
	for text, want := range map[string]uint32{
		"rate-limited: slow down":                            abi.ClassRateLimited,
		"ERROR: you are sending too fast":                    abi.ClassRateLimited,
		"auth-required: members only":                        abi.ClassAuthRequired,
		"restricted: not you":                                abi.ClassRestricted,
		"blocked: banned":                                    abi.ClassRestricted,
		"unsupported: filter":                                abi.ClassUnsupported,
		"ERROR: bad msg: unknown cmd":                        abi.ClassUnsupported,
		"invalid: no such thing":                             abi.ClassUnsupported,
		"error: too many concurrent REQs":                    abi.ClassTooMuch,
		"blocked: the filter selects more than 1000 records": abi.ClassTooMuch,
		"error: database is down":                            abi.ClassError,
		"hello":                                              abi.ClassOther,
		"":                                                   abi.ClassOther,
		strings.Repeat("x", 100_000) + "rate limit":          abi.ClassOther,
		"closed: the session was idle for too long":          abi.ClassOther,
		"unsupported: negentropy is not supported":           abi.ClassUnsupported,
		"blocked: too many negentropy sessions on this connection":     abi.ClassTooMuch,
		"rate-limited: too many requests, there are more than we like": abi.ClassRateLimited,
	} {
		if got := classOf(text); got != want {
			t.Errorf("%.60q: %d, want %d", text, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                          "plain",
		"two\nlines\x1b[31m":             "two lines [31m",
		"not utf-8 \xff":                 "not utf-8 ?",
		strings.Repeat("é", 10_000):      strings.Repeat("é", 126) + "…",
		strings.Repeat("\u2028", 10_000): "",
	} {
		if got := Quote(in); got != want && want != "" || len(got) > maxReason {
			t.Errorf("%.20q: %q (%d bytes)", in, got, len(got))
		}
	}
}
