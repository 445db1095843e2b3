package author

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/abi/manifest"
)

// Replay asks several modules the same questions in turn, and compares their answers.
type Replay struct {
	Questions []*Case
	last      []Answer // nil: nobody was asked yet
}

// Run asks a module all questions.
func (r *Replay) Run(ctx context.Context, s *Source, o Options) (*Replayed, error) {
	runner, err := s.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	found, answers := new(Replayed), make([]Answer, len(r.Questions))
	if r.last != nil {
		found.Changes = new(Comparison)
	}
	for i, q := range r.Questions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		answers[i] = runner.Ask(ctx, q)
		found.Add(q, &answers[i])
		if found.Changes != nil {
			found.Changes.Add(q, r.last[i], answers[i])
		}
		if q.Wants {
			found.compare(s, q, answers[i])
		}
	}
	r.last = answers
	return found, nil
}

// Replayed has the answers of one module.
type Replayed struct {
	Stats

	Changes *Comparison // with the module before; nil if there was none

	// Recorded compares with the answers that lines want: of a recording, those that
	// were given. It is nil if no line wants one.
	Recorded *Comparison

	// Unseen is how many of the lines that differ from the recording rested on what no
	// line says.
	Unseen int
}

// compare compares an answer with the one that the line wants.
func (f *Replayed) compare(s *Source, q *Case, a Answer) {
	if f.Recorded == nil {
		f.Recorded = new(Comparison)
	}
	given := q.given(&a)
	if q.Recorded != nil && q.Recorded.Chain != nil && !s.is(q.Recorded.By) {
		given = besides(q.Recorded, s, given, a)
	}
	before := f.Recorded.Differ
	f.Recorded.Add(q, given, a)
	if f.Recorded.Differ > before && q.Recorded != nil && len(q.Recorded.Unseen) > 0 {
		f.Unseen++
	}
}

// besides returns the answer that the module gave when another plugin of the chain decided.
func besides(r *manifest.Recorded, s *Source, given, a Answer) Answer {
	switch at := slices.IndexFunc(r.Chain, s.is); {
	case at >= r.Asked:
		return a // it was not asked
	case at >= 0:
		return Answer{} // it passed
	case a.Err == nil && a.Action == host.Pass:
		return a // it was not there, and would have changed nothing
	}
	return given
}

// given is the answer that a line wants. It copies from a what the line leaves open.
func (q *Case) given(a *Answer) (given Answer) {
	want := &q.Vector.Want
	for given.Action.String() != want.Action {
		given.Action++
	}
	given.Rule, given.Reason = cmp.Or(want.Rule, a.Rule), cmp.Or(want.Reason, a.Reason)
	switch {
	case q.Vector.CheckWake(a.Wake, a.Wait) == nil:
		given.Wake, given.Wait = a.Wake, a.Wait
	case want.Wake != nil:
		text, _ := want.Wake.MarshalJSON() // it was read from JSON
		given.Wake, given.Wait = string(text), want.Wait
	}
	return given
}

// is reports whether the module is the plugin of a name.
func (s *Source) is(plugin string) bool {
	return plugin == s.Manifest.Name || plugin == strings.TrimSuffix(filepath.Base(s.File), ".wasm")
}
