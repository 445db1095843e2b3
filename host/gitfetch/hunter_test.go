package gitfetch

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host/gitfetch/queue"
	"talon/host/gitrepo"
	"talon/host/throttle"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// TestFromARemote is the way of a synced event: its data is on the second server of
// its announcement, and a batch of events is one fetch.
func TestFromARemote(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	url := r.add(t, "x", dir)
	repo := f.hold(alice, "x", []string{id}, r.URL+"/absent.git", url)
	h := hunt(t, f, &quick{delay: 100, backoff: 20, atOnce: 5}, nil)
	for range 100 {
		h.Held(synced("x"))
	}
	over(t, h, "x")
	if left := f.missingOf("x"); len(left) != 0 {
		t.Errorf("%v is missing", left)
	}
	if n := r.asked(); n != 2 {
		t.Errorf("the server was asked %d times for its refs, want once for each URL", n)
	}
	refs, err := repo.Refs(t.Context())
	if err != nil || len(refs.List) != 0 {
		t.Errorf("a fetch made refs: %v, %v", refs.List, err)
	}
}

// TestPiecesFromSeveralServers gathers three objects from three servers, of which
// each has one. Each success is reported immediately.
func TestPiecesFromSeveralServers(t *testing.T) {
	f := newForge(t)
	var ids, urls []string
	for i := range 3 {
		dir, id := work(t, fmt.Sprint("piece ", i))
		ids = append(ids, id)
		urls = append(urls, newRemote(t).add(t, "x", dir))
	}
	f.hold(alice, "x", ids, urls...)
	h := hunt(t, f, inAHurry(), nil)
	complete(t, f, h)
	if f.arrived["x"] != 3 {
		t.Errorf("the forge was told %d times, want after each server", f.arrived["x"])
	}
}

// TestOneRequest asks a server that has one object of many: by its own record, one
// request for refs is all, whatever git does to find out.
func TestOneRequest(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	f.hold(alice, "x", []string{object(1), object(2), id, object(3), object(4)}, r.add(t, "x", dir))
	h := hunt(t, f, &quick{delay: 5, backoff: 3_000_000, atOnce: 5}, nil)
	h.Held(synced("x"))
	testkit.Eventually(t, "a round", func() bool { s, _ := h.Search("x"); return s.Rounds == 1 })
	if s, _ := h.Search("x"); s.Missing != 4 || s.Last.Outcome != "partial" || r.asked() != 1 {
		t.Errorf("%+v, asked %d times", s, r.asked())
	}
}

// TestPullRequest has the commit of a pull request on its author's own server: that
// is asked for the commit, and for nothing else.
func TestPullRequest(t *testing.T) {
	theirs, commit := work(t, "their change")
	main, state := work(t, "main")
	fork, home := newRemote(t), newRemote(t)
	f := newForge(t)
	f.hold(alice, "x", []string{commit}, fork.add(t, "fork", theirs))
	f.hold(alice, "x", []string{state}, home.add(t, "x", main))
	var asked atomic.Int64
	fork.misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "" || strings.Contains(string(body), state) {
			t.Errorf("the author's server was asked for %q, %v", body, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		asked.Add(1)
		return false
	})
	h := hunt(t, f, inAHurry(), nil)
	complete(t, f, h)
	if asked.Load() != 1 {
		t.Errorf("the author's server was asked for objects %d times, want once", asked.Load())
	}
}

// TestTwoOwners has two owners of one identifier want different objects: both get
// theirs.
func TestTwoOwners(t *testing.T) {
	one, first := work(t, "one")
	two, second := work(t, "two")
	r, f := newRemote(t), newForge(t)
	url := r.add(t, "a", one)
	a, b := f.hold(alice, "x", []string{first}, url), f.hold(bob, "x", []string{first, second}, url, r.add(t, "b", two))
	h := hunt(t, f, inAHurry(), nil)
	h.Held(synced("x"))
	over(t, h, "x")
	for _, repo := range []*gitrepo.Repo{a, b} {
		if whole, err := repo.Connected(t.Context(), first); !whole || err != nil {
			t.Errorf("%s: %v, %v", repo.Dir(), whole, err)
		}
	}
}

