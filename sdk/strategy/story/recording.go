package story

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"talon/sdk/abi"
)

// Recording turns what happened to a strategy into a story. Ids and keys of events become short
// ones, in the same order.
type Recording struct {
	steps []recorded
}

// recorded is one input with its answer.
type recorded struct{ request, answer []byte }

// Add adds an encoded StepRequest and the encoded StepActions that answered it.
func (r *Recording) Add(request, answer []byte) {
	r.steps = append(r.steps, recorded{bytes.Clone(request), bytes.Clone(answer)})
}

// Text returns the story, up to a time in milliseconds after the first input. An error says what
// cannot be read.
func (r *Recording) Text(until int64) (string, error) {
	t := &transcript{names: map[string]string{}}
	for i := range r.steps {
		if err := t.learn(&r.steps[i]); err != nil {
			return "", err
		}
	}
	t.nameAll()
	for i := range r.steps {
		t.add(&r.steps[i])
	}
	if t.now < t.begun+until {
		t.input("after " + Elapsed(t.begun+until-t.now))
	}
	t.flush()
	return strings.TrimRight(t.out.String(), "\n") + "\n", nil
}

// transcript is a recording that is being written.
type transcript struct {
	ids, keys map[string]bool   // in hex
	authors   map[string]bool   // keys of comments, likewise
	names     map[string]string // of an author with a word before it: its id and its address may be here too
	begun     int64             // unix milliseconds
	now       int64             // of the last input that was written
	out       strings.Builder
	lines     []string // inputs since the last answers
	said      []string
}

// everything reads any answer.
var everything = abi.ActionLimits{Actions: 1 << 20, Filters: 1 << 20, Values: 1 << 20, AllValues: 1 << 30}

// learn notes the ids and keys of a step.
func (t *transcript) learn(s *recorded) error {
	if t.ids == nil {
		t.ids, t.keys, t.authors = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	var v abi.StepView
	if err := v.Decode(s.request); err != nil {
		return fmt.Errorf("read an input: %w", err)
	}
	if t.begun == 0 {
		t.begun, t.now = v.Now, v.Now
	}
	address := func(a string) {
		if parts := strings.SplitN(a, ":", 3); len(parts) == 3 {
			t.keys[strings.Clone(parts[1])] = true
		}
	}
	switch v.Kind {
	case abi.InputInit:
		init := v.Init()
		for it := init.Repositories(); it.Next(); {
			repo := it.Repository()
			address(repo.Address)
			for i := range repo.NumRoots() {
				id := repo.Root(i)
				t.ids[hex.EncodeToString(id[:])] = true
			}
			for i := range repo.NumAuthors() {
				key := repo.Author(i)
				t.authors[hex.EncodeToString(key[:])] = true
			}
		}
	case abi.InputLocalEvent:
		e := v.LocalEvent()
		t.ids[hex.EncodeToString(e.ID)] = true
		for it := e.Repositories(); it.Next(); {
			address(string(it.Text()))
		}
	case abi.InputRepoGone:
		address(v.RepoGone().Repository)
	case abi.InputRootActivity:
		a := v.RootActivity()
		for i := range a.NumRoots() {
			id := a.Root(i)
			t.ids[hex.EncodeToString(id[:])] = true
		}
		for i := range a.NumAuthors() {
			key := a.Author(i)
			t.authors[hex.EncodeToString(key[:])] = true
		}
	}
	return nil
}

// nameAll gives ids and keys short names, in their order.
func (t *transcript) nameAll() {
	for i, id := range slices.Sorted(maps.Keys(t.ids)) {
		t.names[id] = fmt.Sprintf("%04x", i+1)
	}
	for i, key := range slices.Sorted(maps.Keys(t.authors)) {
		t.names["author "+key] = fmt.Sprintf("%04x", i+1)
	}
	for i, key := range slices.Sorted(maps.Keys(t.keys)) {
		t.names[key] = fmt.Sprintf("%02x", i+1)
	}
}

// id is the short name of an id.
func (t *transcript) id(id []byte) string { return t.names[hex.EncodeToString(id)] }

// author is the short name of an author of comments.
func (t *transcript) author(key []byte) string { return t.names["author "+hex.EncodeToString(key)] }

// address is an address with the short name of its key.
func (t *transcript) address(a string) string {
	parts := strings.SplitN(a, ":", 3)
	if len(parts) == 3 && t.names[parts[1]] != "" {
		parts[1] = t.names[parts[1]]
	}
	return strings.Join(parts, ":")
}

func (t *transcript) addresses(it abi.BytesIter) (list []string) {
	for it.Next() {
		list = append(list, t.address(string(it.Text())))
	}
	return list
}

// since is a time in unix milliseconds, as one of the story.
func (t *transcript) since(at int64) string { return Elapsed(at - t.begun) }

// input adds the line of an input.
func (t *transcript) input(words ...string) {
	if len(t.said) > 0 {
		t.flush()
	}
	t.lines = append(t.lines, strings.Join(words, " "))
}

// flush ends a block.
func (t *transcript) flush() {
	if len(t.lines) == 0 {
		return
	}
	fmt.Fprintf(&t.out, "%s\n----\n", strings.Join(t.lines, "\n"))
	for _, line := range t.said {
		fmt.Fprintln(&t.out, line)
	}
	fmt.Fprintln(&t.out)
	t.lines, t.said = nil, nil
}
