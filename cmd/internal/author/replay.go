package author

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/sdk/abi/manifest"
)

// Replay asks several modules the same questions in turn, and compares their answers.
type Replay struct {
	Questions []*Question
	last      []Answer // nil: nobody was asked yet
}

// Replayed has the answers of one module.
type Replayed struct {
	Tally

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
func (f *Replayed) compare(s *Source, q *Question, a Answer) {
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
func (q *Question) given(a *Answer) (given Answer) {
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