// TestObjectsComeOnce has five owners of one identifier want the same megabyte, which each of
// them has on another URL. It comes once. Owners that want it later need no server at all.
func TestObjectsComeOnce(t *testing.T) {
	dir, _ := work(t, "one")
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	id := testkit.Commit(t, dir, "two")
	r, f := newRemote(t), newForge(t)
	var repos []*gitrepo.Repo
	hold := func(i int) {
		url := r.add(t, fmt.Sprint("x", i), dir)
		repos = append(repos, f.hold(nip19.EncodeNpub([32]byte{byte(i)}), "x", []string{id}, url))
	}
	for i := range 5 {
		hold(i)
	}
	h := hunt(t, f, inAHurry(), nil)
	h.Held(synced("x"))
	over(t, h, "x")
	hold(5)
	h.Held(synced("x"))
	over(t, h, "x")
	for _, repo := range repos {
		if whole, err := repo.Connected(t.Context(), id); !whole || err != nil {
			t.Errorf("%s: %v, %v", repo.Dir(), whole, err)
		}
	}
	if n := testutil.ToFloat64(h.metrics.bytes); n > 1.1*float64(len(noise)) || r.asked() != 1 {
		t.Errorf("%.0f bytes came in %d requests", n, r.asked())
	}
}

// TestCrowdOfOwners has fifty strangers announce the same identifier, with the URL of
// an honest owner and objects that are nowhere. The honest one still gets what is
// his, and the server one request.
func TestCrowdOfOwners(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	url := r.add(t, "x", dir)
	for i := range 50 {
		f.hold(alice, "x", []string{object(3 * i), object(3*i + 1), object(3*i + 2)}, url)
	}
	honest := f.hold(bob, "x", []string{id}, url)
	h := hunt(t, f, &quick{delay: 5, backoff: 3_000_000, atOnce: 5}, nil)
	h.Held(synced("x"))
	testkit.Eventually(t, "a round", func() bool { s, _ := h.Search("x"); return s.Rounds == 1 })
	if whole, err := honest.Connected(t.Context(), id); !whole || err != nil || r.asked() != 1 {
		t.Errorf("%v, %v; asked %d times", whole, err, r.asked())
	}
	if f.arrived["x"] != 1 {
		t.Errorf("the forge was told %d times, want of the honest owner's repository", f.arrived["x"])
	}
}

// TestManyObjects has somebody want more than fits into one request, and somebody else
// a single object.
func TestManyObjects(t *testing.T) {
	f := newForge(t)
	var many []string
	for i := range 2 * maxIDs {
		many = append(many, object(i))
	}
	const url = "http://127.0.0.1:8080/x"
	f.hold(alice, "x", many, url)
	f.hold(bob, "x", []string{object(1)}, url)
	h := newHunter(t, f, nil, nil)
	asks := h.errands("x", []Want{
		{Into: f.wants["x"][0].repo, Objects: many, URLs: []string{url}},
		{Into: f.wants["x"][1].repo, Objects: []string{"single"}, URLs: []string{url}},
		{Into: f.wants["x"][0].repo, URLs: []string{url}},
	}, url, "")
	if len(asks) != 1 || len(asks[0].ids) != maxIDs || asks[0].ids[1] != "single" || asks[0].into.Dir() != f.wants["x"][0].repo.Dir() {
		t.Errorf("%d asks", len(asks))
	}
	if asks := h.errands("x", []Want{{Into: f.wants["x"][0].repo, Objects: many, URLs: []string{url}}}, "http://127.0.0.1:8080/y", ""); len(asks) != 0 {
		t.Errorf("a URL is asked that nobody names: %v", asks)
	}
}

