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
		"blocked: too many negentropy sessions on this connection":                             abi.ClassTooMuch,
		"rate-limited: too many requests, there are more than we like":                         abi.ClassRateLimited,
		"rate-limited: there is a bug in the client, no one should be making so many requests": abi.ClassRateLimited,
		// Waiting does not change these, whatever the prefix says.
		"rate-limited: the subscriptions of this connection hold too many values, close one first": abi.ClassTooMuch,
		"rate-limited: too many subscriptions on this connection, close one first":                 abi.ClassTooMuch,
		"rate-limited: too many REQs":                                         abi.ClassTooMuch,
		"rate-limited: the relay has too many subscriptions, try again later": abi.ClassError,
	} {
		if got := classOf(text); got != want {
			t.Errorf("%.60q: %d, want %d", text, got, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	type refused struct {
		what  refusal
		limit int
	}
	for text, want := range map[string]refused{
		"rate-limited: the subscriptions of this connection hold too many values, close one first":                {refusedValues, 0},
		"error: the subscriptions of this connection may have 20000 values in all, close one first":               {refusedValues, 20000},
		"error: too many subscriptions on this connection, close one of the 64 first":                             {refusedSubscriptions, 64},
		"error: the relay has no room for more subscriptions, try again later":                                    {refusedForOthers, 0},
		"error: the relay has no room for the values of more subscriptions, try again later":                      {refusedForOthers, 0},
		"rate-limited: the relay has too many subscriptions, try again later":                                     {refusedForOthers, 0},
		"Subscription rejected: Too many subscriptions: Number of subscriptions must be less than or equal to 10": {refusedSubscriptions, 10},
		"Subscription error: Maximum concurrent subscription count reached":                                       {refusedSubscriptions, 0},
		"ERROR: too many concurrent REQs":                                                                         {refusedSubscriptions, 0},
		"rate-limited: too many REQs":                                                                             {refusedSubscriptions, 0},
		"invalid: REQ message must contain at most 12 elements":                                                   {refusedFilters, 10},
		"invalid: at most 20 filters in one REQ":                                                                  {refusedFilters, 20},
		"ERROR: bad req: arr too big":                                                                             {refusedReq, 0},
		"message too large (300000 > 262144)":                                                                     {refusedSize, 262144},
		"Subscription rejected: Limit too high: Filter limit must be less than or equal to 5000":                  {refusedLimit, 5000},
		"invalid: limit too high":                                                                                 {refusedLimit, 0},
		"rate-limited: there is a bug in the client, no one should be making so many requests":                    {refusedNothing, 0},
		"rate-limited: slow down":                                                                                 {refusedNothing, 0},
		"error: there is no room for more subscriptions of your network, close one or try again later":            {refusedForOthers, 0},
		"error: the subscriptions of your network may have 200000 values in all, close one or try again later":    {refusedForOthers, 0},
		"error: the relay is busy and takes 4 subscriptions of a connection now, try again later":                 {refusedForOthers, 0},
		"rate-limited: your network has too many subscriptions, close one first":                                  {refusedForOthers, 0},
	} {
		if what, limit := refusalOf(text); what != want.what || limit != want.limit {
			t.Errorf("%q: %d of %d, want %d of %d", text, what, limit, want.what, want.limit)
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
