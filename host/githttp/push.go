package githttp

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"talon/host"
	"talon/host/gitrepo"
)

const pushAnswer = "application/x-git-receive-pack-result"

// servePush answers git-receive-pack.
func (h *Handler) servePush(w http.ResponseWriter, r *http.Request, parts []string) result {
	in, got, ok := h.accept(w, r, "application/x-git-receive-pack-request", h.limits.PushBytes)
	if !ok {
		return got
	}
	if h.cfg.Plain {
		return h.servePlainPush(w, r, parts, in)
	}
	if err := in.begin(); err != nil {
		return h.internal(w, r, err)
	}
	// A client that was refused, and is still read, takes no place from others.
	out := h.answer(w)
	defer func() {
		out.finish()
		in.drain(h.limits.DrainBytes, h.limits.DrainTime)
	}()
	// The client may go once all is here; what it sent is then finished.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(r.Context()), h.limits.Whole, errSlow)
	defer cancel()
	c, push, err := h.openPush(ctx, r, parts, in)
	if err == nil {
		err = c.explainShallow(h.receive(ctx, w, out, in, c, push))
	}
	if err == nil {
		h.start(w, out)
		_, _ = out.Write(c.appendSuccess(nil, push))
		return resultOK
	}
	if wrong := (*protocolError)(nil); errors.As(err, &wrong) {
		head(w, pushAnswer)
		if !c.begun && string(c.raw) == flushPkt && in.atEnd() {
			_, _ = out.Write(ofNothing(wrong.Reason))
			return resultMalformed
		}
		_, _ = out.Write(c.appendRefusal(nil, &wrong.Refusal))
		return resultMalformed
	}
	if !out.begun && h.missing(w, r, err) {
		out.begun = true
		return resultNotFound
	}
	refusal, got := h.explain(r, err)
	if got == resultBusy && !c.begun {
		out.begun = true
		return h.unavailable(w) // it has not said which answers it reads
	}
	if refusal != nil {
		h.start(w, out)
		_, _ = out.Write(c.appendRefusal(nil, refusal))
	}
	return got
}

// openPush reads the commands of a push and has them authorised. Until then the push has a
// place among those that strangers can fill: it must hurry, and the stalest gives way.
func (h *Handler) openPush(ctx context.Context, r *http.Request, parts []string, in *body) (*commands, *Push, error) {
	push := &Push{Client: h.cfg.Client(r), Parts: parts, Bytes: max(0, r.ContentLength)}
	place, err := h.opening.Displace(h.holder(push.Client), 1, in.interrupt)
	if err != nil {
		return new(commands), nil, fmt.Errorf("%w: %w", gitrepo.ErrBusy, err)
	}
	defer place.Release()
	memory := h.newMemory(h.holder(push.Client), in.interrupt)
	defer memory.release()
	in.limitTime(h.limits.OpeningTime)
	c, err := readCommands(&growing{body: in, memory: memory}, &h.limits)
	in.limitTime(0)
	switch wrong := (*protocolError)(nil); {
	case !place.Keep() || !memory.keep():
		return c, nil, gitrepo.ErrDisplaced
	case errors.Is(err, gitrepo.ErrBusy):
		return c, nil, err
	case errors.As(err, &wrong):
		return c, nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c, nil, errLateCommands
	case err != nil:
		return c, nil, clientGone{err}
	case r.ContentLength > h.limits.PushBytes:
		return c, nil, errTooLarge
	}
	push.Updates = c.updates
	if push.Repo, err = h.find(ctx, parts, PushTo); err == nil {
		err = h.pushes.Authorize(ctx, push)
	}
	return c, push, err
}

// explainShallow says of a push from a shallow clone that it needs the rest of the history. Its
// first words are git's own.
func (c *commands) explainShallow(err error) error {
	if !c.shallow {
		return err
	}
	refused, refusal := (*gitrepo.Refused)(nil), (*Refusal)(nil)
	missing := errors.As(err, &refused) && refused.Missing ||
		errors.As(err, &refusal) && strings.HasPrefix(refusal.Reason, gitrepo.NotReceived)
	if !missing {
		return err
	}
	return &Refusal{Reason: "shallow update not allowed: this server does not have the history before your shallow clone begins. Run git fetch --unshallow, then push again"}
}

