package gitfetch

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// paper is a repository without a disk: it asks for the refs as git does, and gets
// nothing.
type paper string

func (p paper) Dir() string   { return string(p) }
func (p paper) Store() string { return string(p) }

func (p paper) Format(context.Context) (gitrepo.Format, error)  { return gitrepo.SHA1, nil }
func (p paper) ScanPack(gitrepo.Format, bool) *gitrepo.PackScan { return nil }

func (p paper) Fetch(ctx context.Context, from gitrepo.Source, _ ...string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.URL+refsPath+"?"+refsQuery, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return nil, nil
}

// library is a forge of such repositories, which lack an object that is nowhere.
type library struct {
	urls func(identifier string) []string
}

func (l library) Waiting(context.Context, func(Event) error) error  { return nil }
func (l library) Arrived(context.Context, string, Repository) error { return nil }
func (l library) Servers(context.Context, func(string)) error       { return nil }
func (l library) Wanted(_ context.Context, identifier string) ([]Want, error) {
	return []Want{{Into: paper(identifier), Objects: []string{object(1)}, URLs: l.urls(identifier)}}, nil
}

// journal is what a server writes down of its requests.
type journal struct {
	mu    sync.Mutex // guards what follows
	now   int
	top   int
	times []time.Time
}

func (j *journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	j.now++
	j.top = max(j.top, j.now)
	j.times = append(j.times, time.Now())
	j.mu.Unlock()
	<-time.After(200 * time.Millisecond)
	j.mu.Lock()
	j.now--
	j.mu.Unlock()
	w.WriteHeader(http.StatusNotFound)
}

// mostIn is the highest number of requests in any window.
func (j *journal) mostIn(window time.Duration) (limit int) {
	first := 0
	for i, at := range j.times {
		for at.Sub(j.times[first]) >= window {
			first++
		}
		limit = max(limit, i-first+1)
	}
	return limit
}

// BenchmarkHunt has 1,000 repositories wait on 20 servers, with the limits of the
// bundled throttle as it is delivered, for a little more than two of its windows. The
// figures are from the servers' own records; it fails if a server was asked too often,
// or less than it allows.
func BenchmarkHunt(b *testing.B) {
	const repositories, servers = 1000, 20
	journals, urls := make([]journal, servers), make([]string, servers)
	for i := range journals {
		s := httptest.NewServer(&journals[i])
		b.Cleanup(s.Close)
		urls[i] = s.URL
	}
	forge := library{func(identifier string) (list []string) {
		n := 0
		_, _ = fmt.Sscan(identifier, &n)
		for j := range 3 {
			list = append(list, fmt.Sprintf("%s/%s.git", urls[(n+7*j)%servers], identifier))
		}
		return list
	}}
	h := hunt(b, newForge(b), load(b, "polite", nil), func(c *Config) {
		c.Repos, c.Clamps.All, c.Clamps.Rounds = forge, 200, 1000
		c.Limits.Connections = 1000 // all servers have one address
	})
	for b.Loop() {
		before := testkit.CPU()
		began := time.Now()
		for i := range repositories {
			h.Held(Event{Repository: host.Address{Kind: 30617, D: fmt.Sprint(i)}, Kind: 30618, Origin: FromSync})
		}
		<-time.After(130 * time.Second)
		took := time.Since(began)
		top, in60, low := 0, 0, 1<<30
		for i := range journals {
			j := &journals[i]
			j.mu.Lock()
			top, in60, low = max(top, j.top), max(in60, j.mostIn(time.Minute)), min(low, len(j.times))
			j.mu.Unlock()
		}
		b.ReportMetric(float64(top), "most-at-once")
		b.ReportMetric(float64(in60), "most-in-60s")
		b.ReportMetric(float64(low), "least-asked")
		b.ReportMetric(100*float64(testkit.CPU()-before)/float64(took), "cpu-%")
		if top > 5 || in60 > 30 || low < 90 {
			b.Errorf("a server was asked %d times at once, %d times in a minute; one was asked %d times in all, want 90", top, in60, low)
		}
	}
}

// BenchmarkWaiting is what 10,000 repositories cost that wait for their first search.
func BenchmarkWaiting(b *testing.B) {
	var before, after runtime.MemStats
	h := hunt(b, newForge(b), load(b, "polite", nil), nil)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 10_000 {
		h.Held(Event{Repository: host.Address{Kind: 30617, PubKey: host.PubKey{byte(i), byte(i >> 8)}, D: fmt.Sprintf("identifier-%d", i)}, Kind: 30618})
	}
	testkit.Eventually(b, "all to wait", func() bool { return h.Status(0).Waiting == 10_000 })
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		used := testkit.CPU()
		<-time.After(2 * time.Second)
		b.ReportMetric(100*float64(testkit.CPU()-used)/float64(2*time.Second), "cpu-%")
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	list := h.Status(20_000).Repositories
	if len(list) != 10_000 || !slices.IsSortedFunc(list, func(a, b RepositoryStatus) int { return cmp.Compare(a.Next.UnixNano(), b.Next.UnixNano()) }) {
		b.Errorf("%d wait", len(list))
	}
}
