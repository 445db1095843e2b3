package session

import (
	"slices"
	"strings"

	"talon/sdk/abi"
)

// refusal is what a relay had no room for, by its words.
type refusal uint8

const (
	refusedNothing       refusal = iota
	refusedSubscriptions         // too many subscriptions
	refusedValues                // too many values in all open subscriptions together
	refusedFilters               // too many filters in one REQ
	refusedSize                  // the message is too large
	refusedForOthers             // other clients have taken what there is
	refusedLimit                 // a filter asks for more events than the relay gives in one answer
	refusedReq                   // a REQ, for some other reason
)

// tooMuch reports whether the relay takes less than it was asked for. Waiting does not change
// that, whatever prefix the relay gives it.
func (r refusal) tooMuch() bool { return r >= refusedSubscriptions && r <= refusedSize }

// refusalOf tells what a relay's words refuse, and how much of it the relay takes, if it
// says so. Relays that have no CLOSED say it in a NOTICE.
func refusalOf(text string) (what refusal, limit int) {
	text = strings.ToLower(text[:min(len(text), 300)])
	has := contains(text)
	switch {
	case has("try again later") && has("the relay has too many subscriptions", "room for more subscriptions", "room for the values of", "of your network", "the relay is busy"),
		has("your network has too many subscriptions"):
		return refusedForOthers, 0
	case has("subscription") && has("too many values", "values in all", "subscription_values"):
		return refusedValues, lastNumber(text)
	case has("too many concurrent req", "too many reqs", "too many subscriptions", "too many open subscriptions", "maximum concurrent subscription",
		"max subscriptions", "maximum number of subscriptions", "subscription limit"):
		return refusedSubscriptions, lastNumber(text)
	case has("req message must contain"):
		return refusedFilters, max(0, lastNumber(text)-2) // nostream counts the verb and the id
	case has("too many filters", "max filters", "filters in one req", "maximum number of filters"):
		return refusedFilters, firstNumber(text)
	case has("message too large", "message is too large", "message too big", "message too long", "max_message_length", "exceeds maximum message"):
		return refusedSize, lastNumber(text)
	case has("limit too high", "limit is too high", "limit too large", "filter limit must"):
		return refusedLimit, lastNumber(text)
	case has("bad req", "subscription rejected", "req message must", "subscription error", "invalid filter", "filter limit"):
		return refusedReq, 0
	}
	return refusedNothing, 0
}

// contains returns a function that reports whether a text has one of several words in it.
func contains(text string) func(words ...string) bool {
	return func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
}

// lastNumber returns the number that a text names last, 0 if there is none that could be
// a limit.
func lastNumber(text string) (n int) {
	digits := func(c rune) bool { return c >= '0' && c <= '9' }
	end := strings.LastIndexFunc(text, digits) + 1
	begin := strings.LastIndexFunc(text[:end], func(c rune) bool { return !digits(c) }) + 1
	return numberOf(text[begin:end])
}

// firstNumber returns the number that a text names first, 0 if there is none that could be
// a limit.
func firstNumber(text string) int {
	digits := func(c rune) bool { return c >= '0' && c <= '9' }
	text = text[max(0, strings.IndexFunc(text, digits)):]
	if end := strings.IndexFunc(text, func(c rune) bool { return !digits(c) }); end >= 0 {
		text = text[:end]
	}
	return numberOf(text)
}

func numberOf(digits string) (n int) {
	if len(digits) > 9 {
		return 0
	}
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}

// notice handles a NOTICE. The loop gets a bounded number of them a minute. Beyond that the
// session allows one for each message of ours, since some relays refuse each message that
// is too much for them. before is the subscription whose EOSE was the message before it, or
// nil.
func (s *Session) notice(text string, before *request) {
	class := classOf(text)
	s.attribute(class, text, before)
	if s.notices < 1 {
		b := noticeBeyond
		if s.unnoticed--; s.unnoticed < 0 {
			s.unnoticed, b = 0, noticeUncalled
		}
		s.violation(b)
		return
	}
	s.notices--
	if class == abi.ClassRateLimited {
		s.limited(text)
	}
	s.notify(&Notice{abi.Notice{Relay: s.relay, Class: class, Text: Quote(text)}})
}

