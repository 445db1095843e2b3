package plugintest

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// sources returns the files that a package of this repository is made of, with all packages of the repository
// that it imports: their code, what they embed, and go.mod. The package is given by its folder, and files are
// relative to the root of the repository. Their order stays.
//
// The go command sees that the test has read these files. So a change of one of them runs the test again,
// although another process compiles the package. Tests of these packages do not count.
func sources(folder string) ([]string, error) {
	once, _ := known.LoadOrStore(folder, sync.OnceValues(func() ([]string, error) {
		root, err := root()
		if err != nil {
			return nil, err
		}
		return sourcesOf(root, folder)
	}))
	return once.(func() ([]string, error))()
}

// known keeps what sources has found.
var known sync.Map // of folder: func() ([]string, error)

// module is what import paths of this repository begin with.
var module = strings.TrimSuffix("talon/host/plugin", "host/plugin")

// sourcesOf does what sources does, in a repository.
func sourcesOf(root, folder string) (files []string, err error) {
	seen := map[string]bool{folder: true}
	for todo := []string{folder}; len(todo) > 0; {
		folder, todo = todo[0], todo[1:]
		names, err := list(filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !isSource(name) {
				continue
			}
			file := path.Join(folder, name)
			files = append(files, file)
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			if path.Ext(name) != ".go" {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
			if err != nil {
				return nil, err
			}
			for _, spec := range parsed.Imports {
				imported, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
				if ok && !seen[imported] {
					seen[imported] = true
					todo = append(todo, imported)
				}
			}
			inside, err := embedded(root, folder, text)
			if err != nil {
				return nil, err
			}
			files = append(files, inside...)
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "sdk/go.mod"} {
		if _, err := os.ReadFile(filepath.Join(root, file)); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// list returns the names of the files in a folder. For the go command, the time of the folder counts,
// which is another when a file is added or removed, and not the time of each of its files.
func list(dir string) (names []string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	file := os.NewFile(uintptr(fd), dir)
	names, err = file.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, file.Close())
}

func isSource(name string) bool {
	switch path.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".c", ".h", ".s", ".S":
		return true
	}
	return false
}

// embedLine names files that a package embeds.
var embedLine = regexp.MustCompile(`(?m)^//go:embed (.+)$`)

// embedded returns the files that a file of Go embeds.
func embedded(root, folder string, text []byte) (files []string, err error) {
	for _, line := range embedLine.FindAllSubmatch(text, -1) {
		for _, pattern := range strings.Fields(string(line[1])) {
			found, err := filepath.Glob(filepath.Join(root, folder, strings.TrimPrefix(pattern, "all:")))
			if err != nil {
				return nil, err
			}
			for _, top := range found {
				err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
					if err != nil || !d.Type().IsRegular() {
						return err
					}
					name, err := filepath.Rel(root, file)
					if err == nil {
						_, err = os.Stat(file)
					}
					files = append(files, filepath.ToSlash(name))
					return err
				})
				if err != nil {
					return nil, err
				}
			}
		}
	}
	return files, nil
}
