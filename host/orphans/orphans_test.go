package orphans

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/contain"
	"talon/host/plugin"
	"talon/host/plugin/plugintest"
	"talon/host/store"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

const domain = "relay.test"

var alice, bob, carol, eve = testkit.NewSigner(1), testkit.NewSigner(2), testkit.NewSigner(3), testkit.NewSigner(4)

// facts are a store as the daemon gives it to policies.
type facts struct{ *store.Store }

func (f facts) Query(ctx context.Context, filter host.Filter) (list [][]byte, err error) {
	found, err := f.Select(ctx, []host.Filter{filter}, time.Now().Unix())
	if err != nil {
		return nil, err
	}
	err = f.Fetch(ctx, found.Rows, func(_ int64, text []byte) error {
		list = append(list, bytes.Clone(text))
		return nil
	})
	return list, err
}

// world is a store with the policy grasp, and a sweeper.
type world struct {
	t       *testing.T
	store   *store.Store
	policy  Policy
	sweeper *Sweeper
	now     time.Time
	events  int64
}

func newWorld(t *testing.T) *world {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w := &world{t: t, now: time.Now()}
	var err error
	w.store, err = store.Open(t.Context(), t.TempDir(), store.Options{Readers: 2, Log: log})
	w.must(err)
	t.Cleanup(func() { w.must(w.store.Close()) })
	plugins, err := plugin.Open(t.Context(), plugin.Options{
		Dir: plugintest.Build(t, "plugins/grasp"), CacheDir: plugintest.MachineCode(t, "plugins/grasp"), Facts: facts{w.store}, Held: w.store, Log: log,
		Service: host.Service{Domain: domain},
	})
	w.must(err)
	t.Cleanup(func() { w.must(plugins.Close(context.WithoutCancel(t.Context()))) })
	w.policy = plugins
	w.restart()
	return w
}

// restart makes a sweeper that knows only what the store has.
func (w *world) restart() {
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	w.sweeper = New(Config{
		Store: facts{w.store}, Policy: policyOf(func() Policy { return w.policy }), Panics: contain.New(contain.Daemon, log), Log: log,
		Now: func() time.Time { return w.now },
		Remove: func(_ context.Context, ids []host.ID) (int, error) {
			tx, err := w.store.Begin()
			if err != nil {
				return 0, err
			}
			out, err := tx.TakeDown(host.Takedown{Drop: ids}, w.now.Unix())
			w.must(err)
			return len(out.Removed), tx.Commit()
		},
	})
}

// policyOf asks the policy that a function returns.
type policyOf func() Policy

func (p policyOf) Admit(ctx context.Context, it *host.Item, f *host.FactReader, now int64) (host.Ruling, error) {
	return p().Admit(ctx, it, f, now)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// put stores an event and tells the sweeper, as a commit does.
func (w *world) put(e *host.Event) *host.Event {
	w.t.Helper()
	tx, err := w.store.Begin()
	w.must(err)
	out, err := tx.Put(e, w.now.Unix())
	w.must(err)
	w.must(tx.Commit())
	if out.Code != host.Stored {
		w.t.Fatalf("an event of kind %d is %v %q", e.Kind, out.Code, out.Reason)
	}
	w.sweeper.Publish([]host.Published{{Event: e, Seq: out.Seq}})
	if len(out.Removed) > 0 {
		w.sweeper.Follow(out.Removed, nil)
	}
	return e
}

func (w *world) event(who *testkit.Signer, kind host.Kind, tags ...host.Tag) *host.Event {
	w.events++
	return who.Event(kind, w.now.Unix()-10_000+w.events, "", tags...)
}

func (w *world) announce(who *testkit.Signer, id string) *host.Event {
	return w.event(who, grasp.KindAnnouncement, host.Tag{"d", id}, host.Tag{"relays", "wss://" + domain},
		host.Tag{"clone", "https://" + domain + grasp.Repo{PubKey: who.PubKey, Identifier: id}.Path()})
}

func (w *world) state(who *testkit.Signer, id string) *host.Event {
	return w.event(who, grasp.KindState, host.Tag{"d", id}, host.Tag{"refs/heads/main", "0123456789012345678901234567890123456789"})
}

func address(who *testkit.Signer, id string) string {
	return grasp.Repo{PubKey: who.PubKey, Identifier: id}.Address()
}

// later lets time pass and sweeps.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.must(w.sweeper.Sweep(w.t.Context()))
}

