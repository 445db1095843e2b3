package author

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"talon/examples"
	"talon/sdk"
)

// Create creates a folder with the example module of the world and a copy of the SDK. The
// module builds and passes its tests without a network. The module has the name of the
// folder. Create never touches a folder that is not empty.
func Create(dir, world, lang string) (err error) {
	l, err := languageOf(lang)
	if err != nil {
		return err
	}
	name := filepath.Base(dir)
	if !isName(name) {
		return fmt.Errorf("the name %.80q is wrong: want a-z, 0-9, - and _, beginning with a letter, at most 32", name)
	}
	switch {
	case name == l.taken:
		return fmt.Errorf("the name %s is that of the SDK in %s: choose another", name, l.name)
	case golang.examples[world] == "":
		return fmt.Errorf("world %.40q: want one of %s", world, strings.Join(golang.worlds(), ", "))
	case l.examples[world] == "":
		return fmt.Errorf("the language %s has no SDK for the world %s, only for %s: choose %s", l.name, world,
			strings.Join(l.worlds(), ", "), strings.Join(languagesFor(world), " or "))
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("make the folder: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("the folder %s is not empty: choose another name, or remove it first", dir)
	}
	for file, text := range l.tree(name, world) {
		if err := write(filepath.Join(dir, filepath.FromSlash(file)), text); err != nil {
			return fmt.Errorf("make the folder: %w", err)
		}
	}
	return nil
}

// isName reports whether s can be the name of a module, in any language.
func isName(s string) bool {
	return s != "" && len(s) <= 32 && s[0] >= 'a' && s[0] <= 'z' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// tree returns the files of a new module. What is embedded can always be read.
func (l *language) tree(name, world string) map[string][]byte {
	tree := map[string][]byte{
		".gitignore": []byte("/*.wasm\n/target/\n/node_modules/\n"),
		"README.md":  []byte(l.readme(name)),
	}
	for file, text := range l.files {
		tree[file] = []byte(strings.ReplaceAll(text, "NAME", name))
	}
	// In each language the example is named for its world, and finds the SDK two
	// folders up.
	local := strings.NewReplacer("hello-"+world, name, "../../sdk/", "talon/sdk/", "TALON ?= ../..", "TALON ?= talon")
	for _, example := range []string{golang.examples[world], l.examples[world]} {
		walk(examples.Files, example, func(file string, text []byte) {
			file = strings.TrimPrefix(file, example+"/")
			if example == l.examples[world] || file == "vectors.jsonl" {
				tree[local.Replace(file)] = []byte(local.Replace(string(text)))
			}
		})
	}
	maps.Copy(tree, l.sdkTree())
	return tree
}

// sdkTree returns the files of the SDK, as a module has them.
func (l *language) sdkTree() map[string][]byte {
	tree := make(map[string][]byte)
	for _, part := range append([]string{"LICENSE", "VERSION"}, l.sdk...) {
		walk(sdk.Files, part, func(file string, text []byte) {
			if !strings.HasSuffix(file, "_test.go") {
				tree[sdkDir+file] = text
			}
		})
	}
	return tree
}

// sdkDir is where a module has the SDK.
const sdkDir = "talon/sdk/"

// walk calls f for the files below a path, but for what tests need.
func walk(files embed.FS, from string, f func(file string, text []byte)) {
	_ = fs.WalkDir(files, from, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		text, err := files.ReadFile(file)
		if err == nil {
			f(file, text)
		}
		return err
	})
}

//go:embed readme.md
var readme string

// readme says what talon does with the folder of a module.
func (l *language) readme(name string) string {
	var text strings.Builder
	for line := range strings.Lines(readme) {
		if len(l.native) > 0 || !strings.Contains(line, "--native") {
			text.WriteString(strings.ReplaceAll(line, "NAME", name))
		}
	}
	return text.String()
}
