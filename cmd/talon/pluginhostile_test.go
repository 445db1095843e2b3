package main

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/plugin"
	"talon/internal/testkit"
)

// fault is a module that is wrong in one way, from host/plugin/testdata/hostile.
type fault struct {
	Name, File, Sidecar, Reason string

	Cause   string // of the failure; empty for one of several
	Refused bool   // otherwise it fails when it is asked about an event of kind 66
}

func faults(t *testing.T) (refused, later []fault, read func(fault) []byte) {
	t.Helper()
	dir := filepath.Join("..", "..", "host", "plugin", "testdata", "hostile")
	text, err := os.ReadFile(filepath.Join(dir, "hostile.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []fault
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Refused {
			refused = append(refused, f)
		} else {
			later = append(later, f)
		}
	}
	return refused, later, func(f fault) []byte {
		t.Helper()
		file, err := os.Open(filepath.Join(dir, f.File))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var from io.Reader = file
		if strings.HasSuffix(f.File, ".gz") {
			if from, err = gzip.NewReader(file); err != nil {
				t.Fatal(err)
			}
		}
		wasm, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
}

// TestHostilePlugins puts hostile modules in the place of one that works, in a relay under load: every
// fifth, or all with TALON_TEST_SCALE. Those that ran go on, each with a reason in the list, and
// the load is answered as before.
func TestHostilePlugins(t *testing.T) {
	t.Parallel()
	refused, later, read := faults(t)
	if os.Getenv("TALON_TEST_SCALE") == "" { // the corpus of host/plugin/guest has each
		n := 0
		refused = slices.DeleteFunc(refused, func(f fault) bool { n++; return n%5 != 0 && f.Sidecar == "" })
	}
	data, dir := ownData(t), pluginFolder(t, "open")
	harmless := read(later[0])
	for _, f := range refused {
		drop(t, dir, f.Name+".wasm", harmless)
	}
	s := start(t, data, "--plugins", dir)
	load := startTraffic(t, s, 2)
	load.decided(200)
	before := load.slow()
	for _, f := range refused {
		if f.Sidecar != "" {
			drop(t, dir, f.Name+".toml", []byte(f.Sidecar))
		}
		drop(t, dir, f.Name+".wasm", read(f))
	}
	// The same name twice, and a side-car that contradicts its module.
	drop(t, dir, "OPEN.wasm", harmless)
	drop(t, dir, "open.toml", []byte(`sha256 = "`+strings.Repeat("0", 64)+`"`))
	refused = append(refused, fault{Name: "open", Reason: "the side-car is for the module with sha256 0000"})
	var list map[string]plugin.Status
	for _, f := range refused {
		until(t, f.Name+" is refused", func() bool { list = plugins(t, data); return list[f.Name].Quarantine != nil })
	}
	load.decided(200)
	during := load.slow()
	for _, f := range refused {
		p := list[f.Name]
		if p.Running == nil || p.Running.Generation != 1 {
			t.Errorf("%s: the generation before does not run: %+v", f.Name, p)
		}
		if !regexp.MustCompile(f.Reason).MatchString(p.Quarantine.Reason) {
			t.Errorf("%s: refused because %q, want %q", f.Name, p.Quarantine.Reason, f.Reason)
		}
	}
	if twin := list["OPEN.wasm"]; twin.Quarantine == nil || !strings.Contains(twin.Quarantine.Reason, "only in case") || twin.Running != nil {
		t.Errorf("the same name twice: %+v", twin)
	}
	t.Logf("OK after, nine times of ten at most: %v before, %v while they were dropped", before, during)
	if during > before+stall {
		t.Errorf("answers took %v while hostile modules were dropped, %v before", during, before)
	}
	load.end()
	for reason, n := range load.refused {
		t.Errorf("%d events were refused with %q", n, reason)
	}
	newBystander(t, s).served(t, s)
}

// TestPluginsThatFailLater runs modules that pass every check and misbehave on
// some events, or exceed one of the budgets of their side-car: those are refused, or left
// to the next, all others are decided as before. The list, a metric and the log say why.
func TestPluginsThatFailLater(t *testing.T) {
	t.Parallel()
	_, later, read := faults(t)
	data, dir := ownData(t), pluginFolder(t, "open")
	s := startAs(t, exec.Command("talon", serveArgs(t, data, "--plugins", dir)...), data)
	t.Cleanup(func() { s.mustStop(t) })
	b := newBystander(t, s)
	c := connect(t, s)
	failures := func(f fault) float64 {
		if f.Cause == "" {
			return s.metric(t, "talon_plugin_failures_total")
		}
		return s.metric(t, `talon_plugin_failures_total{cause="`+f.Cause+`",module="late"}`)
	}
	for _, f := range later {
		// Two files are two changes, if the second comes late.
		drop(t, dir, "late.toml", []byte(f.Sidecar))
		drop(t, dir, "late.wasm", read(f))
		sum := fmt.Sprintf("%x", sha256.Sum256(read(f)))
		eventually(t, data, "late", "running "+f.Name, func(p plugin.Status) bool {
			return p.Running != nil && p.Running.SHA256 == sum
		})
		before := failures(f)
		e := signAs(t, "attacker", nostr.Event{Kind: 66, Content: f.Name})
		reason, count := "error: policy late failed, try again later", 1.0
		line := regexp.MustCompile(`"msg":"plugin failed","module":"late","cause":"` + cmp.Or(f.Cause, "[a-z]+") + `","err":"[^\n]*(` + f.Reason + `)`)
		if f.Cause == "time" { // the machine may be busy: the module is asked once more
			reason, count = "error: policy late could not read in time, since this relay is busy: try again", 2
			line = regexp.MustCompile(`"level":"WARN","msg":"[^"]*busy`)
		}
		if a := c.publish(t, e); a.ok || a.reason != reason {
			t.Errorf("%s: %+v", f.Name, a)
		}
		b.served(t, s)
		if got := failures(f); got != before+count {
			t.Errorf("%s: %v failures by %q, %v before", f.Name, got, f.Cause, before)
		}
		if !line.MatchString(s.text()) {
			t.Errorf("%s: no line of the log is like %s", f.Name, line)
		}
		if p := plugins(t, data)["late"]; !regexp.MustCompile(f.Reason).MatchString(p.LastFailure) {
			t.Errorf("%s: failed because %q, want %q", f.Name, p.LastFailure, f.Reason)
		}
	}
	if out, err := talon(t, nil, "plugin", "mode", "late", "shadow", "--data", data); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if a := c.publish(t, signAs(t, "attacker", nostr.Event{Kind: 66, Content: "shadow"})); !a.ok {
		t.Errorf("in shadow mode: %+v", a)
	}
}

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