// TestLeft has a push bring the data long before the search begins: it ends with the
// release of its event. One whose event has gone ends too, and one of which another event
// waits goes on.
func TestLeft(t *testing.T) {
	dir, id := work(t, "one")
	f := newForge(t)
	pushed := f.hold(alice, "pushed", []string{id})
	f.hold(alice, "gone", []string{object(1)})
	f.hold(alice, "half", []string{object(1)})
	f.hold(bob, "half", []string{object(2)})
	h := hunt(t, f, &quick{delay: 600_000}, nil)
	for _, identifier := range []string{"pushed", "gone", "half"} {
		h.Held(synced(identifier))
		testkit.Eventually(t, "the beginning", func() bool { _, ok := h.Search(identifier); return ok })
	}
	testkit.Git(t, dir, "push", "-q", pushed.Dir(), "main")
	f.mu.Lock()
	delete(f.wants, "gone")
	f.wants["half"] = f.wants["half"][:1]
	f.mu.Unlock()
	h.NoLongerHeld(synced("half"), true)
	h.NoLongerHeld(synced("pushed"), true)
	h.NoLongerHeld(synced("pushed"), false)
	h.NoLongerHeld(synced("gone"), false)
	over(t, h, "pushed")
	over(t, h, "gone")
	testkit.Eventually(t, "a look at the other", func() bool { s, ok := h.Search("half"); return ok && s.Missing == 1 && s.Rounds == 0 })
	testkit.Eventually(t, "both ends to be counted", func() bool {
		return testutil.ToFloat64(h.metrics.ended[queue.Complete])+testutil.ToFloat64(h.metrics.ended[queue.Forgotten]) == 2
	})
	if n := testutil.ToFloat64(h.metrics.ended[queue.Complete]); n != 1 {
		t.Errorf("%v searches were complete, want 1", n)
	}
	if n := testutil.ToFloat64(h.metrics.ended[queue.Forgotten]); n != 1 {
		t.Errorf("%v searches were forgotten, want 1", n)
	}
	if n := testutil.ToFloat64(h.metrics.attempts); n != 0 {
		t.Errorf("%v rounds are counted, want none", n)
	}
}

// blocking is a module that does not answer until a test ends.
type blocking struct{ asked, end chan struct{} }

func (m blocking) Ask(context.Context, throttle.Function, []byte, int64) ([]byte, error) {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	<-m.end
	return nil, errTrap
}

// TestHeldDoesNotBlock has a module take its time: who tells of events, which is the
// writer, does not wait for it. Too many events in a burst are dropped.
func TestHeldDoesNotBlock(t *testing.T) {
	m := blocking{make(chan struct{}, 1), make(chan struct{})}
	h := hunt(t, newForge(t), m, func(c *Config) { c.Clamps.Repositories = 2 })
	t.Cleanup(func() { close(m.end) })
	h.Held(synced("x"))
	<-m.asked
	for i := range 5 {
		h.Held(synced(fmt.Sprint(i)))
	}
	for i := range 5 {
		h.NoLongerHeld(synced(fmt.Sprint(i)), true)
	}
	if len(h.held) != 2 || len(h.released) != 2 {
		t.Errorf("%d events wait for the queue, and %d that left, want 2 and 2", len(h.held), len(h.released))
	}
}

// TestRestart begins with what is held, as after a crash.
func TestRestart(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	f.hold(alice, "x", []string{id}, r.add(t, "x", dir))
	f.held = []Event{synced("x"), synced("gone")}
	h := hunt(t, f, inAHurry(), nil)
	testkit.Eventually(t, "the data", func() bool { return len(f.missingOf("x")) == 0 })
	over(t, h, "x")
	over(t, h, "gone")
}

