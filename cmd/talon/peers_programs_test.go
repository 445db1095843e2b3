package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/internal/testkit"
)

// A peer is a relay program of somebody else, in a process of its own. Talon reaches it through a gate.
type peer struct {
	name     string
	memory   bool // it forgets everything when it is killed
	selects  bool // it takes only events about repositories that list it
	compares bool // NIP-77
	address  string
	front    string        // address that Talon is given
	gate     *testkit.Gate // at front; nil: something else is there
	command  func() *exec.Cmd
	cmd      *exec.Cmd

	conn      *relayclient.Conn // of publish
	published int               // on conn
	most      int               // events that it takes on one connection; 0: any number
}

// peerPrograms returns the paths of the programs that TALON_PEERS names: NAME=PATH, with spaces between them.
func peerPrograms(t *testing.T) map[string]string {
	t.Helper()
	paths := map[string]string{}
	for _, field := range strings.Fields(os.Getenv("TALON_PEERS")) {
		name, path, ok := strings.Cut(field, "=")
		if _, err := os.Stat(path); !ok || err != nil {
			t.Fatalf("TALON_PEERS has %q: want NAME=PATH of a program that exists (%v)", field, err)
		}
		paths[name] = path
	}
	return paths
}

// behindGate puts a gate before a peer.
func behindGate(t *testing.T, p *peer) {
	p.gate = testkit.NewGate(t, p.address)
	p.front = p.gate.Address()
}

// newPeers starts khatru with each of its stores, and the programs of TALON_PEERS; of these only the named
// ones, if there are names. It calls before with each of them, to say where Talon finds it.
func newPeers(t *testing.T, before func(*testing.T, *peer), names ...string) []*peer {
	t.Helper()
	paths := peerPrograms(t)
	paths["khatru"] = filepath.Join(t.TempDir(), "khatru")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", paths["khatru"], ".")
	build.Dir = "../../testdata/relays/khatru"
	build.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build khatru: %v\n%s", err, text)
	}
	khatru := func(store string, more ...string) func(*testing.T, *peer) []string {
		return func(t *testing.T, p *peer) []string {
			return append([]string{"--store", store, "--dir", t.TempDir(), "--listen", p.address}, more...)
		}
	}
	var peers []*peer
	for _, r := range []struct {
		peer
		program string
		args    func(*testing.T, *peer) []string
	}{
		{peer{name: "khatru-badger"}, "khatru", khatru("badger")},
		{peer{name: "khatru-lmdb"}, "khatru", khatru("lmdb", "--negentropy")},
		{peer{name: "khatru-slicestore", memory: true}, "khatru", khatru("slicestore")},
		{peer{name: "strfry-1", compares: true}, "strfry", strfryArgs},
		{peer{name: "strfry-2", compares: true}, "strfry", strfryArgs},
		{peer{name: "nostr-rs-relay"}, "nostr-rs-relay", nostrRsRelayArgs},
		{peer{name: "nak", memory: true}, "nak", nakArgs},
		{peer{name: "nak-negentropy", memory: true, compares: true}, "nak", func(t *testing.T, p *peer) []string { return append(nakArgs(t, p), "--negentropy") }},
		{peer{name: "ngit-grasp", selects: true, compares: true, most: 40}, "ngit-grasp", nil}, // it takes 60 in a minute
	} {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		path := paths[r.program]
		if path == "" {
			t.Logf("%s does not take part: TALON_PEERS has no %s", r.name, r.program)
			continue
		}
		p := &r.peer
		p.address = testkit.FreeAddress(t)
		before(t, p)
		var args []string
		env := os.Environ()
		if r.args != nil {
			args = r.args(t, p)
		} else {
			env = append(env, "NGIT_DOMAIN="+p.front, "NGIT_BIND_ADDRESS="+p.address, "NGIT_GIT_DATA_PATH="+t.TempDir(), "NGIT_RELAY_DATA_PATH="+t.TempDir(),
				"NGIT_LOG_LEVEL=warn", "NGIT_SYNC_BASE_BACKOFF_SECS=1", "NGIT_SYNC_MAX_BACKOFF_SECS=5")
		}
		dir := t.TempDir()
		p.command = func() *exec.Cmd {
			cmd := exec.Command(path, args...)
			cmd.Dir, cmd.Env = dir, env
			return cmd
		}
		p.start(t)
		t.Cleanup(p.kill)
		peers = append(peers, p)
	}
	return peers
}

func strfryArgs(t *testing.T, p *peer) []string {
	_, port, _ := net.SplitHostPort(p.address)
	return []string{"--config=" + writeConfig(t, fmt.Sprintf("db = %q\ndbParams { mapsize = 1073741824 }\nrelay { bind = \"127.0.0.1\"\nport = %s\nnofiles = 0\n}\n", t.TempDir(), port)), "relay"}
}

func nostrRsRelayArgs(t *testing.T, p *peer) []string {
	_, port, _ := net.SplitHostPort(p.address)
	return []string{"--config", writeConfig(t, fmt.Sprintf("[info]\nrelay_url = \"ws://%s/\"\n[network]\naddress = \"127.0.0.1\"\nport = %s\n", p.address, port)), "--db", t.TempDir()}
}

func nakArgs(_ *testing.T, p *peer) []string {
	_, port, _ := net.SplitHostPort(p.address)
	return []string{"serve", "--hostname", "127.0.0.1", "--port", port}
}

func writeConfig(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "config.toml") // nostr-rs-relay looks at the ending
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs the program, and waits until it takes connections.
func (p *peer) start(t *testing.T) {
	t.Helper()
	p.cmd = p.command()
	log, err := os.Create(filepath.Join(t.TempDir(), p.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	_ = log.Close()
	for began := time.Now(); ; testkit.Pause(time.Since(began)) {
		c, err := net.Dial("tcp", p.address)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Since(began) > stall {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%s does not listen at %s: %v\n%s", p.name, p.address, err, text)
		}
	}
}

// kill ends the program as a crash would.
func (p *peer) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	p.cmd = nil
}

// publish gives the peer an event. It tries again while the peer is away.
func (p *peer) publish(ctx context.Context, e *host.Event) error {
	for {
		err := p.try(ctx, e)
		var refused peerRefusal
		if err == nil || errors.As(err, &refused) {
			return err
		}
		p.conn = nil
		select {
		case <-ctx.Done():
			return fmt.Errorf("publish at %s: %w", p.name, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// peerRefusal is why a peer did not take an event.
type peerRefusal string

func (r peerRefusal) Error() string { return "the relay refuses it: " + string(r) }

func (p *peer) try(ctx context.Context, e *host.Event) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if p.most > 0 && p.published == p.most && p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
	if p.conn == nil {
		conn, err := relayclient.Dial(ctx, "ws://"+p.address, relayclient.Options{MessageBytes: 1 << 20})
		if err != nil {
			return err
		}
		p.conn, p.published = conn, 0
	}
	p.published++
	res, err := p.conn.Publish(ctx, e)
	if err == nil && !res.OK && !strings.HasPrefix(res.Reason, "duplicate") {
		err = peerRefusal(res.Reason)
	}
	return err
}