// attribute finds out what a NOTICE refuses. A relay refuses a message when it reads it,
// while what came before may still be answered: so it is the newest that is not answered.
func (s *Session) attribute(class uint32, text string, before *request) {
	what, limit := refusalOf(text)
	switch {
	case what == refusedSubscriptions:
		r := s.unanswered()
		if before != nil && !before.closed && (r == nil || r.sent < before.heard) && strings.Contains(text, "too many concurrent REQs") {
			r = before // strfry answers what is stored, and then has no room for what is live
		}
		if r != nil {
			s.noRoom(r, what, limit, text)
		}
	case what == refusedValues:
		if r := s.unanswered(); r != nil {
			s.noRoom(r, what, limit, text)
		}
	case what == refusedForOthers:
		if r := s.unanswered(); r != nil {
			s.fail(r, abi.ClassLimit, Quote(text))
		}
	case what == refusedFilters:
		if r := s.unanswered(); r != nil {
			s.tooManyFilters(r, limit)
			s.fail(r, abi.ClassTooMuch, Quote(text))
		}
	case what == refusedLimit:
		if r := s.unanswered(); r != nil {
			s.fail(r, s.limitTooHigh(r, limit, class), Quote(text))
		}
	case what == refusedSize:
		s.tooLarge(limit, Quote(text))
	case class == abi.ClassUnsupported && what == refusedNothing && s.refuseNegentropy(class, text):
	case class == abi.ClassRateLimited:
		// Some relays lose the message, others answer it all the same.
		s.limitedAt = s.now
		s.draining.maybeLost(s.now)
		if r := s.unanswered(); r != nil && r.lost == 0 {
			r.lost = s.now
			s.checkNoLater(s.now + lostTime)
		}
	case what == refusedReq || class == abi.ClassUnsupported && s.strays == 0:
		if r := s.unanswered(); r != nil {
			s.fail(r, s.tooWide(r, max(class, abi.ClassUnsupported)), Quote(text))
		}
	case class == abi.ClassUnsupported:
		s.strays--
	case class == abi.ClassError:
		s.errors++
	}
}

// lostTime is how long a request that may be lost has to be answered.
const lostTime = 10_000

// resendLost sends a request again that the relay seems to have lost.
func (s *Session) resendLost(r *request) {
	switch by := max(r.lost+lostTime, s.pace.cooldownUntil); {
	case r.filters == nil || r.refusals >= maxRefusals:
	case s.now < by:
		s.checkNoLater(by)
	default:
		r.lost = 0
		r.refusals++
		s.askAgain(r)
	}
}

// refuseNegentropy takes the only answer that many relays have for NEG-OPEN, and reports
// whether there is one that it can be about. Each of those that are open gets one of its
// own. A relay that has compared on this connection means something else. That it
// advertises NIP-77 proves nothing: khatru does, and cannot read NEG-OPEN.
func (s *Session) refuseNegentropy(class uint32, text string) (any bool) {
	for _, h := range s.runningFetches() {
		n := h.reconciliation
		if h.gone || n == nil || n.wire == "" || n.rounds > 0 || s.auth.waits(n.wire) {
			continue
		}
		if s.compares {
			return true
		}
		if any {
			s.strays++
		}
		any = true
		h.noNegentropy(s, class, Quote(text), true)
	}
	return any
}

// unanswered returns the newest request that the relay has not answered, nil if there is
// none.
func (s *Session) unanswered() (newest *request) {
	for _, r := range s.requests {
		if r.filters != nil && r.lost == 0 && !s.auth.waits(r.id) && (newest == nil || r.number > newest.number) {
			newest = r
		}
	}
	return newest
}

// classOf tells what a relay complains about. NIP-01 has prefixes for it; where a relay
// has none, its words must do.
func classOf(text string) uint32 {
	what, _ := refusalOf(text)
	text = strings.ToLower(text[:min(len(text), 300)])
	prefix, _, _ := strings.Cut(text, ":")
	said := contains(text)
	switch {
	case what.tooMuch():
		return abi.ClassTooMuch
	case what == refusedForOthers:
		return abi.ClassError
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

// maxReason bounds a relay's text for a strategy.
const maxReason = 256

// Quote cleans a relay's text for a strategy and a log: short, one line, UTF-8.
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

// SourceOf returns the name of a purpose, for metrics and log lines.
func SourceOf(purpose uint32) string {
	switch purpose {
	case abi.PurposeStartup:
		return "startup"
	case abi.PurposeReconnect:
		return "reconnect"
	case abi.PurposeDaily:
		return "daily"
	}
	return "live"
}
