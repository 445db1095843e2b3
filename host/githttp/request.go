package githttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"talon/host/bound"
	"talon/host/gitrepo"
)

// request is the body of a fetch: whole, inflated, and in memory until git has read it.
type request struct {
	pieces [][]byte
	holds  []*bound.Hold // of Handler.bodies, one for each piece
}

const (
	firstRequestPiece = 4 << 10
	maxRequestPiece   = 1 << 20
)

// readRequest reads the body of a fetch. Others may need its memory, until it is released:
// then cancel ends the request. It fails with gitrepo.ErrBusy if there is no memory for it.
func (h *Handler) readRequest(in *body, by bound.Holder, cancel context.CancelCauseFunc) (_ *request, err error) {
	q := new(request)
	defer func() {
		if err != nil {
			q.release()
		}
	}()
	evict := func() {
		cancel(gitrepo.ErrDisplaced)
		in.interrupt()
	}
	in.stall = min(in.stall, h.limits.OpeningTime)
	for size := firstRequestPiece; ; size = min(2*size, maxRequestPiece) {
		hold, err := h.bodies.Displace(by, int64(size), evict)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", gitrepo.ErrBusy, err)
		}
		q.holds = append(q.holds, hold)
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

// read fills a piece from the body, and says to the pot that the client sends.
func (q *request) read(in *body, piece []byte) (n int, err error) {
	for n < len(piece) && err == nil {
		var more int
		more, err = in.Read(piece[n:])
		n += more
		for _, hold := range q.holds {
			hold.Touch()
		}
	}
	return n, err
}

// isRefs reports whether the request is for a list of refs, in version 2 of the protocol.
func (q *request) isRefs() bool {
	const command = "command=ls-refs"
	first := q.pieces[0]
	return len(first) >= 4+len(command) && string(first[4:4+len(command)]) == command
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

// release gives the memory back.
func (q *request) release() {
	for _, hold := range q.holds {
		hold.Release()
	}
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
