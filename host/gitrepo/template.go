package gitrepo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// templates are what git init makes in a folder of repositories, one for each
// format. Git is asked once, for it tries what the file system can do.
type templates struct {
	mu   sync.Mutex // guards made
	made [2]*template
}

// template is an empty repository.
type template struct {
	dirs  []string // a folder comes before what is in it
	files map[string]string
}

func (r *Root) template(ctx context.Context, format Format) (*template, error) {
	r.templates.mu.Lock()
	defer r.templates.mu.Unlock()
	if s := r.templates.made[format]; s != nil {
		return s, nil
	}
	dir, err := os.MkdirTemp(filepath.Join(r.dir, trashDir), "new-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := r.git.run(ctx, dir, nil, "init", "--quiet", "--bare", "--template=",
		"--initial-branch="+r.git.options.DefaultBranch, "--object-format="+format.String()); err != nil {
		return nil, err
	}
	if err := appendFile(filepath.Join(dir, "config"), configText(r.git.config)); err != nil {
		return nil, err
	}
	s, err := readSkeleton(dir)
	if err != nil {
		return nil, err
	}
	r.templates.made[format] = s
	return s, nil
}

func readSkeleton(dir string) (*template, error) {
	s := &template{files: map[string]string{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			s.dirs = append(s.dirs, name)
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("git init made %s, which is neither a file nor a folder", name)
		}
		text, err := os.ReadFile(path)
		s.files[name] = string(text)
		return err
	})
	return s, err
}

// write makes the repository in an empty folder.
func (s *template) write(dir string) error {
	for _, name := range s.dirs {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	for name, text := range s.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