// TestRedirectElsewhere has a server that has moved to another domain: that one is
// asked with its own limits, for what the first was named for.
func TestRedirectElsewhere(t *testing.T) {
	dir, id := work(t, "one")
	r, old, older, f := newRemote(t), newRemote(t), newRemote(t), newForge(t)
	url := r.add(t, "new", dir)
	to := func(base string) func(w http.ResponseWriter, _ *http.Request) bool {
		return func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, base+"/info/refs?service=git-upload-pack", http.StatusMovedPermanently)
			return true
		}
	}
	older.misbehave(to(old.URL + "/old.git"))
	old.misbehave(to(url))
	f.hold(alice, "x", []string{id}, older.URL+"/older.git")
	h := hunt(t, f, inAHurry(), nil)
	h.Held(synced("x"))
	over(t, h, "x")
	if left := f.missingOf("x"); len(left) != 0 || old.asked() != 1 || older.asked() != 1 {
		t.Errorf("%v is missing; the old ones were asked %d and %d times", left, older.asked(), old.asked())
	}
	if list := h.Status(10).Domains; len(list) != 3 || list[0].Requests != 1 || list[1].Requests != 1 || list[2].Requests != 1 {
		t.Errorf("a domain was asked on another's account: %+v", list)
	}
}

// TestRedirectWithin follows redirects of one domain, also one that is relative to the
// file that was asked for, and asks for objects where they led.
func TestRedirectWithin(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	r.add(t, "new", dir)
	to := map[string]string{
		"/deep/old/name.git/info/refs":   "../../../moved/name.git/info/refs?service=git-upload-pack",
		"/deep/moved/name.git/info/refs": "/new.git/info/refs?service=git-upload-pack",
	}
	r.misbehave(func(w http.ResponseWriter, req *http.Request) bool {
		if location := to[req.URL.Path]; location != "" {
			status(http.StatusFound, "Location", location)(w, req)
			return true
		}
		return false
	})
	f.hold(alice, "x", []string{id}, r.URL+"/deep/old/name.git")
	h := hunt(t, f, inAHurry(), nil)
	complete(t, f, h)
}

// TestDomainLimits has many repositories on few servers: by the servers' own
// records, none was asked too often, at the same time or in a minute.
func TestDomainLimits(t *testing.T) {
	const repositories, servers, atOnce, perMinute = 24, 3, 2, 10
	f := newForge(t)
	var remotes []*remote
	for range servers {
		r := newRemote(t)
		r.misbehave(func(w http.ResponseWriter, _ *http.Request) bool {
			<-time.After(20 * time.Millisecond)
			w.WriteHeader(http.StatusNotFound)
			return true
		})
		remotes = append(remotes, r)
	}
	// The hunt's time goes on whenever it looks, and stays within a minute.
	var looks atomic.Int64
	began := time.Now()
	h := hunt(t, f, &quick{delay: 5, backoff: 20, atOnce: atOnce, perMin: perMinute}, func(c *Config) {
		c.Now = func() time.Time { return began.Add(min(span(looks.Add(1)), 59*time.Second)) }
	})
	for i := range repositories {
		name := fmt.Sprint("r", i)
		var urls []string
		for _, r := range remotes {
			urls = append(urls, r.URL+"/"+name+".git")
		}
		f.hold(alice, name, []string{object(1)}, urls...)
		h.Held(synced(name))
	}
	testkit.Eventually(t, "all that the domains allow in a minute", func() bool {
		return !slices.ContainsFunc(remotes, func(r *remote) bool { return r.asked() < perMinute })
	})
	// Nothing more may come, so there is nothing to wait for: some rounds pass.
	rounds := testutil.ToFloat64(h.metrics.attempts)
	testkit.Eventually(t, "more rounds", func() bool { return testutil.ToFloat64(h.metrics.attempts) > rounds+repositories*3 })
	for i, r := range remotes {
		if r.top > atOnce || r.asked() != perMinute {
			t.Errorf("server %d was asked %d times at once and %d times in all, want %d and %d", i, r.top, r.asked(), atOnce, perMinute)
		}
	}
	s := h.Status(100)
	if s.Waiting != repositories || len(s.Domains) != servers || s.Domains[0].LastMinute != perMinute || len(s.Repositories[0].WaitsFor) == 0 {
		t.Errorf("%+v", s.Domains)
	}
}

