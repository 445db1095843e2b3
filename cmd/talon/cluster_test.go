package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"

	"talon/host/cluster"
	"talon/internal/testkit"
)

// TestCluster runs three nodes of one GRASP service, on one database and one folder of
// repositories. A repository is announced at one node, pushed to at another and cloned from
// the third. If a node that has a role for all is killed or paused, another takes the role.
func TestCluster(t *testing.T) {
	t.Parallel()
	var database testkit.Postgres // that ends
	t.Cleanup(database.Stop)
	url := database.URL(t)
	plugins, repositories := pluginFolder(t, "grasp"), filepath.Join(t.TempDir(), "repositories")
	begin := func(name string, args ...string) *story {
		data := graspData(t)
		args = append([]string{"--plugins", plugins, "--domain", serviceDomain, "--store", url, "--git-data", repositories, "--node", name}, args...)
		return newStory(t, startAs(t, exec.Command(realTalon, serveArgs(t, data, args...)...), data))
	}
	a, b, c := begin("a"), begin("b"), begin("c")
	nodes := map[string]*story{"a": a, "b": b, "c": c}
	status := func() (list []cluster.Node) {
		t.Helper()
		out, err := talon(t, nil, "cluster", "status", "--json", "--store", url, "--data", a.s.data)
		if err == nil {
			err = json.Unmarshal([]byte(out), &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	// held reports whether each role is a node's, and of none that is lost.
	held := func(lost string) bool {
		nodes := status()
		return !slices.ContainsFunc([]string{"hunt", "maintenance", "sync"}, func(role string) bool { return slices.Contains([]string{"", lost}, holder(nodes, role)) })
	}
	a.until("each role is some node's", func() bool { return held("") })

	owner, work := a.who("owner"), a.folder()
	at := func(st *story) string { return st.repo(owner, "x") }
	announcement := a.held(a.announcement(owner, "x"))
	one := work.commit("one")
	state := a.held(a.state(owner, "x", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	// Each node answers the operator about a role that only one node has.
	for name, st := range nodes {
		for command, want := range map[string]string{"hunt status": "\nx ", "sync status": "1 repository followed", "sync now": "compared anew"} {
			st.until("node "+name+" knows what "+command+" is", func() bool {
				out, err := talon(t, nil, append(strings.Fields(command), "--data", st.s.data)...)
				return err == nil && strings.Contains(out, want)
			})
		}
	}
	work.push(at(b), "main") // which may have to make the repository
	for _, st := range nodes {
		st.becomesServed(announcement)
		st.becomesServed(state)
		st.wantRefs(at(st), "HEAD=refs/heads/main", "refs/heads/main="+one)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	a.git(".", "clone", "-q", at(c), clone)

	// next is another state, published at one node and pushed to another.
	now := a.now
	next := func(text string, to, by *story) {
		t.Helper()
		commit := work.commit(text)
		now++
		e := to.held(to.stateAt(owner, now, "x", "HEAD", "ref: refs/heads/main", "refs/heads/main", commit))
		work.push(at(by), "main")
		by.becomesServed(e)
		to.becomesServed(e)
		by.wantRefs(at(by), "HEAD=refs/heads/main", "refs/heads/main="+commit)
	}
	next("two", c, a)
	two := work.git("rev-parse", "HEAD")
	for _, path := range []string{"/tree/main", "/blob/main/file", "/raw/main/file", "/commit/" + two, "/blame/main/file", "/compare/" + one + "...main", "/grep/main?q=two", "/refs"} {
		pages := map[string]bool{}
		for name, st := range nodes {
			status, page := st.s.get(t, strings.TrimSuffix(strings.TrimPrefix(at(st), st.s.web()), ".git")+path)
			if status != http.StatusOK {
				t.Errorf("node %s answers %s with status %d", name, path, status)
			}
			pages[page] = true
		}
		if len(pages) != 1 {
			t.Errorf("nodes have %d pages for %s", len(pages), path)
		}
	}

	if got := connectionNames(t, url); !slices.Equal(got, []string{"talon node a", "talon node b", "talon node c"}) {
		t.Errorf("the connections to the database have the names %q", got)
	}

	maintainer := nodes[holder(status(), "maintenance")]
	work.commit("while the database is away")
	start := database.Kill(syscall.SIGINT)
	work.cannotPush("database cannot be reached now", at(b), "main")
	page := strings.TrimSuffix(strings.TrimPrefix(at(b), b.s.web()), ".git")
	for _, path := range []string{"/", page, page + "/log/main"} {
		answer, err := http.Get(b.s.web() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Errorf("without its database, a node answers %s with %s and Retry-After %q", path, answer.Status, answer.Header.Get("Retry-After"))
		}
	}
	a.until("the log of a node says why it has lost its role", func() bool {
		return slices.ContainsFunc(strings.Split(maintainer.s.text(), "\n"), func(line string) bool {
			return strings.Contains(line, "has lost a role") && strings.Contains(line, `"reason":"`+cluster.ErrLost.Error())
		})
	})
	start(t)
	a.until("sessions and roles are there again", func() bool { return held("") })
	next("after the database was away", b, c)

	for _, tt := range []struct {
		name string
		end  func(*process)
	}{
		{"killed", (*process).kill},
		{"paused", func(s *process) { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }},
	} {
		lost := holder(status(), "maintenance")
		began := time.Now()
		tt.end(nodes[lost].s)
		first := nodes[lost]
		delete(nodes, lost)
		a.until("another has its roles", func() bool { return held(lost) })
		t.Logf("the roles of a node that was %s were taken over after %v", tt.name, time.Since(began).Round(100*time.Millisecond))
		var left []*story
		for _, st := range nodes {
			left = append(left, st)
		}
		next("after a node was "+tt.name, left[0], left[len(left)-1])
		if tt.name == "killed" {
			data := first.s.data
			again := []string{"--plugins", plugins, "--domain", serviceDomain, "--store", url, "--git-data", repositories, "--node", lost}
			nodes[lost] = newStory(t, startAs(t, exec.Command(realTalon, serveArgs(t, data, again...)...), data))
			continue
		}
		if err := first.s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		a.until("the paused node has a session again", func() bool {
			return slices.ContainsFunc(status(), func(n cluster.Node) bool { return n.Name == lost && n.Alive })
		})
		nodes[lost] = newStory(t, first.s)
		next("on the node that was paused", left[0], nodes[lost])
	}

	d := begin("d", "--drain", "1h")
	healthz := func() string {
		status, body := d.s.get(t, "/healthz")
		return fmt.Sprint(status, " ", body)
	}
	if got := healthz(); got != "200 ok\n" {
		t.Errorf("a node that serves says %q", got)
	}
	if err := d.s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	a.until("it says that it is draining", func() bool { return healthz() == "503 draining\n" })
	if got := connect(t, d.s).query(t, `{"kinds":[30618]}`); len(got) != 1 {
		t.Errorf("a client that comes while it is draining gets %d events", len(got))
	}
	a.until("others see that it is draining", func() bool {
		return slices.ContainsFunc(status(), func(n cluster.Node) bool { return n.Name == "d" && n.State == cluster.Draining })
	})
	d.s.kill()

	for name, st := range nodes {
		_, text := st.s.get(t, "/metrics")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") && !strings.Contains(line, `node="`+name+`"`) {
				t.Fatalf("a metric of node %s is %s", name, line)
			}
		}
		out, err := talon(t, nil, "check", "--store", url, "--git-data", repositories, "--data", st.s.data)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		st.s.mustStop(t)
	}
}

// connectionNames returns the names of the connections to a database other than this one.
func connectionNames(t *testing.T, url string) (names []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const sql = `SELECT DISTINCT application_name FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY 1`
	rows, err := conn.Query(t.Context(), sql)
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// holder is the node that has a role, and "" if none has.
func holder(nodes []cluster.Node, role string) string {
	for _, n := range nodes {
		if n.Alive && slices.Contains(n.Roles, role) {
			return n.Name
		}
	}
	return ""
}

// TestMakeCluster runs scripts/cluster with the first proxy that is installed, and with each
// where there is time. A node stops on a signal without a client that sees an error, and
// ^C leaves nothing.
func TestMakeCluster(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath(realTalon)
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../scripts/cluster")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Inputs(t, script)
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
			port := testkit.FreePorts(t, 4)
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
			// A shell starts background jobs so that they ignore ^C. The script would
			// inherit that.
			heard := make(chan os.Signal, 1)
			signal.Notify(heard, syscall.SIGINT)
			err = cmd.Start()
			signal.Stop(heard)
			if err != nil {
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
	const script = "../../scripts/postgres-role"
	testkit.Inputs(t, script)
	sql, err := exec.Command(script, "writer", "reader").Output()
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
