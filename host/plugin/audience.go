package plugin

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"talon/host"
	"talon/host/plugin/guest"
)

// audiences are the plugins of an active set that decide who may receive events.
type audiences struct {
	candidates []*guest.Candidates // of those that enforce
	shadows    []*guest.Candidates
	settings   string // changes with the plugins and their settings
	version    uint64 // hash of settings
	sets       []audienceSet
}

// audienceSet is a set of one of the plugins.
type audienceSet struct {
	name string // of the plugin, "/", of the set
	own  string // of the set
	of   *generation
}

// newAudiences reads the chain of the function.
func newAudiences(c *chain) (a audiences) {
	for i := range c.links {
		l := &c.links[i]
		if l.shadow {
			a.shadows = append(a.shadows, l.module.Candidates())
			continue
		}
		a.candidates = append(a.candidates, l.module.Candidates())
		a.settings += fmt.Sprintf("%s %x %x;", l.name, l.key.wasm, l.key.sidecar)
		if l.sets == nil {
			continue
		}
		for _, s := range l.sets.Status() {
			a.sets = append(a.sets, audienceSet{l.name + "/" + s.Name, s.Name, l.generation})
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.settings))
	a.version = h.Sum64()
	return a
}

// has reports whether a plugin is asked about the event.
func (a *audiences) has(e *host.Event) bool {
	return slices.ContainsFunc(a.candidates, func(c *guest.Candidates) bool { return c.Has(e) }) ||
		slices.ContainsFunc(a.shadows, func(c *guest.Candidates) bool { return c.Has(e) })
}

// Audience returns who may receive an event, as far as plugins say: the strictest answer of all
// that are asked, nil for everybody. It does not depend on who sent the event. Events that are no
// candidates of any plugin reach none. Nobody receives an event about which a plugin fails.
//
// An error means that ctx was done, or that facts could not be read. Nil facts are those of the
// database.
func (r *Registry) Audience(ctx context.Context, e *host.Event, facts *host.FactReader, now int64) (*host.Audience, error) {
	if !r.current.Load().audiences.has(e) {
		return nil, r.others.notCurrent()
	}
	w := workspaces.Get().(*workspace)
	defer w.free()
	item := &host.Item{Event: e}
	w.question = question{
		function: guest.Audience, item: item, source: host.FromClient.String(), facts: facts, now: now, request: w.request.Admit(item, now),
	}
	ruling, err := r.decide(ctx, w, noneRefuses)
	return ruling.Audience, err
}

// restrict asks all plugins of which the event is a candidate, and makes the strictest answer the
// ruling of the trace.
func (c *chain) restrict(ctx context.Context, q *question, t *trace) error {
	t.question, t.chain, t.ruling = q, c.names, host.Ruling{Action: host.Pass}
	for i := range c.links {
		l := &c.links[i]
		switch {
		case !l.module.Candidates().Has(q.item.Event):
			continue
		case l.shadow:
			t.shadows = append(t.shadows, l.generation)
			continue
		}
		t.asked++
		t.answers = append(t.answers, answer{plugin: l.generation, by: l.generation})
		a := &t.answers[len(t.answers)-1]
		err := l.ask(ctx, q, q.facts, a)
		switch f := failure(err); {
		case f != nil:
			a.ruling, a.failed = host.Ruling{Action: host.Restrict, Rule: "failed", Module: l.name, Audience: host.Nobody}, true
		case err != nil:
			return fmt.Errorf("policy %s: %w", l.name, err)
		}
		if a.ruling.Action != host.Restrict {
			continue
		}
		if both := host.StrictestAudience(t.ruling.Audience, a.ruling.Audience); !both.Equal(t.ruling.Audience) {
			t.settle(a)
			t.ruling.Audience = both
		}
	}
	return nil
}

// Audiences returns a text that changes with the plugins that decide who may receive events, and
// with their settings. It is empty if there are none.
func (r *Registry) Audiences() string { return r.current.Load().audiences.settings }

// AudienceVersion is another number for another text of Audiences.
func (r *Registry) AudienceVersion() uint64 { return r.current.Load().audiences.version }

// Complete reports whether every plugin of the folder runs, or an earlier version of it.
func (r *Registry) Complete() bool {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	for name, s := range r.slots {
		if s.running == nil && (s.refused != nil || r.missing(name, s) != "") {
			return false
		}
	}
	return r.others.notCurrent() == nil
}

// AudienceKinds returns the kinds of the events about which plugins are asked, nil for none, and
// whether they are asked about events of other kinds too.
func (r *Registry) AudienceKinds() (kinds []host.Kind, more bool) {
	l := r.acquireSet()
	defer l.release()
	seen := map[host.Kind]bool{}
	for _, c := range l.audiences.candidates {
		if c == nil {
			continue
		}
		ranges, tags := c.Kinds()
		more = more || tags
		for _, r := range ranges {
			for kind := int(r.First); kind <= int(r.Last); kind++ {
				seen[host.Kind(kind)] = true
			}
		}
	}
	for kind := range seen {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds, more
}

// Reader returns who reads with these keys: they, and the sets of which one is a member.
func (r *Registry) Reader(keys []host.PubKey) *host.Reader {
	if len(keys) == 0 {
		return nil
	}
	out := &host.Reader{Keys: keys}
	l := r.acquireSet()
	defer l.release()
	for _, s := range l.audiences.sets {
		if slices.ContainsFunc(keys, func(key host.PubKey) bool { return s.contains(key) }) {
			out.Sets = append(out.Sets, s.name)
		}
	}
	return out
}

func (s *audienceSet) contains(key host.PubKey) bool {
	yes, _ := s.of.sets.Contains([]byte(s.own), key[:])
	return yes
}

// InAudienceSet reports whether a key is a member of a set of an [host.Audience].
func (r *Registry) InAudienceSet(set string, key host.PubKey) bool {
	l := r.acquireSet()
	defer l.release()
	i := slices.IndexFunc(l.audiences.sets, func(s audienceSet) bool { return s.name == set })
	return i >= 0 && l.audiences.sets[i].contains(key)
}

// AudienceSet returns how many keys are members of a set of an [host.Audience], and calls yield for
// them if they are at most limit.
func (r *Registry) AudienceSet(set string, limit int, yield func(key host.PubKey)) int {
	l := r.acquireSet()
	defer l.release()
	i := slices.IndexFunc(l.audiences.sets, func(s audienceSet) bool { return s.name == set })
	if i < 0 {
		return 0
	}
	s := &l.audiences.sets[i]
	return s.of.sets.Keys(s.own, limit, func(key [32]byte) { yield(key) })
}

// ownSet returns the name of a set without that of its module.
func ownSet(name string) string {
	_, own, _ := strings.Cut(name, "/")
	return own
}
