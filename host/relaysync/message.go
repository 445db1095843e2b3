package relaysync

import (
	"encoding/hex"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/wire"
	"talon/sdk/abi"
)

// handle takes one message of the relay. An error ends the connection.
func (c *conn) handle(text []byte) error {
	a, err := wire.ParseAnswer(text)
	if err != nil {
		return c.strike(dropNonsense, 1)
	}
	switch a.Verb {
	case wire.AnswerEvent:
		return c.event(a.SubID, a.Event, len(text))
	case wire.AnswerEOSE:
		r := c.requests[a.SubID]
		if r == nil || r.ended {
			return c.strike(dropUnasked, 0.2) // it may have crossed our CLOSE
		}
		if err := c.flush(); err != nil {
			return err
		}
		r.heard, r.ended, r.text = time.Now(), true, nil
		c.settle(r)
	case wire.AnswerClosed:
		return c.ended(a.SubID, a.Text)
	case wire.AnswerOK:
		return c.okay(a)
	case wire.AnswerAuth:
		if c.greeted++; c.greeted > 3 {
			return c.strike(dropUnasked, 1)
		}
		c.auth.challenged(c, a.Text)
	case wire.AnswerNotice:
		return c.notice(a.Text)
	case wire.OtherAnswer:
		return c.other(text)
	}
	return nil
}

// event takes an event that was sent for a request.
func (c *conn) event(id string, e *host.Event, size int) error {
	r := c.requests[id]
	if r == nil {
		// Some may be on their way after a CLOSE of ours.
		return c.strike(dropUnasked, 0.05)
	}
	r.heard, r.text = time.Now(), nil
	d := digestOf(e)
	if !anyMatches(r.matchers, &d) || !r.owner.saw(r, &d) {
		return c.strike(dropUnasked, 1)
	}
	r.events++
	r.bytes += int64(size)
	if r.oldest == 0 || e.CreatedAt < r.oldest {
		r.oldest = e.CreatedAt
	}
	if !r.ended && r.events > c.env.cfg.Limits.PageEvents {
		c.hangUp(r)
		r.owner.closed(c, r, abi.ClassTooMuch, "the answer has no end")
		return nil
	}
	if c.env.known.has(e.ID, c.env.now()) {
		weight := 0.0
		if r.ended {
			weight = 0.001 // others may have been faster, but not a thousand times a second
		}
		return c.strike(dropKnown, weight)
	}
	// What happens on the relay goes on, and must not put off the end of what is stored.
	stored := !r.ended
	if stored {
		r.flying++
	}
	if c.batch = append(c.batch, arrived{event: e, request: r, stored: stored}); len(c.batch) >= batchEvents {
		return c.flush()
	}
	return nil
}

// ended takes a CLOSED.
func (c *conn) ended(id, reason string) error {
	class := classOf(reason)
	if class == abi.ClassRateLimited && (c.requests[id] != nil || c.negs[id] != nil) {
		c.limited(reason)
	}
	if r := c.requests[id]; r != nil {
		text := r.text
		if class == abi.ClassAuthRequired && text != nil && c.auth.need(c, id, func() { c.resend(r, text) }) {
			return nil
		}
		if err := c.flush(); err != nil {
			return err
		}
		c.drop(r)
		r.owner.closed(c, r, class, said(reason))
		return nil
	}
	if h := c.negs[id]; h != nil {
		h.refused(c, class, reason)
		return nil
	}
	return c.strike(dropUnasked, 0.2)
}

// limited notes that we ask too much.
func (c *conn) limited(reason string) {
	// Until the loop has asked what is right, nothing more is asked.
	c.rest(time.Now().Add(time.Second))
	c.tell(report{limited: &Ending{Outcome: OutcomeRateLimited, Reason: said(reason)}})
}

// rest asks nothing more before a time.
func (c *conn) rest(until time.Time) {
	if until.After(c.cool) {
		c.cool = until
	}
}

// rests reports whether nothing more is to be asked now. Then f is called later, if the
// historic still is wanted.
func (c *conn) rests(h *historic, f func(*conn)) bool {
	if !c.ticked.Before(c.cool) {
		return false
	}
	c.later = append(c.later, func() {
		if !h.gone {
			f(c)
		}
	})
	return true
}

func (c *conn) notice(text string) error {
	class := classOf(text)
	if class == abi.ClassUnsupported {
		// The only answer that many relays have for NEG-OPEN.
		for _, h := range c.negs {
			if h.rounds == 0 && c.caps.Negentropy != abi.SupportYes && !c.auth.waits(h.wire) {
				h.noNegentropy(c, class, said(text), true)
			}
		}
	}
	if c.notices >= 1 {
		c.notices--
		if class == abi.ClassRateLimited {
			c.limited(text)
		}
		c.tell(report{input: &abi.Notice{Relay: c.url, Class: class, Text: said(text)}})
		return nil
	}
	return c.strike(dropUnasked, 0.5)
}

// okay takes the answer to an event of ours.
func (c *conn) okay(a wire.Answer) error {
	if c.auth.state == authSent && a.ID == c.auth.event {
		c.auth.answered(c, a.OK, said(a.Text))
		return nil
	}
	h := c.pushes[a.ID]
	if h == nil {
		return c.strike(dropUnasked, 0.5)
	}
	delete(c.pushes, a.ID)
	h.pushed(c, a.OK, a.Text)
	return nil
}

// other takes what package wire does not read: the messages of NIP-77.
func (c *conn) other(text []byte) error {
	verb, id, body, ok := relayclient.NegAnswer(text)
	h := c.negs[id]
	switch {
	case ok && verb == "NEG-MSG" && h != nil:
		msg, err := hex.DecodeString(body)
		if err != nil {
			h.noNegentropy(c, abi.ClassError, "a message of negentropy is not hex", false)
			return c.strike(dropNonsense, 5)
		}
		h.bytes += int64(len(text))
		return h.message(c, msg)
	case ok && (verb == "NEG-ERR" || verb == "NEG-ERROR") && h != nil: // the second is what khatru says
		class := classOf(body)
		if class == abi.ClassRateLimited {
			c.limited(body)
		}
		h.refused(c, class, body)
		return nil
	}
	return c.strike(dropUnasked, 0.5)
}
