package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talon/host"
)

const (
	maxAnswer = 16 << 10 // bytes of a line
	maxLogged = 512      // bytes of a line of standard error

	// endTime is how long a process may take to end itself.
	endTime = time.Second

	// killTime is how long the system may take to end one that was killed.
	killTime = 5 * time.Second

	// lastWords is how long its standard error is read after its end.
	lastWords = 100 * time.Millisecond
)

// process is one process. One goroutine at a time asks it.
type process struct {
	cmd   *exec.Cmd
	made  programStamp // of the program that it runs
	in    *os.File
	out   *os.File
	err   *os.File
	lines *bufio.Reader // of out
	ended chan struct{} // closed when the process has ended
	heard chan struct{} // closed when its standard error has been read to the end

	mu     sync.Mutex // guards the field below
	reaped bool       // its number may be another's
}

// programStamp changes when a program is replaced.
type programStamp struct {
	device, inode uint64
	size          int64
	modified      int64 // nanoseconds
}

// lookForProgram says what is at a path, or why that is no program to run.
func lookForProgram(path string) (programStamp, error) {
	var s unix.Stat_t
	var err error
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Stat(path, &s)
	}
	switch {
	case err != nil:
		return programStamp{}, &os.PathError{Op: "look for the program", Path: path, Err: err}
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return programStamp{}, fmt.Errorf("%s is no program: want a file", path)
	case s.Mode&0o002 != 0:
		return programStamp{}, fmt.Errorf("everybody on this machine may change the program %s: take that right away with chmod o-w", path)
	case unix.Access(path, unix.X_OK) != nil:
		return programStamp{}, fmt.Errorf("the program %s may not be run by us: want chmod +x", path)
	}
	return programStamp{uint64(s.Dev), s.Ino, s.Size, s.Mtim.Nano()}, nil
}

// programEnvironment is what a program sees of ours.
func programEnvironment() []string {
	var list []string
	for _, name := range []string{"PATH", "LANG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// startProcess runs the program in its own folder and its own process group. Each line of
// its standard error is handed to said.
func startProcess(path string, made programStamp, said func(line []byte, more bool)) (_ *process, err error) {
	cmd := exec.Command(path)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = programEnvironment()
	// It ends with us, also if we end by force.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	x := &process{cmd: cmd, made: made, ended: make(chan struct{}), heard: make(chan struct{})}
	var in, out, errs *os.File // its ends
	defer func() {
		for _, f := range []*os.File{in, out, errs} {
			_ = f.Close()
		}
		if err != nil {
			x.close()
		}
	}()
	if in, x.in, err = os.Pipe(); err != nil {
		return nil, err
	}
	if x.out, out, err = os.Pipe(); err != nil {
		return nil, err
	}
	if x.err, errs, err = os.Pipe(); err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	x.lines = bufio.NewReaderSize(x.out, maxAnswer)
	go x.listen(said)
	go x.reap()
	return x, nil
}

// close closes our ends.
func (x *process) close() {
	for _, f := range []*os.File{x.in, x.out, x.err} {
		_ = f.Close() // nil if there is none
	}
}

// ask writes a line and waits for the answer. If it fails, the process is of no
// use any more.
func (x *process) ask(ctx context.Context, line []byte, id host.ID) (programAnswer, error) {
	stop := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_ = x.in.SetWriteDeadline(past)
		_ = x.out.SetReadDeadline(past)
	})
	answer, err := x.exchange(line, id)
	if !stop() && err == nil {
		err = ctx.Err() // the deadlines are set, or will be
	}
	return answer, err
}

func (x *process) exchange(line []byte, id host.ID) (programAnswer, error) {
	if x.spoke() {
		return programAnswer{}, &programFailure{cause: programCauseGarbage, what: "said something that it was not asked"}
	}
	_, err := x.in.Write(line)
	if err != nil {
		// Do not wait for output from before it ended.
		return programAnswer{}, &programFailure{cause: programCauseExit, what: "ended, or reads no more", err: err}
	}
	text, err := x.lines.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return programAnswer{}, &programFailure{cause: programCauseOutput, what: fmt.Sprintf("answered with a line of more than %d bytes", maxAnswer)}
	case errors.Is(err, io.EOF):
		return programAnswer{}, &programFailure{cause: programCauseExit, what: "ended without an answer"}
	case err != nil:
		return programAnswer{}, &programFailure{cause: programCauseExit, what: "cannot be heard", err: err}
	}
	answer, err := parseAnswer(text, id)
	if err == nil && x.lines.Buffered() > 0 {
		err = &programFailure{cause: programCauseGarbage, what: "answered with more than one line"}
	}
	return answer, err
}

// spoke reports whether there is something to read, other than the end.
func (x *process) spoke() bool { return x.poll()&unix.POLLIN != 0 }

// over reports whether the process has ended.
func (x *process) over() bool {
	select {
	case <-x.ended:
		return true
	default:
	}
	events := x.poll()
	return events&(unix.POLLHUP|unix.POLLERR) != 0 && events&unix.POLLIN == 0
}

// poll asks the system what can be read of the process.
func (x *process) poll() (events int16) {
	conn, err := x.out.SyscallConn()
	if err != nil {
		return unix.POLLERR
	}
	err = conn.Control(func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		var err error
		for err = unix.EINTR; err == unix.EINTR; {
			_, err = unix.Poll(list, 0)
		}
		events = list[0].Revents
	})
	if err != nil {
		return unix.POLLERR
	}
	return events
}

// listen hands on what the process writes to its standard error.
func (x *process) listen(said func(line []byte, more bool)) {
	defer close(x.heard)
	lines := bufio.NewReaderSize(x.err, maxLogged)
	for {
		line, err := lines.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if len(line) > 0 {
			said(line, cut)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// reap waits for the end of the process, and ends what it has started.
func (x *process) reap() {
	pid := x.cmd.Process.Pid
	// As long as the process is not waited for, its number is its own.
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	x.signal(syscall.SIGKILL)
	x.mu.Lock()
	x.reaped = true
	x.mu.Unlock()
	_ = x.cmd.Wait() // how it ended, nobody asks
	close(x.ended)
}

// signal sends a signal to the process and all of its group.
func (x *process) signal(s syscall.Signal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.reaped {
		_ = syscall.Kill(-x.cmd.Process.Pid, s)
	}
}

// stop ends the process, and returns when it has ended: by itself within the time, else by force.
func (x *process) stop(grace time.Duration) {
	_ = x.in.Close()
	if grace > 0 {
		x.signal(syscall.SIGTERM)
	}
	force := time.AfterFunc(grace, func() { x.signal(syscall.SIGKILL) })
	<-x.ended
	force.Stop()
	// Its last words say why it ended, unless somebody else still has its standard error.
	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case <-x.heard:
	case <-last.C:
	}
	x.close()
}