// ofNothing is the answer to a push without commands. Clients send one to try the address,
// or for a deletion of what they see is not there, and expect a report of nothing.
func ofNothing(reason string) []byte {
	return append(gitrepo.AppendPkt(nil, "\x02", reason, "\n"), flushPkt...)
}

const (
	busy = "the server is busy; try again in a moment"
	away = "the server's database cannot be reached now; try again in a moment"
)

// start sets the headers of an answer that has not begun.
func (h *Handler) start(w http.ResponseWriter, out *answer) {
	if !out.begun {
		head(w, pushAnswer)
	}
}

var (
	errSlow   = errors.New("the request took too long")
	errSettle = errors.New("git took too long with a push")

	errLateCommands = errors.New("the commands of a push came too late")
)

// clientGone is an end that came from the client, or from the limits of what it may have.
type clientGone struct{ error }

func (c clientGone) Unwrap() error { return c.error }

// explain says to a client why its push is not done; nothing to one that went away.
func (h *Handler) explain(r *http.Request, err error) (*Refusal, result) {
	var refusal *Refusal
	var refused *gitrepo.Refused
	var gone clientGone
	switch {
	case errors.As(err, &refusal):
		if refusal.unpack {
			h.cfg.Log.Info("a pack was refused", "path", r.URL.Path, "err", err)
		}
		return refusal, resultRefused
	case errors.As(err, &refused):
		h.cfg.Log.Info("a push was refused", "path", r.URL.Path, "err", err)
		return &Refusal{Reason: refused.Reason, Refs: refused.Refs}, resultRefused
	case errors.Is(err, errInflate):
		return &Refusal{Reason: "the body of the request is not gzip, as it says it is"}, resultRefused
	case errors.Is(err, errTooLarge):
		return &Refusal{Reason: "the push is larger than this server takes"}, resultRefused
	case errors.Is(err, errSettle):
		h.cfg.Log.Info("a push was cut off", "path", r.URL.Path, "err", err)
		return &Refusal{Reason: "the push takes more work than its size allows"}, resultRefused
	case errors.Is(err, gitrepo.ErrBusy):
		return &Refusal{Reason: busy}, resultBusy
	case errors.Is(err, gitrepo.ErrDisplaced):
		h.cfg.Log.Info("a push was cut off", "path", r.URL.Path, "err", err)
		return &Refusal{Reason: displaced}, resultBusy
	case errors.Is(err, errLateCommands):
		h.cfg.Log.Info("a push was cut off", "path", r.URL.Path, "err", err)
		return &Refusal{Reason: fmt.Sprintf("the commands of the push did not come in %v", h.limits.OpeningTime)}, resultCutOff
	case errors.Is(err, gitrepo.ErrNotFound):
		return &Refusal{Reason: "the repository has gone meanwhile"}, resultNotFound
	case errors.Is(err, errSlow):
		h.cfg.Log.Info("a push was cut off", "path", r.URL.Path, "err", err)
		return &Refusal{Reason: fmt.Sprintf("the push took longer than the %v that this server gives it", h.limits.Whole)}, resultCutOff
	case errors.As(err, &gone) && errors.Is(err, os.ErrDeadlineExceeded):
		h.cfg.Log.Info("a push was cut off", "path", r.URL.Path, "err", err)
		return &Refusal{Reason: fmt.Sprintf("the push came to a halt: less than %d KiB of it came in %v", minProgress>>10, h.limits.Stall)}, resultCutOff
	case errors.As(err, &gone):
		h.cfg.Log.Info("a push was cut off", "path", r.URL.Path, "err", err)
		return nil, resultCutOff
	}
	h.fail(r, err)
	if errors.Is(err, host.ErrAway) {
		return &Refusal{Reason: away}, resultFailed
	}
	return &Refusal{Reason: "the server failed; try again later"}, resultFailed
}

