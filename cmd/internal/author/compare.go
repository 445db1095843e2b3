package author

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/sdk/abi/manifest"
)

// Difference is a pair of different verdicts of two modules, with the questions that got
// it.
type Difference struct {
	A, B  string // verdicts, without their reasons
	Count int
	First []Unlike // of them
}

// Unlike is a question that two modules answer differently.
type Unlike struct {
	Where, Event string // the event's id, empty for other questions
	A, B         Answer
}

// Bounds of a comparison: what modules say may differ for each question.
const (
	maxDifferences = 1000
	maxFirst       = 3
)

// Comparison counts where two modules differ.
type Comparison struct {
	Asked, Differ int
	Failed        int    // questions about which one of them, or both, had no verdict
	FirstFailure  string // where, and why
	kinds         map[[2]string]*Difference
}

// Compare asks both modules the same questions.
func (c *Comparison) Compare(ctx context.Context, a, b *Runner, q *Case) {
	one, other := a.Ask(ctx, q), b.Ask(ctx, q)
	c.Add(q, one, other)
}

// Add compares two answers to the same question.
func (c *Comparison) Add(q *Case, one, other Answer) {
	c.Asked++
	if err := cmpErr(one.Err, other.Err); err != nil {
		if c.Failed++; c.Failed == 1 {
			c.FirstFailure = q.Where + ": " + err.Error()
		}
	}
	if one.Same(&other) {
		return
	}
	c.Differ++
	key := [2]string{one.Verdict(), other.Verdict()}
	d := c.kinds[key]
	if d == nil {
		if len(c.kinds) >= maxDifferences {
			key = [2]string{"other verdicts", "other verdicts"}
		}
		if d = c.kinds[key]; d == nil {
			d = &Difference{A: key[0], B: key[1]}
			if c.kinds == nil {
				c.kinds = map[[2]string]*Difference{}
			}
			c.kinds[key] = d
		}
	}
	d.Count++
	if len(d.First) < maxFirst {
		d.First = append(d.First, Unlike{q.Where, q.Event(), one, other})
	}
}

// Differences returns all differences, the most frequent first.
func (c *Comparison) Differences() []*Difference {
	var list []*Difference
	for _, d := range c.kinds {
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y *Difference) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	return list
}

// Same reports whether two answers are the same to clients and operators.
func (a *Answer) Same(b *Answer) bool {
	if a.Err != nil || b.Err != nil {
		return a.Err != nil && b.Err != nil
	}
	return a.Action == b.Action && a.Rule == b.Rule && a.Reason == b.Reason
}

// Verdict is the answer in two words at most: the action and the rule.
func (a *Answer) Verdict() string {
	switch {
	case a.Err != nil:
		return "failure"
	case a.Rule == "":
		return a.Action.String()
	}
	return a.Action.String() + " " + a.Rule
}

// Event returns the id of the event in the question; empty for other questions and where
// it has none.
func (q *Case) Event() string {
	if e := q.Vector.Event; e != nil && e.ID != [32]byte{} {
		return fmt.Sprintf("%x", e.ID)
	}
	return ""
}

// Said is the message to the client, or why there is no verdict.
func (a *Answer) Said() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return a.Reason
}

// Replay asks several modules the same questions in turn, and compares their answers.
type Replay struct {
	Questions []*Case
	last      []Answer // nil: nobody was asked yet
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

// besides is what the module answered where another plugin of the chain decided.
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

// given is the answer that a line wants. What it leaves open is as it is in a.
func (q *Case) given(a *Answer) (given Answer) {
	want := &q.Vector.Want
	for given.Action.String() != want.Action {
		given.Action++
	}
	given.Rule, given.Reason = cmp.Or(want.Rule, a.Rule), cmp.Or(want.Reason, a.Reason)
	return given
}

// is reports whether the module is the plugin of a name.
func (s *Source) is(plugin string) bool {
	return plugin == s.Manifest.Name || plugin == strings.TrimSuffix(filepath.Base(s.File), ".wasm")
}

// maxWatched bounds the files of a folder that are looked at.
const maxWatched = 10_000

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	at   time.Time
}

// Watch calls f first, and again after something has changed: a module's file with its
// side-car, or in its folder, but for what a build makes there, or one of the other
// files. It looks on each tick, and returns when ctx is done.
func Watch(ctx context.Context, path string, tick <-chan time.Time, f func(), others ...string) {
	snapshot := func(path string) map[string]stamp {
		files := snapshot(path)
		for _, file := range others {
			addStamp(files, file)
		}
		return files
	}
	before := snapshot(path)
	f()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if now := snapshot(path); !same(before, now) {
			f()
			// What f has built is no news; what was changed meanwhile is.
			before = now
		}
	}
}

func same(a, b map[string]stamp) bool {
	if len(a) != len(b) {
		return false
	}
	for file, s := range a {
		if b[file] != s {
			return false
		}
	}
	return true
}

func addStamp(files map[string]stamp, file string) {
	if info, err := os.Stat(file); err == nil {
		files[file] = stamp{info.Size(), info.ModTime()}
	}
}

// snapshot returns the files of a module.
func snapshot(path string) map[string]stamp {
	files := map[string]stamp{}
	add := func(file string) { addStamp(files, file) }
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		add(path)
		add(strings.TrimSuffix(path, ".wasm") + ".toml")
		return files
	}
	_ = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has just gone away
		}
		name := d.Name()
		switch {
		case len(files) >= maxWatched:
			return fs.SkipAll
		case file == path:
		case d.IsDir() && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "target"):
			return fs.SkipDir
		case d.Type().IsRegular() && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".wasm") && name != "Cargo.lock":
			add(file)
		}
		return nil
	})
	return files
}
