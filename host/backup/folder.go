package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	blocksDir = "blocks"
	packsDir  = "packs"
	newDir    = "new" // what is being written
	lockFile  = "lock"
)

// folder is the folder of a backup that is being written.
type folder struct {
	dir  string
	lock *os.File

	last    *Manifest        // the backup before; nil if there is none
	blocks  map[hash]bool    // those of this backup are true, others of the backup before are false
	packs   map[string]*File // of the backup before, by path
	written []string         // paths of what is new, to be verified
	wrote   int64            // bytes
}

// openFolder opens a folder for a backup. A folder that holds one needs incremental. A folder
// that holds anything else is refused.
func openFolder(dir string, incremental bool) (_ *folder, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the backup: %w", err)
	}
	f := &folder{dir: dir, blocks: make(map[hash]bool), packs: make(map[string]*File)}
	f.last, err = Read(dir)
	switch {
	case errors.Is(err, ErrNone):
		if err := isOurs(dir); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !incremental:
		return nil, fmt.Errorf("%s has a backup of %s: add --incremental to renew it, or choose another folder", dir, f.last.Made.Format("2006-01-02 15:04"))
	}
	if f.lock, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("lock the folder of the backup: %w", err)
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another backup into %s is under way: %w", dir, err), f.lock.Close())
	}
	// An interrupted backup may have left half-written files. Only the manifest says what is
	// whole.
	fresh := filepath.Join(dir, newDir)
	if err := errors.Join(os.RemoveAll(fresh), os.Mkdir(fresh, 0o700)); err != nil {
		return nil, errors.Join(fmt.Errorf("clean the folder of the backup: %w", err), f.lock.Close())
	}
	if f.last != nil {
		for i, file := range f.last.Files {
			if file.Pack != nil {
				f.packs[file.Path] = &f.last.Files[i]
			}
			for _, h := range file.Blocks {
				f.blocks[h] = false
			}
		}
	}
	return f, nil
}

// isOurs refuses a folder without a backup that has other things than a backup that was
// interrupted.
func isOurs(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the folder of the backup: %w", err)
	}
	for _, entry := range list {
		switch entry.Name() {
		case blocksDir, packsDir, newDir, lockFile:
		default:
			return fmt.Errorf("%s has %q, which is no part of a backup: choose an empty folder", dir, entry.Name())
		}
	}
	return nil
}

func (f *folder) close() error {
	return errors.Join(os.RemoveAll(filepath.Join(f.dir, newDir)), f.lock.Close())
}

// block keeps a block. It is written unless the backup before has it.
func (f *folder) block(content []byte) (hash, error) {
	h := sumOf(content)
	mine, last := f.blocks[h]
	if mine {
		return h, nil
	}
	path := blockPath(f.dir, h)
	if last {
		if there, err := os.Stat(path); err == nil && there.Size() == int64(len(content)) {
			f.blocks[h] = true
			return h, nil
		}
	}
	if err := f.put(path, func(to *os.File) error {
		_, err := to.Write(content)
		return err
	}); err != nil {
		return h, err
	}
	f.blocks[h] = true
	f.wrote += int64(len(content))
	return h, nil
}

func blockPath(dir string, h hash) string {
	name := h.String()
	return filepath.Join(dir, blocksDir, name[:2], name)
}

// put writes a file of the backup in one step.
func (f *folder) put(path string, write func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	to, err := os.CreateTemp(filepath.Join(f.dir, newDir), "")
	if err != nil {
		return err
	}
	err = errors.Join(write(to), to.Close())
	if err == nil {
		err = os.Rename(to.Name(), path)
	}
	f.written = append(f.written, path)
	return err
}

// file keeps the content of a file as blocks.
func (f *folder) file(ctx context.Context, path string, from io.Reader, mode fs.FileMode, progress func(n int64)) (File, error) {
	out := File{Path: path, Mode: mode.Perm()}
	buf := make([]byte, blockSize)
	for {
		if err := context.Cause(ctx); err != nil {
			return out, err
		}
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			h, err := f.block(buf[:n])
			if err != nil {
				return out, err
			}
			out.Blocks = append(out.Blocks, h)
			out.Size += int64(n)
			progress(int64(n))
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return out, nil
		default:
			return out, err
		}
	}
}

