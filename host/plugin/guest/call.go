package guest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"talon/host"
)

// call is the call into a guest that is under way. It is the context that
// wazero hands to host functions, so that they find what belongs to this call
// without a look-up and without an allocation: a host function asserts its
// context back to a *call.
//
// The embedded context is the caller's, and only for the time of the call.
type call struct {
	context.Context

	inst  *instance
	bound context.Context // of the instance; see Done

	facts host.Facts
	now   int64  // unix seconds
	line  []byte // unfinished line of fd_write
	used
}

// used is what has been used of the limits of one call, and what came of it.
type used struct {
	hostCalls  int
	reads      int
	readTime   time.Duration
	bytes      int
	randomness int // bytes given out
	logLines   int
	firstLine  string // of what was logged, to explain a failure

	err error // why the host could not answer
}

// Done and Err tell wazero when to stop the guest, if the engine looks: when the
// context of the instance is done. It may ask at any time, from a goroutine of
// its own, so that the caller's context, which changes, is none of its business.

func (c *call) Done() <-chan struct{} { return c.bound.Done() }
func (c *call) Err() error            { return c.bound.Err() }

func (c *call) begin(ctx context.Context, facts host.Facts, now int64) {
	c.Context, c.facts, c.now, c.line, c.used = ctx, facts, now, c.line[:0], used{}
}

func (c *call) end() {
	if len(c.line) > 0 {
		c.log(infoLevel, string(c.line))
	}
	c.Context, c.facts = context.Background(), nil
}

// enter counts a call of a host function, and ends the guest's call when there
// are too many.
func (c *call) enter() {
	if c.hostCalls++; c.hostCalls > c.inst.module.limits.HostCalls {
		panic(errHostLimit)
	}
}

// spend counts bytes that a host function moves.
func (c *call) spend(n int) {
	if c.bytes += n; c.bytes > c.inst.module.limits.Bytes {
		panic(errHostLimit)
	}
}

// read does one read for a guest that may wait for a disk, within its limits. A
// failure of the host is kept for the caller of the guest; the guest is told
// Unavailable.
func (c *call) read(what string, f func(ctx context.Context) error) bool {
	limits := &c.inst.module.limits
	if c.reads++; c.reads > limits.Reads {
		panic(errHostLimit)
	}
	most := min(limits.ReadTime, limits.ReadsTime-c.readTime)
	if most <= 0 {
		panic(errReadsTime)
	}
	ctx, cancel := context.WithTimeout(c.Context, most)
	defer cancel()
	start := time.Now()
	err := f(ctx)
	c.readTime += time.Since(start)
	if err != nil {
		c.unavailable(fmt.Errorf("%s: %w", what, err))
	}
	return err == nil
}

// unavailable keeps the first reason why the host could not answer.
func (c *call) unavailable(err error) { c.err = cmpErr(c.err, err) }

// cmpErr returns the first error.
func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// log writes a line of the guest, if it has not written too much.
func (c *call) log(level int32, text string) {
	m := c.inst.module
	if c.logLines++; c.logLines > m.logLines || !m.logRate.take() {
		m.metrics.logDropped.Inc()
		return
	}
	text = strings.ToValidUTF8(cut(text, m.limits.LogLineBytes), "\uFFFD")
	if c.firstLine == "" {
		c.firstLine = text
	}
	m.log.Log(context.Background(), slogLevel(level), "plugin says", "module", m.name, "text", text)
}

// cut shortens s to at most n bytes, not within a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
