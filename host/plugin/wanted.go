package plugin

import (
	"context"
	"slices"

	"talon/host/plugin/folder"
)

// wanted is what a change makes run.
type wanted struct {
	candidates []*candidate // for each name that changes, or whose files cannot run
	folder     *folderState // what lies in the folder; nil: the change is about the candidates alone

	check func(context.Context) error // refuses the change when all is built; nil: does not
	write func() error                // writes the files of the folder; nil: they are there
}

// folderState is the folder as one look found it.
type folderState struct {
	entries  []folder.Entry
	problems []folder.Problem
}

// has reports whether files of a name are there.
func (f *folderState) has(name string) bool {
	return slices.ContainsFunc(f.entries, func(e folder.Entry) bool { return e.Name == name })
}

// modules counts the modules.
func (f *folderState) modules() (n int) {
	for _, e := range f.entries {
		if e.Wasm != nil || e.Bundled {
			n++
		}
	}
	return n
}

// candidate is what one look at a name came to: something to run, or a reason why
// not.
type candidate struct {
	name       string
	seen       seen
	source     *source     // nil if the files could not be read
	generation *generation // nil if it is not built, or was refused
	err        error       // why, as one sentence
	same       bool        // it runs already, or it was refused before
	isFallback bool        // it is the last good generation, in the place of what was refused

	record *folder.Record // that all nodes have agreed on; nil where this server is alone
}

// abandon closes what was loaded in vain.
func abandon(candidates []*candidate) {
	for _, f := range candidates {
		if f.generation != nil {
			_ = f.generation.close()
			f.generation = nil
		}
	}
}
