package githttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"talon/host"
	"talon/host/gitrepo"
)

// maxCapabilities bounds what a client says of itself in its first command.
const maxCapabilities = 4 << 10

// commands are what a push begins with.
type commands struct {
	raw     []byte // as the client sent it, up to the flush packet and with it
	updates []host.RefUpdate
	named   []string // the refs of all commands that can be reported about, be they in order or not

	report   bool // the client reads a report of each ref
	sideband int  // the longest pkt-line of its side band; 0 for none
	quiet    bool // it does not want to know how far the work is

	withOptions bool // push options follow the commands
	options     []string

	shallow bool // the client does not have all of the history that it pushes

	begun bool // the first command was read, which has the capabilities
}

// bringsPack reports whether a pack follows: one comes with all but deletions.
func (c *commands) bringsPack() bool {
	return slices.ContainsFunc(c.updates, func(u host.RefUpdate) bool { return !gitrepo.IsZero(u.New) })
}

// A protocolError is a request that is not git's protocol, or asks what no repository
// allows.
type protocolError struct{ Refusal }

func wrong(format string, args ...any) *protocolError {
	return &protocolError{Refusal{Reason: fmt.Sprintf(format, args...), Refs: make(map[string]string)}}
}

// readCommands reads the commands of a push: pkt-lines up to a flush packet, and the push
// options after them. A fault in them is a protocolError. Any other error comes from the reader.
// After a wrong command it reads the others, so that the client hears of all.
func readCommands(r io.Reader, l *Limits) (*commands, error) {
	c := new(commands)
	seen := map[string]bool{}
	var first *protocolError
	for lines := 0; ; lines++ {
		if lines > l.Commands {
			return c, wrong("a push may have %d commands: push fewer refs at once", l.Commands)
		}
		raw, payload, err := readPkt(r, c.raw)
		c.raw = raw
		switch {
		case err == errPkt:
			return c, wrong("this is no push: %v", err)
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return c, wrong("the commands of the push are cut off")
		case err != nil:
			return c, err
		case len(raw) > l.CommandBytes:
			return c, wrong("the commands of a push may have %d bytes: push fewer refs at once", l.CommandBytes)
		case payload == nil && first != nil:
			return c, first
		case payload == nil && len(c.updates) == 0:
			return c, wrong("the push changes no ref")
		case payload == nil && c.withOptions:
			return c, c.readOptions(r, l)
		case payload == nil:
			return c, nil
		}
		if err := c.add(payload, seen); err != nil {
			if first == nil {
				first = err
			}
			for ref, reason := range err.Refs {
				if first.Refs[ref] == "" {
					first.Refs[ref] = reason
				}
			}
		}
	}
}

// maxOptions bounds the push options of one push.
const maxOptions = 100

// readOptions reads the push options: pkt-lines up to a flush packet.
func (c *commands) readOptions(r io.Reader, l *Limits) error {
	for left := l.CommandBytes - len(c.raw); ; {
		raw, payload, err := readPkt(r, nil)
		left -= len(raw)
		switch {
		case err == errPkt:
			return wrong("this is no push: %v", err)
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return wrong("the options of the push are cut off")
		case err != nil:
			return err
		case payload == nil:
			return nil
		case left < 0 || len(c.options) == maxOptions:
			return wrong("a push may have %d options, and with its commands %d bytes: push with fewer options", maxOptions, l.CommandBytes)
		}
		c.options = append(c.options, strings.TrimSuffix(string(payload), "\n"))
	}
}

// add reads a command.
func (c *commands) add(payload []byte, seen map[string]bool) *protocolError {
	line := payload
	var refused *protocolError
	if !c.begun {
		if i := bytes.IndexByte(line, 0); i >= 0 {
			refused = c.capabilities(string(line[i+1:]))
			line = line[:i]
		}
	}
	text := strings.TrimSuffix(string(line), "\n")
	if id, ok := strings.CutPrefix(text, "shallow "); ok && !c.begun && gitrepo.IsID(id) {
		c.shallow = true
		return refused
	}
	c.begun = true
	part := strings.SplitN(text, " ", 3)
	if len(part) == 3 && reportable(part[2]) && !seen[part[2]] {
		c.named = append(c.named, part[2])
	}
	if refused != nil {
		return refused
	}
	if len(part) != 3 || !gitrepo.IsID(part[0]) || !gitrepo.IsID(part[1]) || len(part[0]) != len(part[1]) {
		return wrong("a command of the push is not understood; signed pushes are not taken")
	}
	u := host.RefUpdate{Old: part[0], New: part[1], Ref: part[2]}
	switch {
	case !gitrepo.IsRef(u.Ref):
		refused = wrong("%.200q is not the full name of a ref", u.Ref)
		refused.Refs[u.Ref] = "this is not the full name of a ref"
	case seen[u.Ref]:
		refused = wrong("the push names %.200q twice", u.Ref)
		refused.Refs[u.Ref] = "the push names it twice"
	default:
		c.updates = append(c.updates, u)
	}
	seen[u.Ref] = true
	return refused
}