// TestThrottleFails has a module that traps, and one that answers with garbage: the
// hunt goes on, carefully.
func TestThrottleFails(t *testing.T) {
	for name, m := range map[string]*quick{"traps": {fail: errTrap}, "garbage": {garbage: true}} {
		t.Run(name, func(t *testing.T) {
			dir, id := work(t, "one")
			r, f := newRemote(t), newForge(t)
			f.hold(alice, "x", []string{id}, r.add(t, "x", dir))
			h := hunt(t, f, m, func(c *Config) { c.Clamps.MaxDelay = 10 })
			complete(t, f, h)
			for q := range throttle.Questions {
				if n := testutil.ToFloat64(h.metrics.failures[q]); (n == 0) != (throttle.Function(q) == throttle.Pick) {
					t.Errorf("%s failed %v times", throttle.Function(q), n)
				}
			}
		})
	}
}

// TestWhatIsTold expects that the throttle hears what the server said.
func TestWhatIsTold(t *testing.T) {
	r, f, m := newRemote(t), newForge(t), inAHurry()
	r.misbehave(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	f.hold(alice, "x", []string{object(1)}, r.URL+"/x.git", r.URL+"/y.git")
	h := hunt(t, f, m, nil)
	h.Held(synced("x"))
	testkit.Eventually(t, "a second round", func() bool { s, _ := h.Search("x"); return s.Rounds >= 2 })
	m.mu.Lock()
	told := slices.Clone(m.after) // the hunter holds its lock while it asks the module, so nobody asks it under this one
	m.mu.Unlock()
	if len(told) != 1 || told[0].Outcome != abi.OutcomeRateLimited || told[0].Status != 429 || told[0].RetryAfter != 3600_000 || told[0].Missing != 1 {
		t.Errorf("%+v", told)
	}
	if r.asked() != 1 {
		t.Errorf("asked %d times, want once", r.asked())
	}
	s, _ := h.Search("x")
	if s.Last == nil || s.Last.Outcome != "rate-limited" || !strings.Contains(s.Last.Reason, "429") || len(s.WaitsFor) != 1 {
		t.Errorf("%+v", s)
	}
}

// TestManyURLs has one announcement with 500 URLs, and one with a single URL: the single one is
// among the first.
func TestManyURLs(t *testing.T) {
	h := newHunter(t, newForge(t), nil, func(c *Config) { c.Addresses = Addresses{Own: []grasp.Service{{Host: "relay.example.com"}}} })
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("https://git%d.example.com/x", i))
	}
	list, refused := h.urls("x", []Want{{URLs: many}, {URLs: []string{"ssh://no", "https://relay.example.com/x", "https://honest.example.com/x", "https://git0.example.com/x/"}}})
	if len(list) != h.cfg.Clamps.URLs {
		t.Errorf("%d URLs, want %d", len(list), h.cfg.Clamps.URLs)
	}
	if i := slices.IndexFunc(list, func(u queue.URL) bool { return u.Domain == "honest.example.com" }); i < 0 || i > 4 {
		t.Errorf("the single URL is at %d", i)
	}
	if len(refused) != 2 || refused[0].URL != "ssh://no" || refused[1] != (queue.Refused{URL: "https://relay.example.com/x", Reason: ErrOurs.Error()}) {
		t.Errorf("not asked: %q", refused)
	}
}

// TestRefusedURLs has an event that names no server which may be asked: the status says
// why, of as many as are kept.
func TestRefusedURLs(t *testing.T) {
	f := newForge(t)
	urls := []string{"ssh://git@example.com/x", "http://10.0.0.1/" + strings.Repeat("x", 1000)}
	for i := range 100 {
		urls = append(urls, fmt.Sprintf("git://%d.example.com/x", i))
	}
	f.hold(alice, "x", []string{strings.Repeat("1a", 20)}, urls...)
	h := hunt(t, f, &quick{}, func(c *Config) { c.Addresses = Addresses{} })
	h.Held(synced("x"))
	var s RepositoryStatus
	testkit.Eventually(t, "a look", func() bool { s, _ = h.Search("x"); return len(s.Refused) > 0 })
	if len(s.Refused) != 5 || s.Refused[0].Reason != `the scheme "ssh" is not http or https` || s.Refused[1].Reason != "10.0.0.1 is not a public address" || len(s.Refused[1].URL) != 200 {
		t.Errorf("not asked: %q", s.Refused)
	}
}

