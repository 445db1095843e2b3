package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"talon/host/cluster"
	"talon/internal/testkit"
)

// TestCluster runs three nodes of one GRASP service, on one database and one folder of
// repositories. What is announced at one is pushed to at another and cloned from the
// third; what one node does for all, another does after it was killed or paused.
func TestCluster(t *testing.T) {
	t.Parallel()
	var database testkit.Postgres // that ends
	t.Cleanup(database.Stop)
	url := database.URL(t)
	plugins, repositories := pluginFolder(t, "grasp"), filepath.Join(t.TempDir(), "repositories")
	begin := func(name string, args ...string) *story {
		data := graspData(t)
		args = append([]string{"--plugins", plugins, "--domain", serviceDomain, "--store", url, "--git-data", repositories, "--node", name}, args...)
		return newStory(t, startAs(t, exec.Command("talon", serveArgs(t, data, args...)...), data))
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
	holder := func(role string) string {
		for _, n := range status() {
			if n.Alive && slices.Contains(n.Roles, role) {
				return n.Name
			}
		}
		return ""
	}
	roles := []string{"hunt", "maintenance", "sync"}
	a.until("each role is some node's", func() bool {
		return !slices.ContainsFunc(roles, func(role string) bool { return holder(role) == "" })
	})

	owner, work := a.who("owner"), a.folder()
	at := func(st *story) string { return st.repo(owner, "x") }
	announcement := a.held(a.announcement(owner, "x"))
	one := work.commit("one")
	state := a.held(a.state(owner, "x", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	// What is a role of one node, each tells the operator.
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

	work.commit("while the database is away")
	start := database.End(syscall.SIGINT)
	work.cannotPush("database cannot be reached now", at(b), "main")
	start(t)
	a.until("sessions and roles are there again", func() bool {
		return !slices.ContainsFunc(roles, func(role string) bool { return holder(role) == "" })
	})
	next("after the database was away", b, c)

	for _, tt := range []struct {
		name string
		end  func(*process)
	}{
		{"killed", (*process).kill},
		{"paused", func(s *process) { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }},
	} {
		lost := holder("maintenance")
		began := time.Now()
		tt.end(nodes[lost].s)
		first := nodes[lost]
		delete(nodes, lost)
		a.until("another has its roles", func() bool {
			return !slices.ContainsFunc(roles, func(role string) bool { h := holder(role); return h == "" || h == lost })
		})
		t.Logf("the roles of a node that was %s were taken over after %v", tt.name, time.Since(began).Round(100*time.Millisecond))
		var left []*story
		for _, st := range nodes {
			left = append(left, st)
		}
		next("after a node was "+tt.name, left[0], left[len(left)-1])
		if tt.name == "killed" {
			data := first.s.data
			again := []string{"--plugins", plugins, "--domain", serviceDomain, "--store", url, "--git-data", repositories, "--node", lost}
			nodes[lost] = newStory(t, startAs(t, exec.Command("talon", serveArgs(t, data, again...)...), data))
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
		resp, err := http.Get(d.web + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.Status[:3] + " " + string(body)
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
		resp, err := http.Get(st.web + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		for line := range strings.Lines(string(text)) {
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
