package plugin

import (
	"encoding/json"
	"slices"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// liner makes lines of traces.
type liner struct {
	plugin  string       // whose answers are in the lines; empty: those of the chain
	service host.Service // how the relay is reached, as plugins have it
	mask    *mask
}

// line returns the line of a decision, nil for none: the recording is about a plugin that was
// not asked, or no line can say what was asked. It reports false if the decision read more than
// a line may hold.
func (s *liner) line(t *trace) (_ *manifest.Decision, fits bool) {
	l := &manifest.Decision{Function: t.function.String(), Now: t.now}
	if !s.addQuestion(l, t.question) || !s.addAnswer(l, t) {
		return nil, true
	}
	n := newNotes(s.plugin, t)
	if n.full() {
		return l, false
	}
	for _, part := range []struct {
		texts []string
		to    *[]json.RawMessage
	}{{n.withReferences(), &l.Stored}, {n.held.list, &l.Held}} {
		for _, text := range part.texts {
			masked, err := s.mask.event([]byte(text))
			if err != nil {
				return nil, true // it cannot be redacted
			}
			*part.to = append(*part.to, masked)
		}
	}
	slices.Sort(n.unseen)
	l.Sets, l.Usage, l.Unseen = n.sets, n.usage, n.unseen
	return l, true
}

// addQuestion adds what was asked. It reports false if no line can say that.
func (s *liner) addQuestion(l *manifest.Decision, q *question) bool {
	l.Service = manifest.VectorService{Domain: s.service.Domain, PRs: s.service.PRs, Operator: s.service.Operator}
	switch {
	case q.item != nil:
		if q.function == guest.Admit {
			l.Source = s.mask.source(q.item)
		}
		text := q.item.Event.JSON
		if text == nil {
			text = q.item.Event.AppendJSON(nil)
		}
		var err error
		l.Event, err = s.mask.event(text)
		return err == nil // an event that was verified can be read
	case q.query != nil:
		l.Verb = q.query.Verb.String()
		for i := range q.query.Filters {
			// One that matches nothing is not asked about.
			if !q.query.Filters[i].Empty() {
				l.Filters = append(l.Filters, filterOf(&q.query.Filters[i]))
			}
		}
		if l.Filters == nil {
			return false // a vector has one at least
		}
	case q.connection != nil:
		l.Open, l.FromAddress = q.connection.Open, q.connection.FromAddr
	default:
		l.Push = pushOf(q.push)
	}
	l.Client = s.mask.client(q.client)
	return true
}

// addAnswer adds what was answered: by the chain, or by the plugin that the recording is about.
// It reports false if that was not asked.
func (s *liner) addAnswer(l *manifest.Decision, t *trace) bool {
	r := t.ruling
	if s.plugin == "" {
		names, asked := t.names()
		l.Chain, l.Asked = append([]string{}, names...), asked
	} else {
		i := slices.IndexFunc(t.answers, func(a answer) bool { return a.plugin.name == s.plugin })
		if i < 0 {
			return false
		}
		r = t.answers[i].ruling
		r.Module = s.plugin
	}
	l.Want, l.By = manifest.VectorWant{Action: r.Action.String(), Rule: r.Rule, Reason: r.Reason}, r.Module
	l.Want.MaxAuthorBytes, l.Want.MaxRepositoryBytes, l.Want.End = r.Limits.Author, r.Limits.Repository, r.End
	if r.Wake != "" {
		l.Want.Wake = new(manifest.VectorFilter)
		if err := json.Unmarshal([]byte(r.Wake), l.Want.Wake); err != nil {
			return false // it is canonical
		}
		l.Want.Wait = r.Wait
	}
	if a := r.Audience; a != nil {
		l.Want.Keys, l.Want.Set = manifest.Keys(a.Keys), ownSet(a.Set)
	}
	return true
}

// The parts of a request as vectors have them.

func (m *mask) source(it *host.Item) *manifest.VectorSource {
	s := &manifest.VectorSource{Origin: host.FromClient.String(), Authed: manifest.Keys(it.Authed)}
	if from := it.Source; from != nil {
		s.Origin, s.Address, s.Relay = from.Origin.String(), manifest.Address(m.address(from.Addr)), from.Relay
	}
	return s
}

func (m *mask) client(c *host.Client) *manifest.VectorClient {
	if c == nil {
		return nil
	}
	return &manifest.VectorClient{
		Address: manifest.Address(m.address(c.Addr)), Authed: manifest.Keys(c.Authed), UserAgent: c.UserAgent, Origin: c.Origin, Path: c.Path,
	}
}

func filterOf(f *host.Filter) manifest.VectorFilter {
	return manifest.FilterOf(&abi.QueryFilter[host.ID, host.PubKey, host.Kind, host.TagFilter]{
		IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: f.Tags, Since: f.Since, Until: f.Until, Limit: f.Limit,
	})
}

func pushOf(p *host.Push) *manifest.VectorPush {
	to := &manifest.VectorPush{
		Repo: p.Repo.String(), Maintainers: manifest.Keys(p.Maintainers), Bytes: p.Bytes, Stored: p.Stored, PRs: p.PRs, Fetch: p.Fetch,
	}
	for _, u := range p.Updates {
		to.Updates = append(to.Updates, manifest.VectorUpdate(u))
	}
	return to
}
