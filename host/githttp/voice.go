package githttp

import (
	"bytes"
	"net/http"
	"sync"
	"time"
)

// maxSaid is how many pieces of what git says wait for the client.
const maxSaid = 64

// voice speaks to a client that waits for the end of its push: how far git is, and that
// it is still there. It never keeps anybody waiting: what the client does not take in
// time is not said.
type voice struct {
	said chan []byte
	stop func() // waits until all is said that git has said
}

// speak begins to speak when all of the request was read: clients do not listen before.
func (h *Handler) speak(w http.ResponseWriter, out *answer, c *commands, read <-chan struct{}) *voice {
	ended, silent := make(chan struct{}), make(chan struct{})
	v := &voice{said: make(chan []byte, maxSaid)}
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
		beat := time.NewTicker(h.beat)
		defer beat.Stop()
		for {
			pkt := appendPkt(nil, "\x01") // nothing, in the band of the report
			select {
			case text := <-v.said:
				pkt = appendPkt(nil, "\x02", string(text))
			case <-beat.C:
			case <-ended:
				select {
				case text := <-v.said: // the end of it, as a rule
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
func (v *voice) Write(p []byte) (int, error) {
	const most = 900 // fits in each kind of side band
	for text := p; len(text) > 0; {
		n := min(len(text), most)
		select {
		case v.said <- bytes.Clone(text[:n]):
		default:
		}
		text = text[n:]
	}
	return len(p), nil
}
