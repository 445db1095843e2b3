package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talon/internal/testkit"
)

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
	patient := code == 0 && len(r.Args) > 1 && r.Args[1] == "serve"
	left = w.leftovers(r.Args, before, patient)
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

// leftovers says what a command leaves behind: goroutines, and files that were not open before. It waits
// for a moment until they are gone. For a server that has stopped in order it is patient.
func (w *worker) leftovers(args, before []string, patient bool) string {
	began, limit := time.Now(), 100*time.Millisecond
	if patient {
		limit = stall
	}
	for ; ; testkit.Pause(time.Since(began)) {
		left := goroutines()
		if left == "" {
			for _, file := range openFiles() {
				if !slices.Contains(before, file) {
					left = file
				}
			}
		}
		if left == "" {
			return ""
		}
		if time.Since(began) > limit {
			return strings.Join(args[1:min(len(args), 3)], " ") + ": " + left
		}
	}
}

// ofLibrary begins the name of a goroutine that runs no code of Talon.
const ofLibrary = "of a library: "

// goroutines names a goroutine that is not of the worker itself, one that runs code of Talon first, "" if there
// is none.
func goroutines() (found string) {
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
		if strings.Contains(stack, "\ntalon/") || strings.Contains(stack, "created by talon/") {
			return function
		}
		if found == "" {
			found = ofLibrary + function
		}
	}
	return found
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
