package repos

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/ingest"
	"talon/host/schnorr"
	"talon/host/store"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

const domain = "relay.test"

var alice, bob, carol, eve = testkit.NewSigner(1), testkit.NewSigner(2), testkit.NewSigner(3), testkit.NewSigner(4)

// holdsRepos is a policy that knows no rules: it holds events that may wait for git data, and
// accepts the rest. The module grasp has the real rules.
type holdsRepos struct {
	disk     *Disk
	refusing atomic.Pointer[string] // why pushes are refused
	limits   atomic.Pointer[host.UsageLimits]
}

func (p *holdsRepos) Admit(ctx context.Context, it *host.Item, _ *host.FactReader, _ int64) (host.Ruling, error) {
	e := it.Event
	switch e.Kind {
	case grasp.KindState, grasp.KindPullRequest, grasp.KindPRUpdate:
		return host.Ruling{Action: host.Hold}, nil
	case grasp.KindAnnouncement:
		a, _ := e.Address()
		there, err := p.disk.Has(ctx, a, "")
		if member := !strings.Contains(string(e.JSON), domain); there || member || err != nil {
			return host.Ruling{Action: host.Accept}, err
		}
		return host.Ruling{Action: host.Hold}, nil
	}
	return host.Ruling{Action: host.Accept}, nil
}

func (p *holdsRepos) Push(context.Context, *host.Push) (host.Ruling, error) {
	if why := p.refusing.Load(); why != nil {
		return host.Ruling{Action: host.Reject, Reason: *why}, nil
	}
	ruling := host.Ruling{Action: host.Pass}
	if limits := p.limits.Load(); limits != nil {
		ruling.Limits = *limits
	}
	return ruling, nil
}

// storeFacts is a store as the daemon gives it to a reconciler.
type storeFacts struct{ *store.Store }

