package githttp

import (
	"bytes"
	"net/http"
	"sync"
	"time"
)

// maxMessages is how many pieces of what git says wait for the client.
const maxMessages = 64

// progress sends what git reports, and keepalives, to a client that waits for its push
// (side-band 2). It never blocks: what the client does not read in time is dropped.
type progress struct {
	messages chan []byte
	stop     func() // waits until all is said that git has said
}

// startProgress begins to send when the whole request was read: clients do not read before.
func (h *Handler) startProgress(w http.ResponseWriter, out *answer, c *commands, read <-chan struct{}) *progress {
	ended, silent := make(chan struct{}), make(chan struct{})
	v := &progress{messages: make(chan []byte, maxMessages)}
	v.stop = sync.OnceFunc(func() { close(ended); <-silent })
	go func() {
		defer close(silent)
		if c.sideband == 0 {
			return
		}
		select {
		case <-read:
		case <-ended:
			select {
			case <-read:
			default:
				return
			}
		}
		beat := time.NewTicker(h.keepalive)
		defer beat.Stop()
		for {
			pkt := appendPkt(nil, "\x01") // nothing, in the band of the report
			select {
			case text := <-v.messages:
				pkt = appendPkt(nil, "\x02", string(text))
			case <-beat.C:
			case <-ended:
				select {
				case text := <-v.messages: // the end of it, as a rule
					pkt = appendPkt(nil, "\x02", string(text))
				default:
					return
				}
			}
			if !out.begun {
				head(w, pushAnswer)
			}
			if _, err := out.Write(pkt); err != nil || out.rc.Flush() != nil {
				return
			}
		}
	}()
	return v
}

// Write takes what git writes.
func (v *progress) Write(p []byte) (int, error) {
	const most = 900 // fits in each kind of side band
	for text := p; len(text) > 0; {
		n := min(len(text), most)
		select {
		case v.messages <- bytes.Clone(text[:n]):
		default:
		}
		text = text[n:]
	}
	return len(p), nil
}
