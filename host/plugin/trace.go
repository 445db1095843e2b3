package plugin

import (
	"slices"

	"talon/host"
)

// trace is how a decision came about: what was asked, what every plugin answered, and what
// they read. Journal, disputes and recordings read it after the decision.
type trace struct {
	*question

	ruling host.Ruling
	by     *generation // that decided; nil if none had an opinion
	fuel   int64       // that it spent

	chain   []string      // the plugins that enforce, in order
	asked   int           // how many of the first were asked
	hosts   []string      // those that were asked after another had accepted
	shadows []*generation // in shadow mode, whose turn came

	answers     []answer         // of all that were asked, in order; those in shadow mode last
	shadowFacts *host.FactReader // through which these read; nil if none was asked
}

// answer is what came of asking one plugin.
type answer struct {
	plugin *generation // that was asked
	by     *generation // it, or the one that decided instead
	ruling host.Ruling
	fuel   int64
	failed bool // it could not decide, and that counts as a refusal
}

// settle makes an answer the decision.
func (t *trace) settle(a *answer) { t.ruling, t.by, t.fuel = a.ruling, a.by, a.fuel }

// limit adds to the decision the limits of all that decide, the strictest of each, and whether one
// of them ends the connection. REQUIRES: those in shadow mode have not been asked.
func (t *trace) limit() {
	for i := range t.answers {
		r := &t.answers[i].ruling
		t.ruling.Limits, t.ruling.End = t.ruling.Limits.Stricter(r.Limits), t.ruling.End || r.End
	}
	if t.ruling.Action != host.Pass && t.ruling.Action != host.Accept && t.ruling.Action != host.Hold {
		t.ruling.Limits = host.UsageLimits{}
	}
}

// opinions are the answers of the plugins in shadow mode.
func (t *trace) opinions() []answer { return t.answers[t.asked+len(t.hosts):] }

// names returns the plugins that decide, in order, and how many of the first were asked.
// Where some were passed over, it leaves out those that were not asked.
func (t *trace) names() (list []string, asked int) {
	if len(t.hosts) == 0 {
		return t.chain, t.asked
	}
	list = slices.Concat(t.chain[:t.asked], t.hosts)
	return list, len(list)
}

// reset makes the trace one of nothing, which keeps only its memory.
func (t *trace) reset() {
	clear(t.answers)
	clear(t.shadows)
	*t = trace{answers: t.answers[:0], shadows: t.shadows[:0]}
}

func (a *answer) said() Opinion { return saidBy(a.by, a.ruling, a.fuel) }

// saidBy is a ruling as an operator sees it; by is nil if no plugin gave it.
func saidBy(by *generation, ruling host.Ruling, fuel int64) Opinion {
	s := Opinion{Action: ruling.Action.String(), Rule: ruling.Rule, Reason: ruling.Reason, Wake: ruling.Wake, Fuel: fuel}
	if ruling.Audience != nil {
		s.Audience = ruling.Audience.String()
	}
	if by != nil {
		s.Plugin, s.Generation = by.name, by.number
	}
	return s
}
