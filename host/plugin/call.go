package plugin

import (
	"context"
	"strings"

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
	facts host.Facts
	now   int64 // unix seconds

	hostCalls  int
	storeCalls int
	storeBytes int
	randomness int // bytes given out
	logLines   int
	firstLine  string // of what was logged, to explain a failure
	line       []byte // unfinished line of fd_write

	err error // why the host could not answer; the verdict does not count
}

func (c *call) begin(ctx context.Context, facts host.Facts, now int64) {
	*c = call{Context: ctx, inst: c.inst, facts: facts, now: now, line: c.line[:0]}
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

// log writes a line of the guest, if it has not written too much.
func (c *call) log(level int32, text string) {
	m := c.inst.module
	if c.logLines++; c.logLines > m.limits.LogLines || !m.logRate.take() {
		m.metrics.logDropped.Inc()
		return
	}
	text = strings.ToValidUTF8(cut(text, m.limits.LogLineBytes), "\uFFFD")
	if c.firstLine == "" {
		c.firstLine = text
	}
	m.log.Log(context.Background(), slogLevel(level), "policy says", "module", m.name, "text", text)
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