func (s storeFacts) Query(ctx context.Context, f host.Filter) (list [][]byte, err error) {
	found, err := s.Select(ctx, []host.Filter{f}, time.Now().Unix())
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

// world is a service: store, pipeline, git over HTTP, and the reconciler between them.
type world struct {
	t          testing.TB
	data       string
	options    gitrepo.Options
	limits     githttp.Limits
	clock      atomic.Int64 // added to the time, in seconds
	policy     *holdsRepos
	store      *store.Store
	disk       *Disk
	pipeline   *ingest.Pipeline
	reconciler *Reconciler
	server     *httptest.Server
	halt       func()
	events     int64 // made so far
}

func newWorld(t testing.TB) *world {
	return newWorldOf(t, gitrepo.DefaultOptions, githttp.DefaultLimits)
}

// newWorldOf makes a world in which git has other options and pushes other limits.
func newWorldOf(t testing.TB, options gitrepo.Options, limits githttp.Limits) *world {
	w := &world{t: t, data: t.TempDir(), options: options, limits: limits}
	w.start()
	t.Cleanup(func() { w.halt() })
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.clock.Load()) * time.Second) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start begins to serve what is in the data folder.
func (w *world) start() {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	git, err := gitrepo.Find(ctx, "git", w.options)
	w.must(err)
	w.store, err = store.Open(ctx, w.data, store.Options{Readers: 2, Log: log})
	w.must(err)
	w.disk, err = OpenDisk(ctx, git, w.data, true, w.store, gitrepo.Open)
	w.must(err)
	w.policy = &holdsRepos{disk: w.disk}
	w.pipeline = ingest.New(ingest.Config{
		Verify: schnorr.Verify, Policy: w.policy, Store: storeWrites{w.store}, Facts: storeFacts{w.store}, Held: w.store,
		Log: log, Now: w.now, Workers: 2, Queue: 64, Batch: 64,
	})
	service, err := grasp.ParseService(domain)
	w.must(err)
	w.reconciler, err = New(ctx, Config{
		Nodes: Alone{},
		Disk:  w.disk, Service: service, Store: storeFacts{w.store}, Pipeline: w.pipeline, Policy: w.policy,
		Log: log, Now: w.now, Jobs: 2,
	})
	w.must(err)
	handler, err := githttp.New(githttp.Config{Prefix: "/", Limits: w.limits, Log: log}, w.reconciler, w.reconciler)
	w.must(err)
	w.server = httptest.NewServer(handler)
	pipelineCtx, stopPipeline := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 2)
	go func() { ended <- w.pipeline.Run(pipelineCtx, w.reconciler) }()
	forgeEnded := make(chan error, 1)
	go func() { forgeEnded <- w.reconciler.Run(ctx) }()
	w.halt = func() {
		w.server.Close()
		stop()
		if err := <-forgeEnded; err != nil {
			w.t.Errorf("the reconciler ended: %v", err)
		}
		stopPipeline()
		if err := <-ended; err != nil {
			w.t.Errorf("the pipeline ended: %v", err)
		}
		w.disk.Close()
		if err := w.store.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// restart stops the service and starts it again. It returns after a job for each repository and
// each held event. A change that a restart causes has happened by then.
func (w *world) restart() {
	w.t.Helper()
	w.halt()
	w.start()
	w.must(w.reconciler.start(w.t.Context()))
}

// event makes an event, each a second younger than the one before.
func (w *world) event(who *testkit.Signer, kind host.Kind, tags ...host.Tag) *host.Event {
	w.t.Helper()
	w.events++
	return w.eventAt(who, time.Now().Unix()-10_000+w.events, kind, tags...)
}

func (w *world) eventAt(who *testkit.Signer, at int64, kind host.Kind, tags ...host.Tag) *host.Event {
	return who.Event(kind, at, "", tags...)
}

// send submits an event of a client and returns the answer.
func (w *world) send(e *host.Event) host.Verdict {
	w.t.Helper()
	return w.sendFrom(host.FromClient, e)
}

// sendFrom submits an event and returns the answer.
func (w *world) sendFrom(origin host.Origin, e *host.Event) host.Verdict {
	w.t.Helper()
	answer := make(chan host.Verdict, 1)
	w.must(w.pipeline.Submit(w.t.Context(), &host.Item{
		Event: e, Source: &host.Source{Origin: origin},
		Done: func(v host.Verdict, err error) {
			if err != nil {
				w.t.Error(err)
			}
			answer <- v
		},
	}))
	return <-answer
}

func (w *world) sent(e *host.Event, want host.Code) *host.Event {
	w.t.Helper()
	if v := w.send(e); v.Code != want {
		w.t.Fatalf("an event of kind %d is %v %q, want %v", e.Kind, v.Code, v.Reason, want)
	}
	return e
}

// announce announces a repository here, with others as maintainers.
func (w *world) announce(who *testkit.Signer, id string, maintainers ...*testkit.Signer) *host.Event {
	w.t.Helper()
	tags := host.Tags{
		{"d", id},
		{"clone", "https://" + domain + grasp.Repo{PubKey: who.PubKey, Identifier: id}.Path()},
		{"relays", "wss://" + domain},
	}
	if len(maintainers) > 0 {
		tag := host.Tag{"maintainers"}
		for _, m := range maintainers {
			tag = append(tag, m.PubKey.String())
		}
		tags = append(tags, tag)
	}
	return w.event(who, grasp.KindAnnouncement, tags...)
}

// state says what refs there are: pairs of name and object, HEAD first if it is one.
func (w *world) state(who *testkit.Signer, id string, refs ...string) *host.Event {
	w.t.Helper()
	tags := host.Tags{{"d", id}}
	for i := 0; i < len(refs); i += 2 {
		tags = append(tags, host.Tag{refs[i], refs[i+1]})
	}
	return w.event(who, grasp.KindState, tags...)
}

func (w *world) pullRequest(who *testkit.Signer, commit string, repos ...grasp.Repo) *host.Event {
	w.t.Helper()
	tags := host.Tags{{"c", commit}}
	for _, r := range repos {
		tags = append(tags, host.Tag{"a", r.Address()})
	}
	return w.event(who, grasp.KindPullRequest, tags...)
}

func repoOf(who *testkit.Signer, id string) grasp.Repo {
	return grasp.Repo{PubKey: who.PubKey, Identifier: id}
}

// demo is the place of somebody's repository of that name.
func demo(who *testkit.Signer) location { return location{Repo: repoOf(who, "demo")} }

func (w *world) url(who *testkit.Signer, id string) string {
	return w.server.URL + repoOf(who, id).Path()
}

func (w *world) served(e *host.Event) bool {
	w.t.Helper()
	text, err := w.store.Get(w.t.Context(), e.ID)
	w.must(err)
	return text != nil
}

func (w *world) wantServed(e *host.Event, want bool) {
	w.t.Helper()
	if got := w.served(e); got != want {
		w.t.Errorf("the event of kind %d is served: %v, want %v", e.Kind, got, want)
	}
}

func (w *world) wantHeld(e *host.Event, want bool) {
	w.t.Helper()
	_, ok, err := w.store.HeldEvent(w.t.Context(), e.ID)
	w.must(err)
	if ok != want {
		w.t.Errorf("the event of kind %d is held: %v, want %v", e.Kind, ok, want)
	}
}

// waitIdle waits until there is nothing to do.
func (w *world) waitIdle() {
	w.t.Helper()
	w.until("the jobs end", func() bool { return w.reconciler.jobs.len() == 0 })
}

func (w *world) until(what string, yes func() bool) {
	w.t.Helper()
	testkit.Eventually(w.t, what, yes)
}

// refs returns what a repository has, as name=object lines with HEAD first, "absent"
// if it is not here.
func (w *world) refs(p location) string {
	w.t.Helper()
	repo, err := w.disk.repo(p)
	w.must(err)
	refs, err := repo.Refs(w.t.Context())
	if errors.Is(err, gitrepo.ErrNotFound) {
		return "absent"
	}
	w.must(err)
	lines := []string{"HEAD=" + refs.HEAD}
	for _, ref := range refs.List {
		lines = append(lines, ref.Name+"="+ref.ID)
	}
	return strings.Join(lines, "\n")
}

// here reports whether a repository answers requests.
func (w *world) here(p location) bool {
	w.t.Helper()
	here, err := w.disk.Here(w.t.Context(), p.address())
	w.must(err)
	return here
}

func (w *world) wantHere(p location, want bool) {
	w.t.Helper()
	if got := w.here(p); got != want {
		w.t.Errorf("%v is here: %v, want %v", p, got, want)
	}
}

// folder makes the folder of a repository.
func (w *world) folder(p location) {
	w.t.Helper()
	repo, err := w.disk.repo(p)
	w.must(err)
	unlock, err := repo.Lock(w.t.Context())
	w.must(err)
	defer unlock()
	w.must(repo.Init(w.t.Context(), gitrepo.SHA1))
}

func (w *world) wantRefs(p location, want ...string) {
	w.t.Helper()
	if got := w.refs(p); got != strings.Join(want, "\n") {
		w.t.Errorf("%v has\n%s\nwant\n%s", p, got, strings.Join(want, "\n"))
	}
}

// clone is a folder in which somebody works.
type clone struct {
	t   testing.TB
	dir string
}

func (w *world) workspace(options ...string) *clone {
	w.t.Helper()
	return &clone{w.t, testkit.NewRepository(w.t, options...)}
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	return testkit.Git(c.t, c.dir, args...)
}

func (c *clone) try(args ...string) (string, error) {
	return testkit.TryGit(c.t.Context(), c.dir, args...)
}

// newWork makes a world, and a clone in which somebody has made a commit.
func newWork(t testing.TB) (w *world, work *clone, commit string) {
	w = newWorld(t)
	work = w.workspace()
	return w, work, work.commit("one")
}

// commit adds a commit and returns its name.
func (c *clone) commit(text string) string {
	c.t.Helper()
	return testkit.Commit(c.t, c.dir, text)
}

// remote finds every repository of a folder.
type remote struct{ folder *gitrepo.Folder }

func (r remote) Find(_ context.Context, parts []string, _ githttp.Use) (*gitrepo.Repo, error) {
	return r.folder.Find(parts)
}
