package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"talon/internal/testkit"
)

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

// launch starts a program that is to serve, and waits until it does. A program
// that ends before is an error with what it wrote.
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
	cmd.Env = environ()
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

// metric returns the value of a metric, summed over its labels.
func (s *process) metric(t testing.TB, name string) float64 {
	t.Helper()
	resp, err := http.Get("http" + strings.TrimPrefix(s.url, "ws") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum, found := 0.0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
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

// talon runs a command to its end and returns what it wrote.
func talon(t testing.TB, stdin io.Reader, args ...string) (stdout string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command("talon", args...)
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
