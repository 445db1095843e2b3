package gitfetch_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitfetch"
	"talon/host/gitfetch/queue"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/ingest"
	"talon/host/repos"
	"talon/host/schnorr"
	"talon/host/store"
	"talon/host/throttle"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

const serviceDomain = "relay.test"

// clock is the time of a service: it stands still unless the test goes on.
type clock struct {
	mu sync.Mutex // guards at
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// holds is a policy that holds whatever may wait for git data.
type holds struct{}

func (holds) Admit(_ context.Context, it *host.Item, _ *host.FactReader, _ int64) (host.Ruling, error) {
	return host.Ruling{Action: host.Hold}, nil
}

func (holds) Push(context.Context, *host.Push) (host.Ruling, error) {
	return host.Ruling{Action: host.Pass}, nil
}

// storeFacts and storeWrites are a store as the daemon gives it to others.
type storeFacts struct {
	*store.Store
	now func() time.Time
}

func (s storeFacts) Query(ctx context.Context, f host.Filter) (list [][]byte, err error) {
	found, err := s.Select(ctx, []host.Filter{f}, s.now().Unix())
	if err != nil {
		return nil, err
	}
	err = s.Fetch(ctx, found.Rows, func(_ int64, text []byte) error {
		list = append(list, bytes.Clone(text))
		return nil
	})
	return list, err
}

type storeWrites struct{ *store.Store }

func (s storeWrites) Begin() (ingest.Tx, error) { return s.Store.Begin() }

// followers get each commit.
type followers []ingest.Follower

func (l followers) Publish(events []host.Published) {
	for _, f := range l {
		f.Publish(events)
	}
}

func (l followers) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, f := range l {
		f.Follow(removed, held)
	}
}

// service is a store, its pipeline, git over HTTP, the forge between them, and the hunter, by
// one clock. Its journal is the log of the forge and the hunter.
type service struct {
	t        *testing.T
	clock    clock
	began    time.Time
	store    *store.Store
	disk     *repos.Disk
	pipeline *ingest.Pipeline
	hunter   *gitfetch.Hunter
	web      string
	owner    *testkit.Signer
	events   int64 // made so far

	mu      sync.Mutex // guards the journal
	journal []line
}

// line is what happened at a time, without the names of servers.
type line struct {
	at   time.Duration
	what string
	url  string
}

// startService runs a service until the end of the test.
func startService(t *testing.T, throttle throttle.Module) *service {
	t.Helper()
	s := &service{t: t, began: time.Unix(time.Now().Unix(), 0), owner: testkit.NewSigner(1)}
	s.clock.set(s.began)
	log := slog.New(journal{s})
	git, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	s.must(err)
	data := t.TempDir()
	s.store, err = store.Open(t.Context(), data, store.Options{Readers: 2, Log: log})
	s.must(err)
	s.disk, err = repos.OpenDisk(t.Context(), git, data, true, s.store, gitrepo.Open)
	s.must(err)
	facts := storeFacts{s.store, s.clock.now}
	s.pipeline = ingest.New(ingest.Config{
		Verify: schnorr.Verify, Policy: holds{}, Store: storeWrites{s.store}, Facts: facts, Held: s.store,
		Log: log, Now: s.clock.now, Workers: 2, Queue: 64, Batch: 64,
	})
	own, err := grasp.ParseService(serviceDomain)
	s.must(err)
	repositories, err := repos.New(t.Context(), repos.Config{
		Nodes: repos.Alone{},
		Disk:  s.disk, Service: own, Store: facts, Pipeline: s.pipeline, Policy: holds{}, Log: log, Now: s.clock.now, Jobs: 2,
	})
	s.must(err)
	limits := gitfetch.DefaultLimits
	limits.Stall = time.Hour // real time: a machine may pause
	limits.Whole = time.Hour
	s.hunter = gitfetch.New(t.Context(), gitfetch.Config{
		Repos: repositories, Module: throttle, Addresses: gitfetch.Addresses{Own: []grasp.Service{own}, Private: true}, Clamps: queue.DefaultClamps,
		Limits: limits, Log: log, Now: s.clock.now,
	})
	handler, err := githttp.New(githttp.Config{Prefix: "/", Limits: githttp.DefaultLimits, Log: log}, repositories, repositories)
	s.must(err)
	server := httptest.NewServer(handler)
	s.web = server.URL

	run := func(f func(context.Context) error) (end func()) {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- f(ctx) }()
		return func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	endPipeline := run(func(ctx context.Context) error {
		return s.pipeline.Run(ctx, followers{repositories, repos.Hunt{Hunter: s.hunter}})
	})
	endForge, endHunt := run(repositories.Run), run(s.hunter.Run)
	t.Cleanup(func() {
		server.Close()
		endHunt()
		endForge()
		endPipeline()
		s.disk.Close()
		s.must(s.store.Close())
	})
	return s
}

