package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pusher is somebody who pushes with talon event push, from a clone.
type pusher struct {
	*testing.T
	key, dir string
}

// keyFileOf writes the key file of somebody.
func keyFileOf(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key(name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// event runs talon event in this process and returns what it wrote.
func (p *pusher) event(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := eventCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(p.Context())
	return out.String(), err
}

func (p *pusher) push(args ...string) (string, error) {
	return p.event(append([]string{"push", "--key", p.key, "--git", p.dir, "--timeout", "1m"}, args...)...)
}

// hosted makes a repository of one commit at a server, and returns the path of its URL.
func hosted(t *testing.T, s *process, id string) (alice *pusher, path string) {
	t.Helper()
	alice = &pusher{T: t, key: keyFileOf(t, "alice"), dir: gitWork(t, filepath.Join(t.TempDir(), "work"))}
	path = "/" + aliceNpub + "/" + id + ".git"
	out, err := alice.event("announce", "--key", alice.key, "--git", alice.dir, "--identifier", id, "--name", id,
		"--clone", "https://"+serviceDomain+path, "--relay", "wss://"+serviceDomain, s.url)
	if err == nil {
		out, err = alice.push(s.web()+path, "main")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return alice, path
}

// clone returns somebody with the same key in another clone, with a commit of its own.
func (p *pusher) clone(url, name string) *pusher {
	p.Helper()
	dir := filepath.Join(p.TempDir(), name)
	mustGit(p.T, ".", "clone", "-q", url, dir)
	mustGit(p.T, dir, "commit", "-q", "--allow-empty", "-m", name)
	return &pusher{T: p.T, key: p.key, dir: dir}
}

// lateServer passes connections on to a server. Before each one it calls late with the number of
// connections that came before.
func lateServer(t *testing.T, address string, late func(before int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				late(n)
				to, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, c)
					_ = to.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// A state names all branches and tags, so of two people who push at the same time each could take
// the other's away.
func TestEventPush(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	s := startGrasp(t, data, pluginFolder(t, "grasp"))
	for name, test := range map[string]func(*testing.T, *process){
		"eight clients": pushesMeet, "a slow client": pushOfSlowClient, "a state without refs": pushAfterUntracked, "a slow state": slowState,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// Eight clients push different branches. If all pushes pass, all branches are there.
func pushesMeet(t *testing.T, s *process) {
	alice, path := hosted(t, s, "meet")
	const clients = 8
	pushers := make([]*pusher, clients)
	for i := range pushers {
		pushers[i] = alice.clone(s.web()+path, fmt.Sprint("c", i))
	}
	outs, errs := make([]string, clients), make([]error, clients)
	var running sync.WaitGroup
	for i, p := range pushers {
		running.Go(func() { outs[i], errs[i] = p.push("origin", fmt.Sprintf("HEAD:refs/heads/c%d", i)) })
	}
	running.Wait()
	refs := mustGit(t, ".", "ls-remote", "--heads", s.web()+path)
	failed := 0
	for i, err := range errs {
		if err != nil {
			failed++
			t.Logf("client %d: %v\n%s", i, err, outs[i])
		}
	}
	for i := range errs {
		if !strings.Contains(refs, fmt.Sprintf("refs/heads/c%d", i)) && failed == 0 {
			t.Errorf("the branch c%d is not there, and every push passed:\n%s\n%s", i, refs, strings.Join(outs, "\n"))
		}
	}
	if failed == clients {
		t.Error("no push passed")
	}
}

// All that one client sends is late. Before each of its first connections arrives, another client
// pushes a branch, so that it meets each step of the slow push.
func pushOfSlowClient(t *testing.T, s *process) {
	alice, path := hosted(t, s, "slow")
	slow, fast := alice.clone(s.web()+path, "slow"), alice.clone(s.web()+path, "fast")
	want := []string{"refs/heads/main", "refs/heads/slow"}
	const pushes = 6
	var mu sync.Mutex // guards the clone of the fast client, and want
	late := lateServer(t, strings.TrimPrefix(s.url, "ws://"), func(before int) {
		if before >= pushes {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ref := fmt.Sprint("refs/heads/fast", before)
		want = append(want, ref)
		if text, err := fast.push("origin", "HEAD:"+ref); err != nil {
			t.Errorf("the fast push: %v\n%s", err, text)
		}
	})
	out, failed := slow.push(late+path, "HEAD:refs/heads/slow")
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(out, "another push changed the repository") || len(want) != pushes+2 {
		t.Errorf("the slow push met %d others and did not notice:\n%s", len(want)-2, out)
	}
	if failed != nil {
		t.Errorf("the slow push: %v\n%s", failed, out)
	}
	refs := mustGit(t, ".", "ls-remote", "--heads", s.web()+path)
	for _, ref := range want {
		if !strings.Contains(refs, ref) {
			t.Errorf("%s is not there:\n%s\n%s", ref, refs, out)
		}
	}
}

// The newest state says nothing of refs, and is of a time to come. The branches stay, and a push
// neither fails for that nor takes one of them away unasked.
func pushAfterUntracked(t *testing.T, s *process) {
	alice, path := hosted(t, s, "untracked")
	at := time.Now().Unix() + 600
	out, err := alice.event("publish", "--key", alice.key, "--kind", "30618", "--tag", "d=untracked", "--created-at", fmt.Sprint(at), s.url)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mustGit(t, alice.dir, "commit", "-q", "--allow-empty", "-m", "two")
	if out, err := alice.push(s.web()+path, "HEAD:refs/heads/other"); err == nil || !strings.Contains(err.Error(), "would remove refs/heads/main") {
		t.Errorf("a push of one branch: %v\n%s", err, out)
	}
	if out, err := alice.push(s.web()+path, "main", "HEAD:refs/heads/other"); err != nil {
		t.Errorf("a push of all branches: %v\n%s", err, out)
	}
	if refs := mustGit(t, ".", "ls-remote", "--heads", s.web()+path); strings.Count(refs, mustGit(t, alice.dir, "rev-parse", "HEAD")) != 2 {
		t.Errorf("the refs are\n%s", refs)
	}
	if out, err := alice.push(s.web()+path, "HEAD:refs/notes/x"); err == nil || strings.Contains(err.Error(), "git push") {
		t.Errorf("a push of notes: %v\n%s", err, out)
	}
}

// Between what talon event state reads and what it sends, somebody pushes a branch. The state is
// older than that push, so it is made again, with the branch.
func slowState(t *testing.T, s *process) {
	alice, path := hosted(t, s, "slow-state")
	slow, fast := alice.clone(s.web()+path, "slow"), alice.clone(s.web()+path, "fast")
	mustGit(t, slow.dir, "branch", "slow")
	mustGit(t, slow.dir, "reset", "-q", "--hard", "origin/main")
	late := lateServer(t, strings.TrimPrefix(s.url, "ws://"), func(before int) {
		if before != 2 { // the first two read, and the third sends what was made of that
			return
		}
		if text, err := fast.push("origin", "HEAD:refs/heads/fast"); err != nil {
			t.Errorf("the fast push: %v\n%s", err, text)
		}
	})
	out, failed := slow.event("state", "--key", slow.key, "--git", slow.dir, "--timeout", "1m", "--identifier", "slow-state", "ws"+strings.TrimPrefix(late, "http"))
	if failed != nil {
		t.Fatalf("the slow state: %v\n%s", failed, out)
	}
	if !strings.Contains(out, "the state is made again") {
		t.Errorf("the slow state met another push and did not notice:\n%s", out)
	}
	mustGit(t, slow.dir, "push", "-q", "origin", "slow")
	refs := mustGit(t, ".", "ls-remote", "--heads", s.web()+path)
	for _, ref := range []string{"refs/heads/main", "refs/heads/fast", "refs/heads/slow"} {
		if !strings.Contains(refs, ref) {
			t.Errorf("%s is not there:\n%s\n%s", ref, refs, out)
		}
	}
}
