package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options are the operator's options for all repositories.
type Options struct {
	// MaxInput is the largest pack, in bytes, that a push or fetch may bring.
	MaxInput int64

	// AllocBytes is the largest single allocation of a git process. It ends packs that
	// inflate to more than they look like. A process that works on a push may have four
	// times as much in all, on Linux.
	AllocBytes int64

	// Pack bounds the work that a pack may be, and CPU the processor time: CPU for each
	// git that works on a push or a fetch, and a second more for each half MiB of it.
	Pack PackLimits
	CPU  time.Duration

	// Scheduler gives the processes their slots; nil for one with the default options.
	Scheduler *Scheduler

	// Barred returns the objects that no push and no fetch may bring, and that no answer may show. The
	// key is an id, the value a text such as "banned by the operator: REASON". Nobody changes the map.
	// Nil: there are none.
	Barred func() map[string]string

	// RepackBytes is the least that a repack after a push may save; see [Repo.NeedsRepack].
	RepackBytes int64

	// DefaultBranch is the branch that HEAD of a new repository names, without
	// refs/heads/; master if it is empty.
	DefaultBranch string
}

// DefaultOptions are the default options.
var DefaultOptions = Options{MaxInput: 2 << 30, AllocBytes: 512 << 20, Pack: DefaultPackLimits, CPU: 30 * time.Second, RepackBytes: 16 << 20}

func (o *Options) setDefaults() {
	o.Pack, o.CPU = cmp.Or(o.Pack, DefaultPackLimits), cmp.Or(o.CPU, DefaultOptions.CPU)
	o.RepackBytes = cmp.Or(o.RepackBytes, DefaultOptions.RepackBytes)
	o.DefaultBranch = cmp.Or(o.DefaultBranch, "master")
}

func (o *Options) check() error {
	if o.MaxInput <= 0 || o.AllocBytes <= 0 {
		return errors.New("set up git: the sizes of packs and of memory must be positive")
	}
	if err := o.Pack.check(); err != nil {
		return err
	}
	if !IsRef(branches + o.DefaultBranch) {
		return fmt.Errorf("set up git: %.100q is not the name of a branch", o.DefaultBranch)
	}
	return nil
}

// Git is the git program and the environment that it runs in. It is immutable but for what it remembers.
type Git struct {
	program  string
	options  Options
	config   [][2]string // of every repository; see config
	settings [][2]string // in env: config, and what is imposed
	env      []string
	plain    bool // see Plain

	barredWalks *barredWalks
}

// Scheduler returns the scheduler of the processes.
func (g *Git) Scheduler() *Scheduler { return g.options.Scheduler }

// Find looks for the program in PATH, or at a path, and asks for its version.
func Find(ctx context.Context, program string, options Options) (*Git, error) {
	options.setDefaults()
	if err := options.check(); err != nil {
		return nil, err
	}
	if options.Scheduler == nil {
		scheduler, err := NewScheduler(DefaultScheduleOptions)
		if err != nil {
			return nil, err
		}
		options.Scheduler = scheduler
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("find git: %w; install git 2.39 or later", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	g := &Git{program: path, options: options, config: config(options), barredWalks: newBarredWalks()}
	g.settings = slices.Concat(g.config, imposed, [][2]string{trusted})
	g.env = environment(g.settings, options)
	out, err := g.run(ctx, "/", nil, "version", "--build-options")
	if err != nil {
		return nil, fmt.Errorf("ask git for its version: %w", err)
	}
	first, build, _ := strings.Cut(string(out), "\n")
	version := strings.TrimSpace(strings.TrimPrefix(first, "git version "))
	if !isRecent(version) {
		return nil, fmt.Errorf("%s is version %.40q; install git 2.39 or later", path, version)
	}
	if code := sha1Code(build); code != "" && code != "SHA1_DC" {
		return nil, fmt.Errorf("%s computes SHA-1 by %.40q, which does not detect collisions; install a git that is built with SHA1_DC, as it is by default", path, code)
	}
	return g, nil
}

// sha1Code returns the code by which a git computes SHA-1, "" if its build options do not say
// so: before git 2.50 they do not.
func sha1Code(build string) string {
	for line := range strings.Lines(build) {
		if code, ok := strings.CutPrefix(line, "SHA-1: "); ok {
			return strings.TrimSpace(code)
		}
	}
	return ""
}

// Program returns the path of the git program. It does not depend on the working folder.
func (g *Git) Program() string { return g.program }

// isRecent reports whether a version such as 2.39.5 or 2.45.1.windows.1 is new enough.
func isRecent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(minor)
	return err == nil && (a > 2 || a == 2 && b >= 39)
}

// config returns git's configuration of every repository. Init also writes it to the repository,
// for people who run git there by hand.
func config(o Options) [][2]string {
	return [][2]string{
		// GRASP-01. The first one also clears the other two, so it is the first.
		{"uploadpack.allowAnySHA1InWant", "false"},
		{"uploadpack.allowTipSHA1InWant", "true"},
		{"uploadpack.allowReachableSHA1InWant", "true"},
		{"uploadpack.allowFilter", "true"},
		// It walks all trees for a blob that the client chooses.
		{"uploadpackfilter.sparse:oid.allow", "false"},

		{"receive.maxInputSize", strconv.FormatInt(o.MaxInput, 10)},
		// Packs stay packs: they are streamed to disk whatever is in them, and can
		// be shared by a link.
		{"transfer.unpackLimit", "1"},
		{"receive.unpackLimit", "1"},
		{"fetch.unpackLimit", "1"},
		{"receive.advertisePushOptions", "true"},
		{"receive.updateServerInfo", "false"},
		{"receive.denyDeleteCurrent", "ignore"}, // the authoriser decides
		{"receive.denyDeletes", "false"},
		{"receive.denyNonFastForwards", "false"},
		{"receive.shallowUpdate", "false"},
		{"receive.autogc", "false"},

		// Maintenance is the host's; see Collect.
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"core.logAllRefUpdates", "false"},

		// A ref that was answered is on disk.
		{"core.fsync", "objects,derived-metadata,reference"},

		// Larger objects are streamed, and not held in memory.
		{"core.bigFileThreshold", "64m"},
		{"pack.windowMemory", "128m"},
	}
}

