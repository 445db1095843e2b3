package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/internal/race"
)

// CompileJob is a module with its side-car, which a process of its own loads for the first
// time: it fills the cache of compiled code and runs the self-test, so that what serves
// need then only read ([Options.Elsewhere]).
//
// While others are served, the process has a low priority for processors, and the lowest for the disk.
// It is the first that the system ends when memory is short. Its memory and its time on
// processors are bounded by the size of the module, and it ends with the process that
// started it. It makes no module safe: what loads the module checks it again.
type CompileJob struct {
	Name     string
	Wasm     []byte
	Sidecar  []byte
	Limits   Limits
	Service  host.Service
	CacheDir string

	// Background is set while others are served: the process has a low priority.
	Background bool
}

// compileAnswer is what the process says.
type compileAnswer struct{ Error string }

// compileBounds are the limits of a compile process: a base, and an addition for each byte
// or MiB of the module. They are several times the use of the Go modules that come with
// Talon, which is 2 s and 120 MB.
var compileBounds = struct{ memory, memoryPerByte, seconds, secondsPerMiB uint64 }{256 << 20, 64, 10, 8}

// size is how many bytes the module has when it is decompressed.
func (j *CompileJob) size() uint64 {
	wasm, _ := Decompress(j.Wasm) // what is wrong with it, Load says
	return uint64(len(wasm))
}

// memory is how many bytes the process may have.
func (j *CompileJob) memory() uint64 {
	return race.Factor * (compileBounds.memory + compileBounds.memoryPerByte*j.size())
}

// seconds is how long it may run on processors.
func (j *CompileJob) seconds() uint64 {
	return race.Factor * (compileBounds.seconds + compileBounds.secondsPerMiB*j.size()>>20)
}

// Run has a process of the command do the job, by [ServeCompile]. An error is one sentence.
func (j *CompileJob) Run(ctx context.Context, command []string) error {
	request, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write a job: %w", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = "/"
	// Threads have stacks, which are memory: there must not be more on a larger machine.
	cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var said, wrong head
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &said, &wrong
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var a compileAnswer
	if json.Unmarshal(said.b, &a) == nil && err == nil {
		if a.Error != "" {
			return errors.New(a.Error)
		}
		return nil
	}
	return j.explain(cmd.ProcessState, err, string(wrong.b))
}

// shortOfMemory is what a process says that got no more memory: the runtime, C's
// allocator, and who starts a thread find that out in ways of their own.
var shortOfMemory = []string{"out of memory", "cannot allocate memory", "pthread_create failed", "SIGSEGV"}

// tooLarge is the error of a module for which the memory of the process does not suffice.
func (j *CompileJob) tooLarge() error {
	return fmt.Errorf("the module takes more than %d MiB to compile and test", j.memory()>>20)
}

// explain says why a process ended without an answer.
func (j *CompileJob) explain(state *os.ProcessState, err error, wrong string) error {
	if state != nil {
		switch {
		case slices.ContainsFunc(shortOfMemory, func(text string) bool { return strings.Contains(wrong, text) }):
			return j.tooLarge()
		case strings.Contains(wrong, outOfTime), (state.UserTime() + state.SystemTime()).Seconds() > float64(j.seconds())+1:
			return fmt.Errorf("the module takes longer than %d s of a processor to compile and test", j.seconds())
		}
	}
	first, _, _ := strings.Cut(wrong, "\n")
	return fmt.Errorf("the process that compiles the module ended: %w; it said %.200q", err, first)
}

// head keeps the first bytes that are written to it.
type head struct{ b []byte }

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxHead-len(h.b))]...)
	return len(p), nil
}

const maxHead = 64 << 10

// maxJob bounds what is read of a job: a module in base64, and its side-car.
const maxJob = 64 << 20

// ServeCompile does the job that it reads, and writes the answer. It is for a process that
// does nothing else.
func ServeCompile(ctx context.Context, in io.Reader, out io.Writer) error {
	var j CompileJob
	if err := json.NewDecoder(io.LimitReader(in, maxJob)).Decode(&j); err != nil {
		return fmt.Errorf("read a job: %w", err)
	}
	if j.Background {
		yield()
	}
	if err := restrain(j.memory(), j.seconds()); err != nil {
		return err
	}
	var a compileAnswer
	err := j.do(ctx)
	if errors.Is(err, unix.ENOMEM) {
		err = j.tooLarge()
	}
	if err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}

// do loads the module and runs its self-test.
func (j *CompileJob) do(ctx context.Context) error {
	file, err := sidecar.Parse(j.Sidecar)
	if err != nil {
		return err
	}
	o := Options{
		Name: j.Name, Grants: file.Grants, Config: file.Config, Budgets: BudgetsOf(&file.Budgets), Limits: j.Limits,
		Sets: emptySets(file.Sets), Service: j.Service, CacheDir: j.CacheDir, Patient: true,
	}
	m, err := Load(ctx, j.Wasm, o)
	if err != nil {
		return err
	}
	if err := m.Close(ctx); err != nil {
		return err
	}
	return SelfTest(ctx, j.Wasm, o)
}

// emptySets are sets that are there, and have no members.
type emptySets []sidecar.Set

func (list emptySets) Contains(name, _ []byte) (yes, known bool) {
	for _, set := range list {
		known = known || set.Name == string(name)
	}
	return false, known
}

// compileNice is the priority of a compilation while others are served. It is that of git that tidies
// up: with 19, a module of two seconds took more than two minutes beside six busy processes.
const compileNice = 10

// yield gives this process a low priority for processors, and the lowest for the disk.
func yield() {
	// Priorities belong to threads; those to come have that of the one that starts them.
	for range 2 {
		threads, _ := filepath.Glob("/proc/self/task/*")
		for _, thread := range threads {
			id, err := strconv.Atoi(filepath.Base(thread))
			if err != nil {
				continue
			}
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, compileNice) // it may have ended
			_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, uintptr(id), idleClass<<classShift)
		}
	}
}

// restrain bounds what this process may use, and has the system end it first when
// memory is short.
func restrain(memory, seconds uint64) error {
	// Without it, the system chooses by itself who ends first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	debug.SetMemoryLimit(int64(memory / 4 * 3))
	// The system warns when the time is over, and ends who does not listen to that.
	over := make(chan os.Signal, 1)
	signal.Notify(over, unix.SIGXCPU)
	go func() {
		<-over
		fmt.Fprintln(os.Stderr, outOfTime)
		os.Exit(1)
	}()
	for _, limit := range []struct {
		what       string
		of         int
		soft, hard uint64
	}{{"memory", unix.RLIMIT_DATA, memory, memory}, {"time", unix.RLIMIT_CPU, seconds, seconds + 5}, {"core", unix.RLIMIT_CORE, 0, 0}} {
		if err := unix.Setrlimit(limit.of, &unix.Rlimit{Cur: limit.soft, Max: limit.hard}); err != nil {
			return fmt.Errorf("limit the %s of this process: %w", limit.what, err)
		}
	}
	return nil
}

// outOfTime is what a process says whose time on processors is over.
const outOfTime = "cpu time limit exceeded"

// Arguments of ioprio_set.
const (
	ofProcess  = 1
	idleClass  = 3
	classShift = 13
)
