package plugin

import (
	"context"
	"time"

	"talon/host"
)

// askShadows asks the plugins in shadow mode whose turn came, after the decision. Their answers
// have no effect. It notes them in the trace, and where they disagree.
func askShadows(ctx context.Context, t *trace) {
	if len(t.shadows) == 0 {
		return
	}
	// A read of a shadow must not make the decision depend on it.
	t.shadowFacts = t.facts.Fork()
	for _, g := range t.shadows {
		o := answer{plugin: g, by: g}
		if g.ask(ctx, t.question, t.shadowFacts, &o) != nil {
			o.ruling = host.Ruling{Action: host.Pass, Rule: "failed", Module: g.name}
		}
		t.answers = append(t.answers, o)
		if o.disagrees(t) {
			g.counters.disputes.add(o.disagreement(t))
		}
	}
}

// disagrees reports whether an opinion would have changed what became of the
// event. Two refusals differ only in their words.
func (o *answer) disagrees(with *trace) bool {
	return o.ruling.Action != host.Pass && o.ruling.Action != with.ruling.Action
}

// disagreement returns how an opinion differs from a decision, for the operator.
func (o *answer) disagreement(with *trace) Disagreement {
	d := Disagreement{At: time.Unix(with.now, 0), Plugin: o.by.name, Shadow: o.said(), Chain: saidBy(with.by, with.ruling, with.fuel)}
	if with.item != nil {
		d.Event = with.item.Event.ID.String()
	}
	return d
}
