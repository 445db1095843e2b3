package testkit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
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

// Kill ends the server, as Away does, and returns a function that starts it again. No other test
// may use the server until then.
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

// Program returns the path of a program of PostgreSQL, such as pg_dump. REQUIRES: the server has started.
func (p *Postgres) Program(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return filepath.Join(p.bin, name)
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
	if p.dir, err = os.MkdirTemp(postgresFolder(), "talon-pg"); err != nil {
		return err
	}
	if owner := postgresUser(); owner != nil {
		if err := os.Chown(p.dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if err := p.newData(); err != nil {
		return err
	}
	return p.serve()
}

// postgresFolder returns the folder for temporary files, if its path is short enough for that of a
// socket, and every user may enter it.
func postgresFolder() string {
	const usual = "/tmp"
	dir := os.TempDir()
	info, err := os.Stat(dir)
	if err != nil || len(dir) > 16 || info.Mode().Perm()&0o001 == 0 {
		return usual
	}
	return dir
}

// newData makes the folder of data: a copy of one that initdb has made once, which takes a third of the
// processor time.
func (p *Postgres) newData() error {
	args := []string{"-U", "talon", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"}
	program, err := os.Stat(filepath.Join(p.bin, "initdb"))
	if err != nil {
		return err
	}
	key := fmt.Sprintln(p.bin, program.Size(), program.ModTime().UnixNano(), args, postgresUser())
	entry := filepath.Join(Kept(), fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
	data := filepath.Join(p.dir, "data")
	now := time.Now()
	if os.Chtimes(entry, now, now) == nil { // in use
		return copyFolder(entry, data)
	}
	if out, err := p.command("initdb", append(args, "-D", data)...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return keep(data, entry)
}

// keep copies a folder to an entry of [Kept], whole or not at all. Another process may do the same.
func keep(folder, entry string) error {
	if err := os.MkdirAll(Kept(), 0o700); err != nil {
		return err
	}
	filling, err := os.MkdirTemp(Kept(), "filling-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(filling)
	made := filepath.Join(filling, "data")
	if err := copyFolder(folder, made); err != nil {
		return err
	}
	if err := os.Rename(made, entry); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep a folder of PostgreSQL: %w", err)
	}
	return nil
}

// copyFolder makes a folder with the same owners and modes.
func copyFolder(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy a folder of PostgreSQL: %w: %s", err, out)
	}
	return nil
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
