package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
)

// Job is a module with its side-car.
type Job struct {
	Name     string
	Wasm     []byte
	Sidecar  []byte
	Limits   guest.Limits
	Service  host.Service
	CacheDir string

	// Background is set while others are served: the process has the lowest priority.
	Background bool
}

// answer is what the process says.
type answer struct{ Error string }

// bounds are what a process may use, and what it may use more for each byte or MiB of
// the module: several times what the Go modules that come with Talon take, which is
// 2 s and 120 MB.
var bounds = struct{ memory, memoryPerByte, seconds, secondsPerMiB uint64 }{256 << 20, 64, 10, 8}

// size is how many bytes the module has when it is decompressed.
func (j *Job) size() uint64 {
	wasm, _ := guest.Decompress(j.Wasm) // what is wrong with it, guest.Load says
	return uint64(len(wasm))
}

// memory is how many bytes the process may have.
func (j *Job) memory() uint64 {
	return factor * (bounds.memory + bounds.memoryPerByte*j.size())
}

// seconds is how long it may run on processors.
func (j *Job) seconds() uint64 {
	return factor * (bounds.seconds + bounds.secondsPerMiB*j.size()>>20)
}

// Run has a process of the command do the job. An error is one sentence.
func Run(ctx context.Context, command []string, j *Job) error {
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
	var a answer
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

// explain says why a process ended without an answer.
func (j *Job) explain(state *os.ProcessState, err error, wrong string) error {
	if state != nil {
		switch {
		case slices.ContainsFunc(shortOfMemory, func(text string) bool { return strings.Contains(wrong, text) }):
			return fmt.Errorf("the module takes more than %d MiB to compile and test", j.memory()>>20)
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
	h.b = append(h.b, p[:min(len(p), maxSaid-len(h.b))]...)
	return len(p), nil
}

const maxSaid = 64 << 10

// maxJob bounds what is read of a job: a module in base64, and its side-car.
const maxJob = 64 << 20

// Serve does the job that it reads, and writes the answer. It is for a process that
// does nothing else.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var j Job
	if err := json.NewDecoder(io.LimitReader(in, maxJob)).Decode(&j); err != nil {
		return fmt.Errorf("read a job: %w", err)
	}
	if j.Background {
		yield()
	}
	if err := restrain(j.memory(), j.seconds()); err != nil {
		return err
	}
	var a answer
	if err := j.do(ctx); err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}

// do loads the module and runs its self-test.
func (j *Job) do(ctx context.Context) error {
	file, err := sidecar.Parse(j.Sidecar)
	if err != nil {
		return err
	}
	o := guest.Options{
		Name: j.Name, Grants: file.Grants, Config: file.Config, Budgets: guest.BudgetsOf(&file.Budgets), Limits: j.Limits,
		Sets: names(file.Sets), Service: j.Service, CacheDir: j.CacheDir, Patient: true,
	}
	m, err := guest.Load(ctx, j.Wasm, o)
	if err != nil {
		return err
	}
	if err := m.Close(ctx); err != nil {
		return err
	}
	return guest.SelfTest(ctx, j.Wasm, o)
}

// names are sets that are there, and have no members.
type names []sidecar.Set

func (list names) Contains(name, _ []byte) (yes, known bool) {
	for _, set := range list {
		known = known || set.Name == string(name)
	}
	return false, known
}
