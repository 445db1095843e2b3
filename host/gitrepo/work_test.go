//go:build linux

package gitrepo

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/internal/testkit"
)

// A fetch whose git, or what that has started, works for longer than what has come
// allows is ended, and says so.
func TestFetchWork(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\ncase \" $* \" in *' fetch '*) sh -c 'while :; do :; done' ; exit 1 ;; esac\nexec " + real + " \"$@\"\n"
	program := filepath.Join(t.TempDir(), "git")
	testkit.WriteProgram(t, program, script)
	options := DefaultOptions
	options.CPU = 50 * time.Millisecond
	g, err := Find(t.Context(), program, options)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(g, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	r := newRepo(t, root, alice, "x", SHA1)
	refused := new(Refused)
	_, err = r.Fetch(t.Context(), Source{URL: "http://127.0.0.1:1/x.git"}, strings.Repeat("ab", 20))
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "more work") {
		t.Errorf("got %v", err)
	}
	clean(t, root)
}
