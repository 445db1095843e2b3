package githttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

const alice = "npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq"

// site serves the repositories of a root; pushes are as the test says.
type site struct {
	t       testing.TB
	root    *gitrepo.Root
	handler *Handler
	serving atomic.Pointer[Handler] // handler, for the server
	server  *httptest.Server
	url     string

	authorize hook
	confirm   hook

	mu     sync.Mutex // guards landed
	landed []*Push
}

// hook is what a test does with pushes; nil for nothing.
type hook struct {
	mu sync.Mutex // guards f
	f  func(*Push) error
}

func (h *hook) set(f func(*Push) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f = f
}

func (h *hook) get() func(*Push) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.f
}

func (s *site) Find(_ context.Context, parts []string, _ Use) (*gitrepo.Repo, error) {
	name, err := gitrepo.ParsePath(parts)
	if err != nil {
		return nil, gitrepo.ErrNotFound
	}
	return s.root.Repo(name), nil
}

func (s *site) Authorize(_ context.Context, p *Push) error {
	if f := s.authorize.get(); f != nil {
		return f(p)
	}
	for _, u := range p.Updates {
		if !gitrepo.IsPushable(u.Ref) {
			return &Refusal{Reason: "not here", Refs: map[string]string{u.Ref: "this ref is of no kind that can be pushed"}}
		}
	}
	return nil
}

func (s *site) Confirm(_ context.Context, p *Push) error {
	if f := s.confirm.get(); f != nil {
		return f(p)
	}
	return nil
}

func (s *site) PushDone(_ context.Context, p *Push) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landed = append(s.landed, p)
}

func newSite(t testing.TB, change func(*Limits)) *site {
	t.Helper()
	return newSiteOf(t, "git", gitrepo.DefaultOptions, change)
}

// scheduler returns a scheduler with four slots of each class.
func scheduler(t testing.TB, change func(*gitrepo.ScheduleOptions)) *gitrepo.Scheduler {
	t.Helper()
	o := gitrepo.DefaultScheduleOptions
	for i := range o.Classes {
		o.Classes[i].Slots = 4
	}
	if change != nil {
		change(&o)
	}
	s, err := gitrepo.NewScheduler(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newScheduledSite serves with other options of the scheduler.
func newScheduledSite(t testing.TB, schedule func(*gitrepo.ScheduleOptions), change func(*Limits)) *site {
	t.Helper()
	options := gitrepo.DefaultOptions
	options.Scheduler = scheduler(t, schedule)
	return newSiteOf(t, "git", options, change)
}

// fillPlaces takes all places of a class for a client without a network, until the end of the
// test. REQUIRES: a scheduler with one place.
func (s *site) fillPlaces(class gitrepo.Class) {
	s.t.Helper()
	task, err := s.handler.cfg.Scheduler.Reserve(context.Background(), class, bound.Holder{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(task.End)
}

// newSiteOf serves with another git program or other options.
func newSiteOf(t testing.TB, program string, options gitrepo.Options, change func(*Limits)) *site {
	t.Helper()
	options.DefaultBranch = "main"
	if options.Scheduler == nil {
		options.Scheduler = scheduler(t, nil)
	}
	g, err := gitrepo.Find(t.Context(), program, options)
	if err != nil {
		t.Fatal(err)
	}
	root, err := gitrepo.Open(g, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	s := &site{t: t, root: root}
	limits := DefaultLimits
	if change != nil {
		change(&limits)
	}
	s.handler, err = New(Config{
		Prefix: "/", Limits: limits, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Scheduler: g.Scheduler(),
	}, s, s)
	if err != nil {
		t.Fatal(err)
	}
	s.serving.Store(s.handler)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serving.Load().ServeHTTP(w, r) }))
	s.server.Config.ErrorLog = log.New(noPanic{t}, "", 0)
	s.server.Start()
	t.Cleanup(s.server.Close)
	s.url = s.server.URL
	return s
}

// change has the requests that come from now on served otherwise. Those that are served see
// nothing of it.
func (s *site) change(set func(*Handler)) {
	h := *s.handler
	set(&h)
	s.handler = &h
	s.serving.Store(&h)
}

func (s *site) limit(set func(*Limits)) { s.change(func(h *Handler) { set(&h.limits) }) }

// noPanic fails the test when net/http logs a panic: it catches them.
type noPanic struct{ t testing.TB }

func (l noPanic) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("panic")) {
		l.t.Errorf("net/http says: %s", p)
	}
	return len(p), nil
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	out := make([]byte, n)
	seed := uint32(1)
	for i := range out {
		seed = seed*1664525 + 1013904223
		out[i] = byte(seed >> 24)
	}
	return out
}

