package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// TestPluginProgramCrash kills a relay while its program works on an event: the program
// does not outlive it. The next start decides as before.
func TestPluginProgramCrash(t *testing.T) {
	t.Parallel()
	data, dir := newData(t), pluginFolder(t, "open")
	program := filepath.Join(t.TempDir(), "program")
	pids := filepath.Join(filepath.Dir(program), "pids")
	text := "#!/bin/sh\ntrap '' TERM HUP PIPE\nread -r line\necho $$ >>pids\nexec sleep 1000\n"
	testkit.WriteProgram(t, program, text)
	drop(t, dir, "slow.toml", fmt.Appendf(nil, "exec = %q\ntimeout = \"10s\"\n", program))
	args := serveArgs(t, data, "--plugins", dir, "--allow-exec", "true")
	s := startAs(t, exec.Command("talon", args...), data)
	c := connect(t, s)
	if err := c.write(message(signAs(t, "alice", nostr.Event{Kind: 1, Content: "gm"}))); err != nil {
		t.Fatal(err)
	}
	pid := ""
	until(t, "the program is asked", func() bool {
		text, _ := os.ReadFile(pids)
		pid = string(text)
		return strings.HasSuffix(pid, "\n")
	})
	s.kill()
	status := filepath.Join("/proc", strings.TrimSpace(pid), "stat")
	until(t, "the program ends with the relay", func() bool {
		text, err := os.ReadFile(status)
		return err != nil || strings.Contains(string(text), ") Z ")
	})
	s = startAs(t, exec.Command("talon", args...), data)
	if p := plugins(t, data)["slow"]; p.Running == nil || p.Running.Generation != 1 {
		t.Errorf("%+v", p)
	}
	s.mustStop(t)
}