func (s *service) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// journal is a slog.Handler.
type journal struct{ s *service }

func (journal) Enabled(context.Context, slog.Level) bool { return true }
func (j journal) WithAttrs([]slog.Attr) slog.Handler     { return j }
func (j journal) WithGroup(string) slog.Handler          { return j }

func (j journal) Handle(_ context.Context, r slog.Record) error {
	l := line{at: j.s.clock.now().Sub(j.s.began), what: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "url":
			l.url = a.Value.String()
		case "outcome", "how":
			l.what += ": " + a.Value.String()
		}
		return true
	})
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.journal = append(j.s.journal, l)
	return nil
}

// said returns when something was said, and of which of some URLs: 20.5s, or 20.5s 2.
func (s *service) said(what string, urls ...string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.journal {
		if !strings.HasPrefix(l.what, what) {
			continue
		}
		text := l.at.String()
		if l.url != "" {
			text += fmt.Sprint(" ", slices.Index(urls, l.url)+1)
		}
		list = append(list, text+strings.TrimPrefix(l.what, what))
	}
	return list
}

func (s *service) want(what string, got []string, want ...string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// until waits for what other goroutines bring about.
func (s *service) until(what string, ok func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, what, ok)
}

// pass lets time pass, from one due time to the next. All work of a time is done at that time.
func (s *service) pass(to time.Duration) {
	s.t.Helper()
	end := s.began.Add(to)
	for {
		next := end
		s.until("the hunt has nothing to do now", func() bool {
			due, ok := s.hunter.Due()
			if ok && !due.After(s.clock.now()) {
				return false
			}
			if ok && due.Before(end) {
				next = due
			}
			status := s.hunter.Status(100)
			return status.Requests == 0 && !slices.ContainsFunc(status.Repositories, func(r gitfetch.RepositoryStatus) bool { return r.Next.IsZero() })
		})
		s.clock.set(next)
		s.hunter.Wake()
		if next.Equal(end) {
			return
		}
	}
}

// send submits an event of the owner, and waits until it is held.
func (s *service) send(from host.Origin, kind host.Kind, tags ...host.Tag) *host.Event {
	s.t.Helper()
	s.events++
	e := s.owner.Event(kind, s.began.Unix()-1000+s.events, "", tags...)
	answer := make(chan host.Verdict, 1)
	s.must(s.pipeline.Submit(s.t.Context(), &host.Item{
		Event: e, Source: &host.Source{Origin: from},
		Done: func(v host.Verdict, err error) {
			if err != nil {
				s.t.Error(err)
			}
			answer <- v
		},
	}))
	if v := <-answer; v.Code != host.Held {
		s.t.Fatalf("an event of kind %d is %v %q, want it held", kind, v.Code, v.Reason)
	}
	return e
}

func (s *service) repo() grasp.Repo { return grasp.Repo{PubKey: s.owner.PubKey, Identifier: "demo"} }

// announce announces the repository, here and elsewhere.
func (s *service) announce(urls ...string) *host.Event {
	s.t.Helper()
	e := s.send(host.FromClient, grasp.KindAnnouncement, host.Tag{"d", "demo"}, host.Tag{"relays", "wss://" + serviceDomain},
		append(host.Tag{"clone", "https://" + serviceDomain + s.repo().Path()}, urls...))
	s.until("the repository is made", s.there)
	return e
}

