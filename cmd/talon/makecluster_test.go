package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// freePorts returns the first of a range of ports that nobody listens on.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first, free := l.Addr().(*net.TCPAddr).Port, true
		for i := 1; i < n && free; i++ {
			next, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+i))
			if free = err == nil; free {
				defer next.Close()
			}
		}
		_ = l.Close()
		if free {
			return first
		}
	}
}

// TestMakeCluster runs scripts/cluster with the first proxy that is installed, and with each
// where there is time. A node stops on a signal without a client that sees an error, and
// ^C leaves nothing.
func TestMakeCluster(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("talon")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../scripts/cluster")
	if err != nil {
		t.Fatal(err)
	}
	passed := false
	for _, proxy := range []string{"haproxy", "nginx"} {
		if passed && os.Getenv("TALON_TEST_SCALE") == "" {
			break
		}
		t.Run(proxy, func(t *testing.T) {
			if _, err := exec.LookPath(proxy); err != nil {
				if _, err := os.Stat("/usr/sbin/" + proxy); err != nil {
					t.Skipf("%s is not installed (apt-get install %s)", proxy, proxy)
				}
			}
			port := freePorts(t, 4)
			dir := filepath.Join("/tmp", fmt.Sprintf("talon-make-cluster-%d-%s", os.Getpid(), proxy)) // short, for a socket
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			for n := range 3 {
				if err := linkCompiled(filepath.Join(dir, fmt.Sprint("node", n+1)), compiled(t)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(script, dir)
			cmd.Env = append(environ(), fmt.Sprint("PORT=", port), "PROXY="+proxy, "TALON="+program, "PLUGINS="+modules(t))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			var pids []int
			lines := bufio.NewScanner(out)
			ready := false
			for !ready && lines.Scan() {
				if m := regexp.MustCompile(`^node.*\(process (\d+),`).FindStringSubmatch(lines.Text()); m != nil {
					pid, _ := strconv.Atoi(m[1])
					pids = append(pids, pid)
				}
				ready = strings.HasPrefix(lines.Text(), "^C")
			}
			go func() { ended <- cmd.Wait() }()
			defer func() {
				_ = cmd.Process.Signal(syscall.SIGINT)
				<-ended
				for _, pid := range pids {
					if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
						t.Errorf("process %d is left: %v", pid, err)
					}
				}
			}()
			if !ready {
				exit := new(exec.ExitError)
				if err := <-ended; errors.As(err, &exit) && exit.ExitCode() == 77 {
					ended <- nil
					t.Skip("PostgreSQL is not installed")
				}
				ended <- nil
				t.Fatal("the cluster does not start")
			}
			relay := fmt.Sprint("ws://127.0.0.1:", port)
			n := 0
			publish := func() {
				t.Helper()
				c, err := open(relay)
				if err != nil {
					t.Fatalf("connect after %d events: %v", n, err)
				}
				defer c.close()
				e := signAs(t, "alice", nostr.Event{Kind: 1, Content: fmt.Sprint(proxy, n)})
				if got := c.publish(t, e); !got.ok {
					t.Fatalf("event %d: %+v", n, got)
				}
				n++
			}
			for range 6 {
				publish()
			}
			if err := syscall.Kill(pids[1], syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			until(t, "the node has ended", func() bool {
				publish()
				return errors.Is(syscall.Kill(pids[1], 0), syscall.ESRCH)
			})
			for range 6 {
				publish()
			}
			for _, i := range []int{1, 3} {
				c, err := open(fmt.Sprint("ws://127.0.0.1:", port+i))
				if err != nil {
					t.Fatal(err)
				}
				if got := c.query(t, `{"kinds":[1],"limit":5000}`); len(got) != n {
					t.Errorf("node %d has %d events, want %d", i, len(got), n)
				}
				c.close()
			}
			t.Logf("%d events published, %s in front", n, proxy)
			passed = true
		})
	}
}

// TestPostgresRole serves with the rights that scripts/postgres-role gives, and reads with
// those of the other role.
func TestPostgresRole(t *testing.T) {
	t.Parallel()
	var server testkit.Postgres
	defer server.Stop()
	url := server.URL(t)
	sql, err := exec.Command("../../scripts/postgres-role", "writer", "reader").Output()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.PgConn().Exec(t.Context(), string(sql)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	url, _, _ = strings.Cut(url, "&search_path")
	as := func(role string) string { return strings.Replace(url, "talon@", role+"@", 1) }
	data := newData(t)
	s := startAs(t, exec.Command("talon", serveArgs(t, data, "--store", as("writer"))...), data)
	e := signAs(t, "alice", nostr.Event{Kind: 1, Content: "hello"})
	if got := connect(t, s).publish(t, e); !got.ok {
		t.Errorf("%+v", got)
	}
	for _, command := range []string{"cluster status", "export", "check"} {
		out, err := talon(t, nil, append(strings.Fields(command), "--store", as("reader"), "--data", data)...)
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		if command == "export" && !strings.Contains(out, e.ID) {
			t.Errorf("the export is %q", out)
		}
	}
	s.mustStop(t)
	if out, err := talon(t, nil, "import", "--store", as("reader"), "--data", data, "--plugins", modules(t)); err == nil {
		t.Errorf("a role that may only read writes: %s", out)
	}
	if _, err := os.Stat(filepath.Join(data, "talon.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file of the other engine: %v", err)
	}
}
