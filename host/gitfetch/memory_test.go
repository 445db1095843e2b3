package gitfetch

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host/gitfetch/queue"
	"talon/host/throttle"
	"talon/internal/testkit"
)

// disk is a disk in memory that may be full.
type disk struct {
	mu    sync.Mutex // guards what follows
	kept  map[string][]byte
	full  bool
	tried int
}

func newDisk() *disk { return &disk{kept: map[string][]byte{}} }

func (d *disk) Load(context.Context) (map[string][]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.kept), nil
}

func (d *disk) Save(ctx context.Context, domains map[string][]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried++
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.full {
		return errors.New("no space left on device")
	}
	for name, text := range domains {
		if d.kept[name] = text; text == nil {
			delete(d.kept, name)
		}
	}
	return nil
}

// of returns the record of a domain, an empty one if there is none.
func (d *disk) of(t *testing.T, name string) (r queue.Record) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := d.kept[name]; text != nil {
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// running is a hunter with a disk, and what ends it.
func running(t *testing.T, f *forge, d throttle.Disk) (h *Hunter, stop func()) {
	t.Helper()
	h = newHunter(t, f, inAHurry(), func(c *Config) { c.Disk = d })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return h, stop
}

// TestRetryAfterSurvives has a server ask for an hour of rest. The start of its request is on
// disk before the server hears of it. The rest holds for the next process too.
func TestRetryAfterSurvives(t *testing.T) {
	r, f, d := newRemote(t), newForge(t), newDisk()
	domain := strings.TrimPrefix(r.URL, "http://")
	r.misbehave(func(w http.ResponseWriter, _ *http.Request) bool {
		if n := len(d.of(t, domain).Starts); n != 1 {
			t.Errorf("%d starts are on disk when the request is here, want it", n)
		}
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	f.hold(alice, "x", []string{object(1)}, r.URL+"/x.git")
	h, stop := running(t, f, d)
	h.Held(synced("x"))
	testkit.Eventually(t, "that the server's wish is on disk while the hunt goes on", func() bool {
		return time.Until(time.UnixMilli(d.of(t, domain).NotBefore)) > 50*time.Minute
	})
	stop()

	f.held = []Event{synced("x")}
	again, _ := running(t, f, d)
	testkit.Eventually(t, "two rounds of the search after a restart", func() bool { s, _ := again.Search("x"); return s.Rounds >= 2 })
	if s := again.Status(10); len(s.Domains) != 1 || s.Domains[0].Failures != 1 || time.Until(s.Domains[0].NotBefore) < 50*time.Minute {
		t.Errorf("after a restart: %+v", s.Domains)
	}
	if n := r.asked(); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

// TestShutdownKeeps ends a hunter in the moment in which a request has ended.
func TestShutdownKeeps(t *testing.T) {
	dir, id := work(t, "one")
	r, f, d := newRemote(t), newForge(t), newDisk()
	f.hold(alice, "x", []string{id}, r.add(t, "x", dir))
	d.kept["odd"], d.kept["old"] = []byte("{"), []byte(`{"starts": [1700000000000]}`)
	h, stop := running(t, f, d)
	h.Held(synced("x"))
	over(t, h, "x")
	stop()
	if len(d.kept) != 1 {
		t.Errorf("%d records, want one: what is odd or old goes", len(d.kept))
	}
	if got := d.of(t, strings.TrimPrefix(r.URL, "http://")); got.LastSuccess == 0 || len(got.Starts) != 1 {
		t.Errorf("after the end: %+v", got)
	}
}

// TestFullDiskEndsNoHunt cannot keep anything at first, and does so later.
func TestFullDiskEndsNoHunt(t *testing.T) {
	dir, id := work(t, "one")
	r, f, d := newRemote(t), newForge(t), newDisk()
	d.full, d.kept["odd"] = true, []byte("{")
	f.hold(alice, "x", []string{id}, r.add(t, "x", dir))
	h, _ := running(t, f, d)
	complete(t, f, h)
	d.mu.Lock()
	if d.tried < 2 || len(d.kept) != 1 {
		t.Errorf("%d attempts to save, %d records", d.tried, len(d.kept))
	}
	d.full = false
	d.mu.Unlock()
	testkit.Eventually(t, "that what was known is on disk", func() bool { return d.of(t, strings.TrimPrefix(r.URL, "http://")).LastSuccess != 0 })
}

// TestUnreadableDisk cannot begin: the limits would not hold.
func TestUnreadableDisk(t *testing.T) {
	broken := errors.New("input/output error")
	h := newHunter(t, newForge(t), inAHurry(), func(c *Config) { c.Disk = unreadable{broken} })
	if err := h.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

type unreadable struct{ err error }

func (u unreadable) Load(context.Context) (map[string][]byte, error) { return nil, u.err }
func (u unreadable) Save(context.Context, map[string][]byte) error   { return u.err }
