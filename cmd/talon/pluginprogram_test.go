package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestPluginProgramCrash kills a relay while its program works on an event: the program
// does not outlive it. The next start decides as before.
func TestPluginProgramCrash(t *testing.T) {
	data, dir := newData(t), pluginFolder(t, "open")
	program := filepath.Join(t.TempDir(), "program")
	pids := filepath.Join(filepath.Dir(program), "pids")
	text := "#!/bin/sh\ntrap '' TERM HUP PIPE\nread -r line\necho $$ >>pids\nexec sleep 1000\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	drop(t, dir, "slow.toml", fmt.Appendf(nil, "exec = %q\ntimeout = \"10s\"\n", program))
	args := serveArgs(t, data, "--plugins", dir, "--allow-exec", "true")
	s := startAs(t, exec.Command("talon", args...), data)
	c := connect(t, s)
	if err := c.write(message(signAs(t, "alice", nostr.Event{Kind: 1, Content: "gm"}))); err != nil {
		t.Fatal(err)
	}
	pid := ""
	for deadline := time.Now().Add(patience); !strings.HasSuffix(pid, "\n"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program was not asked")
		}
		text, _ := os.ReadFile(pids)
		pid = string(text)
	}
	s.kill()
	status := filepath.Join("/proc", strings.TrimSpace(pid), "stat")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(status)
		if err != nil || strings.Contains(string(text), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the program outlives the relay: %s", text)
		}
	}
	s = startAs(t, exec.Command("talon", args...), data)
	if p := plugins(t, data)["slow"]; p.Running == nil || p.Running.Generation != 1 {
		t.Errorf("%+v", p)
	}
	s.mustStop(t)
}