// receive does a push that is authorised: all that takes long without the lock of its
// repository, and then the rest under it. Until then the client reads only that the server
// still works on it.
func (h *Handler) receive(
	ctx context.Context, w http.ResponseWriter, out *answer, in *body, c *commands, push *Push,
) error {
	began := false
	defer func() {
		if !began {
			h.pushes.PushDone(context.WithoutCancel(ctx), push)
		}
	}()
	if wait := h.cpu.Wait(push.Client.Addr); wait > 0 && c.bringsPack() {
		return &Refusal{Reason: fmt.Sprintf("pushes from your address have taken all the time that git works for it: try again in %v", wait.Round(time.Minute))}
	}
	if h.cfg.Full() {
		return &Refusal{Reason: "the server's disk is full: try again later"}
	}
	task, err := h.cfg.Scheduler.Reserve(ctx, gitrepo.ClassPush, h.holder(push.Client))
	if err != nil {
		return err
	}
	defer task.End()
	if c.bringsPack() {
		if err := h.disk.admit(push.Client.Addr); err != nil {
			return err
		}
	}
	q, err := push.Repo.Receive(ctx, c.updates)
	if err != nil {
		return err
	}
	defer q.Remove()
	defer func() {
		h.metrics.cpuSeconds.Observe(q.CPU().Seconds())
		h.cpu.Charge(push.Client.Addr, q.CPU().Seconds()*1000)
	}()
	in.feeding = make(chan struct{})
	v := h.startProgress(w, out, c, in.feeding)
	defer v.stop()
	began = true
	defer h.pushes.PushDone(context.WithoutCancel(ctx), push)
	if !c.bringsPack() {
		close(in.feeding)
	} else if err := h.receivePack(task, in, c, q, v, push); err != nil {
		return err
	}
	task.Stop()
	return h.applyRefs(ctx, q, push)
}

// receivePack brings the pack of a push into its quarantine, and makes sure that nothing is
// missing.
func (h *Handler) receivePack(task *gitrepo.Task, in *body, c *commands, q *gitrepo.Incoming, v *progress, push *Push) error {
	if err := task.Start(); err != nil {
		close(in.feeding)
		return err
	}
	q.Schedule(task)
	in.follow(task)
	h.metrics.running[verbPush].Inc()
	defer h.metrics.running[verbPush].Dec()
	work, cancel := context.WithCancelCause(task.Context())
	defer cancel(nil)
	settle := func() {
		q.Sized(in.read)
		boundWork(work, task, h.limits.GitTime+time.Duration(in.read>>20)*time.Second, func() { cancel(errSettle) })
	}

	var start []byte
	var err error
	empty := false
	if lost := task.Await(func() { start, empty, err = readPackHead(in, q.Format()) }); lost != nil {
		err = lost
	}
	if err != nil || empty {
		close(in.feeding)
	}
	switch {
	case errors.Is(err, errNoPack):
		return &Refusal{Reason: err.Error(), unpack: true}
	case err != nil:
		return clientGone{err}
	case empty:
		settle()
		return q.Check(work)
	}
	if room := push.Room; room != nil {
		if err := room.refusal(1); err != nil {
			close(in.feeding)
			return err
		}
		in.bound(room.Bytes, room.refusal(room.Bytes+1))
	}
	progress := io.Writer(v)
	if c.quiet || c.sideband == 0 {
		progress = nil
	}
	scan := push.Repo.ScanPack(q.Format(), push.Early)
	endScan := func() {
		scan.Close()
		q.Scanned(scan)
	}
	if lost := task.Await(func() { start, err = readFirstPiece(in, start) }); lost != nil {
		err = lost
	}
	refused := (*gitrepo.Refused)(nil)
	var p *gitrepo.Process
	if err != nil {
		err = clientGone{fmt.Errorf("read the push: %w", err)}
	} else if _, err = scan.Write(start); err == nil {
		p, err = q.Index(work, progress, h.disk.limit(push))
	}
	if err != nil {
		close(in.feeding)
		endScan()
		if errors.As(err, &refused) {
			err = push.refusedPack(refused)
		}
		return err
	}
	go func() {
		defer close(in.feeding)
		err := h.cfg.Panics.Run(func() error {
			defer endScan()
			if _, err := p.In.Write(start); err != nil {
				return nil // git has ended, and says why
			}
			return feed(p, in, task, scan)
		})
		refused := (*gitrepo.Refused)(nil)
		switch {
		case errors.As(err, &refused):
			cancel(refused)
		case err != nil:
			cancel(clientGone{fmt.Errorf("read the push: %w", err)})
		default:
			settle()
		}
	}()
	_, _ = io.Copy(io.Discard, p.Out)
	err = q.Indexed(p)
	if errors.As(err, &refused) || errors.As(context.Cause(work), &refused) {
		if q.TooThin() {
			h.disk.refuse(push.Client.Addr)
		}
		return push.refusedPack(refused)
	}
	if err == nil {
		push.Stored, _ = q.Stored()
		err = push.Room.refusal(push.Stored)
	}
	if err == nil {
		err = h.disk.charge(q, push)
	}
	if err == nil {
		err = q.Check(work)
	}
	return err
}

