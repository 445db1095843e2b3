package testkit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Inputs says which files and folders of this repository other programs read for a test. go test keeps the
// outcome of a package while the files that its tests opened have the same times and sizes. It does not see
// which files a compiler, a shell or a browser opens. So Inputs opens them, with all that is below a folder.
// Folders of installed packages and of compilers are left out.
func Inputs(tb testing.TB, paths ...string) {
	tb.Helper()
	if err := OpenInputs(paths...); err != nil {
		tb.Fatal(err)
	}
}

// OpenInputs does what [Inputs] does, without a test.
func OpenInputs(paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = openInput(path)
		} else if err == nil {
			// A folder that is opened counts with the times and sizes of what is in it.
			err = filepath.WalkDir(path, func(below string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() && below != path && made[d.Name()] {
					return fs.SkipDir
				}
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("what the test depends on: %w", err)
		}
	}
	return nil
}

// made are the names of folders whose content follows from files next to them.
var made = map[string]bool{"node_modules": true, "target": true, "__pycache__": true}

func openInput(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// Chdir has the process work in a folder until the test ends. The method of that name returns to the name that
// the first folder has without links. For the go command that name differs in every checkout, see [Inputs].
func Chdir(tb testing.TB, dir string) {
	tb.Helper()
	from, err := os.Getwd()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.Chdir(from); err != nil {
			tb.Error(err)
		}
	})
}