// TestNow hurries a search that waits for its time.
func TestNow(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	f.hold(alice, "x", []string{id}, r.add(t, "x", dir))
	h := hunt(t, f, &quick{delay: 3_000_000, backoff: 20, atOnce: 5}, nil)
	h.Held(synced("x"))
	if s, ok := h.Search("x"); !ok || time.Until(s.Next) < time.Minute {
		t.Fatalf("%+v", s)
	}
	if err := h.FetchNow("30617:ab:x", "x"); err != nil {
		t.Fatal(err)
	}
	over(t, h, "x")
	if left := f.missingOf("x"); len(left) != 0 {
		t.Errorf("%v is missing", left)
	}
}

// TestExpiry has nobody who has the data: the search ends when its time is up, not before,
// and that is counted.
func TestExpiry(t *testing.T) {
	f, r := newForge(t), newRemote(t)
	f.hold(alice, "x", []string{object(1)}, r.URL+"/x.git")
	began := time.Now()
	var late atomic.Int64 // what has passed of the hunt's time
	h := hunt(t, f, &quick{atOnce: 5}, func(c *Config) {
		c.Now = func() time.Time { return began.Add(time.Duration(late.Load())) }
	})
	h.Held(synced("x"))
	testkit.Eventually(t, "a try", func() bool { s, _ := h.Search("x"); return s.Last != nil })
	late.Store(int64(span(h.cfg.Clamps.Expiry)) - int64(time.Second))
	h.Wake()
	testkit.Eventually(t, "another try", func() bool { s, _ := h.Search("x"); return s.Rounds > 1 })
	if n := testutil.ToFloat64(h.metrics.ended[queue.Expired]); n != 0 {
		t.Errorf("%v searches have expired before their time", n)
	}
	late.Store(int64(span(h.cfg.Clamps.Expiry)) + int64(time.Second))
	h.Wake()
	over(t, h, "x")
	testkit.Eventually(t, "the end to be counted", func() bool { return testutil.ToFloat64(h.metrics.ended[queue.Expired]) == 1 })
}

// TestSlowServersMakeWay has two servers that never end take all the room, and a third
// that has what is wanted.
func TestSlowServersMakeWay(t *testing.T) {
	dir, id := work(t, "one")
	good, f := newRemote(t), newForge(t)
	slow := map[string]*remote{"a": newRemote(t), "b": newRemote(t)}
	var late atomic.Int64 // what has passed of the hunt's time: it stands still but for this test
	began := time.Now()
	h := hunt(t, f, &quick{atOnce: 5}, func(c *Config) {
		c.Clamps.All = 2
		c.Now = func() time.Time { return began.Add(time.Duration(late.Load())) }
	})
	for _, name := range []string{"a", "b"} {
		slow[name].misbehave(func(_ http.ResponseWriter, req *http.Request) bool {
			<-req.Context().Done()
			return true
		})
		f.hold(alice, name, []string{object(1)}, slow[name].URL+"/x.git")
		h.Held(synced(name))
		testkit.Eventually(t, "the slow server to be asked", func() bool { s, _ := h.Search(name); return len(s.Asking) == 1 })
	}
	f.hold(alice, "x", []string{id}, good.add(t, "x", dir))
	late.Store(int64(2 * span(h.cfg.Clamps.Patience)))
	complete(t, f, h)
	if s, _ := h.Search("a"); s.Last == nil || s.Last.Outcome != "timeout" || !strings.Contains(s.Last.Reason, "others wait") {
		t.Errorf("%+v", s)
	}
}

// stopped is a forge that stops a request in the moment when its data arrives.
type stopped struct {
	*forge
	stop context.CancelCauseFunc
	told error // what ended the telling
}

