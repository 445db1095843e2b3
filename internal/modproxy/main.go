// Command modproxy writes a module of a git repository into a folder that serves as a
// GOPROXY:
//
//	go run ./internal/modproxy FOLDER REVISION [SUBFOLDER] VERSION
//
// SUBFOLDER is the folder of a module such as sdk. The command prints the lines of go.sum for
// the module. The zip file is the one that the go tool makes of a tag VERSION at that
// revision, so the hashes are the same.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

func main() {
	args := os.Args[1:]
	if len(args) == 3 {
		args = []string{args[0], args[1], "", args[2]}
	}
	err := errors.New("want FOLDER REVISION [SUBFOLDER] VERSION")
	if len(args) == 4 {
		err = publish(args[0], args[1], args[2], args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "modproxy: "+err.Error())
		os.Exit(1)
	}
}

// publish writes the module in a folder of the repository that contains the current
// folder.
func publish(proxy, revision, folder, version string) error {
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root := string(top[:len(top)-1])
	goMod, err := git("show", revision+":"+path.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	name := modfile.ModulePath(goMod)
	if err := module.Check(name, version); err != nil {
		return err
	}
	escaped, err := module.EscapePath(name)
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	err = zip.CreateFromVCS(file, module.Version{Path: name, Version: version}, root, revision, folder)
	info := fmt.Sprintf("{\"Version\":%q,\"Time\":%q}\n", version, time.Now().UTC().Format(time.RFC3339))
	err = errors.Join(err, file.Close(),
		os.WriteFile(filepath.Join(dir, version+".mod"), goMod, 0o644),
		os.WriteFile(filepath.Join(dir, version+".info"), []byte(info), 0o644),
		os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644))
	if err != nil {
		return err
	}
	sum, err := dirhash.HashZip(file.Name(), dirhash.Hash1)
	if err != nil {
		return err
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(goMod)), nil
	})
	if err == nil {
		_, err = fmt.Printf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", name, version, sum, modSum)
	}
	return err
}

// git runs git in the current folder and returns its output.
func git(args ...string) ([]byte, error) {
	out, err := exec.Command("git", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, failed.Stderr)
	}
	return out, err
}
