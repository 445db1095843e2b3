package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// The program "talon" of the tests is internal/launcher. It starts in a millisecond and hands its command
// to a process that waits for commands. That process takes over the streams, the environment and the folder
// of the launcher, and calls execute. A start of the whole program takes 40 ms of a processor, and the
// tests need about a thousand.
//
// A process carries out one command at a time, so a command has a process to itself while it runs. The
// process ends if a command leaves a goroutine or an open file behind, and when the launcher is killed.

// realTalon is the name of the whole program, for tests that look at its process: signals, limits, crashes.
const realTalon = "talon-process"

// standBy is the variable of the environment of a process that waits for commands.
const standBy = "TALON_TEST_STANDBY"

// commands hands commands to processes that wait for them.
type commands struct {
	dir      string // with the launcher and its socket
	listener *net.UnixListener

	mu      sync.Mutex // guards what follows
	waiting []*net.UnixConn
	busy    map[*net.UnixConn]struct{}
	left    map[string]int // what commands left behind, and how often

	running sync.WaitGroup // processes
}

// isWarm reports whether "talon" is the launcher. Under the race detector it is the whole program, since the
// exit code of a process tells of races. It is the whole program in benchmarks, too.
func isWarm() bool {
	return !race.Detector && !testkit.Scale() && flag.Lookup("test.bench").Value.String() == "" && os.Getenv("TALON_TEST_COLD") == ""
}

// openCommands makes the program "talon" in the PATH a launcher.
func openCommands() (c *commands, err error) {
	c = &commands{left: make(map[string]int), busy: make(map[*net.UnixConn]struct{})}
	if c.dir, err = os.MkdirTemp("", "talon-launcher-"); err != nil {
		return nil, err
	}
	if err := plugintest.Program("talon/internal/launcher", filepath.Join(c.dir, "talon")); err != nil {
		return nil, err
	}
	c.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(c.dir, "commands.sock"), Net: "unix"})
	if err != nil {
		return nil, err
	}
	go c.accept()
	return c, os.Setenv("PATH", c.dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// close has all processes end.
func (c *commands) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	for _, w := range slices.AppendSeq(c.waiting, maps.Keys(c.busy)) {
		_ = w.Close()
	}
	c.waiting = nil
	c.mu.Unlock()
	c.running.Wait() // so that what they take of a processor counts as that of the tests
	_ = os.RemoveAll(c.dir)
}

func (c *commands) accept() {
	for {
		conn, err := c.listener.AcceptUnix()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if err := c.pass(conn); err != nil {
				fmt.Fprintln(os.Stderr, "pass on a command:", err)
			}
		}()
	}
}

// pass hands a launcher to a process that waits, or to a new one, and returns when the command has ended.
func (c *commands) pass(launcher *net.UnixConn) error {
	w, err := c.next()
	if err != nil {
		return err
	}
	file, err := launcher.File()
	if err == nil {
		_, _, err = w.WriteMsgUnix([]byte{0}, unix.UnixRights(int(file.Fd())), nil)
		err = errors.Join(err, file.Close(), launcher.Close())
	}
	if err != nil {
		return errors.Join(err, w.Close())
	}
	// It says when it has done the command, and what the command left behind.
	var said [1024]byte
	n, err := w.Read(said[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, w)
	if err == nil && n == 1 {
		c.waiting = append(c.waiting, w)
		return nil
	}
	if n > 1 {
		c.left[string(said[1:n])]++
	}
	return w.Close()
}

// next returns the connection to a process that waits.
func (c *commands) next() (*net.UnixConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.waiting); n > 0 {
		w := c.waiting[n-1]
		c.waiting = c.waiting[:n-1]
		c.busy[w] = struct{}{}
		return w, nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	mine, its := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer mine.Close()
	defer its.Close()
	cmd := exec.Command(realTalon)
	cmd.Env = append(os.Environ(), standBy+"=1")
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{its}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // launchers pass on the signals of the terminal
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.running.Go(func() { _ = cmd.Wait() })
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, err
	}
	w := conn.(*net.UnixConn)
	c.busy[w] = struct{}{}
	return w, nil
}

// check returns an error if a server left something behind when it stopped in order. Other commands may, and so
// may libraries: pgx once left the goroutine that watched a query, in one of about fifteen runs of all tests.
func (c *commands) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what := range c.left {
		if strings.HasPrefix(what, "serve ") && !strings.Contains(what, ofLibrary) {
			return fmt.Errorf("a server that has stopped left something behind: %s", what)
		}
	}
	return nil
}