// there reports whether the repository is.
func (s *service) there() bool {
	s.t.Helper()
	ok, err := s.disk.Has(s.t.Context(), host.Address{Kind: grasp.KindAnnouncement, PubKey: s.owner.PubKey, D: "demo"}, "")
	s.must(err)
	return ok
}

func (s *service) served(e *host.Event) bool {
	s.t.Helper()
	text, err := s.store.Get(s.t.Context(), e.ID)
	s.must(err)
	return text != nil
}

func (s *service) held(e *host.Event) bool {
	s.t.Helper()
	_, ok, err := s.store.HeldEvent(s.t.Context(), e.ID)
	s.must(err)
	return ok
}

func (s *service) searched() bool {
	_, ok := s.hunter.Search("demo")
	return ok
}

// resolved waits until an event is served and nothing is searched for.
func (s *service) resolved(e *host.Event) {
	s.t.Helper()
	s.until("the search ends", func() bool {
		return len(s.said("search ended")) > 0 && !s.searched() && s.hunter.Status(1).Requests == 0
	})
	if !s.served(e) {
		s.t.Error("the event is not served")
	}
}

// work makes a repository with the given number of commits, and returns its folder and
// them.
func (s *service) work(commits int) (dir string, ids []string) {
	s.t.Helper()
	dir = testkit.NewRepository(s.t)
	for i := range commits {
		testkit.Git(s.t, dir, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("commit ", i))
		ids = append(ids, testkit.Git(s.t, dir, "rev-parse", "HEAD"))
	}
	return dir, ids
}

// servers are git servers that are not ours.
type servers struct {
	dir  string
	urls []string // of the repository, which none of them has yet
}

func startServers(t *testing.T) *servers {
	t.Helper()
	git, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	l := &servers{dir: t.TempDir()}
	for i := range 3 {
		dir := filepath.Join(l.dir, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		folder, err := gitrepo.OpenFolder(git, dir)
		if err != nil {
			t.Fatal(err)
		}
		handler, err := githttp.New(githttp.Config{Prefix: "/", Limits: githttp.DefaultLimits, Log: slog.New(slog.DiscardHandler)}, everyRepository{folder}, nil)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		t.Cleanup(func() {
			server.Close()
			folder.Close()
		})
		l.urls = append(l.urls, server.URL+"/"+alice+"/demo.git")
	}
	return l
}

// everyRepository finds every repository of a folder.
type everyRepository struct{ folder *gitrepo.Folder }

func (r everyRepository) Find(_ context.Context, parts []string, _ githttp.Use) (*gitrepo.Repo, error) {
	return r.folder.Find(parts)
}

const alice = "npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq"

// give puts a copy of a repository on a server.
func (l *servers) give(s *service, server int, dir string) {
	s.t.Helper()
	testkit.Git(s.t, dir, "clone", "-q", "--bare", "--no-local", dir, filepath.Join(l.dir, strconv.Itoa(server-1), alice, "demo.git"))
}

// unreliable returns a server in front of another. It closes the connection at the first
// request.
func unreliable(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: u.Scheme, Host: u.Host})
	var failed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failed.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + u.Path
}

// TestDocument is what the source document tells and plans: the real hunter with the
// throttle polite as it comes, a forge, and git servers, in time that the test lets pass.
func TestDocument(t *testing.T) {
	polite := gitfetch.Bundled(t, "polite", nil)
	t.Run("timelines", func(t *testing.T) { timelines(t, polite) })
	t.Run("planned", func(t *testing.T) { planned(t, polite) })
}

