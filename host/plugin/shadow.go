package plugin

import (
	"context"

	"talon/host"
)

// askShadows asks the plugins in shadow mode whose turn came, after the decision. Their answers
// have no effect. It notes them in the trace, and where they disagree.
func askShadows(ctx context.Context, t *trace) {
	if t.shadows == 0 {
		return
	}
	// A read of a shadow must not make the decision depend on it.
	t.shadowFacts = t.facts.Fork()
	asked := 0
	for i := range t.chain.links {
		l := &t.chain.links[i]
		if !l.shadow {
			continue
		}
		if asked == t.shadows {
			return
		}
		asked++
		o := answer{plugin: l.generation, by: l.generation}
		if l.ask(ctx, t.question, t.shadowFacts, &o) != nil {
			o.ruling = host.Ruling{Action: host.Pass, Rule: "failed", Module: l.name}
		}
		t.answers = append(t.answers, o)
		if o.disagrees(t) {
			l.counters.disputes.add(&o, t)
		}
	}
}

// disagrees reports whether an opinion would have changed what became of the
// event. Two refusals differ only in their words.
func (o *answer) disagrees(with *trace) bool {
	return o.ruling.Action != host.Pass && o.ruling.Action != with.ruling.Action
}
