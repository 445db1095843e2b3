package relaysync

import (
	"context"
	"errors"
	"sync"
)

// outbox is what a relay is to be sent. Putting something in never waits: a relay that
// takes nothing loses its connection.
type outbox struct {
	socket   Conn
	maxBytes int

	mu     sync.Mutex // guards the fields below
	items  [][]byte   // nil: a ping
	bytes  int
	err    error // why nothing more is taken
	signal chan struct{}
}

func newOutbox(s Conn, most int) *outbox {
	return &outbox{socket: s, maxBytes: most, signal: make(chan struct{}, 1)}
}

var errSlow = errors.New("the relay does not take what it is sent")

// perItem is what an item costs beside its text.
const perItem = 64

func (o *outbox) push(text []byte) {
	o.mu.Lock()
	if o.bytes+len(text)+perItem > o.maxBytes {
		o.err = errSlow
	}
	if o.err == nil {
		o.items = append(o.items, text)
		o.bytes += len(text) + perItem
	}
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

func (o *outbox) ping() { o.push(nil) }

// failed returns why nothing more is taken, nil if all is well.
func (o *outbox) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// run sends until the context ends or the network fails.
func (o *outbox) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.signal:
		}
		for {
			o.mu.Lock()
			items := o.items
			o.items = nil
			o.mu.Unlock()
			if len(items) == 0 {
				break
			}
			for _, text := range items {
				var err error
				if text == nil {
					err = o.socket.Ping()
				} else {
					err = o.socket.Write(text)
				}
				if err != nil {
					return err
				}
				o.mu.Lock()
				o.bytes -= len(text) + perItem
				o.mu.Unlock()
			}
		}
	}
}