// timelines are those of the document, by its own numbers.
func timelines(t *testing.T, polite throttle.Module) {
	// A: the event comes first, and a push follows. No server is asked, and nothing is
	// searched for any more.
	t.Run("A", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		dir, ids := s.work(1)
		remote.give(s, 1, dir)
		announcement := s.announce(remote.urls...)
		state := s.send(host.FromClient, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[0]})
		s.until("the search is planned", s.searched)
		if r, _ := s.hunter.Search("demo"); !r.Next.Equal(s.began.Add(180*time.Second)) || !r.Expires.Equal(s.began.Add(30*time.Minute)) {
			t.Errorf("it is planned for %v, until %v", r.Next, r.Expires)
		}
		s.pass(30 * time.Second)
		testkit.Git(s.t, dir, "push", "-q", s.web+s.repo().Path(), "main")
		s.resolved(state)
		if s.searched() || !s.served(announcement) {
			t.Error("a search goes on, or the announcement is not served")
		}
		s.pass(time.Hour)
		s.want("searches ended", s.said("search ended: "), "30scomplete")
		s.want("rounds", s.said("search begins a round"))
		s.want("servers asked", s.said("asked for git data"))
	})

	// B: the data comes first: the event is served immediately.
	t.Run("B", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		dir, ids := s.work(2)
		s.announce(remote.urls...)
		first := s.send(host.FromClient, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[1]})
		testkit.Git(s.t, dir, "push", "-q", s.web+s.repo().Path(), "main")
		s.until("the first state is served", func() bool { return s.served(first) && !s.searched() && len(s.said("search ended")) == 1 })
		s.pass(30 * time.Second)
		state := s.send(host.FromSync, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[1]}, host.Tag{"refs/heads/old", ids[0]})
		s.until("the state is served", func() bool { return s.served(state) })
		s.until("both searches end", func() bool { return len(s.said("search ended")) == 2 })
		s.pass(time.Hour)
		s.want("servers asked", s.said("asked for git data"))
		s.want("searches ended", s.said("search ended: "), "0scomplete", "30scomplete")
	})

	// C: synced events, in a burst. Half a second later the servers are asked, and again
	// until the data is on one of them.
	t.Run("C", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		dir, ids := s.work(2)
		s.announce(remote.urls...)
		older := s.send(host.FromSync, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[0]})
		s.until("the search is planned", s.searched)
		s.pass(200 * time.Millisecond)
		state := s.send(host.FromSync, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[1]})
		s.until("both are one search", func() bool { return len(s.said("search made fresh")) == 1 })
		s.pass(45 * time.Second)
		if s.served(state) {
			t.Fatal("the state is served without its data")
		}
		remote.give(s, 2, dir)
		s.pass(60*time.Second + 500*time.Millisecond)
		s.resolved(state)
		if s.held(older) {
			t.Error("the older state is still held")
		}
		s.pass(10 * time.Minute)
		s.want("rounds", s.said("search begins a round"), "500ms", "20.5s", "1m0.5s")
		s.want("servers asked", s.said("asked for git data", remote.urls...),
			"500ms 1: not-found", "500ms 2: not-found", "500ms 3: not-found",
			"20.5s 1: not-found", "20.5s 2: not-found", "20.5s 3: not-found",
			"1m0.5s 1: not-found", "1m0.5s 2: ok")
		s.want("searches ended", s.said("search ended: "), "1m0.5scomplete")
	})

	// D: the data never comes: after 20, 40, 80 seconds and then every two minutes all
	// servers are asked again, and after 30 minutes nothing is left.
	t.Run("D", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		_, ids := s.work(1)
		urls := slices.Clone(remote.urls)
		urls[1] = unreliable(t, urls[1])
		s.announce(urls...)
		state := s.send(host.FromSync, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[0]})
		s.until("the search is planned", s.searched)
		s.pass(30*time.Minute - time.Second)
		if !s.held(state) || !s.searched() || !s.there() {
			t.Error("it ends too early")
		}
		s.pass(30 * time.Minute)
		s.until("the search ends", func() bool { return len(s.said("search ended")) == 1 })
		s.pass(30*time.Minute + time.Second)
		s.until("the event is discarded", func() bool { return !s.held(state) })
		s.until("the repository is removed", func() bool { return !s.there() })
		if s.served(state) {
			t.Error("the state is served")
		}
		s.pass(time.Hour)

		var rounds, asked []string
		at, backoff := 500*time.Millisecond, 20*time.Second
		for at < 30*time.Minute {
			rounds = append(rounds, at.String())
			for i := range urls {
				how := "not-found"
				if i == 1 && len(rounds) == 1 {
					how = "unreachable"
				}
				asked = append(asked, fmt.Sprintf("%v %d: %s", at, i+1, how))
			}
			at += backoff
			backoff = min(2*backoff, 2*time.Minute)
		}
		s.want("rounds", s.said("search begins a round"), rounds...)
		s.want("servers asked", s.said("asked for git data", urls...), asked...)
		if ends := s.said("search ended: "); len(ends) != 1 || ends[0] != "30m0sexpired" && ends[0] != "30m0sforgotten" {
			t.Errorf("searches ended: %q", ends)
		}
	})
}

