package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/internal/smallfile"
)

// Source is the data of a server.
type Source struct {
	Database func(ctx context.Context) (Snapshot, error) // nil: it is in PostgreSQL
	Git      []Folder
	Others   []Other
	Scratch  string // a folder on the disk of the data, for a copy of the database
	Release  string
}

// Snapshot is the database as it was at one moment.
type Snapshot interface {
	// Write copies it to a new file, and checks the copy.
	Write(ctx context.Context, path string, progress func(done, total int)) error
	Close() error
}

// Folder is a folder of repositories.
type Folder struct {
	Name         string // in the backup
	Repositories Repositories
}

// Repositories can be copied while they are in use.
type Repositories interface {
	// Pause lets nothing remove objects or repositories until resume is called.
	Pause(ctx context.Context) (resume func(), err error)

	// Snapshot makes a folder with all that is there now. The caller removes it.
	Snapshot(ctx context.Context) (dir string, err error)
}

// Other is a file or a folder of files, of an operator or the server. It may be absent.
type Other struct{ Name, Path string }

// DatabaseFile is the name of the database in a backup.
const DatabaseFile = "talon.db"

// Progress says how far a backup or a restore has come.
type Progress struct {
	Phase string `json:"phase"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"` // 0: unknown
}

// The phases.
const (
	PhaseRepositories = "link repositories"
	PhaseDatabase     = "copy the database"
	PhaseBlocks       = "store the database"
	PhaseGit          = "copy git data"
	PhaseVerify       = "verify"
	PhaseRestore      = "restore"
)

// Summary says what came of a backup or a restore.
type Summary struct {
	ID           string    `json:"id"`
	Dir          string    `json:"dir"`
	Made         time.Time `json:"made"`
	Seconds      float64   `json:"seconds"`
	Files        int       `json:"files"`
	Bytes        int64     `json:"bytes"`   // of all files
	Written      int64     `json:"written"` // bytes that the backup before did not have; links are none
	Database     string    `json:"database"`
	Repositories int       `json:"repositories"`
	Notes        []string  `json:"notes,omitempty"` // for the operator
}

// Run makes a backup. With incremental it renews the one in the folder.
func Run(ctx context.Context, src Source, dir string, incremental bool, progress func(Progress)) (sum Summary, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a backup: %w", err)
		}
	}()
	began := time.Now()
	f, err := openFolder(dir, incremental)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	r := &run{src: src, folder: f, progress: progress}
	if r.scratch, err = os.MkdirTemp(src.Scratch, scratchPrefix); err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.scratch)) }()

	// 1. One moment: the database, and links to all git data.
	if err := r.freeze(ctx); err != nil {
		return sum, err
	}
	defer r.thaw()
	// 2. The data of that moment goes into the folder.
	if err := r.database(ctx); err != nil {
		return sum, err
	}
	for _, g := range src.Git {
		if err := r.git(ctx, g.Name); err != nil {
			return sum, err
		}
	}
	for _, o := range src.Others {
		if err := r.other(ctx, o); err != nil {
			return sum, err
		}
	}
	// 3. After a check of the written data, the backup counts.
	m := r.manifest()
	if err := f.verify(ctx, m, r.counting(PhaseVerify, f.wrote)); err != nil {
		return sum, err
	}
	if err := f.finish(m); err != nil {
		return sum, err
	}
	return Summary{
		ID: m.ID, Dir: dir, Made: m.Made, Seconds: time.Since(began).Seconds(), Files: len(m.Files), Bytes: m.Bytes(), Written: f.wrote,
		Database: m.Database, Repositories: r.repositories,
	}, nil
}

const scratchPrefix = ".backup-"

