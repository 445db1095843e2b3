package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"talon/cmd/internal/gitremote"
	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// TestMain makes this test binary the program "talon" in the PATH of every test, or what has a process
// that waits carry out its command.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"talon": program, realTalon: program, gitremote.Name: program})
}

type tests struct{ *testing.M }

// Run runs the tests and removes what they shared.
func (t tests) Run() int {
	defer func() { _ = os.RemoveAll(shared.dir) }()
	defer database.Stop()
	if flag.Parse(); race.Detector && os.Getenv("TALON_TEST_RACE") != "all" && flag.Lookup("test.run").Value.String() == "" {
		_ = flag.Set("test.run", raced)
	}
	if !isWarm() {
		return plugintest.Main(t.M)
	}
	// Most tests wait for servers most of the time.
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if n := runtime.GOMAXPROCS(0); !parallel && n < 8 {
		_ = flag.Set("test.parallel", strconv.Itoa(2*n))
	}
	c, err := openCommands()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.close()
	code := plugintest.Main(t.M)
	if err := errors.Join(c.check(), checkStarts()); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// database is the PostgreSQL of all tests, with a schema for each.
var database testkit.Postgres

// raced are the tests in which a server does many things concurrently, and then stops in order, so that
// its exit code tells of a race: those that run under the race detector, unless others are asked for. A
// server takes four seconds of a processor to start under it; what the others do in a server, one client
// after the other, packages test under it.
const raced = "^(TestTenThousandSubscriptions|TestFlood|TestNoGap|TestGrasp)$"

// bundled are the modules that come with Talon.
var bundled = []string{"grasp", "limits", "lists", "open", "rate"}

// openRelay is the side-car of the module open in tests of a relay that accepts
// every event.
const openRelay = "[config]\nevery = true\n"

// shared is made once for all tests: compiling modules takes seconds.
var shared struct {
	sync.Once
	dir string
	err error
}

// modules returns the folder of the bundled modules, compiled to wasm, of a relay
// that accepts every event.
func modules(t testing.TB) string { return filepath.Join(sharedDir(t), "plugins") }

// compiled returns a folder with the machine code of the bundled modules, which
// data folders share so that not every start takes a second.
func compiled(t testing.TB) string { return filepath.Join(sharedDir(t), machineCode) }

// machineCode is the folder of a data folder that has it.
const machineCode = "wasm-cache"

func sharedDir(t testing.TB) string {
	t.Helper()
	shared.Do(func() { shared.err = buildShared(t) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.dir
}

func buildShared(t testing.TB) (err error) {
	if shared.dir, err = os.MkdirTemp("", "talon-test-"); err != nil {
		return err
	}
	folders := make([]string, len(bundled))
	for i, name := range bundled {
		folders[i] = "plugins/" + name
	}
	plugins := filepath.Join(shared.dir, "plugins")
	err = errors.Join(
		os.CopyFS(plugins, os.DirFS(plugintest.Build(t, folders...))),
		os.WriteFile(filepath.Join(plugins, "open.toml"), []byte(openRelay), 0o644),
		os.CopyFS(filepath.Join(shared.dir, machineCode), os.DirFS(plugintest.MachineCode(t, folders...))))
	if err != nil {
		return err
	}
	// An import of nothing has the modules pass their tests, which is then known; for the
	// service that a server on 127.0.0.1:0 takes itself for, as nearly all of them do.
	warm := exec.Command(compiler(t), "import", "--data", shared.dir, "--plugins", plugins, "--domain", "127.0.0.1", "--log-level", "error")
	warm.Dir = shared.dir
	warm.Stderr = os.Stderr
	return warm.Run()
}

// compiler returns a Talon to load modules with. Under the race detector that takes
// minutes, and what is kept is the same without.
func compiler(t testing.TB) string {
	if !race.Detector {
		return "talon"
	}
	return plugintest.Talon(t)
}

// newData returns a new data folder.
func newData(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := linkCompiled(dir, compiled(t)); err != nil {
		t.Fatal(err)
	}
	keepPassed(t, filepath.Join(dir, machineCode))
	return dir
}

// keepPassed keeps at the end of the test, for later runs, which self-tests modules have passed in a folder
// of machine code: a self-test with other settings takes about a second.
func keepPassed(t testing.TB, code string) {
	t.Helper()
	t.Cleanup(func() {
		if err := plugintest.KeepPassed(code); err != nil {
			t.Error(err)
		}
	})
}

// ownData returns a new data folder whose machine code is its own: what its server adds to
// it, or forgets, others do not notice. The folder has the code of further bundled modules, too.
func ownData(t testing.TB, further ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	ownCode(t, dir, further...)
	return dir
}

// ownCode gives a data folder that has no machine code what ownData gives it.
func ownCode(t testing.TB, data string, further ...string) {
	t.Helper()
	folders := make([]string, len(further))
	for i, name := range further {
		folders[i] = "plugins/" + name
	}
	code := filepath.Join(data, machineCode)
	err := linkTree(compiled(t), code)
	if err == nil && len(folders) > 0 {
		err = addCode(code, plugintest.MachineCode(t, folders...))
	}
	if err != nil {
		t.Fatal(err)
	}
	keepPassed(t, code)
}

// linkTree makes a folder with hard links to the files of another. Files that are replaced, as
// all machine code is, differ from then on.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another test's server has replaced it
		}
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		if err = os.Link(path, filepath.Join(to, below)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// linkCompiled makes a data folder that has the machine code of a folder.
func linkCompiled(data, code string) error {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	return os.Symlink(code, filepath.Join(data, machineCode))
}

// patience bounds every wait for something that should be a matter of moments. A machine
// that has other things to do is not a reason to give up.
const patience = 5 * time.Minute

// stall is what an answer takes only if something keeps it waiting, however busy the
// machine is.
const stall = 30 * time.Second

// process is `talon serve` in a process of its own.
type process struct {
	cmd   *exec.Cmd
	data  string
	url   string        // ws://127.0.0.1:port, once it serves
	ended chan struct{} // closed when the process has ended
	err   error         // of Wait, after ended

	mu  sync.Mutex // guards log
	log []string
}

// launch starts a server program, and waits until it serves. A program that ends before is
// an error with what it wrote.
func launch(cmd *exec.Cmd) (*process, error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &process{cmd: cmd, ended: make(chan struct{})}
	serving := make(chan string, 1)
	go func() {
		s.read(stderr, serving)
		s.err = cmd.Wait()
		close(s.ended)
	}()
	select {
	case s.url = <-serving:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("the server ended: %w\n%s", s.err, s.text())
	case <-time.After(patience):
		s.kill()
		return nil, fmt.Errorf("the server does not serve after %v\n%s", patience, s.text())
	}
}

func (s *process) read(stderr io.Reader, serving chan<- string) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s.mu.Lock()
		s.log = append(s.log, lines.Text())
		s.mu.Unlock()
		var line struct{ Msg, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			serving <- line.Addr
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
}

func (s *process) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// kill ends the process as a crash would, and waits until it is gone.
func (s *process) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// stop asks the process to stop, and returns how it did.
func (s *process) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return s.err
	case <-time.After(patience):
		s.kill()
		return fmt.Errorf("the server does not stop after %v", patience)
	}
}

// environ is the environment without what would configure Talon.
func environ() []string {
	var list []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALON_") {
			list = append(list, v)
		}
	}
	return list
}

