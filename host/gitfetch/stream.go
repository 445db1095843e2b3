package gitfetch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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
	counter := packCounter{max: s.proxy.limits.Objects}
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
			switch all, quota := s.bytes.Add(int64(n)), s.quota.Load(); {
			case all > s.proxy.limits.Bytes:
				return errBytes
			case quota > 0 && all > quota:
				return errQuota
			}
			if err := counter.read(buf[:n]); err != nil {
				return err
			}
			if !counter.found {
				before += int64(n)
			}
			if before > s.proxy.limits.RefBytes || counter.lines > s.proxy.limits.Refs {
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
	d.timer = time.AfterFunc(time.Hour, d.check)
	d.timer.Reset(s.proxy.limits.Stall)
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

func (d *watchdog) check() {
	low := int64(1)
	if d.streams.Load() {
		low = max(low, int64(float64(d.s.proxy.limits.Rate)*d.s.proxy.limits.Stall.Seconds()))
	} else if d.quiet.Add(1) > maxQuiet {
		d.s.cancel(errQuiet)
		return
	}
	if d.moves.Swap(0) < low {
		d.s.cancel(errStalled)
		return
	}
	d.timer.Reset(d.s.proxy.limits.Stall)
}

// packCounter reads an answer as it passes, and finds the pack in it, whose head says
// how many objects there are. It knows just enough of pkt-lines (gitprotocol-pack,
// gitprotocol-v2) for that, with a side band and without.
type packCounter struct {
	max   int64
	lines int // pkt-lines so far, up to the pack

	// pack is given the pack, and says whether the rest may come; nil if nobody wants it.
	pack func(b []byte) error

	found     bool   // the head was read
	done      bool   // nothing is to be read any more
	size      []byte // of a pkt-line, as far as it has come
	remaining int    // bytes of the pkt-line that have not come
	fresh     bool   // the next byte is the pkt-line's first
	data      bool   // the pkt-line is of the band that the pack comes on
	head      []byte // of the pack, as far as it has come
}

const (
	packHead = 12 // "PACK", version, number of objects
	packBand = 1
)

// read takes the next bytes, and says why the pack must not come, if so.
func (c *packCounter) read(b []byte) error {
	for i := 0; i < len(b) && !c.done; {
		if c.remaining == 0 {
			c.size = append(c.size, b[i])
			if i++; len(c.size) == 4 {
				c.begin()
			}
			continue
		}
		if c.fresh {
			c.fresh, c.data = false, b[i] == packBand
			c.remaining--
			i++
			continue
		}
		n := min(c.remaining, len(b)-i)
		var err error
		switch {
		case !c.data:
		case c.found:
			err = c.pack(b[i : i+n])
		default:
			n = min(n, packHead-len(c.head))
			if c.head = append(c.head, b[i:i+n]...); len(c.head) == packHead {
				err = c.count()
			}
		}
		if err != nil {
			c.done = true
			return err
		}
		c.remaining -= n
		i += n
	}
	return nil
}

// begin reads the length of a pkt-line. In its place may be the pack itself, if there
// is no side band: then all that follows is.
func (c *packCounter) begin() {
	if string(c.size) == "PACK" {
		c.head, c.data, c.remaining = append(c.head[:0], c.size...), true, math.MaxInt
		return
	}
	n, ok := gitrepo.PktLength(c.size)
	c.size = c.size[:0]
	if !ok || n == 3 {
		c.done = true // git will say what is wrong with it
		return
	}
	if !c.found {
		c.lines++
	}
	// Those up to 2 only separate others.
	c.remaining = max(n-4, 0)
	c.fresh = c.remaining > 0
}

// count looks at the head of the pack.
func (c *packCounter) count() error {
	c.found = true
	if string(c.head[:4]) != "PACK" {
		c.done = true // git will say what is wrong with it
		return nil
	}
	if int64(binary.BigEndian.Uint32(c.head[8:])) > c.max {
		return errObjects
	}
	if c.pack == nil {
		c.done = true
		return nil
	}
	return c.pack(c.head)
}
