package githttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"talon/host/bound"
	"talon/host/gitrepo"
)

// memory is what a client has of Handler.bodies, in pieces that double. Others may need it:
// then it calls evict, from any goroutine.
type memory struct {
	pot   *bound.Pot
	by    bound.Holder
	evict func()
	hold  *bound.Hold // nil before the first piece
	next  int         // bytes of the next piece
}

const (
	firstPieceBytes = 4 << 10
	maxPieceBytes   = 1 << 20
)

func (h *Handler) newMemory(by bound.Holder, evict func()) *memory {
	return &memory{pot: h.bodies, by: by, evict: evict, next: firstPieceBytes}
}

// grow takes one more piece and returns its size. It fails with gitrepo.ErrBusy.
func (m *memory) grow() (int, error) {
	size := m.next
	m.next = min(2*size, maxPieceBytes)
	var err error
	if m.hold == nil {
		m.hold, err = m.pot.Displace(m.by, int64(size), m.evict)
	} else {
		err = m.hold.GrowAndDisplace(int64(size))
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", gitrepo.ErrBusy, err)
	}
	return size, nil
}

// touch says that the client sends.
func (m *memory) touch() {
	if m.hold != nil {
		m.hold.Touch()
	}
}

// keep says that nobody else gets the memory from now on. It reports false if others have it
// already.
func (m *memory) keep() bool { return m.hold == nil || m.hold.Keep() }

// release gives the memory back.
func (m *memory) release() {
	if m.hold != nil {
		m.hold.Release()
	}
}

// growing reads a body and takes memory for what comes.
type growing struct {
	*body
	*memory
	left int // bytes of the last piece that are not used
}

func (g *growing) Read(p []byte) (n int, err error) {
	if g.left == 0 {
		if g.left, err = g.grow(); err != nil {
			return 0, err
		}
	}
	n, err = g.body.Read(p[:min(len(p), g.left)])
	g.left -= n
	g.touch()
	return n, err
}

// request is the body of a fetch: whole, inflated, and in memory until git has read it.
type request struct {
	*memory
	pieces [][]byte
}

// readRequest reads the body of a fetch. Others may need its memory, until it is released:
// then cancel ends the request. It fails with gitrepo.ErrBusy if there is no memory for it.
func (h *Handler) readRequest(in *body, by bound.Holder, cancel context.CancelCauseFunc) (_ *request, err error) {
	q := &request{memory: h.newMemory(by, func() {
		cancel(gitrepo.ErrDisplaced)
		in.interrupt()
	})}
	defer func() {
		if err != nil {
			q.release()
		}
	}()
	in.stall = min(in.stall, h.limits.OpeningTime)
	for {
		size, err := q.grow()
		if err != nil {
			return nil, err
		}
		piece := make([]byte, size)
		n, err := q.read(in, piece)
		q.pieces = append(q.pieces, piece[:n])
		if err == io.EOF {
			return q, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// read fills a piece from the body.
func (q *request) read(in *body, piece []byte) (n int, err error) {
	for n < len(piece) && err == nil {
		var more int
		more, err = in.Read(piece[n:])
		n += more
		q.touch()
	}
	return n, err
}

// isRefs reports whether the request is for a list of refs, in version 2 of the protocol.
func (q *request) isRefs() bool {
	const command = "command=ls-refs"
	first := q.pieces[0]
	return len(first) >= 4+len(command) && string(first[4:4+len(command)]) == command
}

// text returns the request.
func (q *request) text() string {
	var b strings.Builder
	for _, piece := range q.pieces {
		b.Write(piece)
	}
	return b.String()
}

// reader reads the request from its beginning.
func (q *request) reader() io.Reader {
	pieces := make([]io.Reader, len(q.pieces))
	for i, piece := range q.pieces {
		pieces[i] = bytes.NewReader(piece)
	}
	return io.MultiReader(pieces...)
}

// feed gives git the request, and its memory back.
func (q *request) feed(p *gitrepo.Process) {
	for _, piece := range q.pieces {
		if _, err := p.In.Write(piece); err != nil {
			break // git has ended, and says why
		}
	}
	_ = p.In.Close()
	q.pieces = nil
	q.release()
}

// refuseRequest answers a fetch whose body did not come as it should.
func (h *Handler) refuseRequest(w http.ResponseWriter, r *http.Request, out *answer, contentType string, err error) result {
	reason, got := "", resultRefused
	switch {
	case errors.Is(err, gitrepo.ErrBusy), errors.Is(err, gitrepo.ErrDisplaced):
		return h.unavailable(w)
	case errors.Is(err, errTooLarge):
		reason = "the request is larger than this server takes"
	case errors.Is(err, errInflate):
		reason = "the body of the request is not gzip, as it says it is"
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason, got = fmt.Sprintf("the request did not come: less than %d KiB of it came in %v", minProgress>>10, h.limits.OpeningTime), resultCutOff
	default:
		return resultCutOff // the client is gone
	}
	h.cfg.Log.Info("a git request was refused", "path", r.URL.Path, "err", err)
	head(w, contentType)
	_, _ = out.Write(appendError(nil, reason))
	return got
}

// displaced is the answer to a request that ended because others needed its place.
const displaced = "the request stood still while others waited: try again later"
