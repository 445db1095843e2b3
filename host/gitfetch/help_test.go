package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitfetch/queue"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/throttle"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

const (
	alice = "npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq"
	bob   = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
)

func newGit(t testing.TB) *gitrepo.Git {
	t.Helper()
	g, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// work makes a repository with one commit, and returns its folder and the commit.
func work(t testing.TB, text string) (dir, id string) {
	t.Helper()
	dir = testkit.NewRepository(t)
	return dir, testkit.Commit(t, dir, text)
}

// remote is a git server like talon git serve, which records its requests.
type remote struct {
	*httptest.Server
	dir string

	mu       sync.Mutex // guards what follows
	before   func(w http.ResponseWriter, r *http.Request) (answered bool)
	spans    []interval // of requests for refs: one for each fetch
	now, top int
}

type interval struct{ from, to time.Time }

// newRemote serves a folder of bare repositories.
func newRemote(t testing.TB) *remote {
	t.Helper()
	r := &remote{dir: t.TempDir()}
	folder, err := gitrepo.OpenFolder(newGit(t), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := githttp.New(githttp.Config{Prefix: "/", Limits: githttp.DefaultLimits, Log: slog.New(slog.DiscardHandler)}, everything{folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		before := r.before
		r.now++
		r.top = max(r.top, r.now)
		r.mu.Unlock()
		from := time.Now()
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.now--
			if req.Method == http.MethodGet {
				r.spans = append(r.spans, interval{from, time.Now()})
			}
		}()
		if before == nil || !before(w, req) {
			h.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(folder.Close)
	t.Cleanup(r.Close)
	return r
}

type everything struct{ folder *gitrepo.Folder }

func (f everything) Find(_ context.Context, parts []string, _ githttp.Use) (*gitrepo.Repo, error) {
	return f.folder.Find(parts)
}

// add puts a bare copy of a repository on the server and returns its URL.
func (r *remote) add(t testing.TB, name, from string) string {
	t.Helper()
	testkit.Git(t, from, "clone", "-q", "--bare", "--no-local", from, filepath.Join(r.dir, name+".git"))
	return r.URL + "/" + name + ".git"
}

// misbehave has the server answer in its own way, where it says that it did.
func (r *remote) misbehave(f func(w http.ResponseWriter, req *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

func (r *remote) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

// forge is a forge whose events are objects that somebody wants.
type forge struct {
	t    testing.TB
	root *gitrepo.Root

	mu      sync.Mutex // guards what follows
	wants   map[string][]*want
	arrived map[string]int
	changed chan struct{} // receives when something arrived
	held    []Event
	servers []string // URLs that stored announcements name
	reads   int      // of these
}

// want is what one event lacks.
type want struct {
	repo    *gitrepo.Repo
	objects []string
	urls    []string

	strangers map[string][]Namer
}

func newForge(t testing.TB) *forge {
	t.Helper()
	root, err := gitrepo.Open(newGit(t), filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	return &forge{t: t, root: root, wants: map[string][]*want{}, arrived: map[string]int{}, changed: make(chan struct{}, 1000)}
}

// hold has an event of an owner wait for objects. The repository is made.
func (f *forge) hold(npub, identifier string, objects []string, urls ...string) *gitrepo.Repo {
	f.t.Helper()
	name, err := gitrepo.ParseName(npub, identifier)
	if err != nil {
		f.t.Fatal(err)
	}
	repo := f.root.Repo(name)
	unlock, err := repo.Lock(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer unlock()
	if err := repo.Init(f.t.Context(), gitrepo.SHA1); err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wants[identifier] = append(f.wants[identifier], &want{repo: repo, objects: objects, urls: urls})
	return repo
}

func (f *forge) Waiting(_ context.Context, yield func(Event) error) error {
	for _, e := range f.held {
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func (f *forge) Servers(_ context.Context, yield func(url string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	for _, u := range f.servers {
		yield(u)
	}
	return nil
}

func (f *forge) Wanted(ctx context.Context, identifier string) (list []Want, err error) {
	f.mu.Lock()
	wants := slices.Clone(f.wants[identifier])
	f.mu.Unlock()
	for _, w := range wants {
		var lacks []string
		for _, id := range w.objects {
			whole, err := w.repo.Connected(ctx, id)
			if err != nil {
				return nil, err
			}
			if !whole {
				lacks = append(lacks, id)
			}
		}
		if len(lacks) > 0 {
			list = append(list, Want{Into: w.repo, Objects: lacks, URLs: w.urls, Strangers: w.strangers})
		}
	}
	return list, nil
}

func (f *forge) Arrived(_ context.Context, identifier string, _ Repository) error {
	f.mu.Lock()
	f.arrived[identifier]++
	f.mu.Unlock()
	f.changed <- struct{}{}
	return nil
}

// quick is a module that is in a hurry, but for what a test changes. It answers as a
// module does, encoded.
type quick struct {
	mu      sync.Mutex // guards what follows
	delay   int64
	backoff int64
	atOnce  uint32
	perMin  int
	fail    error
	garbage bool
	after   []abi.AfterRequestView // what it got about domains, names apart
}

func (q *quick) Ask(_ context.Context, question throttle.Function, request []byte, _ int64) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fail != nil {
		return nil, q.fail
	}
	if q.garbage {
		return []byte{0xff, 0xff, 0xff}, nil
	}
	switch question {
	case throttle.Delay:
		return abi.AppendDelayAnswer(nil, &abi.DelayAnswer{Delay: q.delay}), nil
	case throttle.Admit:
		var v abi.ThrottleAdmitRequestView
		if err := v.Decode(request); err != nil {
			return nil, err
		}
		a := abi.ThrottleAdmitAnswer{Start: v.Subject.InFlight < q.atOnce}
		if age, ok := v.Subject.Age(q.perMin - 1); q.perMin > 0 && ok && age < 60_000 {
			a = abi.ThrottleAdmitAnswer{Wait: 60_000 - int64(age)}
		}
		return abi.AppendThrottleAdmitAnswer(nil, &a), nil
	case throttle.After:
		var v abi.AfterRequestView
		if err := v.Decode(request); err != nil {
			return nil, err
		}
		a := abi.AfterAnswer{Delay: q.backoff}
		if v.Subject.Kind == abi.SubjectDomain {
			a.Delay = v.RetryAfter
			q.after = append(q.after, abi.AfterRequestView{Outcome: v.Outcome, Status: v.Status, RetryAfter: v.RetryAfter, Found: v.Found, Missing: v.Missing})
		}
		return abi.AppendAfterAnswer(nil, &a), nil
	}
	return abi.AppendPickAnswer(nil, &abi.PickAnswer{}), nil
}

// hunt is a hunter that runs until the end of the test.
func hunt(t testing.TB, f *forge, m throttle.Module, change func(*Config)) *Hunter {
	t.Helper()
	h := newHunter(t, f, m, change)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return h
}

func newHunter(t testing.TB, f *forge, m throttle.Module, change func(*Config)) *Hunter {
	clamps := queue.DefaultClamps
	clamps.MinBackoff = 20
	limits := DefaultLimits
	limits.Stall, limits.Whole = time.Hour, time.Hour // a machine may pause
	cfg := Config{
		Repos: f, Module: m, Addresses: Addresses{Private: true}, Clamps: clamps, Limits: limits, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	if testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&cfg)
	}
	return New(t.Context(), cfg)
}

func inAHurry() *quick { return &quick{delay: 5, backoff: 20, atOnce: 5} }

func synced(identifier string) Event {
	return Event{Repository: host.Address{Kind: 30617, D: identifier}, Kind: 30618, Origin: FromSync}
}

// over waits for the end of a search.
func over(t testing.TB, h *Hunter, identifier string) {
	t.Helper()
	testkit.Eventually(t, "the end of the search for "+identifier, func() bool {
		_, searching := h.Search(identifier)
		return !searching
	})
}

// complete begins the search for x, and expects that nothing is missing at its end.
func complete(t testing.TB, f *forge, h *Hunter) {
	t.Helper()
	h.Held(synced("x"))
	over(t, h, "x")
	if left := f.missingOf("x"); len(left) != 0 {
		t.Errorf("%v is missing", left)
	}
}

// missingOf is what an identifier still lacks.
func (f *forge) missingOf(identifier string) []string {
	list, err := f.Wanted(f.t.Context(), identifier)
	if err != nil {
		f.t.Fatal(err)
	}
	return missing(list)
}

// attempt asks a URL once for an object, as the queue would have it.
func attempt(t testing.TB, url, object string, change func(*Config), alter func(*Hunter)) (queue.Result, *forge) {
	t.Helper()
	f := newForge(t)
	f.hold(alice, "x", []string{object}, url)
	h := newHunter(t, f, nil, change)
	if alter != nil {
		alter(h)
	}
	return ask(t, h, url), f
}

// ask asks a URL once for what the identifier x lacks.
func ask(t testing.TB, h *Hunter, url string) queue.Result {
	t.Helper()
	g, u := reach(t, h, url)
	return h.request(t.Context(), t.Context(), g, queue.Work{Kind: queue.Fetch, Key: "x", URL: u}, "label")
}

// reach opens a gate until the end of the test, and parses a URL for requests through it.
func reach(t testing.TB, h *Hunter, url string) (*egressProxy, queue.URL) {
	t.Helper()
	g, err := openEgressProxy(h.cfg.Addresses, h.guard, h.cfg.Limits, h.log, h.cfg.Panics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	u, err := h.cfg.Addresses.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return g, u
}

// raw is a server that does with each connection what it wants.
func raw(t testing.TB, serve func(conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
				defer stop()
				serve(conn)
			})
		}
	}()
	return "http://" + l.Addr().String()
}

// readHead reads the head of an HTTP request.
func readHead(conn net.Conn) bool {
	var head []byte
	b := make([]byte, 1)
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		if _, err := io.ReadFull(conn, b); err != nil {
			return false
		}
		head = append(head, b...)
	}
	return true
}

var errTrap = errors.New("trapped")

func object(i int) string { return fmt.Sprintf("%040x", 0xabcd00+i) }
