package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Target says where a restore puts the parts of a backup.
type Target struct {
	Data    string // the data folder
	Git     string // the folder for git data and the relay's key, which may be the same
	Plugins string // the folder of plugins
}

// Names of parts in a backup.
const (
	GitFolder     = "git"
	PRsFolder     = "git-prs"
	KeyFile       = "relay.key"
	PluginsFolder = "plugins"

	// ModerationFile is the copy of the moderation log outside the database.
	ModerationFile = "moderation.jsonl"

	// VanishedFile is the copy of the requests to vanish outside the database.
	VanishedFile = "vanished.jsonl"
)

// merged reports whether a restore adds the lines of a file to those that are there already.
func merged(part string) bool { return part == ModerationFile || part == VanishedFile }

// restoringDir is where a restore writes until all is there.
const restoringDir = ".restoring"

// pluginsLeft is where a plugin goes if the folder of plugins has another one of its name.
const pluginsLeft = "plugins-of-backup"

// Restore brings a backup back into folders that have no data. The server must not run. All of
// it is verified before anything appears.
func Restore(ctx context.Context, dir string, to Target, progress func(Progress)) (sum Summary, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore a backup: %w", err)
		}
	}()
	began := time.Now()
	m, err := Read(dir)
	if err != nil {
		return sum, err
	}
	r := &restore{dir: dir, to: to, manifest: m, progress: counting(progress, PhaseRestore, m.Bytes())}
	if err := r.refuseData(); err != nil {
		return sum, err
	}
	for _, top := range r.tops() {
		fresh := filepath.Join(top, restoringDir)
		if err := errors.Join(os.MkdirAll(top, 0o700), os.RemoveAll(fresh), os.Mkdir(fresh, 0o700)); err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	}
	if err := r.write(ctx); err != nil {
		return sum, err
	}
	if err := r.appear(); err != nil {
		return sum, err
	}
	sum = Summary{
		ID: m.ID, Dir: dir, Made: m.Made, Seconds: time.Since(began).Seconds(), Files: len(m.Files), Bytes: m.Bytes(),
		Database: m.Database, Notes: r.notes,
	}
	for _, f := range m.Files {
		if strings.HasSuffix(f.Path, ".git/HEAD") && !isShared(f.Path) {
			sum.Repositories++
		}
	}
	return sum, nil
}

type restore struct {
	dir      string
	to       Target
	manifest *Manifest
	progress func(int64)
	notes    []string
}

// tops are the folders that a restore writes to.
func (r *restore) tops() []string {
	if r.to.Git == r.to.Data {
		return []string{r.to.Data}
	}
	return []string{r.to.Git, r.to.Data}
}

// top is the folder for a part of a backup, by the first name of the path.
func (r *restore) top(part string) string {
	if part == GitFolder || part == PRsFolder || part == KeyFile {
		return r.to.Git
	}
	return r.to.Data
}

// parts lists the first names of all paths, the database last.
func (r *restore) parts() (list []string) {
	has := make(map[string]bool)
	for _, f := range r.manifest.Files {
		part, _, _ := strings.Cut(f.Path, "/")
		if !has[part] && part != DatabaseFile {
			list = append(list, part)
		}
		has[part] = true
	}
	if has[DatabaseFile] {
		list = append(list, DatabaseFile)
	}
	return list
}

// refuseData refuses folders that have data already.
func (r *restore) refuseData() error {
	parts := append(r.parts(), DatabaseFile, DatabaseFile+"-wal")
	for _, part := range parts {
		if part == PluginsFolder || merged(part) {
			continue
		}
		path := filepath.Join(r.top(part), part)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is there already: restore into an empty folder", path), err)
		}
	}
	return nil
}

// write makes all files in the folders of the restore.
func (r *restore) write(ctx context.Context) error {
	for _, f := range r.manifest.Files {
		part, _, _ := strings.Cut(f.Path, "/")
		root, err := os.OpenRoot(filepath.Join(r.top(part), restoringDir))
		if err != nil {
			return err
		}
		err = errors.Join(r.file(ctx, root, f), root.Close())
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	for _, top := range r.tops() {
		if err := syncDisk(top); err != nil {
			return err
		}
	}
	return nil
}

// file makes one file. Nothing of the manifest leads out of root.
func (r *restore) file(ctx context.Context, root *os.Root, f File) error {
	path := filepath.FromSlash(f.Path)
	if f.Mode.IsDir() {
		return root.MkdirAll(path, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := root.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if f.Pack != nil {
		err = r.pack(ctx, out, f)
	} else {
		err = r.blocks(ctx, out, f)
	}
	return errors.Join(err, out.Chmod(f.Mode.Perm()), out.Close())
}

func (r *restore) blocks(ctx context.Context, out io.Writer, f File) error {
	for _, h := range f.Blocks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		text, err := os.ReadFile(blockPath(r.dir, h))
		if err != nil {
			return err
		}
		if got := sumOf(text); got != h {
			return fmt.Errorf("block %s of the backup is damaged", h)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		r.progress(int64(len(text)))
	}
	return nil
}

// pack copies a pack. A link would let damage to one be damage to the other.
func (r *restore) pack(ctx context.Context, out io.Writer, f File) error {
	path := filepath.Join(r.dir, packsDir, filepath.FromSlash(f.Path))
	return copyVerified(ctx, out, path, *f.Pack, r.progress)
}

// appear moves what was written to its place.
func (r *restore) appear() error {
	for _, part := range r.parts() {
		from := filepath.Join(r.top(part), restoringDir, part)
		if part == PluginsFolder {
			if err := r.plugins(from); err != nil {
				return err
			}
			continue
		}
		to := filepath.Join(r.top(part), part)
		if merged(part) {
			if err := addLines(from, to); err != nil {
				return err
			}
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return syncDisk(r.to.Data)
}

// addLines adds to a file the lines of another that it lacks. The log of takedowns that is there may
// be newer than the backup.
func addLines(file, other string) error {
	more, err := os.ReadFile(other)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text, failed := os.ReadFile(file)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	have := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		have[strings.TrimSuffix(line, "\n")] = true
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for line := range strings.Lines(string(more)) {
		if line = strings.TrimSuffix(line, "\n"); !have[line] {
			have[line] = true
			text = append(append(text, line...), '\n')
		}
	}
	return os.WriteFile(file, text, 0o600)
}

// plugins adds to the folder of plugins what it lacks. A file that differs stays as it is, and
// the one of the backup goes to a folder of its own.
func (r *restore) plugins(from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(r.to.Plugins, below)
		there, err := os.ReadFile(to)
		switch {
		case err == nil && string(there) == string(text):
			return nil
		case err == nil:
			left := filepath.Join(r.to.Data, pluginsLeft, below)
			r.notes = append(r.notes, fmt.Sprintf("%s differs from the backup and stays: the file of the backup is %s", to, left))
			to = left
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}
