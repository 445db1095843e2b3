package admin

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// private returns the path of a socket in a folder that does not exist yet.
func private(t *testing.T) string { return filepath.Join(t.TempDir(), "admin", "talon.sock") }

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestListenIsPrivate(t *testing.T) {
	path := private(t)
	l := listen(t, path)
	for at, want := range map[string]fs.FileMode{filepath.Dir(path): fs.ModeDir | 0o700, path: fs.ModeSocket | 0o600} {
		info, err := os.Stat(at)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v; want %v", at, info.Mode(), err, want)
		}
	}
	if l.Addr().String() != path {
		t.Errorf("the address is %s", l.Addr())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	// A second Close leaves the socket of another server alone.
	other := listen(t, path)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(other.Addr().String()); err != nil {
		t.Error(err)
	}
}

func TestListenRefuses(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T) string
		want string
	}{
		{"a folder that others can enter", func(t *testing.T) string {
			path := private(t)
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Chmod(filepath.Dir(path), 0o710)); err != nil {
				t.Fatal(err)
			}
			return path
		}, "mode is 0710"},
		{"a folder that is a file", func(t *testing.T) string {
			path := private(t)
			if err := os.WriteFile(filepath.Dir(path), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "not a directory"},
		{"a folder in no folder", func(t *testing.T) string { return filepath.Join(t.TempDir(), "a", "b", "sock") }, "no such file"},
		{"a file in the way", func(t *testing.T) string {
			path := private(t)
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("precious"), 0o600)); err != nil {
				t.Fatal(err)
			}
			return path
		}, "and is none"},
		{"a link in the way", func(t *testing.T) string {
			path := private(t)
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Symlink("elsewhere", path)); err != nil {
				t.Fatal(err)
			}
			return path
		}, "and is none"},
		{"a live server", func(t *testing.T) string {
			path := private(t)
			l := listen(t, path)
			go func() {
				for {
					if _, err := l.Accept(); err != nil {
						return
					}
				}
			}()
			return path
		}, "a server listens"},
		{"a live server that does not answer", func(t *testing.T) string {
			path := private(t)
			listen(t, path)
			return path
		}, "a server listens"},
		{"a long name", func(t *testing.T) string { return private(t) + strings.Repeat("x", 60) }, "at most 64 bytes"},
		{"no name", func(*testing.T) string { return "/" }, "want a file name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.make(t)
			before, _ := os.Lstat(path)
			l, err := Listen(path)
			if err == nil {
				l.Close()
				t.Fatal("it listens")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want %q", err, tt.want)
			}
			if after, _ := os.Lstat(path); before != nil && (after == nil || !os.SameFile(before, after)) {
				t.Error("what was there is gone")
			}
		})
	}
}

// The socket of a server that was killed is replaced.
func TestListenReplacesStaleSocket(t *testing.T) {
	path := private(t)
	dead := listen(t, path).(*listener)
	if err := dead.UnixListener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("no stale socket: %v", err)
	}
	listen(t, path)
}

func TestGuard(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		path := private(t)
		asked := make(chan uint32, 1)
		g := &guard{Listener: listen(t, path), log: slog.New(slog.DiscardHandler), trusted: func(uid uint32) bool {
			asked <- uid
			return trusted
		}}
		accepted := make(chan net.Conn, 1)
		go func() {
			if nc, err := g.Accept(); err == nil {
				accepted <- nc
			}
		}()
		nc, err := Dial(path).connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if uid := <-asked; int(uid) != os.Geteuid() {
			t.Errorf("the peer is user %d, want %d", uid, os.Geteuid())
		}
		if trusted {
			(<-accepted).Close()
			continue
		}
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a stranger's connection: %v", err)
		}
	}
	for uid, want := range map[uint32]bool{0: true, uint32(os.Geteuid()): true, 1<<32 - 2: false} {
		if ourselves(uid) != want {
			t.Errorf("ourselves(%d) = %v", uid, !want)
		}
	}
}

// TestGuardOfOtherSockets checks that other connections than unix sockets have no known owner.
func TestGuardOfOtherSockets(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if uid, err := peer(a); err == nil {
		t.Errorf("got user %d", uid)
	}
}