func (s *stopped) Arrived(ctx context.Context, identifier string, into Repository) error {
	s.stop(errOthers)
	s.told = ctx.Err()
	return s.forge.Arrived(ctx, identifier, into)
}

// TestMakesWayTooLate has others wait when the data has come already: all that follows
// from it is done.
func TestMakesWayTooLate(t *testing.T) {
	dir, id := work(t, "one")
	url := newRemote(t).add(t, "x", dir)
	f := &stopped{forge: newForge(t)}
	f.hold(alice, "x", []string{id}, url)
	h := newHunter(t, f.forge, nil, func(c *Config) { c.Repos = f })
	g, u := reach(t, h, url)
	asking, stop := context.WithCancelCause(t.Context())
	f.stop = stop
	got := h.request(t.Context(), asking, g, queue.Work{Kind: queue.Fetch, Key: "x", URL: u}, "label")
	if f.told != nil || f.arrived["x"] != 1 || got.Outcome != abi.OutcomeOK || got.Missing != 0 {
		t.Errorf("%v, told %d times, %+v", f.told, f.arrived["x"], got)
	}
}

// TestStop ends the hunter while a server hangs.
func TestStop(t *testing.T) {
	f := newForge(t)
	asked := make(chan struct{}, 1)
	r := newRemote(t)
	r.misbehave(func(_ http.ResponseWriter, req *http.Request) bool {
		asked <- struct{}{}
		<-req.Context().Done()
		return true
	})
	f.hold(alice, "x", []string{object(1)}, r.URL+"/x.git")
	h := newHunter(t, f, inAHurry(), nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	h.Held(synced("x"))
	<-asked
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	f.hold(alice, "x", []string{id}, r.URL+"/absent.git", r.add(t, "x", dir))
	h := hunt(t, f, inAHurry(), func(c *Config) { c.Prefix = "ngit" })
	h.Held(synced("x"))
	over(t, h, "x")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h.Collectors()...)
	domain := strings.TrimPrefix(r.URL, "http://")
	testkit.Eventually(t, "the end to be counted", func() bool { return testutil.ToFloat64(h.metrics.ended[queue.Complete]) == 1 })
	want := fmt.Sprintf(`
		# HELP ngit_purgatory_domain_in_flight Requests to a domain that are under way.
		# TYPE ngit_purgatory_domain_in_flight gauge
		ngit_purgatory_domain_in_flight{domain=%[1]q} 0
		# HELP ngit_purgatory_domain_requests_total Requests to a domain.
		# TYPE ngit_purgatory_domain_requests_total counter
		ngit_purgatory_domain_requests_total{domain=%[1]q} 2
		# HELP ngit_purgatory_sync_attempts_total Rounds of searches over all URLs of a repository.
		# TYPE ngit_purgatory_sync_attempts_total counter
		ngit_purgatory_sync_attempts_total 1
		# HELP ngit_purgatory_sync_oids_fetched_total Objects that were missing and have been fetched.
		# TYPE ngit_purgatory_sync_oids_fetched_total counter
		ngit_purgatory_sync_oids_fetched_total 1
		# HELP ngit_purgatory_sync_queue_size Repositories whose git data is searched for.
		# TYPE ngit_purgatory_sync_queue_size gauge
		ngit_purgatory_sync_queue_size 0
	`, domain)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "ngit_purgatory_domain_in_flight", "ngit_purgatory_domain_requests_total",
		"ngit_purgatory_sync_attempts_total", "ngit_purgatory_sync_oids_fetched_total", "ngit_purgatory_sync_queue_size"); err != nil {
		t.Error(err)
	}
	for i := range 2 * maxLabels {
		h.metrics.label(fmt.Sprint(i))
	}
	if len(h.metrics.labels) != maxLabels || h.metrics.label("more") != "other" || h.metrics.label(domain) != domain {
		t.Errorf("%d domains have a label", len(h.metrics.labels))
	}
}
