package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// WriteProgram writes a file that is to be run. No process begins meanwhile, which would
// have it open for writing until it runs a program of its own: to run the file would fail
// with ETXTBSY.
func WriteProgram(tb testing.TB, path, text string) {
	tb.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		tb.Fatal(err)
	}
}

// NewRepository makes an empty repository with a work tree, and returns its
// folder. The options are those of git init.
func NewRepository(t testing.TB, options ...string) string {
	t.Helper()
	dir := t.TempDir()
	Git(t, dir, append([]string{"init", "-q", "-b", "main"}, options...)...)
	return dir
}

// Commit commits all that is in a folder, and a file with a text, and returns the commit's id. The same
// texts make the same ids.
func Commit(t testing.TB, dir, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	Git(t, dir, "add", ".")
	Git(t, dir, "commit", "-q", "-m", text)
	return Git(t, dir, "rev-parse", "HEAD")
}

// Git runs git in a folder and returns what it prints.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := TryGit(t.Context(), dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// TryGit does what Git does, and returns the error.
func TryGit(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := GitCommand(ctx, dir, args...).CombinedOutput()
	return string(out), err
}

// GitCommand returns git as somebody runs it who has no configuration, no
// terminal, and always the same time.
func GitCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000", "no_proxy=127.0.0.1")
	return cmd
}

// Forward answers a request as the server at a URL does, with what change makes of the body
// of the answer to a POST. If the server does not answer, neither does Forward.
func Forward(w http.ResponseWriter, r *http.Request, server string, change func(body []byte) []byte) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, server+r.URL.RequestURI(), r.Body)
	if err != nil {
		return
	}
	request.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	if r.Method == http.MethodPost {
		body = change(body)
	}
	_, _ = w.Write(body)
}

// Postgres is a server of PostgreSQL for the tests of one package: a folder of its own,
// no network, and nothing that waits for a disk. It starts with its first use.
type Postgres struct {
	mu      sync.Mutex
	dir     string
	bin     string
	server  *exec.Cmd
	exited  chan error
	log     bytes.Buffer
	schemas int
}

// ErrNoPostgres says how to install the PostgreSQL without which tests are skipped.
var ErrNoPostgres = errors.New("PostgreSQL 15 or later is not installed (apt-get install postgresql): what needs it is skipped")

// URL returns a connection string to a schema that is not there yet, and skips the test
// where there is no PostgreSQL.
func (p *Postgres) URL(tb testing.TB) string {
	tb.Helper()
	url, err := p.New()
	switch {
	case errors.Is(err, ErrNoPostgres):
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
	return url
}

// New returns what URL does, without a test. See [ErrNoPostgres].
func (p *Postgres) New() (url string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		if err := p.start(); err != nil {
			return "", err
		}
	}
	p.schemas++
	return fmt.Sprintf("postgres://talon@/postgres?host=%s&search_path=t%d", p.dir, p.schemas), nil
}

// Restart ends the server like a crash does, and starts it again.
func (p *Postgres) Restart(tb testing.TB) {
	tb.Helper()
	p.Away(tb, syscall.SIGQUIT, 0)
}

// Away ends the server, with SIGQUIT like a crash does and with SIGINT in order, and starts
// it again after a time.
func (p *Postgres) Away(tb testing.TB, signal syscall.Signal, d time.Duration) {
	tb.Helper()
	start := p.Kill(signal)
	time.Sleep(d)
	start(tb)
}

// Kill ends the server, as Away does, and returns what starts it again. Nobody else may use it
// meanwhile.
func (p *Postgres) Kill(signal syscall.Signal) (start func(testing.TB)) {
	p.mu.Lock()
	p.kill(signal)
	return func(tb testing.TB) {
		tb.Helper()
		defer p.mu.Unlock()
		if err := p.serve(); err != nil {
			tb.Fatal(err)
		}
	}
}

// Stop ends the server and removes its folder. Without a server it does nothing.
func (p *Postgres) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.kill(syscall.SIGQUIT)
	}
	if p.dir != "" {
		os.RemoveAll(p.dir)
	}
}

// PID returns the process that started those of the server.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.Process.Pid
}

func (p *Postgres) kill(signal syscall.Signal) {
	p.server.Process.Signal(signal)
	<-p.exited
}

func (p *Postgres) start() (err error) {
	if p.bin, err = postgresPrograms(); err != nil {
		return err
	}
	// Short, for the path of a socket.
	if p.dir, err = os.MkdirTemp("/tmp", "talon-pg"); err != nil {
		return err
	}
	if owner := postgresUser(); owner != nil {
		if err := os.Chown(p.dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	initdb := p.command("initdb", "-D", filepath.Join(p.dir, "data"), "-U", "talon", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return p.serve()
}

func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: postgresUser(), Pdeathsig: syscall.SIGQUIT}
	return cmd
}

// serve returns when the server takes connections.
func (p *Postgres) serve() error {
	p.log.Reset()
	p.server = p.command("postgres", "-D", filepath.Join(p.dir, "data"), "-k", p.dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=64MB", "-c", "max_connections=200", "-c", "autovacuum=off")
	p.server.Stderr = &p.log
	if err := p.server.Start(); err != nil {
		p.server = nil
		return err
	}
	exited := make(chan error, 1)
	server := p.server
	go func() { exited <- server.Wait() }()
	p.exited = exited
	for {
		if p.command("pg_isready", "-q", "-h", p.dir, "-U", "talon", "-d", "postgres").Run() == nil {
			return nil
		}
		select {
		case err := <-exited:
			p.server = nil
			return fmt.Errorf("postgres: %v: %s", err, &p.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// postgresPrograms returns the folder of the newest server.
func postgresPrograms() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return postgresVersion(b) - postgresVersion(a) })
	if len(found) > 0 && postgresVersion(found[0]) >= 15 {
		return filepath.Dir(found[0]), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", ErrNoPostgres
}

func postgresVersion(path string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return version
}

// postgresUser is who runs the server, for it refuses to run as root. Nil is who runs the
// test.
func postgresUser() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u = &user.User{Uid: "65534", Gid: "65534"}
	}
	uid, _ := strconv.Atoi(strings.TrimSpace(u.Uid))
	gid, _ := strconv.Atoi(strings.TrimSpace(u.Gid))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
