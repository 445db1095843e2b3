package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// patience is how long a program may take that is to answer, or to end by itself.
const patience = 2 * time.Minute

// answering is a program that answers everything with an action and a message.
func answering(action, message string) string {
	return `while read -r line; do
	id=${line#*'"id":"'}
	printf '{"id":"%s","action":"` + action + `","msg":"` + message + `"}\n' "${id%%'"'*}"
done
`
}

var acceptingScript = answering("accept", "")

// shellProgram writes a program of the shell and returns its path.
func shellProgram(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	putProgram(t, path, text)
	return path
}

// putProgram puts a program at a path as mv does.
func putProgram(t *testing.T, path, text string) {
	t.Helper()
	testkit.WriteProgram(t, path+".new", "#!/bin/sh\n"+text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func newPool(t *testing.T, path string, change func(*programOptions)) *processPool {
	t.Helper()
	o := programOptions{
		Name: "spam", Path: path, Timeout: patience, Processes: 1,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Clock: time.Now,
	}
	if change != nil {
		change(&o)
	}
	p, err := newProcessPool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, p) })
	return p
}

func closePool(t *testing.T, p *processPool) {
	t.Helper()
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// poolSays asks about an event and says what came of it.
func poolSays(t *testing.T, p *processPool, id byte) string {
	t.Helper()
	a, err := p.admit(t.Context(), item(id), 1_700_000_000)
	if f := asProgramFailure(err); f != nil {
		return string(f.cause)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(a.Action.String() + " " + a.Message)
}

// isAlive reports whether a process runs.
func isAlive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}

// gone waits until the processes that a program noted in a file have ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		t.Fatalf("no process was noted: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the end of a process", func() bool { return !isAlive(pid) })
	}
}

func TestProgramAnswers(t *testing.T) {
	p := newPool(t, shellProgram(t, `while read -r line; do
	id=${line#*'"id":"'}
	case $id in
	01*) printf '{"id":"%s","action":"accept"}\n' "${id%%'"'*}" ;;
	02*) printf '{"id":"%s","action":"reject","msg":"blocked: no"}\r\n' "${id%%'"'*}" ;;
	*) printf '{"msg":"","action":"shadowReject","id":"%s","more":[1]}\n' "${id%%'"'*}" ;;
	esac
done
`), nil)
	if n := p.running(); n != 0 {
		t.Errorf("%d processes before the first question", n)
	}
	for range 3 {
		for id, want := range map[byte]string{1: "accept", 2: "reject blocked: no", 3: "shadow-reject"} {
			if got := poolSays(t, p, id); got != want {
				t.Errorf("event %d: %q, want %q", id, got, want)
			}
		}
	}
	if n := p.running(); n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
}

