//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// program is the binary under load: the one that make build made, with its modules in the
// folder plugins next to it.
var (
	program = flag.String("program", "../../bin/talon", "the talon binary that the server benchmarks measure")
	further = flag.String("serve", "", "further flags of talon serve, to compare settings")
)

// server is a talon process of its own, so that its processor time and memory are
// not mixed with the load's.
type server struct {
	tb   testing.TB
	cmd  *exec.Cmd
	addr string // host:port
	log  bytes.Buffer
	end  sync.Once
	read chan struct{} // closed when the log has been read to its end
}

// programPath is where the program is, for a process that runs elsewhere.
func programPath(tb testing.TB) string {
	tb.Helper()
	path, err := filepath.Abs(*program)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// bundled returns a folder of plugins with which the program runs its own modules. Older programs
// have these in a folder next to them.
func bundled(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.CopyFS(dir, os.DirFS(besideProgram(tb))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	return dir
}

// besideProgram is where an older program has its modules.
func besideProgram(tb testing.TB) string {
	return filepath.Join(filepath.Dir(programPath(tb)), "plugins")
}

// generalRelay is bundled for a relay that accepts every event. An older program's module
// open does so by itself.
func generalRelay(tb testing.TB) string {
	tb.Helper()
	dir := bundled(tb)
	_, inside := os.Stat(besideProgram(tb))
	if _, err := os.Stat(filepath.Join(dir, "limits.wasm")); err == nil || inside != nil {
		if err := os.WriteFile(filepath.Join(dir, "open.toml"), []byte("[config]\nevery = true\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// serve starts the program on a data folder, and stops it with the benchmark.
func serve(tb testing.TB, data string, flags ...string) *server {
	tb.Helper()
	path := programPath(tb)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("%s is absent: run make build, or make bench", *program)
	}
	config := filepath.Join(tb.TempDir(), "talon.toml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	s := &server{tb: tb, read: make(chan struct{})}
	args := []string{
		"serve", "--config", config, "--listen", "127.0.0.1:0", "--data", data,
		"--plugins", generalRelay(tb),
		"--log-format", "text", "--max-message-rate", "1000000", "--ping", "10m",
	}
	s.cmd = exec.Command(path, slices.Concat(args, flags, strings.Fields(*further))...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALON_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	serving := regexp.MustCompile(`msg=serving.* addr=ws://(\S+)`)
	for s.addr == "" && lines.Scan() {
		fmt.Fprintln(&s.log, lines.Text())
		if found := serving.FindStringSubmatch(lines.Text()); found != nil {
			s.addr = found[1]
		}
	}
	if s.addr == "" {
		tb.Fatalf("the server does not serve: %v\n%s", s.cmd.Wait(), s.log.String())
	}
	go func() {
		defer close(s.read)
		for lines.Scan() {
			if s.log.Len() < 1<<20 {
				fmt.Fprintln(&s.log, lines.Text())
			}
		}
	}()
	tb.Cleanup(s.stop)
	return s
}

// stop ends the server as an operator would.
func (s *server) stop() {
	s.end.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		<-s.read
		if err := s.cmd.Wait(); err != nil {
			s.tb.Errorf("the server ended with %v", err)
		}
		if s.tb.Failed() {
			s.tb.Log(s.log.String())
		}
	})
}

// cpu returns the processor time of the server's process so far, all its threads
// together, from the kernel's clock for it: proc(5) has it in hundredths only.
func (s *server) cpu() time.Duration {
	const scheduler = 2 // CPUCLOCK_SCHED; the clock's number is the process's, inverted, above it
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^s.cmd.Process.Pid<<3|scheduler), &ts); err != nil {
		s.tb.Fatal("read the server's processor time: ", err)
	}
	return time.Duration(ts.Nano())
}

// written returns the bytes that the server has written to files and connections.
func (s *server) written() float64 { return s.proc("io", "wchar") }

// proc returns a number of a file of proc(5), by its name there.
func (s *server) proc(file, name string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, file))
	if err != nil {
		s.tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			v, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				s.tb.Fatal(err)
			}
			return v
		}
	}
	s.tb.Fatal("proc does not say ", name)
	return 0
}

// metrics are samples by their name with labels, as the server prints them.
type metrics map[string]float64

// metrics asks the server.
func (s *server) metrics() metrics {
	resp, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		s.tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.tb.Fatal(resp.Status, err)
	}
	m := metrics{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			s.tb.Fatal(errors.Join(fmt.Errorf("read metrics line %q", line), err))
		}
		m[line[:at]] = v
	}
	return m
}

// total adds up the samples whose name starts with prefix and contains part.
func (m metrics) total(prefix, part string) (sum float64) {
	for name, v := range m {
		if strings.HasPrefix(name, prefix) && strings.Contains(name, part) && !math.IsNaN(v) {
			sum += v
		}
	}
	return sum
}

// memory returns what the server holds in bytes: its process's pages, and what its
// Go runtime uses of them when it has just collected its garbage. It asks for its
// metrics until that has happened three times, because they leave some.
func (s *server) memory() (rss, heap float64) {
	const cycles = "go_gc_duration_seconds_count"
	heap = math.Inf(1)
	for goal := s.metrics().total(cycles, "") + 3; ; {
		m := s.metrics()
		heap = min(heap, m.total("go_memstats_heap_inuse_bytes", "")+m.total("go_memstats_stack_inuse_bytes", ""))
		if m.total(cycles, "") >= goal {
			break
		}
	}
	return 1024 * s.proc("status", "VmRSS"), heap
}

// raiseFileLimit lets this process, and the server that inherits it, hold n
// connections.
func raiseFileLimit(tb testing.TB, n uint64) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	if limit.Max < n {
		tb.Skipf("the limit on open files is %d, this needs %d", limit.Max, n)
	}
	limit.Cur = n
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatal(err)
	}
}
