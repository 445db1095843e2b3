package relaysync

import (
	"time"

	"talon/host"
	"talon/sdk/abi"
)

// request is one REQ that is open on the relay.
type request struct {
	id       string // on the wire
	owner    owner
	matchers []matcher
	purpose  uint32
	live     bool   // nothing stored was asked for
	text     []byte // to be sent again, until the relay has answered
	sent     time.Time
	heard    time.Time // when the relay last said something about it

	events  int   // that came and were asked for
	fresh   int   // of them, those that were not known here
	kept    int   // of those, what was stored or held
	bytes   int64 // of their messages
	oldest  int64 // created_at
	flying  int   // events that came before EOSE and are not answered yet
	ended   bool  // EOSE came
	settled bool  // and everything before it was answered
	dropped bool
	failed  bool // the host could not decide about an event
	first   host.ID
}

// owner is whoever made a request. Its methods are called by the connection's
// goroutine.
type owner interface {
	// saw is told of each event that matches. It returns false if the event was not
	// asked for all the same.
	saw(r *request, d *digest) bool

	// complete is called once, when everything stored has come and was answered.
	complete(c *conn, r *request)

	// closed is called once, if the relay ends the request or does not answer it. The
	// request is gone.
	closed(c *conn, r *request, class uint32, reason string)
}

// ask sends a REQ.
func (c *conn) ask(o owner, purpose uint32, filters []host.Filter, m []matcher) *request {
	r := &request{id: c.wireID('s'), owner: o, matchers: m, purpose: purpose}
	c.requests[r.id] = r
	c.resend(r, appendREQ(nil, r.id, filters...))
	return r
}

func (c *conn) resend(r *request, text []byte) {
	if r.dropped {
		return
	}
	now := time.Now()
	r.text, r.sent, r.heard = text, now, now
	c.out.push(text)
}

// drop forgets a request that the relay has ended.
func (c *conn) drop(r *request) {
	r.dropped = true
	delete(c.requests, r.id)
	delete(c.auth.blocked, r.id)
}

// hangUp ends a request.
func (c *conn) hangUp(r *request) {
	if !r.dropped {
		c.drop(r)
		c.out.push([]byte(`["CLOSE","` + r.id + `"]`))
	}
}

// settle calls complete when the time for it has come.
func (c *conn) settle(r *request) {
	if r.ended && r.flying == 0 && !r.settled && !r.dropped {
		r.settled = true
		r.owner.complete(c, r)
		r.purpose = abi.PurposeLive
	}
}
