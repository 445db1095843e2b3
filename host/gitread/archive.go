package gitread

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"talon/host/gitrepo"
)

// Bounds of archives.
const (
	maxArchive      = 256 << 20 // of the files in one
	maxArchiveFile  = 128 << 20 // of one on disk
	maxArchives     = 1 << 30   // of all on disk
	maxArchiveFiles = 100_000   // files in one
	archiveCPU      = 30 * time.Second
	archiveAge      = time.Hour
)

// archives keeps archives on disk for some time. A client may take long to read one, and holds no
// slot of git during that time.
type archives struct {
	dir   string
	drops atomic.Int64 // how often all were dropped
}

// DropArchives removes all archives from the disk: a repository was purged, and one of them may have
// its files. Clients that are reading an archive go on.
func (r *Reader) DropArchives() error {
	a := r.archives
	if a.dir == "" {
		return nil
	}
	a.drops.Add(1)
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return fmt.Errorf("list the archives: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), making) {
			continue // Archive sees the drop, and removes it
		}
		if failed := os.Remove(filepath.Join(a.dir, e.Name())); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove an archive: %w", failed))
		}
	}
	return err
}

// making begins the names of archives that git writes.
const making = "making-"

// Archive returns a file with the archive of a commit, in the format tar.gz or zip, whose files are
// below a folder. It fails with a *TakenDown. The caller closes the file. REQUIRES: the refs of the repository reach the commit.
func (r *Repository) Archive(commit, format, folder string) (*os.File, error) {
	dir := r.reader.archives.dir
	if dir == "" {
		return nil, fmt.Errorf("%w: no archives are kept here", ErrNotFound)
	}
	if err := r.checkAll(commit); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, r.archiveName(commit, folder)+"."+format)
	if f, err := os.Open(path); err == nil {
		return f, nil
	}
	release, err := r.costly()
	if err != nil {
		return nil, err
	}
	defer release()
	if f, err := os.Open(path); err == nil {
		return f, nil // somebody else has made it meanwhile
	}
	t, err := r.task(r.ctx)
	if err != nil {
		return nil, err
	}
	defer t.End()
	if err := r.measure(t, commit); err != nil {
		return nil, err
	}
	if err := r.reader.archives.makeRoom(); err != nil {
		return nil, err
	}
	drops := r.reader.archives.drops.Load()
	f, err := os.CreateTemp(dir, making)
	if err != nil {
		return nil, fmt.Errorf("make an archive: %w", err)
	}
	args := []string{"archive", "--format=" + format, "--prefix=" + folder + "/", "-1", commit}
	err = r.runIn(t, gitrepo.Command{Args: args, CPU: archiveCPU, Output: maxArchiveFile}, func(out io.Reader) error {
		_, err := io.Copy(f, out)
		return err
	})
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if r.reader.archives.drops.Load() != drops {
		_ = os.Remove(path) // it may be of a repository that was purged meanwhile
	}
	time.AfterFunc(archiveAge, func() { _ = os.Remove(path) })
	return f, nil
}

// archiveName names the file of an archive. Repositories do not share archives: a file with the
// attribute export-subst may name the refs of its repository.
func (r *Repository) archiveName(commit, folder string) string {
	sum := sha256.Sum256([]byte(r.repo.Dir() + "\x00" + folder))
	return commit + "-" + hex.EncodeToString(sum[:8])
}

// measure fails with ErrTooLarge if the files of a commit are too many or too large for an archive.
func (r *Repository) measure(t *gitrepo.Task, commit string) error {
	files, bytes := 0, int64(0)
	return r.eachFile(t, commit, 64<<20, func(_ string, size int64) error {
		files++
		if bytes += size; files > maxArchiveFiles || bytes > maxArchive {
			return fmt.Errorf("an archive of more than %d MiB or %d files is %w", maxArchive>>20, maxArchiveFiles, ErrTooLarge)
		}
		return nil
	})
}

// openArchives empties the folder of archives, "" for none.
func openArchives(dir string) (*archives, error) {
	if dir == "" {
		return &archives{}, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("empty the folder of archives: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of archives: %w", err)
	}
	return &archives{dir: dir}, nil
}

// makeRoom removes the oldest archives until one more fits. One is made at a time.
func (a *archives) makeRoom() error {
	for {
		entries, err := os.ReadDir(a.dir)
		if err != nil {
			return fmt.Errorf("list the archives: %w", err)
		}
		var oldest fs.FileInfo
		total := int64(maxArchiveFile)
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue // it has gone meanwhile
			}
			total += info.Size()
			if oldest == nil || info.ModTime().Before(oldest.ModTime()) {
				oldest = info
			}
		}
		if total <= maxArchives || oldest == nil {
			return nil
		}
		if err := os.Remove(filepath.Join(a.dir, oldest.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old archive: %w", err)
		}
	}
}
