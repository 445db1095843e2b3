package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"talon/cmd/internal/lab/result"
	"talon/host/relaysync/session"
)

// tracer keeps what crosses the line of the first Talon to one relay.
type tracer struct {
	e       *engine
	relay   string
	steps   []result.Step
	omitted int64
}

// maxSteps bounds what is kept.
const maxSteps = 2000

// wants reports whether a line is the one that is traced. A nil tracer traces none.
func (t *tracer) wants(l *line) bool { return t != nil && l.t.Number == 0 && l.r.Name == t.relay }

func (t *tracer) of(l *line, dir result.Direction, what, text string, bytes int64) {
	if t.wants(l) {
		t.add(result.Step{Direction: dir, What: what, Text: text, Bytes: bytes})
	}
}

func (t *tracer) line(relay, what, text string) {
	if relay == t.relay {
		t.add(result.Step{Direction: result.Line, What: what, Text: text})
	}
}

func (t *tracer) add(s result.Step) {
	s.At = t.e.seconds(t.e.Now())
	if n := len(t.steps); n > 0 {
		last := &t.steps[n-1]
		if last.Direction == s.Direction && last.What == s.What && (s.What == "EVENT" || last.Text == s.Text) {
			last.Count = max(1, last.Count) + 1
			last.Bytes += s.Bytes
			if last.Text != s.Text {
				last.Text = ""
			}
			return
		}
	}
	if len(t.steps) >= maxSteps {
		t.omitted++
		return
	}
	t.steps = append(t.steps, s)
}

func (t *tracer) command(l *line, c session.Command) {
	switch c := c.(type) {
	case *session.Subscribe:
		t.of(l, result.Here, "subscribe", c.ID+", "+result.Counted(len(c.Filters), "filter"), 0)
	case *session.Fetch:
		t.of(l, result.Here, "historic", c.ID, 0)
	case session.Unsubscribe:
		t.of(l, result.Here, "unsubscribe", c.ID, 0)
	case session.CoolDown:
		t.of(l, result.Here, "cool down", "", 0)
	}
}

func (t *tracer) report(l *line, r session.Report) {
	switch r := r.(type) {
	case *session.Eose:
		t.of(l, result.Here, "complete", r.Input.ID, 0)
	case *session.Closed:
		t.of(l, result.Here, "closed", r.Input.ID+": "+r.Input.Reason, 0)
	case *session.Done:
		t.of(l, result.Here, "historic done", fmt.Sprintf("%s, %d new", r.Input.ID, r.Input.New), 0)
	}
}

func (t *tracer) result() *result.Trace {
	return &result.Trace{Relay: t.relay, Steps: t.steps, Omitted: t.omitted}
}

// maxShown bounds the text of a message that is kept.
const maxShown = 160

func shortened(text, verb []byte) string {
	rest := text[min(len(text), len(verb)+4):]
	rest = rest[:max(0, len(rest)-1)]
	if len(rest) > maxShown {
		return string(rest[:maxShown]) + "…"
	}
	return string(rest)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