// TestProgramRequest looks at what strfry would write too.
func TestProgramRequest(t *testing.T) {
	const event = `{"id":"0100000000000000000000000000000000000000000000000000000000000000","pubkey":"` +
		`0200000000000000000000000000000000000000000000000000000000000000","created_at":1700000000,"kind":1,"tags":[["t","nostr"]],"content":"hello","sig":"` +
		`00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"}`
	it := item(1)
	for _, test := range []struct {
		source *host.Source
		authed []host.PubKey
		want   string
	}{
		{&host.Source{Addr: netip.MustParseAddr("::ffff:192.0.2.7")}, nil, `"sourceType":"IP4","sourceInfo":"192.0.2.7"`},
		{&host.Source{Addr: netip.MustParseAddr("2001:db8::1")}, []host.PubKey{{1}, {2}}, `"sourceType":"IP6","sourceInfo":"2001:db8::1","authed":"01` + strings.Repeat("0", 62) + `"`},
		{&host.Source{Origin: host.FromSync, Relay: "wss://relay.example.com"}, nil, `"sourceType":"Sync","sourceInfo":"wss://relay.example.com"`},
		{&host.Source{Origin: host.FromImport}, nil, `"sourceType":"Import","sourceInfo":""`},
		{nil, nil, `"sourceType":"IP4","sourceInfo":""`},
	} {
		it.Source, it.Authed = test.source, test.authed
		want := `{"type":"new","event":` + event + `,"receivedAt":1700000001,` + test.want + "}\n"
		if got := string(requestLine(it, 1_700_000_001)); got != want {
			t.Errorf("got  %swant %s", got, want)
		}
	}
	it = item(1)
	it.Event.JSON = []byte("{\n\"id\" :\t\"<&>\"\r\n}\n")
	if got := string(requestLine(it, 1)); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"event":{"id":"<&>"}`) {
		t.Errorf("an event with ends of lines: %q", got)
	}
}

// TestProgramAttacks runs programs that do everything but answer. Each fails its decision in
// time, and nothing of it is left.
func TestProgramAttacks(t *testing.T) {
	const reads = "read -r line; id=${line#*'\"id\":\"'}; id=${id%%'\"'*}; "
	const short = 300 * time.Millisecond
	for _, test := range []struct {
		name, text string
		timeout    time.Duration
		want       string
	}{
		{"hangs", "sleep 1000", short, "time"},
		{"reads nothing of a long line", "sleep 1000 <&-", short, "time exit"},
		{"floods without an end of line", reads + "tr '\\0' x </dev/zero", patience, "output garbage"},
		{"floods with lines", reads + "while :; do echo '{}'; done", patience, "garbage"},
		{"floods its standard error and hangs", "while :; do echo flood >&2; done", short, "time"},
		{"dies at once", "exit 1", patience, "exit"},
		{"dies after reading", reads + "exit 0", patience, "exit"},
		{"answers half a line and dies", reads + `printf '{"id":"%s","action":"accept"}' "$id"`, patience, "exit"},
		{"answers for another id", reads + `echo "{\"id\":\"00$id\",\"action\":\"accept\"}"; sleep 1000`, patience, "garbage"},
		{"answers twice", reads + `printf '{"id":"%s","action":"accept"}\n{"id":"%s","action":"reject"}\n' $id $id; sleep 1000`, patience, "garbage"},
		{"answers before it is asked", `echo '{"id":"","action":"accept"}'; ` + reads + "sleep 1000", patience, "garbage"},
		{"prints garbage", reads + `echo hello; sleep 1000`, patience, "garbage"},
		{"prints an unknown action", reads + `printf '{"id":"%s","action":"Accept"}\n' $id; sleep 1000`, patience, "garbage"},
		{"prints null", reads + `echo null; sleep 1000`, patience, "garbage"},
		{"ignores SIGTERM", "trap '' TERM; while :; do sleep 1000; done", short, "time"},
		{"forks and hangs", "trap '' TERM HUP; sleep 1000 & echo $! >>pids; sleep 1000", short, "time"},
		{"forks and dies, its child keeps the pipes", "trap '' TERM HUP; sleep 1000 & echo $! >>pids; exit 0", short, "exit time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := shellProgram(t, "echo $$ >>pids\n"+test.text+"\n")
			p := newPool(t, path, func(o *programOptions) { o.Timeout = test.timeout })
			it := item(1)
			it.Event.Content = strings.Repeat("x", 200<<10) // more than a pipe holds
			for range 2 {
				a, err := p.admit(t.Context(), it, 1)
				f := asProgramFailure(err)
				if f == nil || !strings.Contains(test.want, string(f.cause)) || f.Error() == "" {
					t.Errorf("%+v, %v; want a failure: %s", a, err, test.want)
				}
			}
			closePool(t, p)
			if n := p.running(); n != 0 {
				t.Errorf("%d processes after the end", n)
			}
			if pids := filepath.Join(filepath.Dir(path), "pids"); hasLine(pids) { // a process may be killed before it has noted itself
				gone(t, pids)
			}
		})
	}
}

// TestProgramBusy asks while as many questions wait as may.
func TestProgramBusy(t *testing.T) {
	p := newPool(t, shellProgram(t, "exit 1\n"), nil)
	p.queued.Store(maxQueue)
	_, err := p.admit(t.Context(), item(1), 1)
	if f := asProgramFailure(err); f == nil || f.cause != programCauseBusy {
		t.Errorf("got %v", err)
	}
	if p.queued.Store(p.queued.Load() - maxQueue); p.queued.Load() != 0 {
		t.Errorf("%d questions wait", p.queued.Load())
	}
	closePool(t, p)
}

// hasLine reports whether a file has a line.
func hasLine(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && bytes.HasSuffix(text, []byte("\n"))
}

// TestProgramWillNotEnd closes a program whose processes do not want to end.
func TestProgramWillNotEnd(t *testing.T) {
	path := shellProgram(t, "trap '' TERM HUP\necho $$ >>pids\nsleep 1000 & echo $! >>pids\n"+acceptingScript+"while :; do sleep 1000; done\n")
	p := newPool(t, path, nil)
	if got := poolSays(t, p, 1); got != "accept" {
		t.Fatal(got)
	}
	closePool(t, p)
	gone(t, filepath.Join(filepath.Dir(path), "pids"))
}

// TestProgramConcurrent asks from many goroutines: each hears what is said about its event,
// and there are no more processes than may be.
func TestProgramConcurrent(t *testing.T) {
	path := shellProgram(t, "echo $$ >>pids\n"+acceptingScript)
	p := newPool(t, path, func(o *programOptions) { o.Processes = 3 })
	var group sync.WaitGroup
	for id := range byte(8) {
		group.Go(func() {
			for range 20 {
				if a, err := p.admit(t.Context(), item(id), 1); err != nil || a.Action != host.Accept {
					t.Errorf("%v, %v", a, err)
				}
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "pids"))
	if n := strings.Count(string(text), "\n"); err != nil || n < 1 || n > 3 || p.running() != n {
		t.Errorf("%d processes were started, %d run; %v", n, p.running(), err)
	}
	closePool(t, p)
	gone(t, filepath.Join(filepath.Dir(path), "pids"))
}

// TestProgramReplaced changes the program under its path.
func TestProgramReplaced(t *testing.T) {
	path := shellProgram(t, acceptingScript)
	p := newPool(t, path, nil)
	if got := poolSays(t, p, 1); got != "accept" {
		t.Error(got)
	}
	putProgram(t, path, answering("reject", ""))
	if got := poolSays(t, p, 1); got != "reject" {
		t.Errorf("after it was replaced: %s", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := poolSays(t, p, 1); got != "reject" {
		t.Errorf("after it was removed: %s", got)
	}
}

// TestProgramEnds asks a program that ends after each answer: the next question finds
// another process.
func TestProgramEnds(t *testing.T) {
	path := shellProgram(t, "echo $$ >>pids\n"+strings.Replace(acceptingScript, "while read -r line; do", "read -r line\nfor once in 1; do", 1))
	p := newPool(t, path, nil)
	for range 3 {
		if got := poolSays(t, p, 1); got != "accept" {
			t.Error(got)
		}
		gone(t, filepath.Join(filepath.Dir(path), "pids"))
		testkit.Eventually(t, "the end of the program", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.idle[0].over() })
	}
}

// TestProgramCancelled ends the caller, not the program: this is no failure of it.
func TestProgramCancelled(t *testing.T) {
	path := shellProgram(t, "echo $$ >>pids\nsleep 1000\n")
	p := newPool(t, path, nil)
	pids := filepath.Join(filepath.Dir(path), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := p.admit(ctx, item(1), 1); ended <- err }()
	testkit.Eventually(t, "the program runs", func() bool { return hasLine(pids) })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || asProgramFailure(err) != nil {
		t.Errorf("%v", err)
	}
	closePool(t, p)
	gone(t, pids)
}

// TestProgramSurroundings looks at what a program gets of us.
func TestProgramSurroundings(t *testing.T) {
	t.Setenv("TALON_KEY", "secret")
	path := shellProgram(t, `read -r line; id=${line#*'"id":"'}
printf '{"id":"%s","action":"reject","msg":"%s %s %s"}\n' "${id%%'"'*}" "$TALON_KEY$HOME" "$PWD" "$#"; read -r line
`)
	p := newPool(t, path, nil)
	if got := poolSays(t, p, 1); got != "reject  "+filepath.Dir(path)+" 0" {
		t.Errorf("%q", got)
	}
}

// TestProgramLog bounds what of the standard error comes into the log.
func TestProgramLog(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	path := shellProgram(t, `i=0; while [ $i -lt 200 ]; do echo "line $i" >&2; i=$((i+1)); done
head -c 100000 /dev/zero | tr '\0' x >&2; echo >&2; printf 'bad \377\n' >&2
`+acceptingScript)
	p := newPool(t, path, func(o *programOptions) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Clock = func() time.Time { return now }
	})
	if got := poolSays(t, p, 1); got != "accept" {
		t.Fatal(got)
	}
	testkit.Eventually(t, "lines that are left out", func() bool { p.outputRate.mu.Lock(); defer p.outputRate.mu.Unlock(); return p.outputRate.missed >= 192 })
	if n := strings.Count(log.String(), "plugin says"); n != maxProgramLines {
		t.Errorf("%d lines were logged, want %d:\n%s", n, maxProgramLines, log.String())
	}
	now = now.Add(time.Second)
	p.log(bytes.Repeat([]byte("x"), maxLogged), true)
	if !strings.Contains(log.String(), "cut=true missed=192") {
		t.Errorf("%s", log.String())
	}
}

// TestNoProgram names what cannot run.
func TestNoProgram(t *testing.T) {
	dir := t.TempDir()
	plain, open := filepath.Join(dir, "plain"), filepath.Join(dir, "open")
	for file, mode := range map[string]os.FileMode{plain: 0o644, open: 0o777} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file", dir: "want a file", plain: "chmod +x", open: "chmod o-w",
	} {
		if _, err := newProcessPool(programOptions{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