// imposed is what no repository's own configuration may change, because it names
// programs or trust.
var imposed = [][2]string{
	{"core.hooksPath", os.DevNull},
	{"core.alternateRefsCommand", "true"},
	{"core.fsmonitor", "false"},
	{"protocol.allow", "never"},
	{"uploadpack.advertiseBundleURIs", "false"},
}

// trusted has git work on the repositories of other users. Their configuration is not
// believed in what runs programs.
var trusted = [2]string{"safe.directory", "*"}

// environment returns the environment of each git, with settings that no repository can change.
func environment(settings [][2]string, o Options) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=false",
		"GIT_ALLOC_LIMIT=" + strconv.FormatInt(o.AllocBytes, 10),
	}
	return append(env, configEnv(0, settings)...)
}

// configEnv gives settings to git in its environment, behind the first ones that are there.
func configEnv(first int, settings [][2]string) (env []string) {
	for i, pair := range settings {
		n := first + i
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, pair[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, pair[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", first+len(settings)))
}

const (
	maxStderr = 4 << 10
	maxOutput = 64 << 20 // of commands whose output is kept

	// killGrace is how long git may clean up after SIGTERM.
	killGrace = 3 * time.Second
)

// Process is a running git. Its user reads Out to the end, then calls Wait.
type Process struct {
	In  io.WriteCloser
	Out io.ReadCloser

	ctx    context.Context
	cmd    *exec.Cmd
	verb   string
	stderr *tail
	detach func() bool

	mu     sync.Mutex // guards what follows
	ended  bool
	killer *time.Timer
	nice   int // of its group, beyond that of the server
}

// Failure is the error of a git process that failed.
type Failure struct {
	Verb   string // the git command, such as receive-pack
	Stderr string // the end of what it wrote, in one line
	Err    error

	fault string // of objects, if they were refused for it; see fsckFault
}

func (f *Failure) Error() string {
	if f.Stderr == "" {
		return fmt.Sprintf("git %s: %v", f.Verb, f.Err)
	}
	return fmt.Sprintf("git %s: %v: %s", f.Verb, f.Err, f.Stderr)
}

func (f *Failure) Unwrap() error { return f.Err }

// start runs git in a folder until it ends or ctx does.
func (g *Git) start(ctx context.Context, dir string, env []string, args ...string) (*Process, error) {
	return g.startWith(ctx, dir, env, nil, args...)
}

// startWith is start with somebody who reads, as it comes, what git writes to its
// standard error.
func (g *Git) startWith(ctx context.Context, dir string, env []string, progress io.Writer, args ...string) (*Process, error) {
	verb := args[slices.IndexFunc(args, func(arg string) bool { return arg[0] != '-' && !strings.Contains(arg, "=") })]
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	cmd := exec.Command(g.program, args...)
	cmd.Dir = dir
	cmd.Env = append(g.env[:len(g.env):len(g.env)], env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = killGrace
	p := &Process{ctx: ctx, cmd: cmd, verb: verb, stderr: new(tail)}
	cmd.Stderr = p.stderr
	if progress != nil {
		cmd.Stderr = io.MultiWriter(p.stderr, progress)
	}
	var err error
	if p.In, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	if p.Out, err = cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	p.detach = context.AfterFunc(ctx, p.terminate)
	return p, nil
}

// pause stops the process and all that it started, until resume or the end of its context.
func (p *Process) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && p.killer == nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGSTOP)
	}
}

// resume lets the process go on.
func (p *Process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT)
	}
}