// pack keeps a pack: as a hard link if the disk is the same, else as a copy. The name of a pack
// is a hash of its content, so a pack of the backup before is not read again.
func (f *folder) pack(ctx context.Context, path, from string, info fs.FileInfo, progress func(n int64)) (File, error) {
	to := filepath.Join(f.dir, packsDir, filepath.FromSlash(path))
	if last := f.packs[path]; last != nil && last.Size == info.Size() {
		if there, err := os.Stat(to); err == nil && there.Size() == last.Size {
			progress(last.Size)
			return *last, nil
		}
	}
	out := File{Path: path, Mode: info.Mode().Perm(), Size: info.Size()}
	h, err := f.link(ctx, to, from, progress)
	if err != nil {
		return out, err
	}
	out.Pack = &h
	return out, nil
}

func (f *folder) link(ctx context.Context, to, from string, progress func(n int64)) (hash, error) {
	in, err := os.Open(from)
	if err != nil {
		return hash{}, err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return hash{}, err
	}
	_ = os.Remove(to) // of a backup that was interrupted
	sum := sha256.New()
	read := &reading{ctx, io.TeeReader(in, sum), progress}
	if os.Link(from, to) == nil {
		_, err = io.Copy(io.Discard, read)
		return hash(sum.Sum(nil)), err
	}
	err = f.put(to, func(file *os.File) error {
		n, err := io.Copy(file, read)
		f.wrote += n
		return err
	})
	return hash(sum.Sum(nil)), err
}

// reading is a reader that can be stopped.
type reading struct {
	ctx      context.Context
	from     io.Reader
	progress func(n int64)
}

func (r *reading) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	r.progress(int64(n))
	return n, err
}

// verify reads what was written and compares it with the manifest.
func (f *folder) verify(ctx context.Context, m *Manifest, progress func(n int64)) error {
	packs := make(map[string]hash)
	for _, file := range m.Files {
		if file.Pack != nil {
			packs[filepath.Join(f.dir, packsDir, filepath.FromSlash(file.Path))] = *file.Pack
		}
	}
	for _, path := range f.written {
		want, is := packs[path]
		if !is {
			if err := want.UnmarshalText([]byte(filepath.Base(path))); err != nil {
				return fmt.Errorf("%s is no block: %w", path, err)
			}
		}
		if err := verifyFile(ctx, path, want, progress); err != nil {
			return err
		}
	}
	return nil
}

func verifyFile(ctx context.Context, path string, want hash, progress func(n int64)) error {
	return copyVerified(ctx, io.Discard, path, want, progress)
}

// copyVerified copies a file and compares it with its hash.
func copyVerified(ctx context.Context, to io.Writer, path string, want hash, progress func(n int64)) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, sum), &reading{ctx, in, progress}); err != nil {
		return err
	}
	if got := hash(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s is damaged: its SHA-256 is %s, want %s", path, got, want)
	}
	return nil
}

func sumOf(text []byte) hash { return sha256.Sum256(text) }

// finish makes the manifest the folder's own, and removes what it does not name.
func (f *folder) finish(m *Manifest) error {
	text, err := m.text()
	if err != nil {
		return err
	}
	fresh := filepath.Join(f.dir, newDir, manifestFile)
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	if err := os.Rename(fresh, filepath.Join(f.dir, manifestFile)); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	return f.sweep(m)
}

// sync waits until all that was written to the disk of the folder is on it.
func (f *folder) sync() error { return syncDisk(f.dir) }

func syncDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("sync the disk of %s: %w", dir, err)
	}
	return nil
}

// sweep removes blocks and packs that no file has.
func (f *folder) sweep(m *Manifest) error {
	wanted := make(map[string]bool)
	for _, file := range m.Files {
		if file.Pack != nil {
			wanted[filepath.Join(f.dir, packsDir, filepath.FromSlash(file.Path))] = true
		}
		for _, h := range file.Blocks {
			wanted[blockPath(f.dir, h)] = true
		}
	}
	var folders []string
	for _, below := range []string{blocksDir, packsDir} {
		err := filepath.WalkDir(filepath.Join(f.dir, below), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir():
				folders = append(folders, path)
			case !wanted[path]:
				return os.Remove(path)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove what the backup does not need: %w", err)
		}
	}
	// Folders come before what is in them, so the inner ones go first. Full ones stay.
	for i := len(folders) - 1; i >= 0; i-- {
		_ = os.Remove(folders[i])
	}
	return nil
}

// isPack reports whether a file of a repository never changes and has its hash in its name.
func isPack(path string) bool {
	return strings.HasSuffix(path, ".pack") && strings.Contains(path, "/objects/pack/pack-")
}