// boundWork calls f when git has worked for a time from now on, unless the context ends
// before. The time in which others have the slot does not count.
func boundWork(ctx context.Context, task *gitrepo.Task, limit time.Duration, f func()) {
	began, paused := time.Now(), task.PausedTime()
	timer := time.AfterFunc(limit, func() {
		switch left := limit - time.Since(began) + task.PausedTime() - paused; {
		case ctx.Err() != nil:
		case left > 0:
			boundWork(ctx, task, left, f)
		default:
			f()
		}
	})
	context.AfterFunc(ctx, func() { timer.Stop() })
}

// refusedPack says why a pack is not taken.
func (p *Push) refusedPack(refused *gitrepo.Refused) *Refusal {
	reason := refused.Reason
	if p.Early {
		reason += "; once the event of the ref is here, it may take more: publish it first"
	}
	return &Refusal{Reason: reason, unpack: true}
}

// applyRefs changes the repository, under its lock.
func (h *Handler) applyRefs(ctx context.Context, q *gitrepo.Incoming, push *Push) error {
	began := time.Now()
	waiting, stop := context.WithTimeoutCause(ctx, h.limits.LockTime, gitrepo.ErrBusy)
	unlock, err := push.Repo.Lock(waiting)
	stop()
	h.metrics.lockSeconds.Observe(time.Since(began).Seconds())
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, h.limits.GitTime, errSettle)
	defer cancel()
	if err := h.pushes.Confirm(ctx, push); err != nil {
		return err
	}
	push.inPlace, err = q.ApplyRefs(ctx)
	refused := (*gitrepo.Refused)(nil)
	push.Changed = err == nil || !errors.As(err, &refused)
	return err
}

var errNoPack = errors.New("what follows the commands is no pack")

// packHead is how long the beginning of a pack is: PACK, a version, and the number of
// its objects.
const packHead = 12

// readPackHead reads the beginning of a pack. It reports whether that is all but for a
// sum, which it reads as well: git sends a pack of nothing with a ref to what is there.
func readPackHead(r io.Reader, format gitrepo.Format) (head []byte, empty bool, err error) {
	head = make([]byte, packHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, false, shortPack(err)
	}
	if string(head[:4]) != "PACK" {
		return nil, false, errNoPack
	}
	if binary.BigEndian.Uint32(head[8:]) > 0 {
		return head, false, nil
	}
	one, two := sha1.Sum(head), sha256.Sum256(head)
	want := one[:]
	if format == gitrepo.SHA256 {
		want = two[:]
	}
	sum := make([]byte, len(want))
	if _, err := io.ReadFull(r, sum); err != nil {
		return nil, false, shortPack(err)
	}
	if !bytes.Equal(sum, want) {
		return nil, false, errNoPack
	}
	return head, true, nil
}

// firstPiece is how much of a pack is looked at before git is started for it: what is
// refused for that costs no process.
const firstPiece = 64 << 10

// readFirstPiece reads on in a pack that begins with head.
func readFirstPiece(r io.Reader, head []byte) ([]byte, error) {
	piece := append(make([]byte, 0, firstPiece), head...)
	n, err := io.ReadFull(r, piece[len(head):firstPiece])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return piece[:len(head)+n], err
}

// shortPack tells a pack that is cut off from a client that is.
func shortPack(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errNoPack
	}
	return err
}
