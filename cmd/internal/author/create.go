package author

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"talon/examples"
	"talon/sdk"
	"talon/sdk/abi/manifest"
)

// Create creates a folder with the example module of the world. The module has the name of
// the folder. Create refuses a folder that has files.
//
// A module in Go requires the SDK by its version if this program was built with a release
// of the SDK. Each other module gets a copy of the SDK, and builds and passes its tests
// without a network.
func Create(dir, world, lang string) error { return create(dir, world, lang, thisRelease()) }

// create does what [Create] does, with a release of the SDK or nil.
func create(dir, world, lang string, r *release) error {
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
	for file, text := range l.tree(name, world, r) {
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

// tree returns the files of a new module: with a copy of the SDK, or for Go with a release
// that go.mod requires. Reading embedded files cannot fail.
func (l *language) tree(name, world string, r *release) map[string][]byte {
	if l.name != golang.name {
		r = nil
	}
	tree := map[string][]byte{
		".gitignore": []byte("/*.wasm\n/target/\n/node_modules/\n"),
		"README.md":  []byte(l.readme(name, r)),
	}
	for file, text := range l.files {
		tree[file] = []byte(strings.ReplaceAll(text, "NAME", name))
	}
	// In each language the example is named for its world, and finds the SDK two
	// folders up.
	local := strings.NewReplacer("hello-"+world, name, "../../sdk/", sdkDir, "TALON ?= ../..", "TALON ?= "+copyDir)
	for _, example := range []string{golang.examples[world], l.examples[world]} {
		walk(examples.Files, example, func(file string, text []byte) {
			file = strings.TrimPrefix(file, example+"/")
			if example == l.examples[world] || file == "vectors.jsonl" {
				tree[local.Replace(file)] = []byte(local.Replace(string(text)))
			}
		})
	}
	if world == manifest.WorldStrategy {
		walk(examples.Files, "testdata/"+golang.examples[world], func(file string, text []byte) {
			tree["testdata/"+path.Base(file)] = text
		})
	}
	if r != nil {
		maps.Copy(tree, r.files(name))
	} else {
		maps.Copy(tree, l.sdkTree())
	}
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

// The folder of a module in which its copy of the SDK is.
const (
	copyDir = "talon"
	sdkDir  = copyDir + "/sdk/"
)

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

// readme describes what talon does with the folder of a module.
func (l *language) readme(name string, r *release) string {
	from := "Everything that it needs is in this folder; `" + copyDir + "/` is a copy of the SDK."
	if r != nil {
		from = "`go.mod` names the version of the SDK."
	}
	text := strings.NewReplacer("NAME", name, "SDK", from)
	var b strings.Builder
	for line := range strings.Lines(readme) {
		if len(l.native) > 0 || !strings.Contains(line, "--native") {
			b.WriteString(text.Replace(line))
		}
	}
	return b.String()
}

// Updated describes what Update did.
type Updated struct {
	From, To string // versions of the SDK; From is empty if the folder does not say
	Files    []string
}

// Update replaces the SDK in a module's folder by that of this program. It does not
// change the author's files, except for the lines of go.mod that name the SDK.
func Update(dir string) (*Updated, error) {
	l, err := languageIn(dir)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, filepath.FromSlash(sdkDir))
	old, err := readTree(at)
	switch {
	case errors.Is(err, fs.ErrNotExist) && l.name == golang.name && requiresSDK(dir):
		return nil, fmt.Errorf("the folder %s has no copy of the SDK, its go.mod names a version: run go get %s@VERSION there", dir, sdk.Path())
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the folder %s has no %s: talon plugin new makes folders that have one", dir, sdkDir)
	case err != nil:
		return nil, fmt.Errorf("read the SDK: %w", err)
	}
	u := &Updated{From: strings.TrimSpace(string(old["VERSION"])), To: sdk.Version()}
	fresh := make(map[string][]byte)
	for file, text := range l.sdkTree() {
		file = strings.TrimPrefix(file, sdkDir)
		fresh[file] = text
		if !bytes.Equal(old[file], text) {
			u.Files = append(u.Files, sdkDir+file)
		}
	}
	for file := range old {
		if _, stays := fresh[file]; !stays {
			u.Files = append(u.Files, sdkDir+file)
		}
	}
	slices.Sort(u.Files)
	if err := replaceTree(at, fresh); err != nil {
		return nil, fmt.Errorf("update the SDK: %w", err)
	}
	changed, err := l.nameSDK(dir)
	u.Files = append(u.Files, changed...)
	return u, err
}

// replaceTree makes a folder hold these files and no others. It writes to a new folder next
// to it first, so that a failure leaves the old files.
func replaceTree(dir string, files map[string][]byte) error {
	fresh, old := dir+".new", dir+".old"
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(old)); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for file, text := range files {
		if err := write(filepath.Join(fresh, filepath.FromSlash(file)), text); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old)
}

// readTree returns the files below a folder.
func readTree(dir string) (map[string][]byte, error) {
	tree := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err == nil {
			tree[filepath.ToSlash(name)], err = os.ReadFile(file)
		}
		return err
	})
	return tree, err
}

// beforeSDK is the path of the module that had the SDK before that was one of its own.
const beforeSDK = "talon"

// replaceSDK is the line of go.mod that makes a module use its copy of the SDK.
var replaceSDK = "replace " + sdk.Path() + " => ./" + strings.TrimSuffix(sdkDir, "/")

// nameSDK brings go.mod up to date, and returns which files changed.
func (l *language) nameSDK(dir string) ([]string, error) {
	if l.name != golang.name {
		return nil, nil
	}
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		switch fields := strings.Fields(line); {
		case len(fields) == 3 && fields[0] == "require" && (fields[1] == sdk.Path() || fields[1] == beforeSDK):
			lines[i] = "require " + sdk.Path() + " v" + sdk.Version()
		case line == "replace "+beforeSDK+" => ./"+copyDir:
			lines[i] = replaceSDK
		}
	}
	changed := strings.Join(lines, "\n")
	if changed == string(text) {
		return nil, nil
	}
	// It was the module of the SDK before that was one of its own.
	if err := os.Remove(filepath.Join(dir, copyDir, "go.mod")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return []string{"go.mod"}, os.WriteFile(file, []byte(changed), 0o644)
}