// addNoise commits a file of bytes that do not compress. Git does not try to.
func addNoise(t testing.TB, dir string, n int) {
	t.Helper()
	git(t, dir, "config", "core.compression", "0")
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise(n), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Commit(t, dir, "noise")
}

// packOf returns all that a repository has as a pack.
func packOf(t testing.TB, dir string) string {
	t.Helper()
	pack, err := gitCommand(t.Context(), dir, "pack-objects", "--all", "--stdout", "-q").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(pack)
}

// create is the commands of a push that makes a ref, with more capabilities.
func create(id, ref string, more ...string) string {
	command := zeros(id) + " " + id + " " + ref + "\x00report-status" + strings.Join(more, "")
	return string(gitrepo.AppendPkt(nil, command)) + flushPkt
}

func zeros(id string) string { return strings.Repeat("0", len(id)) }

// post sends a push to the repository x, as it is, and returns the answer.
func (s *site) post(push string) string {
	s.t.Helper()
	resp := s.request("POST", "/"+alice+"/x.git/git-receive-pack", pushType, strings.NewReader(push))
	if resp.StatusCode != http.StatusOK {
		s.t.Errorf("the answer to a push is %s", resp.Status)
	}
	return text(s.t, resp)
}

// from has the requests come from an address.
func (s *site) from(addr string) {
	client := host.Client{Addr: netip.MustParseAddr(addr)}
	s.change(func(h *Handler) { h.cfg.Client = func(*http.Request) host.Client { return client } })
}

// gitThat returns a git that runs a line of shell instead of one command. If that line does not
// exit, the real git follows.
func gitThat(t testing.TB, command, does string) (program string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "git")
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' %s '*) %s;; esac\nexec %s \"$@\"\n", command, does, real)
	testkit.WriteProgram(t, program, script)
	return program
}

// repo makes a repository and returns it and its address.
func (s *site) repo(identifier string, format gitrepo.Format) (*gitrepo.Repo, string) {
	s.t.Helper()
	name, err := gitrepo.ParseName(alice, identifier)
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.root.Repo(name)
	unlock, err := r.Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	if err := r.Init(s.t.Context(), format); err != nil {
		s.t.Fatal(err)
	}
	return r, s.url + "/" + alice + "/" + escape(identifier) + ".git"
}

// escape encodes every byte that is no letter, as some clients do.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i] | 0x20; c >= 'a' && c <= 'z' {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02x", s[i])
		}
	}
	return b.String()
}

// git runs git as a person who clones and pushes does.
var git, tryGit, gitCommand = testkit.Git, testkit.TryGit, testkit.GitCommand

// work makes a repository with three commits and an annotated tag.
func work(t testing.TB, format gitrepo.Format) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main", "--object-format="+format.String())
	for _, text := range []string{"one", "two", "three"} {
		testkit.Commit(t, dir, text)
	}
	git(t, dir, "tag", "-a", "-m", "v1", "v1", "HEAD~")
	return dir
}

// request sends a request as it is, for the path may be one that no client sends.
func (s *site) request(method, path string, header http.Header, body io.Reader) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url, body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.URL.Opaque = path
	for key, values := range header {
		req.Header[key] = values
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var (
	pushType  = http.Header{"Content-Type": {"application/x-git-receive-pack-request"}}
	fetchType = http.Header{"Content-Type": {"application/x-git-upload-pack-request"}}
)

// dial opens a connection and sends the beginning of a request.
func (s *site) dial(text string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}
