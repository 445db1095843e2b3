package githttp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"talon/host/gitrepo"
)

// maxReason bounds what is said to a client.
const maxReason = 900

// Refusal is an error whose text is for the client: a request that is understood
// and not allowed.
type Refusal struct {
	Reason string            // of the whole
	Refs   map[string]string // reasons of single refs; the others get Reason

	unpack bool // it is the pack that is wrong
}

func (r *Refusal) Error() string { return r.Reason }

// oneLine makes a text fit for a pkt-line and a terminal.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

// appendError appends the packet on which a git client stops and shows its reason.
func appendError(buf []byte, reason string) []byte {
	return appendPkt(buf, "ERR ", oneLine(reason))
}

// appendRefusal appends the answer to a push that is not done, in the words that the
// client understands.
func (c *commands) appendRefusal(buf []byte, r *Refusal) []byte {
	if !c.report {
		if c.sideband == 0 {
			return appendError(buf, r.Reason)
		}
		return appendPkt(buf, "\x03", oneLine(r.Reason), "\n")
	}
	unpacked, otherwise := "ok", r.Reason
	if r.unpack {
		unpacked, otherwise = oneLine(r.Reason), "unpacker error"
	}
	report := appendPkt(nil, "unpack ", unpacked, "\n")
	for _, ref := range c.named {
		reason, ok := r.Refs[ref]
		if !ok {
			reason = otherwise
		}
		report = appendPkt(report, "ng ", ref, " ", oneLine(reason), "\n")
	}
	if !r.unpack {
		// Beside the line of each ref, which git shortens, the reason as a message.
		buf = c.appendMessage(buf, r.Reason)
	}
	return c.appendReport(buf, report)
}

// appendMessage appends a line for the person who pushes, if the client shows such.
func (c *commands) appendMessage(buf []byte, text string) []byte {
	message := oneLine(text) + "\n"
	if c.sideband < len(message)+5 {
		return buf
	}
	return appendPkt(buf, "\x02", message)
}

// maxInPlace bounds the refs of which the answer says that they were in place.
const maxInPlace = 20

// appendSuccess appends the answer to a push that is done.
func (c *commands) appendSuccess(buf []byte, push *Push) []byte {
	for i, u := range push.inPlace {
		switch {
		case i == maxInPlace:
			buf = c.appendMessage(buf, fmt.Sprintf("warning: %d more refs were in place already", len(push.inPlace)-i))
		case i > maxInPlace:
		case gitrepo.IsZero(u.New):
			buf = c.appendMessage(buf, "warning: "+u.Ref+" is not here: there is nothing to delete")
		case u.Old != u.New:
			buf = c.appendMessage(buf, "warning: "+u.Ref+" is there already")
		}
	}
	if push.Note != "" {
		buf = c.appendMessage(buf, push.Note)
	}
	if !c.report {
		if c.sideband > 0 {
			buf = append(buf, flushPkt...)
		}
		return buf
	}
	report := appendPkt(nil, "unpack ok\n")
	for _, u := range c.updates {
		report = appendPkt(report, "ok ", u.Ref, "\n")
	}
	return c.appendReport(buf, report)
}

// appendReport appends a report, which lacks its end, in the side band if there is one.
func (c *commands) appendReport(buf, report []byte) []byte {
	report = append(report, flushPkt...)
	if c.sideband == 0 {
		return append(buf, report...)
	}
	for len(report) > 0 {
		n := min(len(report), c.sideband-5)
		buf = appendPkt(buf, "\x01", string(report[:n]))
		report = report[n:]
	}
	return append(buf, flushPkt...)
}
