package gitrepo

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"talon/internal/testkit"
)

// groupStates returns the states of the processes of a group, such as "TT".
func groupStates(t testing.TB, pgid int) (states string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if string(fields[2]) == strconv.Itoa(pgid) && string(fields[0]) != "Z" {
			states += string(fields[0])
		}
	}
	return states
}

// pausedFamily starts a git whose child writes more than a pipe holds, and pauses both.
func pausedFamily(t testing.TB) (*Process, *Task) {
	t.Helper()
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	large := filepath.Join(dir, "large")
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	if err := os.WriteFile(large, noise, 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "large")
	git(t, dir, "push", "-q", r.Dir(), "HEAD:refs/heads/main")
	task, err := schedule(t, nil).Reserve(t.Context(), ClassFetch, from("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := r.Upload(task.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	task.Attach(p)
	p.feed([]byte("0032want " + git(t, dir, "rev-parse", "HEAD") + "\n00000009done\n"))
	pgid := p.cmd.Process.Pid
	testkit.Eventually(t, "upload-pack has started pack-objects", func() bool { return len(groupStates(t, pgid)) == 2 })
	p.pause()
	testkit.Eventually(t, "both are stopped", func() bool { return groupStates(t, pgid) == "TT" })
	return p, task
}

// TestPausedGitResumes shows that a paused git goes on to its end.
func TestPausedGitResumes(t *testing.T) {
	p, task := pausedFamily(t)
	defer task.End()
	p.resume()
	out := new(bytes.Buffer)
	if _, err := out.ReadFrom(p.Out); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil || !bytes.Contains(out.Bytes(), []byte("PACK")) {
		t.Errorf("git wrote %d bytes and ended with %v", out.Len(), err)
	}
}

// TestPausedGitEnds shows that the end of a task ends a paused git, with all that it started,
// by SIGTERM.
func TestPausedGitEnds(t *testing.T) {
	p, task := pausedFamily(t)
	task.cancel(ErrDisplaced)
	_, _ = new(bytes.Buffer).ReadFrom(p.Out)
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), ErrDisplaced.Error()) {
		t.Errorf("Wait: %v", err)
	}
	task.End()
	if by := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); by != syscall.SIGTERM {
		t.Errorf("git ended by %v, want SIGTERM", by)
	}
	testkit.Eventually(t, "nothing of it is left", func() bool { return groupStates(t, p.cmd.Process.Pid) == "" })
	p.pause() // what has ended is not paused
}

// TestServerDiesWithPausedGit shows that no stopped process outlives a server that is killed.
func TestServerDiesWithPausedGit(t *testing.T) {
	const child = "TALON_TEST_PAUSED_GIT"
	if os.Getenv(child) != "" {
		p, _ := pausedFamily(t)
		fmt.Println("paused", p.cmd.Process.Pid)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithPausedGit$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pgid := 0
	for lines := bufio.NewScanner(out); pgid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "paused %d", &pgid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if pgid == 0 {
		t.Fatal("the server did not pause git")
	}
	testkit.Eventually(t, "the paused processes have ended", func() bool { return groupStates(t, pgid) == "" })
}

// TestFetchHasLowPriority shows that a fetch from another server leaves the processors to
// clients.
func TestFetchHasLowPriority(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "git")
	testkit.WriteProgram(t, program, fmt.Sprintf(
		"#!/bin/sh\ncase \" $* \" in *' fetch '*) while [ \"$(nice)\" -lt %d ]; do sleep 0.01; done;; esac\nexec %s \"$@\"\n",
		min(19, ownNice()+huntNice), real))
	g, err := Find(t.Context(), program, DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(g, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r := newRepo(t, root, alice, "x", SHA1)
	dir, _, second := work(t, SHA1)
	if found, err := fetch(t, r, served(t, dir), second); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}