// planned are the tests from end to end that the document plans, but for those that the
// timelines are.
func planned(t *testing.T, polite throttle.Module) {
	// The commit of a pull request is where its author says, and the repository's own
	// servers do not have it.
	t.Run("pull request", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		dir, ids := s.work(2)
		s.announce(remote.urls[0])
		state := s.send(host.FromClient, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[0]})
		testkit.Git(s.t, dir, "push", "-q", s.web+s.repo().Path(), ids[0]+":refs/heads/main")
		s.resolved(state)
		remote.give(s, 3, dir)
		pull := s.send(host.FromSync, grasp.KindPullRequest, host.Tag{"c", ids[1]}, host.Tag{"a", s.repo().Address()}, host.Tag{"clone", remote.urls[2]})
		s.until("the search is planned", s.searched)
		s.pass(500 * time.Millisecond)
		s.until("a server is asked", func() bool { return len(s.said("asked for git data")) > 0 })
		s.resolved(pull)
		s.want("servers asked", s.said("asked for git data", remote.urls...), "500ms 3: ok")
	})

	// Three branches on three servers.
	t.Run("several servers", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		s.announce(remote.urls...)
		tags := host.Tags{{"d", "demo"}}
		for i := range 3 {
			dir, ids := s.work(i + 1)
			remote.give(s, i+1, dir)
			tags = append(tags, host.Tag{fmt.Sprint("refs/heads/", i), ids[i]})
		}
		state := s.send(host.FromSync, grasp.KindState, tags...)
		s.until("the search is planned", s.searched)
		s.pass(500 * time.Millisecond)
		s.resolved(state)
		s.want("servers asked", s.said("asked for git data", remote.urls...), "500ms 1: partial", "500ms 2: partial", "500ms 3: ok")
	})

	// A server that fails once is asked again after the backoff.
	t.Run("backoff", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		dir, ids := s.work(1)
		remote.give(s, 1, dir)
		url := unreliable(t, remote.urls[0])
		s.announce(url)
		state := s.send(host.FromSync, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[0]})
		s.until("the search is planned", s.searched)
		s.pass(20*time.Second + 500*time.Millisecond)
		s.resolved(state)
		s.want("servers asked", s.said("asked for git data", url), "500ms 1: unreachable", "20.5s 1: ok")
	})

	// A server is asked 30 times in a minute, however many of its URLs are named, and
	// goes on when the minute is over.
	t.Run("throttling", func(t *testing.T) {
		s, remote := startService(t, polite), startServers(t)
		dir, ids := s.work(1)
		remote.give(s, 1, dir)
		var urls, want []string
		for i := range 31 {
			urls = append(urls, strings.Replace(remote.urls[0], "demo", fmt.Sprint("absent", i), 1))
			want = append(want, fmt.Sprintf("500ms %d: not-found", i+1))
		}
		urls = append(urls, remote.urls[0])
		want = append(want[:30], "1m1.5s 31: not-found", "1m1.5s 32: ok")
		s.announce(urls...)
		state := s.send(host.FromSync, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", ids[0]})
		s.until("the search is planned", s.searched)
		s.pass(time.Minute + 1500*time.Millisecond)
		s.resolved(state)
		s.want("servers asked", s.said("asked for git data", urls...), want...)
	})
}