func (w *world) want(stored bool, events ...*host.Event) {
	w.t.Helper()
	for i, e := range events {
		text, err := w.store.Get(w.t.Context(), e.ID)
		w.must(err)
		if got := text != nil; got != stored {
			w.t.Errorf("event %d, of kind %d, is stored: %v, want %v", i, e.Kind, got, stored)
		}
	}
}

func (w *world) notes() int {
	rows, err := w.store.Relays(w.t.Context(), About)
	w.must(err)
	return len(rows)
}

// TestOrphans deletes the announcement of a repository that others have written about. Events that
// only it justified go after a day, with those that depend on them. Events that another repository
// justifies stay.
func TestOrphans(t *testing.T) {
	w := newWorld(t)
	gone := w.put(w.announce(alice, "demo"))
	w.put(w.announce(bob, "other"))
	w.put(w.announce(bob, "demo"))
	hers, his := address(alice, "demo"), address(bob, "other")
	issue := w.put(w.event(carol, 1621, host.Tag{"a", hers}))
	comment := w.put(w.event(eve, 1111, host.Tag{"E", issue.ID.String()}, host.Tag{"K", "1621"}, host.Tag{"e", issue.ID.String()}, host.Tag{"k", "1621"}))
	reply := w.put(w.event(bob, 1111, host.Tag{"E", issue.ID.String()}, host.Tag{"e", comment.ID.String()}))
	// Each of the two names the other one.
	one := w.put(w.event(eve, 30023, host.Tag{"d", "one"}, host.Tag{"a", hers}, host.Tag{"a", "30023:" + host.PubKey(eve.PubKey).String() + ":two"}))
	two := w.put(w.event(eve, 30023, host.Tag{"d", "two"}, host.Tag{"a", "30023:" + host.PubKey(eve.PubKey).String() + ":one"}))
	orphans := []*host.Event{w.put(w.state(alice, "demo")), issue, comment, reply, one, two, w.put(w.event(eve, 1617, host.Tag{"a", hers}))}

	both := w.put(w.event(carol, 1621, host.Tag{"a", hers}, host.Tag{"a", his}))
	onBoth := w.put(w.event(eve, 1111, host.Tag{"E", both.ID.String()}, host.Tag{"e", both.ID.String()}))
	elsewhere := w.put(w.event(carol, 1621, host.Tag{"a", his}))
	named := w.put(w.event(eve, 1621, host.Tag{"a", hers}))
	naming := w.put(w.event(eve, 1111, host.Tag{"E", elsewhere.ID.String()}, host.Tag{"e", elsewhere.ID.String()}, host.Tag{"q", named.ID.String()}))
	stays := []*host.Event{w.put(w.state(bob, "demo")), both, onBoth, elsewhere, named, naming}

	w.put(w.event(alice, host.KindDeletion, host.Tag{"e", gone.ID.String()}))
	w.want(false, gone)
	w.later(time.Minute)
	w.restart() // the note is in the store
	w.later(KeepFor - 2*time.Minute)
	w.want(true, slices.Concat(orphans, stays)...)
	w.later(2 * time.Minute)
	w.want(false, orphans...)
	w.want(true, stays...)
	if n := w.notes(); n != 0 {
		t.Errorf("%d notes are left, want none", n)
	}
}