// lower gives the process, and all that it started, a lower priority than the server has.
func (p *Process) lower(nice int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && p.nice != nice {
		p.nice = nice
		lowerGroup(p.cmd.Process.Pid, nice)
	}
}

// terminate ends the process and all that it started.
func (p *Process) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.killer != nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT) // a paused process acts on no other signal
	p.killer = time.AfterFunc(killGrace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
}

// Wait waits until the process has ended. It returns a *Failure if git failed, which
// wraps the context's cause if that ended it.
func (p *Process) Wait() error {
	_ = p.In.Close()
	err := p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	if cancelled := !p.detach(); cancelled && err != nil {
		err = context.Cause(p.ctx)
	}
	if err == nil {
		return nil
	}
	return &Failure{Verb: p.verb, Stderr: p.stderr.line(), Err: err, fault: p.stderr.fault()}
}

// limitCPU bounds the processor time of the process, if it still runs.
func (p *Process) limitCPU(seconds int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		limitCPU(p.cmd.Process.Pid, seconds)
	}
}

// limitFile bounds the length of the files that the process writes, if it still runs.
func (p *Process) limitFile(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		limitFile(p.cmd.Process.Pid, bytes)
	}
}

// cpuTime is the processor time that the process took. REQUIRES: Wait has returned.
func (p *Process) cpuTime() time.Duration {
	if p.cmd.ProcessState == nil {
		return 0
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// outOfCPU reports whether a process ended because of its bound.
func outOfCPU(err error) bool {
	status, ok := waitStatus(err)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// waitStatus returns how a process ended, if an error says so.
func waitStatus(err error) (syscall.WaitStatus, bool) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return status, ok
}

// run runs a command to its end and returns its output.
func (g *Git) run(ctx context.Context, dir string, in []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := g.start(ctx, dir, nil, args...)
	if err != nil {
		return nil, err
	}
	return p.exchange(in, cancel)
}

// exchange gives the process its input, and returns its output when it has ended. Cancel
// ends the context of the process: its output may be too long.
func (p *Process) exchange(in []byte, cancel context.CancelCauseFunc) ([]byte, error) {
	p.feed(in)
	out, err := io.ReadAll(io.LimitReader(p.Out, maxOutput+1))
	if err == nil && len(out) > maxOutput {
		err = errors.New("the output is too long")
	}
	if err != nil {
		cancel(err)
	}
	return out, p.Wait()
}

// feed gives the process its input, and the end of it, while somebody reads its output.
func (p *Process) feed(in []byte) {
	go func() {
		// A process that ends before it has read all says why itself.
		_, _ = p.In.Write(in)
		_ = p.In.Close()
	}()
}

// exitCode returns the exit code that an error carries, or -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// ExitCode returns the code that git ended with, by the error of a command, or -1.
func ExitCode(err error) int { return exitCode(err) }

// tail keeps the last bytes that are written to it.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > maxStderr {
		p = p[len(p)-maxStderr:]
	}
	if over := len(t.buf) + len(p) - maxStderr; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// line returns the text as one line, without anything that a terminal would obey.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return printable(string(bytes.TrimSpace(t.buf)))
}

// fault is fsckFault of the text.
func (t *tail) fault() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fsckFault(t.buf)
}

// printable makes one line of a text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// inherited are the variables of our own environment that a plain git has. git http-backend gets
// the same from a web server: the name of a pusher in reflogs, the folder refs/namespaces/ of all
// refs, and the keys for signed pushes.
var inherited = []string{"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_NAMESPACE", "GNUPGHOME"}

// Plain returns a git for a Folder whose repositories are served as git http-backend
// serves them, with and without a work tree, by what their own configuration says. It
// runs no hooks, for those are programs, serves no repository of another user, whose
// configuration could name others, and nothing goes on when a push has ended.
func (g *Git) Plain() *Git {
	plain := *g
	plain.plain = true
	plain.config = [][2]string{
		{"receive.maxInputSize", strconv.FormatInt(g.options.MaxInput, 10)},
		{"gc.autoDetach", "false"},
		{"maintenance.autoDetach", "false"},
	}
	plain.settings = slices.Concat(plain.config, imposed)
	plain.env = environment(plain.settings, g.options)
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			plain.env = append(plain.env, name+"="+value)
		}
	}
	return &plain
}
