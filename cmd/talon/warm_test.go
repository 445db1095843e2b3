package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

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

// program is this test binary as the program talon.
func program() {
	countStart()
	if os.Getenv(standBy) == "" {
		main()
		return
	}
	if path, err := os.Executable(); err == nil {
		compileWith = []string{path, compileName}
	}
	serveCommands(os.NewFile(3, "control"))
}

// startsFile is next to the program, and has a line for each of its starts.
const startsFile = "starts"

// waits is the line of a process that waits for commands.
const waits = "waits for commands"

func countStart() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), startsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	what := waits
	if os.Getenv(standBy) == "" {
		what = strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:min(len(os.Args), 3)]...), " ")
	}
	fmt.Fprintln(f, what)
}

// commands hands commands to processes that wait for them.
type commands struct {
	dir      string // with the launcher and its socket
	listener *net.UnixListener

	mu      sync.Mutex // guards what follows
	waiting []*net.UnixConn
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
	c = &commands{left: make(map[string]int)}
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
	for _, w := range c.waiting {
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
	if err == nil && n == 1 {
		c.mu.Lock()
		c.waiting = append(c.waiting, w)
		c.mu.Unlock()
		return nil
	}
	if n > 1 {
		c.mu.Lock()
		c.left[string(said[1:n])]++
		c.mu.Unlock()
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
	return conn.(*net.UnixConn), nil
}

// report returns what commands left behind, most often first.
func (c *commands) report() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for what, n := range c.left {
		lines = append(lines, fmt.Sprintf("%4d times: %s", n, what))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// serveCommands carries out commands, one after the other, until one leaves something behind or the tests
// end. The control connection brings connections of launchers.
func serveCommands(control *os.File) {
	conn, err := net.FileConn(control)
	if err != nil {
		panic(err)
	}
	_ = control.Close()
	w := &worker{control: conn.(*net.UnixConn), null: openNull(), launchers: make(chan *net.UnixConn)}
	w.streams = []*os.File{os.Stdin, os.Stdout, os.Stderr}
	go w.receive()
	for launcher := range w.launchers {
		left := w.serve(launcher)
		if left != "" {
			_, _ = w.control.Write([]byte("!" + left))
			os.Exit(1)
		}
		if _, err := w.control.Write([]byte{0}); err != nil {
			os.Exit(1)
		}
	}
}

// worker is a process that waits for commands.
type worker struct {
	control   *net.UnixConn
	null      int // /dev/null
	launchers chan *net.UnixConn
	streams   []*os.File // of all commands: a file that is garbage is closed, and its number is another's by then
}

// openNull opens /dev/null.
func openNull() int {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return fd
}

// receive takes launchers until the tests end.
func (w *worker) receive() {
	for {
		fds, _, err := receiveFiles(w.control, 1)
		if err != nil || len(fds) != 1 {
			os.Exit(1)
		}
		file := os.NewFile(uintptr(fds[0]), "launcher")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			os.Exit(1)
		}
		w.launchers <- conn.(*net.UnixConn)
	}
}

// receiveFiles reads some bytes, and the files that come with them.
func receiveFiles(conn *net.UnixConn, n int) (fds []int, text []byte, err error) {
	text, rights := make([]byte, n), make([]byte, 256)
	n, rn, _, _, err := conn.ReadMsgUnix(text, rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	for _, m := range messages {
		more, parseErr := unix.ParseUnixRights(&m)
		fds, err = append(fds, more...), errors.Join(err, parseErr)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds, text[:n], err
}

// serve carries out the command of a launcher. It returns what the command left behind, "" if nothing.
func (w *worker) serve(launcher *net.UnixConn) (left string) {
	defer launcher.Close()
	fds, text, err := receiveFiles(launcher, 64<<10)
	if err != nil || len(fds) != 3 {
		return "" // the launcher was killed
	}
	in := io.MultiReader(bytes.NewReader(text), launcher)
	var size [4]byte
	_, err = io.ReadFull(in, size[:])
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if err == nil {
		_, err = io.ReadFull(in, body)
	}
	var r struct {
		Args, Env []string
		Dir       string
	}
	if err != nil || json.Unmarshal(body, &r) != nil {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return ""
	}
	for i, fd := range fds {
		_ = unix.Dup3(fd, i, 0)
		_ = unix.Close(fd)
	}
	w.name()
	before := openFiles()
	ctx, done := w.follow(launcher)
	os.Args = r.Args
	os.Clearenv()
	for _, v := range r.Env {
		name, value, _ := strings.Cut(v, "=")
		_ = os.Setenv(name, value)
	}
	code := 125
	if err = os.Chdir(r.Dir); err == nil {
		code = execute(ctx)
	}
	done()
	left = w.leftovers(r.Args, before)
	w.reset()
	_, _ = launcher.Write(binary.BigEndian.AppendUint32(nil, uint32(code)))
	return left
}

// name gives the standard streams to package os, which asks once how they are read.
func (w *worker) name() {
	os.Stdin, os.Stdout, os.Stderr = os.NewFile(0, "/dev/stdin"), os.NewFile(1, "/dev/stdout"), os.NewFile(2, "/dev/stderr")
	w.streams = append(w.streams, os.Stdin, os.Stdout, os.Stderr)
}

// reset undoes what a command did to the process.
func (w *worker) reset() {
	for i := range 3 {
		_ = unix.Dup3(w.null, i, 0)
	}
	_ = os.Chdir("/")
	debug.SetMemoryLimit(math.MaxInt64)
	debug.SetGCPercent(100)
}

// follow has a command follow its launcher, until done: it is asked to stop as the launcher is, by a
// signal, and ends with a launcher that ends.
func (w *worker) follow(launcher *net.UnixConn) (ctx context.Context, done func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			var signal [1]byte
			n, err := launcher.Read(signal[:])
			select {
			case <-ended:
				return
			default:
			}
			if err != nil || n == 0 {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				return
			}
			s := syscall.Signal(signal[0])
			if (s == syscall.SIGINT || s == syscall.SIGTERM) && ctx.Err() == nil {
				stop()
				continue
			}
			_ = unix.Kill(os.Getpid(), s) // it ends the process, unless the command awaits it
		}
	}()
	return ctx, func() {
		close(ended)
		_ = launcher.SetReadDeadline(time.Unix(1, 0))
		<-finished
		_ = launcher.SetReadDeadline(time.Time{})
		stop()
	}
}

// leftovers says what a command leaves behind: goroutines, and files that were not open before.
func (w *worker) leftovers(args, before []string) string {
	for i := 0; ; i++ {
		left := goroutines()
		if left == "" {
			for _, file := range openFiles() {
				if !slices.Contains(before, file) {
					left = file
				}
			}
		}
		if left == "" || i == 10 {
			if left != "" {
				left = strings.Join(args[1:min(len(args), 3)], " ") + ": " + left
			}
			return left
		}
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
	}
}

// goroutines names a goroutine that is not of the worker itself, "" if there is none.
func goroutines() string {
	if runtime.NumGoroutine() <= 2 {
		return ""
	}
	text := make([]byte, 256<<10)
	text = text[:runtime.Stack(text, true)]
	for stack := range strings.SplitSeq(string(text), "\n\n") {
		if strings.Contains(stack, ".serveCommands(") || strings.Contains(stack, ".(*worker).receive(") || strings.Contains(stack, "os/signal.") {
			continue
		}
		_, function, _ := strings.Cut(strings.TrimSpace(stack), "\n")
		function, _, _ = strings.Cut(function, "\n")
		function, _, _ = strings.Cut(function, "(0x")
		if _, by, ok := strings.Cut(stack, "created by "); ok {
			by, _, _ = strings.Cut(by, "\n")
			function += " by " + by
		}
		return function
	}
	return ""
}

// openFiles returns the numbers and names of the files that this process has open, the streams apart.
func openFiles() (list []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !slices.Contains([]string{"0", "1", "2"}, e.Name()) {
			list = append(list, e.Name()+" "+to)
		}
	}
	return list
}

// maxStarts bounds how often all tests start the whole program, processes that wait for commands apart. Most
// are compilations of a module, which have limits of their own (guest.CompileJob).
const maxStarts = 110

// checkStarts reports whether all tests together start the program as seldom as they should.
func checkStarts() error {
	for _, name := range []string{"test.run", "test.skip"} {
		if flag.Lookup(name).Value.String() != "" {
			return nil
		}
	}
	path, err := exec.LookPath(realTalon)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), startsFile))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	waiting := 0
	for _, line := range lines {
		if line == waits {
			waiting++
		}
	}
	// Each test that runs at the same time may have several servers, and some are killed.
	if starts, limit := len(lines)-waiting, 40+8*runtime.GOMAXPROCS(0); starts > maxStarts || waiting > limit {
		return fmt.Errorf("the program was started %d times, want at most %d, and waited for commands in %d processes, want at most %d:\n%s",
			starts, maxStarts, waiting, limit, text)
	}
	return nil
}
