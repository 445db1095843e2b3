package author

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxWatched bounds the files of a folder that are looked at.
const maxWatched = 10_000

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	at   time.Time
}

// Watch calls f first, and again after something has changed: a module's file with its
// side-car, or in its folder, but for what a build makes there, or one of the other
// files. It looks on each tick, and returns when ctx is done.
func Watch(ctx context.Context, path string, tick <-chan time.Time, f func(), others ...string) {
	snapshot := func(path string) map[string]stamp {
		files := snapshot(path)
		for _, file := range others {
			addStamp(files, file)
		}
		return files
	}
	before := snapshot(path)
	f()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if now := snapshot(path); !same(before, now) {
			f()
			// now is from before f: a change during f counts. snapshot leaves out the files
			// that f builds.
			before = now
		}
	}
}

func same(a, b map[string]stamp) bool {
	if len(a) != len(b) {
		return false
	}
	for file, s := range a {
		if b[file] != s {
			return false
		}
	}
	return true
}

func addStamp(files map[string]stamp, file string) {
	if info, err := os.Stat(file); err == nil {
		files[file] = stamp{info.Size(), info.ModTime()}
	}
}

// snapshot returns the files of a module.
func snapshot(path string) map[string]stamp {
	files := map[string]stamp{}
	add := func(file string) { addStamp(files, file) }
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		add(path)
		add(strings.TrimSuffix(path, ".wasm") + ".toml")
		return files
	}
	_ = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has just gone away
		}
		name := d.Name()
		switch {
		case len(files) >= maxWatched:
			return fs.SkipAll
		case file == path:
		case d.IsDir() && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "target"):
			return fs.SkipDir
		case d.Type().IsRegular() && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".wasm") && name != "Cargo.lock":
			add(file)
		}
		return nil
	})
	return files
}
