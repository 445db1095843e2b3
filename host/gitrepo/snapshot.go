package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Pause lets nothing remove objects or repositories until resume is called. It waits for work
// of that kind that runs. Fetches and pushes go on.
func (r *Root) Pause(ctx context.Context) (resume func(), err error) {
	resume, err = r.removing.pause(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the maintenance of repositories: %w", err)
	}
	return resume, nil
}

// Snapshot makes a folder with all repositories of the root and their shared stores, as they are
// now. Files that git never changes are hard links, so that this is quick and takes little room.
// The folder is in the trash of the root: the next start removes it if the caller does not.
// REQUIRES: Pause.
func (r *Root) Snapshot(ctx context.Context) (dir string, err error) {
	dir, err = os.MkdirTemp(r.trash, "snapshot-")
	if err != nil {
		return "", fmt.Errorf("take a snapshot of the repositories: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("take a snapshot of the repositories: %w", err), os.RemoveAll(dir))
		}
	}()
	owners, err := os.ReadDir(r.dir)
	if err != nil {
		return "", err
	}
	for _, owner := range owners {
		if !owner.IsDir() || owner.Name() == trashDir || owner.Name() == sharedDir {
			continue
		}
		if err := linkEach(ctx, filepath.Join(r.dir, owner.Name()), filepath.Join(dir, owner.Name())); err != nil {
			return "", err
		}
	}
	// A push moves objects from its repository to the shared store. So the stores come last.
	for _, format := range []Format{SHA1, SHA256} {
		below := filepath.Join(sharedDir, format.String())
		if err := linkEach(ctx, filepath.Join(r.dir, below), filepath.Join(dir, below)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// linkEach does linkRepo for each folder in a folder, which may be absent.
func linkEach(ctx context.Context, from, to string) error {
	list, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range list {
		if !entry.IsDir() {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := linkRepo(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// linkRepo makes a copy of a bare repository. Objects come after the refs that reach them.
// packed-refs comes after the loose refs, which git may pack during the copy.
func linkRepo(from, to string) error {
	if err := linkTree(filepath.Join(from, "refs"), filepath.Join(to, "refs"), copyFile); err != nil {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range list {
		name := entry.Name()
		if name == "refs" || name == "objects" || name == fenceFile || temporary(name) {
			continue
		}
		do := copyFile
		if entry.IsDir() {
			do = func(from, to string) error { return linkTree(from, to, copyFile) }
		}
		if err := do(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return linkObjects(filepath.Join(from, "objects"), filepath.Join(to, "objects"))
}

// temporary reports whether a file belongs to something that git is about to do.
func temporary(name string) bool {
	return strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") ||
		strings.HasPrefix(name, "incoming-")
}

// linkTree does file for each file below a folder. It skips files that go during the walk.
func linkTree(from, to string, file func(from, to string) error) error {
	list, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, entry := range list {
		name := entry.Name()
		switch {
		case temporary(name):
		case entry.IsDir():
			err = linkTree(filepath.Join(from, name), filepath.Join(to, name), file)
		case entry.Type().IsRegular():
			err = file(filepath.Join(from, name), filepath.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// linkTries bounds how often linkObjects looks again.
const linkTries = 10

// linkObjects links files that never change, and copies the rest: lists of packs and of
// alternates. Another node may combine packs at the same time. It makes the new pack before it
// removes the others, so a second look finds it.
func linkObjects(from, to string) error {
	for range linkTries {
		gone := false
		err := linkTree(from, to, func(from, to string) error {
			if filepath.Base(filepath.Dir(from)) == "info" {
				_ = os.Remove(to) // of the look before
				return copyFile(from, to)
			}
			err := os.Link(from, to)
			switch {
			case err == nil, errors.Is(err, fs.ErrExist):
				return nil
			case errors.Is(err, fs.ErrNotExist):
				gone = true
				return nil
			}
			return copyFile(from, to) // a file system without links, or with too many of one file
		})
		if err != nil || !gone {
			return err
		}
	}
	return fmt.Errorf("the objects in %s change all the time", from)
}

// copyFile copies a file, unless it has gone.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
