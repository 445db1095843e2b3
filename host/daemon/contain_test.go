package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/config"
	"talon/host/contain"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/repos"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// shaky is a part of which the first panics.
type shaky struct {
	panics bool
	gauge  prometheus.Gauge
	ran    chan<- *shaky
}

func (p *shaky) Run(ctx context.Context) error {
	p.ran <- p
	if p.panics {
		panic("planted")
	}
	<-ctx.Done()
	return nil
}

func (p *shaky) Collectors() []prometheus.Collector { return []prometheus.Collector{p.gauge} }

// A role whose part panics gets another part. Its metrics are those of the new one, and the panic
// stays counted.
func TestPanicInRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan *shaky, 10)
		made := 0
		ctx, stop := context.WithCancel(t.Context())
		log := slog.New(slog.DiscardHandler)
		r, err := openRole(ctx, "test", alone{}, contain.New(contain.Sync, log), log, func(context.Context) (*shaky, error) {
			made++
			if made == 2 {
				return nil, errors.New("the database is away")
			}
			g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "made"})
			g.Set(float64(made))
			return &shaky{made == 1, g, ran}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		first, second := <-ran, <-ran
		if first == second || r.part() != second || made != 3 {
			t.Errorf("after %d were made, the part is that which panicked: %v", made, r.part() == first)
		}
		if n := testutil.ToFloat64(r.panics.Collector()); n != 1 {
			t.Errorf("%v panics are counted", n)
		}
		for _, c := range r.Collectors() {
			if m, ok := c.(termMetrics); ok && testutil.ToFloat64(m.now()[0]) != 3 {
				t.Error("the metrics are those of the part that panicked")
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run returns %v", err)
		}
	})
}

// A part that panics at a commit misses it; the others, and the next commits, do not.
func TestPanicInFollower(t *testing.T) {
	var got []string
	part := func(name string, panics bool) follower {
		return follower{
			publish: func([]host.Published) {
				if got = append(got, name); panics {
					panic("planted")
				}
			},
			follow: func([]*host.Event, []host.HeldChange) {
				if got = append(got, name); panics {
					panic("planted")
				}
			},
		}
	}
	// Without plugins, these are the first that panic.
	to := committed{nil, []follower{part("a", false), part("b", true), part("c", false)}, contain.New(contain.Notify, slog.New(slog.DiscardHandler))}
	to.Publish([]host.Published{{}})
	to.Follow(nil, []host.HeldChange{{}})
	if all := strings.Join(got, ""); all != "abcabc" {
		t.Errorf("told were %s", all)
	}
	if n := testutil.ToFloat64(to.panics.Collector()); n != 3 {
		t.Errorf("%v panics are counted, want those of the plugins and twice of b", n)
	}
}

// trap is repositories of which one makes the host panic.
type trap struct{}

func (trap) Find(_ context.Context, parts []string, _ githttp.Use) (*gitrepo.Repo, error) {
	if parts[1] == "trap.git" {
		panic("planted")
	}
	return nil, gitrepo.ErrNotFound
}

// A git request that panics is answered with an error, in one line of our own log, and the server goes
// on.
func TestPanicInGit(t *testing.T) {
	var log strings.Builder
	d := New(&config.Config{Connections: 8}, "test", slog.New(slog.NewTextHandler(&log, nil)))
	git, err := githttp.New(githttp.Config{Prefix: "/", IsPath: repos.IsPath, Limits: githttp.DefaultLimits, Log: d.log}, trap{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := newRegistry("test", "talon", "")
	if err := registry.Register(d.git.Collector(), d.http.Collector()); err != nil {
		t.Fatal(err)
	}
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/trap" {
			panic("planted")
		}
		_, _ = io.WriteString(w, "page")
	})
	s := httptest.NewUnstartedServer(nil)
	s.Config = d.server(d.front(git, pages, registry, func() condition { return condition{} }))
	s.Start()
	get := func(path string) (int, string) {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const refs = ".git/info/refs?service=git-upload-pack"
	owner := "/" + nip19.EncodeNpub(grasp.PubKey{1}) + "/"
	if status, _ := get(owner + "trap" + refs); status != http.StatusInternalServerError {
		t.Errorf("git: status %d", status)
	}
	if status, _ := get("/trap"); status != http.StatusInternalServerError {
		t.Errorf("page: status %d", status)
	}
	if status, _ := get(owner + "other" + refs); status != http.StatusNotFound {
		t.Errorf("another repository: status %d", status)
	}
	if status, body := get("/"); status != http.StatusOK || body != "page" {
		t.Errorf("another page: %d %q", status, body)
	}
	_, metrics := get("/metrics")
	for _, want := range []string{`talon_panics_total{where="git"} 1`, `talon_panics_total{where="http"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	s.Close()
	if n := strings.Count(log.String(), "\n"); n != 2 || strings.Count(log.String(), "planted") != 2 {
		t.Errorf("%d lines are logged, want one for each panic:\n%s", n, log.String())
	}
}