// reportable reports whether a report can have a line for a ref of this name.
func reportable(name string) bool {
	return name != "" && len(name) <= maxReported && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// maxReported is the longest name that fits into a line of the smallest side band together with
// a reason.
const maxReported = 1 << 10

func (c *commands) capabilities(list string) *protocolError {
	if len(list) > maxCapabilities {
		return wrong("the capabilities of the client are too long")
	}
	for _, word := range strings.Fields(list) {
		switch word {
		case "report-status", "report-status-v2":
			c.report = true
		case "side-band-64k":
			c.sideband = maxPkt
		case "side-band":
			c.sideband = max(c.sideband, 1000)
		case "quiet":
			c.quiet = true
		case "push-options":
			c.withOptions = true
		}
	}
	return nil
}

// servePlainPush has git receive-pack answer a push, in its own words. A client that goes
// away ends it: then git has changed all refs of an atomic push or none, and of another
// maybe some.
func (h *Handler) servePlainPush(w http.ResponseWriter, r *http.Request, parts []string, in *body) result {
	ctx, stop := context.WithTimeoutCause(r.Context(), h.limits.Whole, errSlow)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := in.begin(); err != nil {
		return h.internal(w, r, err)
	}
	out := h.answer(w)
	defer func() {
		out.finish()
		in.drain(h.limits.DrainBytes, h.limits.DrainTime)
	}()
	repo, got, ok := h.locate(ctx, w, r, parts, PushTo, pushAnswer, nil, out)
	if !ok {
		return got
	}
	task, got, ok := h.startTask(ctx, w, r, gitrepo.ClassPush)
	if !ok {
		return got
	}
	defer task.End()
	in.follow(task)
	p, err := repo.ReceivePack(task.Context(), protocolOf(r), h.cfg.Client(r).Addr)
	if err != nil {
		return h.failed(w, r, err)
	}
	in.feeding = make(chan struct{})
	go func() {
		defer close(in.feeding)
		if err := feed(p, in, task, nil); err != nil {
			cancel(err) // half a request has no answer
		}
	}()
	return h.relay(task, cancel, w, r, p, pushAnswer, nil, out, verbPush)
}

// maxReason bounds what is said to a client.
const maxReason = 900

// Refusal is an error whose text is sent to the client: the request is understood and not
// allowed.
type Refusal struct {
	Reason string            // of the whole
	Refs   map[string]string // reasons of single refs; the others get Reason

	unpack bool // it is the pack that is wrong
}

func (r *Refusal) Error() string { return r.Reason }

// oneLine makes a text fit for a pkt-line and a terminal.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

// appendError appends the packet on which a git client stops and shows its reason.
func appendError(buf []byte, reason string) []byte {
	return gitrepo.AppendPkt(buf, "ERR ", oneLine(reason))
}

// appendRefusal appends the answer to a push that is not done, in the words that the
// client understands.
func (c *commands) appendRefusal(buf []byte, r *Refusal) []byte {
	if !c.report {
		if c.sideband == 0 {
			return appendError(buf, r.Reason)
		}
		return gitrepo.AppendPkt(buf, "\x03", oneLine(r.Reason), "\n")
	}
	unpacked, otherwise := "ok", r.Reason
	if r.unpack {
		unpacked, otherwise = oneLine(r.Reason), "unpacker error"
	}
	report := gitrepo.AppendPkt(nil, "unpack ", unpacked, "\n")
	for _, ref := range c.named {
		reason, ok := r.Refs[ref]
		if !ok {
			reason = otherwise
		}
		report = gitrepo.AppendPkt(report, "ng ", ref, " ", oneLine(reason), "\n")
	}
	if !r.unpack {
		// Git shortens the line of each ref, so the reason also goes out as a message.
		buf = c.appendMessage(buf, r.Reason)
	}
	return c.appendReport(buf, report)
}

// appendMessage appends a line for the person who pushes, if the client shows such.
func (c *commands) appendMessage(buf []byte, text string) []byte {
	message := oneLine(text) + "\n"
	if c.sideband < len(message)+5 {
		return buf
	}
	return gitrepo.AppendPkt(buf, "\x02", message)
}

// maxInPlace bounds the list of unchanged refs in the answer to a push.
const maxInPlace = 20

// appendSuccess appends the answer to a push that is done.
func (c *commands) appendSuccess(buf []byte, push *Push) []byte {
	for i, u := range push.inPlace {
		switch {
		case i == maxInPlace:
			buf = c.appendMessage(buf, fmt.Sprintf("warning: %d more refs were in place already", len(push.inPlace)-i))
		case i > maxInPlace:
		case gitrepo.IsZero(u.New):
			buf = c.appendMessage(buf, "warning: "+u.Ref+" is not here: there is nothing to delete")
		case u.Old != u.New:
			buf = c.appendMessage(buf, "warning: "+u.Ref+" is there already")
		}
	}
	if push.Note != "" {
		buf = c.appendMessage(buf, push.Note)
	}
	if len(c.options) > 0 {
		buf = c.appendMessage(buf, "push options have no effect here: "+strings.Join(c.options, " "))
	}
	if !c.report {
		if c.sideband > 0 {
			buf = append(buf, flushPkt...)
		}
		return buf
	}
	report := gitrepo.AppendPkt(nil, "unpack ok\n")
	for _, u := range c.updates {
		report = gitrepo.AppendPkt(report, "ok ", u.Ref, "\n")
	}
	return c.appendReport(buf, report)
}

// appendReport appends a report, which lacks its end, in the side band if there is one.
func (c *commands) appendReport(buf, report []byte) []byte {
	report = append(report, flushPkt...)
	if c.sideband == 0 {
		return append(buf, report...)
	}
	for len(report) > 0 {
		n := min(len(report), c.sideband-5)
		buf = gitrepo.AppendPkt(buf, "\x01", string(report[:n]))
		report = report[n:]
	}
	return append(buf, flushPkt...)
}
