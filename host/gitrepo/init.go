package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"talon/internal/durable"
)

// Format is the hash that a repository names its objects by.
type Format uint8

const (
	SHA1 Format = iota
	SHA256
)

func (f Format) String() string { return [...]string{"sha1", "sha256"}[f] }

var errFolder = errors.New("the repositories of a folder are not made or removed by Talon")

// Init makes the repository, empty, with HEAD on Options.DefaultBranch. One that is there already
// stays as it is. REQUIRES: the lock.
func (r *Repo) Init(ctx context.Context, format Format) error {
	if r.root == nil {
		return errFolder
	}
	if there, err := r.Exists(); there || err != nil {
		return err
	}
	store := r.root.store(r.name.identifier, format)
	unlock, err := r.locks.lock(ctx, store.dir)
	if err != nil {
		return err
	}
	defer unlock()

	// The store first, then the mark that somebody borrows from it, then the
	// repository: a crash between them leaves a store that the next Init uses.
	if err := store.make(ctx, r.name.npub); err != nil {
		return err
	}
	file, cut := fileName(r.name.identifier)
	return r.root.build(ctx, r.dir, format, func(dir string) error {
		borrow := "../../../" + sharedDir + "/" + format.String() + "/" + file + "/objects\n"
		if err := writeFile(filepath.Join(dir, "objects", "info", "alternates"), borrow); err != nil {
			return err
		}
		if !cut {
			return nil
		}
		return writeFile(filepath.Join(dir, cutFile), r.name.identifier)
	})
}

// build makes a bare repository in the trash folder, and renames it to its place.
func (r *Root) build(ctx context.Context, place string, format Format, finish func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(r.trash, "new-")
	if err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	empty, err := r.template(ctx, format)
	if err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := empty.write(dir); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := finish(dir); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := r.locks.peers.make(dir, r.locks.heldLock(place)); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), syncTree(dir)); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	parent := filepath.Dir(place)
	// The owner's folder goes with the last repository in it, which may be now.
	for range 3 {
		if err = makeDirs(r.dir, parent); err == nil {
			err = os.Rename(dir, place)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	return durable.Sync(parent)
}

// configText writes settings as git's configuration file has them.
func configText(list [][2]string) string {
	var b strings.Builder
	for _, pair := range list {
		first, last := strings.IndexByte(pair[0], '.'), strings.LastIndexByte(pair[0], '.')
		section := pair[0][:first]
		if first < last {
			section += ` "` + pair[0][first+1:last] + `"`
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, pair[0][last+1:], pair[1])
	}
	return b.String()
}

// Remove removes the repository, and its shared store if no other repository borrows from
// there. Reads of it at the same time may fail. REQUIRES: the lock.
func (r *Repo) Remove(ctx context.Context) error {
	if r.root == nil {
		return errFolder
	}
	release, err := r.root.removing.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	r.batches.closeIdle(r.dir)
	if there, err := r.Exists(); err != nil || !there {
		return err
	}
	store, borrows, err := r.shared()
	if err != nil {
		return err
	}
	if err := r.root.discard(r.dir); err != nil {
		return fmt.Errorf("remove a repository: %w", err)
	}
	// Not an error if the owner has others.
	_ = os.Remove(filepath.Dir(r.dir))
	if !borrows {
		return nil
	}
	unlock, err := r.locks.lock(ctx, store.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return store.removeBorrower(r.name.npub)
}

// discard moves a folder away, which is atomic, and then deletes it.
func (r *Root) discard(dir string) error {
	if err := r.locks.check(dir); err != nil {
		return err
	}
	place, err := os.MkdirTemp(r.trash, "old-")
	if err != nil {
		return err
	}
	gone := filepath.Join(place, "gone")
	err = os.Rename(dir, gone)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := r.locks.peers.movedAway(gone, r.locks.heldLock(dir)); err != nil {
			return errors.Join(err, os.Rename(gone, dir))
		}
	}
	if err := durable.Sync(filepath.Dir(dir)); err != nil {
		return err
	}
	return os.RemoveAll(place)
}

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
	dir, err := os.MkdirTemp(r.trash, "new-")
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
	s, err := readTemplate(dir)
	if err != nil {
		return nil, err
	}
	r.templates.made[format] = s
	return s, nil
}

func readTemplate(dir string) (*template, error) {
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

// Folder is a folder with repositories at any depth. They are bare, unless its git is
// plain.
type Folder struct {
	git     *Git
	dir     string
	locks   locks
	batches *batches
}

// OpenFolder opens a folder of repositories, which must exist.
func OpenFolder(git *Git, dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of repositories: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of repositories: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open the folder of repositories: %s is not a folder", dir)
	}
	return &Folder{git: git, dir: dir, locks: locks{peers: alone{}}, batches: new(batches)}, nil
}

// Close ends the git processes for look-ups.
func (f *Folder) Close() { f.batches.close() }

// Find returns the repository at a path, given as its percent-decoded parts, with
// or without .git at the end. A path that leads into a repository or its work tree, or
// out of the folder by a link, is not found.
func (f *Folder) Find(parts []string) (*Repo, error) {
	if len(parts) == 0 {
		return nil, ErrNotFound
	}
	for _, part := range parts {
		if CheckIdentifier(part) != nil {
			return nil, ErrNotFound
		}
	}
	for i := 1; i < len(parts); i++ {
		above := filepath.Join(f.dir, filepath.Join(parts[:i]...))
		if isBare(above) {
			return nil, ErrNotFound
		}
		// People who push to a work tree control the files in it.
		if _, err := os.Lstat(filepath.Join(above, suffix)); f.git.plain && err == nil {
			return nil, ErrNotFound
		}
	}
	path := filepath.Join(f.dir, filepath.Join(parts...))
	candidates := []string{path, path + suffix}
	if f.git.plain {
		candidates = []string{filepath.Join(path, suffix), path, filepath.Join(path+suffix, suffix), path + suffix}
	}
	for _, candidate := range candidates {
		dir, err := filepath.EvalSymlinks(candidate)
		if err != nil || !strings.HasPrefix(dir, strings.TrimSuffix(f.dir, "/")+"/") || !isBare(dir) {
			continue
		}
		return &Repo{git: f.git, dir: dir, locks: &f.locks, batches: f.batches}, nil
	}
	return nil, ErrNotFound
}
