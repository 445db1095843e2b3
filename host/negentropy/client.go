package negentropy

import (
	"fmt"

	"talon/host"
)

// ClientLimits bounds the work that a server can cause in a client.
type ClientLimits struct {
	Frame  int // longest message that we send, in bytes: MinFrame to MaxFrame; 0 is MaxFrame
	IDs    int // largest number of ids in Have, and in Need
	Rounds int // largest number of messages that are taken from the server
}

// Client reconciles a set against a server that is not trusted. It is not safe
// for concurrent use.
type Client struct {
	session session
	limits  ClientLimits
	state   clientState
	rounds  int

	have   []host.ID
	need   []host.ID
	had    []uint64 // bit i is set if item i of the set is in have
	needed map[host.ID]struct{}
}

type clientState uint8

const (
	idle clientState = iota
	waiting
	finished
)

// NewClient returns a client over the set.
func NewClient(set *Set, limits ClientLimits) (*Client, error) {
	if limits.IDs <= 0 || limits.Rounds <= 0 {
		return nil, errCaps
	}
	s, err := newSession(set, limits.Frame)
	if err != nil {
		return nil, err
	}
	return &Client{
		session: s,
		limits:  limits,
		had:     make([]uint64, (set.Len()+63)/64),
		needed:  make(map[host.ID]struct{}),
	}, nil
}

// Initiate returns the first message. It is called once.
func (c *Client) Initiate() ([]byte, error) {
	return c.initiate(func(w *writer, n int, end *bound) { c.session.split(w, 0, n, end) })
}

// InitiateAlike is Initiate for a set that is most likely the server's: one fingerprint of it
// all, in place of those of its parts or a list of its ids. If it is not, that costs a message
// more, unless the server's set is small.
func (c *Client) InitiateAlike() ([]byte, error) {
	return c.initiate(func(w *writer, n int, end *bound) { w.fingerprint(end, c.session.set.fingerprint(0, n)) })
}

func (c *Client) initiate(write func(w *writer, n int, end *bound)) ([]byte, error) {
	if c.state != idle {
		return nil, errInitiated
	}
	c.state = waiting
	w := newWriter()
	write(&w, c.session.set.Len(), &bound{time: infinity})
	return w.b, nil
}

// Reconcile takes the server's answer and returns the next message, or reports
// that there is nothing more to ask. Errors wrap [ErrMessage], or are
// [ErrTooManyIDs] or [ErrTooManyRounds]; they end the reconciliation, and what
// was found before stays in Have and Need.
func (c *Client) Reconcile(msg []byte) (reply []byte, done bool, err error) {
	if c.state != waiting {
		return nil, false, errNotOpen
	}
	reply, err = c.reconcile(msg)
	if err != nil || len(reply) == 1 {
		c.state = finished
		return nil, err == nil, err
	}
	return reply, false, nil
}

func (c *Client) reconcile(msg []byte) ([]byte, error) {
	if c.rounds == c.limits.Rounds {
		return nil, ErrTooManyRounds
	}
	c.rounds++
	version, err := messageVersion(msg)
	if err != nil {
		return nil, err
	}
	if version != protocolVersion {
		return nil, fmt.Errorf("%w: %d", ErrVersion, version&0x0f)
	}
	return c.session.answer(msg[1:], c.compare)
}

// Have returns the ids that the server lacks, each once, in the order in which
// they were found. Later rounds only add to it.
func (c *Client) Have() []host.ID { return c.have }

// Need returns the ids that we lack, each once, in the order in which they were
// found. Later rounds only add to it. A server may name ids that it does not
// have, or that we have.
func (c *Client) Need() []host.ID { return c.need }

// Rounds returns the number of answers taken so far.
func (c *Client) Rounds() int { return c.rounds }

// compare notes the differences between our items [lo, hi) and the server's ids.
// The same range can come more than once: what a frame had no room for is asked
// for again from the last bound that was written.
func (c *Client) compare(lo, hi int, ids []byte) error {
	// Not kept between lists: emptying a map costs what its largest list did.
	theirs := make(map[host.ID]struct{}, len(ids)/len(host.ID{}))
	for rest := ids; len(rest) > 0; rest = rest[len(host.ID{}):] {
		theirs[host.ID(rest[:len(host.ID{})])] = struct{}{}
	}
	for i := lo; i < hi; i++ {
		id := *c.session.set.items.id(i)
		if _, ok := theirs[id]; ok {
			delete(theirs, id)
			continue
		}
		if c.had[i/64]&(1<<(i%64)) != 0 {
			continue
		}
		if len(c.have) == c.limits.IDs {
			return ErrTooManyIDs
		}
		c.had[i/64] |= 1 << (i % 64)
		c.have = append(c.have, id)
	}
	for rest := ids; len(rest) > 0 && len(theirs) > 0; rest = rest[len(host.ID{}):] {
		id := host.ID(rest[:len(host.ID{})])
		if _, ok := theirs[id]; !ok {
			continue
		}
		delete(theirs, id)
		if _, ok := c.needed[id]; ok {
			continue
		}
		if len(c.need) == c.limits.IDs {
			return ErrTooManyIDs
		}
		c.needed[id] = struct{}{}
		c.need = append(c.need, id)
	}
	return nil
}