// Clean removes what a backup left that a crash ended. REQUIRES: no backup is under way.
func Clean(scratch string) error {
	left, err := filepath.Glob(filepath.Join(scratch, scratchPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return fmt.Errorf("remove what an interrupted backup left: %w", err)
	}
	return nil
}

// run is a backup that is being made.
type run struct {
	src      Source
	folder   *folder
	progress func(Progress)
	scratch  string

	made         time.Time
	snapshot     Snapshot
	linked       map[string]string // folders with links, by name of the folder of repositories
	files        []File
	repositories int
}

// freeze takes the database and the repositories as they are at one moment.
func (r *run) freeze(ctx context.Context) (err error) {
	r.linked = make(map[string]string)
	defer func() {
		if err != nil {
			r.thaw()
		}
	}()
	for _, g := range r.src.Git {
		resume, err := g.Repositories.Pause(ctx)
		if err != nil {
			return err
		}
		defer resume()
	}
	r.made = time.Now()
	if r.src.Database != nil {
		if r.snapshot, err = r.src.Database(ctx); err != nil {
			return err
		}
	}
	for _, g := range r.src.Git {
		r.progress(Progress{Phase: PhaseRepositories})
		if r.linked[g.Name], err = g.Repositories.Snapshot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// thaw gives up what freeze took.
func (r *run) thaw() {
	if r.snapshot != nil {
		_ = r.snapshot.Close() // it was for reading
		r.snapshot = nil
	}
	for name, dir := range r.linked {
		_ = os.RemoveAll(dir) // the next start removes it
		delete(r.linked, name)
	}
}

// database copies the snapshot next to the database, since all of it is read to find the blocks
// that are new.
func (r *run) database(ctx context.Context) error {
	if r.snapshot == nil {
		return nil
	}
	path := filepath.Join(r.scratch, DatabaseFile)
	err := r.snapshot.Write(ctx, path, func(done, total int) {
		r.progress(Progress{PhaseDatabase, int64(done), int64(total)})
	})
	err = errors.Join(err, r.snapshot.Close())
	r.snapshot = nil
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	err = r.add(ctx, DatabaseFile, path, r.counting(PhaseBlocks, info.Size()))
	return errors.Join(err, os.Remove(path))
}

// add keeps a file as blocks.
func (r *run) add(ctx context.Context, name, path string, progress func(int64)) error {
	from, err := smallfile.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	file, err := r.folder.file(ctx, name, from, info.Mode(), progress)
	if err != nil {
		return err
	}
	r.files = append(r.files, file)
	return nil
}

func (r *run) git(ctx context.Context, name string) error {
	top := r.linked[name]
	var total int64
	err := filepath.WalkDir(top, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.tree(ctx, name, top, r.counting(PhaseGit, total))
}

// isShared reports whether a path is in a folder of packs that repositories of one identifier share.
func isShared(path string) bool { return strings.Contains(path, "/.shared/") }

// tree keeps all files and empty folders below a folder.
func (r *run) tree(ctx context.Context, name, top string, progress func(int64)) error {
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		in := filepath.ToSlash(filepath.Join(name, below))
		switch {
		case d.IsDir():
			if d.Name() == "objects" && !isShared(in) {
				r.repositories++
			}
			list, err := os.ReadDir(path)
			if err == nil && len(list) == 0 {
				r.files = append(r.files, File{Path: in, Mode: fs.ModeDir | 0o755})
			}
			return err
		case !d.Type().IsRegular():
			return nil
		case isPack(in):
			info, err := d.Info()
			if err != nil {
				return err
			}
			file, err := r.folder.pack(ctx, in, path, info, progress)
			if err == nil {
				r.files = append(r.files, file)
			}
			return err
		}
		return r.add(ctx, in, path, progress)
	})
}

// other keeps a file, or the files of a folder and of those below. It skips files that are
// not regular: a folder of plugins may contain pipes.
func (r *run) other(ctx context.Context, o Other) error {
	info, err := os.Stat(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return r.add(ctx, o.Name, o.Path, func(int64) {})
	}
	return filepath.WalkDir(o.Path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(o.Path, path)
		if err != nil {
			return err
		}
		err = r.add(ctx, filepath.ToSlash(filepath.Join(o.Name, below)), path, func(int64) {})
		if errors.Is(err, smallfile.ErrNotRegular) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (r *run) manifest() *Manifest {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it does not fail
	slices.SortFunc(r.files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	m := &Manifest{Format: format, ID: hex.EncodeToString(id[:]), Made: r.made.UTC().Round(time.Millisecond), Release: r.src.Release, Database: PostgreSQL, Files: r.files}
	if r.src.Database != nil {
		m.Database = SQLite
	}
	return m
}

// counting returns what reports bytes that are done.
func (r *run) counting(phase string, total int64) func(n int64) {
	return counting(r.progress, phase, total)
}

func counting(progress func(Progress), phase string, total int64) func(n int64) {
	done, said := int64(0), time.Time{}
	return func(n int64) {
		done += n
		if now := time.Now(); now.Sub(said) > 200*time.Millisecond || done == total {
			said = now
			progress(Progress{phase, done, total})
		}
	}
}
