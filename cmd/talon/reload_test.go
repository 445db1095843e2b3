package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// manager is a service manager: it collects what a service says to it.
type manager struct {
	path string

	mu   sync.Mutex // guards said
	said []string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(t.TempDir(), "notify")}
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: m.path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		buf := make([]byte, 1<<10)
		for {
			n, err := l.Read(buf)
			if err != nil {
				return
			}
			state, _, _ := strings.Cut(string(buf[:n]), "\n")
			m.mu.Lock()
			m.said = append(m.said, state)
			m.mu.Unlock()
		}
	}()
	return m
}

// has reports whether the service has said a state at least that often.
func (m *manager) has(state string, times int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.said {
		if s == state {
			n++
		}
	}
	return n >= times
}

// TestReload changes the configuration of a server that runs, by SIGHUP and by the command.
func TestReload(t *testing.T) {
	t.Parallel()
	data, m := newData(t), newManager(t)
	file := filepath.Join(t.TempDir(), "talon.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log-level = 'info'\n")
	if out, err := talon(t, nil, "serve", "--check-config", "--config", file, "--plugins", modules(t)); err != nil || !strings.Contains(out, "is valid: "+file) {
		t.Errorf("%q, %v", out, err)
	}
	cmd := exec.Command(realTalon, serveArgs(t, data, "--config", file)...)
	cmd.Env = []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=200000"}
	s := startAs(t, cmd, data)
	until(t, "the manager hears of the start", func() bool { return m.has("READY=1", 1) })

	write("log-level = 'debug'\nqueue = 99\n")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the level is applied", func() bool { return strings.Contains(s.text(), `"option":"log-level"`) })
	until(t, "the manager hears of the reload", func() bool { return m.has("RELOADING=1", 1) && m.has("READY=1", 2) && m.has("WATCHDOG=1", 1) })
	if log := s.text(); !strings.Contains(log, `"option needs a restart","option":"queue"`) {
		t.Errorf("the log does not say that the queue needs a restart:\n%s", log)
	}

	write("log-level = 'loud'\n")
	if out, err := talon(t, nil, "reload", "--data", data); err == nil || !strings.Contains(err.Error(), "log-level") {
		t.Errorf("a wrong file: %q, %v", out, err)
	}
	if out, err := talon(t, nil, "serve", "--check-config", "--config", file); err == nil {
		t.Errorf("a wrong file is valid: %q", out)
	}
	write("min-free = '1048576GiB'\n")
	out, err := talon(t, nil, "reload", "--data", data)
	if err != nil || out != "min-free: \"256MiB\" becomes \"1048576GiB\": applied\nlog-level: \"debug\" becomes \"info\": applied\n" {
		t.Errorf("%q, %v", out, err)
	}
	until(t, "the disk is full", func() bool { return s.metric(t, "talon_disk_full") == 1 })
	write("min-free = '0'\n")
	if out, err := talon(t, nil, "reload", "--data", data); err != nil {
		t.Errorf("%q, %v", out, err)
	}
	until(t, "the disk has room", func() bool { return s.metric(t, "talon_disk_full") == 0 })
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	until(t, "the manager hears of the end", func() bool { return m.has("STOPPING=1", 1) })
}
