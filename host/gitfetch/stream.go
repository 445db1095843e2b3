package gitfetch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"talon/host/gitrepo"
)

// pass hands an answer to git.
func (s *session) pass(w http.ResponseWriter, resp *http.Response, contentType string) error {
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return &statusError{resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	if t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); strings.TrimSpace(t) != contentType {
		return &protocolError{fmt.Sprintf("the server answers with %.80q: it does not speak git's smart protocol", t)}
	}
	header(w, contentType)
	watch := s.watch(contentType == refsType)
	defer watch.stop()
	counter := packCounter{most: s.gate.limits.Objects}
	if scan := s.scanPack(contentType); scan != nil {
		defer scan.Close()
		counter.pack = func(b []byte) error {
			_, err := scan.Write(b)
			return err
		}
	}
	buf := make([]byte, 32<<10)
	before := int64(0) // bytes that are not of a pack
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			watch.moved(n)
			if s.bytes.Add(int64(n)) > s.gate.limits.Bytes {
				return errBytes
			}
			if err := counter.read(buf[:n]); err != nil {
				return err
			}
			if !counter.found {
				before += int64(n)
			}
			if before > s.gate.limits.RefBytes || counter.lines > s.gate.limits.Refs {
				return errRefs
			}
			if counter.found {
				watch.streams.Store(true)
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return errClosed // git has ended; it says why
			}
			_ = http.NewResponseController(w).Flush() // a failure shows at the next write
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// scanPack begins to look at the pack of an answer, as at those of pushes; nil if there
// is none to look at.
func (s *session) scanPack(contentType string) *gitrepo.PackScan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if contentType != packType || s.scan == nil {
		return nil
	}
	return s.scan()
}

// maxQuiet is how many times Limits.Stall a server may take to prepare a pack. While
// it does, it sends a few bytes now and then.
const maxQuiet = 10

// watch ends the session if the server sends too slowly: what streams must come at
// Limits.Rate.
func (s *session) watch(streams bool) *watchdog {
	d := &watchdog{s: s}
	d.streams.Store(streams)
	d.timer = time.AfterFunc(time.Hour, d.look)
	d.timer.Reset(s.gate.limits.Stall)
	return d
}

type watchdog struct {
	s       *session
	timer   *time.Timer
	streams atomic.Bool
	moves   atomic.Int64 // bytes since the last look
	quiet   atomic.Int64 // looks before it streams
}

func (d *watchdog) moved(n int) { d.moves.Add(int64(n)) }
func (d *watchdog) stop()       { d.timer.Stop() }

func (d *watchdog) look() {
	least := int64(1)
	if d.streams.Load() {
		least = max(least, int64(float64(d.s.gate.limits.Rate)*d.s.gate.limits.Stall.Seconds()))
	} else if d.quiet.Add(1) > maxQuiet {
		d.s.cancel(errQuiet)
		return
	}
	if d.moves.Swap(0) < least {
		d.s.cancel(errStalled)
		return
	}
	d.timer.Reset(d.s.gate.limits.Stall)
}
