package author

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/sdk"
)

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

// replaceTree makes a folder hold these files and no others. It is done beside the
// folder, so that a failure leaves what was there.
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
		case len(fields) == 3 && fields[0] == "require" && (fields[1] == "talon/sdk" || fields[1] == "talon"):
			lines[i] = "require talon/sdk v" + sdk.Version()
		case line == "replace talon => ./talon": // of before the SDK was a module of its own
			lines[i] = "replace talon/sdk => ./talon/sdk"
		}
	}
	changed := strings.Join(lines, "\n")
	if changed == string(text) {
		return nil, nil
	}
	// It was the module of the SDK before that was one of its own.
	if err := os.Remove(filepath.Join(dir, "talon", "go.mod")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return []string{"go.mod"}, os.WriteFile(file, []byte(changed), 0o644)
}
