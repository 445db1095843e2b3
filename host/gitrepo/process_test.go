package gitrepo

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// The end of the context ends git and what it started.
func TestContextEndsGit(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := r.Upload(ctx, 2) // waits for its request
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(p.Out); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if by := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); by != syscall.SIGTERM {
		t.Errorf("git ended by signal %d (%v), want SIGTERM", by, by)
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process group is still there: %v", err)
	}
}

// No hook, configuration or variable of anybody else takes part.
func TestForeignConfigurationIsIgnored(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	home := t.TempDir()
	script := "#!/bin/sh\ntouch " + mark + "\n"
	hook := filepath.Join(home, "post-update")
	testkit.WriteProgram(t, hook, script)
	config := "[core]\n\thooksPath = " + home + "\n\talternateRefsCommand = " + hook + "\n[uploadpack]\n\tpackObjectsHook = " + hook + "\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	dir, _, second := work(t, SHA1)
	pack := packOf(t, dir, second)
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
	t.Setenv("GIT_DIR", home)
	t.Setenv("GIT_OBJECT_DIRECTORY", home)
	t.Setenv("GIT_TRACE", mark)
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	f, err := os.OpenFile(filepath.Join(r.Dir(), "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(config); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Mkdir(filepath.Join(r.Dir(), "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pre-receive", "post-update", "update", "reference-transaction"} {
		testkit.WriteProgram(t, filepath.Join(r.Dir(), "hooks", name), script)
	}
	locked(t, r, func() {
		if err := r.SetHEAD(t.Context(), "refs/heads/x"); err != nil {
			t.Error(err)
		}
	})
	p, err := r.Advertise(t.Context(), UploadPack, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Out)
	if err != nil || !strings.HasSuffix(string(out), "0000") {
		t.Errorf("it says %q, %v", out, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	update := host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: second}
	if err := push(t, r, pack, update); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("something of the user's ran")
	}
}

func TestStderrIsBoundedAndTame(t *testing.T) {
	var buf tail
	for range 100 {
		if n, err := buf.Write([]byte(strings.Repeat("x", 999) + "\n")); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = buf.Write([]byte("\x1b[31mfatal\u009b: end\xff\n"))
	if got := buf.line(); len(got) > maxStderr+8 || !strings.HasSuffix(got, " [31mfatal : end?") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-30:])
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.39.5": true, "2.39": true, "2.45.1.windows.1": true, "3.0.0-rc1": true, "2.38.9": false, "1.99.0": false, "": false, "git": false,
	} {
		if isRecent(version) != want {
			t.Errorf("isRecent(%q) = %t", version, !want)
		}
	}
	if _, err := Find(t.Context(), filepath.Join(t.TempDir(), "absent"), DefaultOptions); err == nil || !strings.Contains(err.Error(), "install git") {
		t.Errorf("Find of no git: %v", err)
	}
}

// TestProgramIsFoundAnywhere: git may be named by a path from where the server was
// started, and works in the folders of repositories.
func TestProgramIsFoundAnywhere(t *testing.T) {
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Chdir(t, t.TempDir())
	if err := os.Symlink(path, "mine"); err != nil {
		t.Fatal(err)
	}
	g, err := Find(t.Context(), "./mine", DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), g.Program(), "version")
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", g.Program(), err, out)
	}
}