// TestAnnouncedAgain has the author announce the repository again within a day, or replace the
// announcement: nothing goes.
func TestAnnouncedAgain(t *testing.T) {
	w := newWorld(t)
	w.put(w.announce(alice, "demo"))
	issue := w.put(w.event(carol, 1621, host.Tag{"a", address(alice, "demo")}))
	w.put(w.announce(alice, "demo"))
	w.later(time.Minute)
	if n := w.notes(); n != 0 {
		t.Errorf("%d notes of an announcement that was replaced", n)
	}
	w.put(w.event(alice, host.KindDeletion, host.Tag{"a", address(alice, "demo")}))
	w.later(time.Hour)
	if n := w.notes(); n != 1 {
		t.Errorf("%d notes of an announcement that was deleted, want 1", n)
	}
	w.put(w.announce(alice, "demo"))
	w.later(KeepFor)
	w.want(true, issue)
	if n := w.notes(); n != 0 {
		t.Errorf("%d notes are left, want none", n)
	}
}

// TestExpired has the announcement expire.
func TestExpired(t *testing.T) {
	w := newWorld(t)
	a := w.announce(alice, "demo")
	a = w.put(w.event(alice, a.Kind, append(slices.Clone(a.Tags), host.Tag{"expiration", "4000000000"})...))
	issue := w.put(w.event(carol, 1621, host.Tag{"a", address(alice, "demo")}))
	w.now = time.Unix(4_000_000_001, 0)
	tx, err := w.store.Begin()
	w.must(err)
	removed, err := tx.Sweep(w.now.Unix(), 10)
	w.must(err)
	w.must(tx.Commit())
	if len(removed) != 1 || removed[0].ID != a.ID {
		t.Fatalf("%v expired", removed)
	}
	w.sweeper.Follow(removed, nil)
	w.later(KeepFor + time.Second)
	w.want(false, issue)
}

// broken are policies of which one fails.
type broken struct{ Policy }

func (b broken) Admit(ctx context.Context, it *host.Item, f *host.FactReader, now int64) (host.Ruling, error) {
	r, err := b.Policy.Admit(ctx, it, f, now)
	if r.Action == host.Reject {
		r.Rule, r.Reason = "failed", "error: policy grasp failed, try again later"
	}
	return r, err
}

// TestNothingGoes has policies that fail, or that are not there: no event is removed for that.
func TestNothingGoes(t *testing.T) {
	for name, policy := range map[string]func(Policy) Policy{
		"fails": func(p Policy) Policy { return broken{p} },
		"none":  func(Policy) Policy { return rejectsAll{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			gone := w.put(w.announce(alice, "demo"))
			issue := w.put(w.event(carol, 1621, host.Tag{"a", address(alice, "demo")}))
			w.put(w.event(alice, host.KindDeletion, host.Tag{"e", gone.ID.String()}))
			w.policy = policy(w.policy)
			w.later(time.Second)
			w.later(KeepFor)
			w.want(true, issue)
		})
	}
}

// rejectsAll is a chain without a policy that accepts anything.
type rejectsAll struct{}

func (rejectsAll) Admit(context.Context, *host.Item, *host.FactReader, int64) (host.Ruling, error) {
	return host.Ruling{Action: host.Reject, Reason: "blocked: no policy accepts this event"}, nil
}

// TestConcurrentCommits has commits and sweeps at the same time.
func TestConcurrentCommits(t *testing.T) {
	w := newWorld(t)
	gone := w.announce(alice, "demo")
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			w.sweeper.Publish([]host.Published{{Event: w.event(alice, host.KindDeletion, host.Tag{"e", gone.ID.String()})}})
			w.sweeper.Follow([]*host.Event{gone}, nil)
		}
	})
	for range 10 {
		w.must(w.sweeper.Sweep(t.Context()))
	}
	wg.Wait()
	w.must(w.sweeper.Sweep(t.Context()))
	if n := w.notes(); n != 1 {
		t.Errorf("%d notes, want 1", n)
	}
}
