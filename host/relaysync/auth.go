package relaysync

import (
	"time"

	"talon/host"
	"talon/sdk/abi"
)

// auth proves our key to a relay that asks for it (NIP-42), once for each challenge.
type auth struct {
	challenge string
	state     authState
	event     host.ID           // of the proof that is on its way
	blocked   map[string]func() // what is sent again when it is proven, by wire id
	since     time.Time         // that something is blocked
}

type authState uint8

const (
	authIdle authState = iota
	authSent
	authProven
	authRefused
)

// challengeBytes bounds a challenge, which goes into an event that is signed.
const challengeBytes = 1024

// authTime bounds how long we wait for a challenge, or for its answer.
const authTime = 15 * time.Second

// need notes that the relay wants to know who asks. It returns false if that is not
// to be had. again is called when the relay knows it.
func (a *auth) need(c *conn, id string, again func()) bool {
	if c.env.deps.Sign == nil || a.state == authProven || a.state == authRefused {
		return false
	}
	if a.blocked == nil {
		a.blocked = make(map[string]func())
	}
	if len(a.blocked) == 0 {
		a.since = time.Now()
	}
	a.blocked[id] = again
	a.prove(c)
	return true
}

// waits reports whether a request is blocked.
func (a *auth) waits(id string) bool {
	_, ok := a.blocked[id]
	return ok
}

func (a *auth) challenged(c *conn, text string) {
	if len(text) > challengeBytes || text == "" || text == a.challenge {
		return
	}
	a.challenge, a.state = text, authIdle
	if len(a.blocked) > 0 {
		a.prove(c)
	}
}

// prove answers the challenge, if there is one.
func (a *auth) prove(c *conn) {
	if a.challenge == "" || a.state != authIdle {
		return
	}
	e := &host.Event{
		Kind:      host.KindAuth,
		CreatedAt: c.env.now(),
		Tags:      host.Tags{{"relay", c.url}, {"challenge", a.challenge}},
	}
	if err := c.env.deps.Sign(e); err != nil {
		c.env.cfg.Log.Error("sign the answer to a challenge", "relay", c.url, "err", err)
		a.refuse(c, "the host could not sign")
		return
	}
	a.state, a.event, a.since = authSent, e.ID, time.Now()
	c.out.push(append(e.AppendJSON([]byte(`["AUTH",`)), ']'))
}

// answered takes the relay's OK to the proof.
func (a *auth) answered(c *conn, ok bool, reason string) {
	if !ok {
		a.refuse(c, reason)
		return
	}
	a.state = authProven
	blocked := a.blocked
	a.blocked = nil
	for _, again := range blocked {
		again()
	}
}

// refuse ends what is blocked.
func (a *auth) refuse(c *conn, reason string) {
	a.state = authRefused
	blocked := a.blocked
	a.blocked = nil
	for id := range blocked {
		if r := c.requests[id]; r != nil {
			c.drop(r)
			r.owner.closed(c, r, abi.ClassAuthRequired, reason)
		} else if h := c.negs[id]; h != nil {
			h.noNegentropy(c, abi.ClassAuthRequired, reason, false)
		}
	}
}

func (a *auth) timeOut(c *conn, now time.Time) {
	if len(a.blocked) > 0 && a.state != authProven && now.Sub(a.since) > authTime {
		a.refuse(c, "the relay wants a proof of the key and does not answer it")
	}
}
