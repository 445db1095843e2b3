package author

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"talon/sdk/abi/manifest"
)

// language is how modules are written and built in one language. To add one, add an
// entry to languages.
type language struct {
	name     string            // as --lang takes it
	examples map[string]string // the example with which a module begins, by world
	taken    string            // the SDK's own name, where a module cannot have the same
	sdk      []string          // files and folders of the SDK that a module gets, at the same place below talon/sdk
	files    map[string]string // more files of a new module; NAME stands for its name
	first    string            // a command that a new folder needs once, from the network; empty if it needs none
	marks    []string          // patterns of files by which a folder is known to be of this language

	// find returns the compiler, and what it needs in its environment so that it works
	// and fetches nothing. An error says what is missing and how to get it.
	find func(dir string) (program string, env []string, err error)

	// build returns the compiler's arguments, and which file it makes, a pattern: out, or
	// another one.
	build func(dir, name, out string) (args []string, made string)

	said   func(line string) bool // whether a line of the compiler's is about a mistake
	native []string               // arguments by which its own unit tests run; none: it has none
}

var languages = []language{golang, rust, assemblyscript, clang}

// Languages are the languages in which Create can write a module.
func Languages() []string {
	names := make([]string, len(languages))
	for i := range languages {
		names[i] = languages[i].name
	}
	return names
}

func languageOf(name string) (*language, error) {
	for i := range languages {
		if languages[i].name == name {
			return &languages[i], nil
		}
	}
	return nil, fmt.Errorf("language %.40q: want one of %s", name, strings.Join(Languages(), ", "))
}

// Next returns the next command line for an author in a new folder.
func Next(dir, lang string) string {
	next := "cd " + dir + " && "
	if l, err := languageOf(lang); err == nil && l.first != "" {
		next += l.first + " && "
	}
	return next + "talon plugin test"
}

// worlds are those for which the language has an SDK.
func (l *language) worlds() []string {
	var names []string
	for _, world := range []string{manifest.WorldPolicy, manifest.WorldStrategy, manifest.WorldThrottle} {
		if l.examples[world] != "" {
			names = append(names, world)
		}
	}
	return names
}

// languagesFor are those that have an SDK for a world.
func languagesFor(world string) []string {
	var names []string
	for i := range languages {
		if languages[i].examples[world] != "" {
			names = append(names, languages[i].name)
		}
	}
	return names
}

// languageIn says in which language the module in a folder is written.
func languageIn(dir string) (*language, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for a module: %w", err)
	}
	for i := range languages {
		l := &languages[i]
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return slices.ContainsFunc(l.marks, func(pattern string) bool {
				ok, _ := path.Match(pattern, e.Name())
				return ok && !e.IsDir()
			})
		}) {
			return l, nil
		}
	}
	return nil, fmt.Errorf("there is no module in the folder %s: want a .wasm file, or a folder that talon plugin new made", dir)
}