// serveArgs are the arguments of a server on a free port with the bundled modules.
func serveArgs(t testing.TB, data string, args ...string) []string {
	return append([]string{
		"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data", data, "--plugins", modules(t),
	}, args...)
}

// until waits for what a server brings about.
func until(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for began := time.Now(); !yes(); testkit.Pause(time.Since(began)) {
		if time.Since(began) > patience {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

// start runs a server on a data folder until the end of the test. Then it must
// stop in order, and have logged no error.
func start(t testing.TB, data string, args ...string) *process {
	t.Helper()
	s := startAs(t, exec.Command("talon", serveArgs(t, data, args...)...), data)
	t.Cleanup(func() {
		if t.Failed() {
			s.kill()
			t.Logf("log of the server:\n%s", s.text())
			return
		}
		s.mustStop(t)
		if log := s.text(); strings.Contains(log, `"level":"ERROR"`) {
			t.Errorf("the server logged an error:\n%s", log)
		}
	})
	return s
}

// startAs runs the command as a server; the test looks after how it ends.
func startAs(t testing.TB, cmd *exec.Cmd, data string) *process {
	t.Helper()
	cmd.Dir = filepath.Dir(data)
	cmd.Env = append(environ(), cmd.Env...)
	s, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	s.data = data
	t.Cleanup(s.kill)
	return s
}

// mustStop stops the server if it runs.
func (s *process) mustStop(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Errorf("the server did not stop in order: %v\n%s", err, s.text())
	}
}

// pause stops the server with SIGSTOP, and waits until each of its threads stands still: on a busy machine
// one may go on for a moment.
func (s *process) pause(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	threads := fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid)
	until(t, "the server stands still", func() bool {
		files, err := filepath.Glob(threads)
		if err != nil || len(files) == 0 {
			return false
		}
		return !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && !strings.Contains(string(text[bytes.LastIndexByte(text, ')')+1:]), " T ")
		})
	})
}

// web is the server's address for browsers and git.
func (s *process) web() string { return "http" + strings.TrimPrefix(s.url, "ws") }

// get asks for a page.
func (s *process) get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(s.web() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// metric returns the value of a metric, summed over its labels.
func (s *process) metric(t testing.TB, name string) float64 {
	t.Helper()
	sum, found := 0.0, false
	_, text := s.get(t, "/metrics")
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v); err != nil {
			t.Fatalf("metric %s: %v", name, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("there is no metric %s", name)
	}
	return sum
}

// patient returns a command that fails if it takes longer than the patience of the tests. A
// command in Go then writes the stacks of its goroutines.
func patient(name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error {
		defer cancel()
		return cmd.Process.Signal(syscall.SIGQUIT)
	}
	cmd.WaitDelay = stall
	return cmd
}

// talon runs a command to its end and returns what it wrote.
func talon(t testing.TB, stdin io.Reader, args ...string) (stdout string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := patient("talon", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("talon %s: %w\n%s%s", args[0], err, &out, &errOut)
	}
	return out.String(), nil
}

// mustCheck verifies the database with talon check.
func mustCheck(t testing.TB, data string) {
	t.Helper()
	if out, err := talon(t, nil, "check", "--data", data); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 25)
	text := "one\ntwo\n\n  a list   of\n  two\n" + long
	want := "one two\n\n  a list   of\n  two\n" + strings.TrimSpace(strings.Repeat("word ", 20)) + "\n" + strings.TrimSpace(strings.Repeat("word ", 5))
	if got := wrap(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := wrap(""); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

// TestHelpFits: no line of the texts of help is wider than a terminal.
func TestHelpFits(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 120 {
				t.Errorf("%s: a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(root())
}

// TestCommandsAreLight: what every start of the program pays for is names, flags and texts, and
// not what the help of one command shows.
func TestCommandsAreLight(t *testing.T) {
	if n := testing.AllocsPerRun(3, func() { root() }); n > 24_000 {
		t.Errorf("the commands take %.0f allocations", n)
	}
}
