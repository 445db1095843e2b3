package audience_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/audience"
	"talon/host/store"
)

// modules answer by kind.
type modules struct {
	mu       sync.Mutex // guards the fields below
	settings string     // empty: there are none
	version  uint64
	broken   bool
}

var members = &host.Audience{Set: "readers/readers"}

func (m *modules) Audience(_ context.Context, e *host.Event, _ *host.FactReader, _ int64) (*host.Audience, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.settings == "":
	case e.Kind == 1059:
		return &host.Audience{Keys: []host.PubKey{e.PubKey}}, nil
	case e.Kind == 30617 && e.D() == "secret":
		return members, nil
	}
	return nil, nil
}

func (m *modules) Audiences() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settings
}

func (m *modules) AudienceVersion() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

func (m *modules) Complete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.broken
}

func (m *modules) AudienceKinds() ([]host.Kind, bool) { return []host.Kind{1059, 30617}, false }

func (m *modules) set(settings string, broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings, m.broken = settings, broken
	m.version++
}

// event returns an event with an id of its own.
func event(n byte, author byte, kind host.Kind, tags ...host.Tag) *host.Event {
	e := &host.Event{ID: host.ID{n}, PubKey: host.PubKey{author}, CreatedAt: int64(n), Kind: kind, Tags: tags}
	e.JSON = e.AppendJSON(nil)
	return e
}

// world is a store with public and private things, whose audiences are kept up to date.
type world struct {
	t         *testing.T
	db        *store.Store
	modules   *modules
	audiences *audience.Audiences
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, modules: &modules{}}
	w.audiences = audience.New(audience.Config{Modules: w.modules, Store: db, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err := w.audiences.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// put stores events as the pipeline does: with the audience that they have now.
func (w *world) put(events ...*host.Event) {
	w.t.Helper()
	for _, e := range events {
		a, err := w.audiences.Audience(w.t.Context(), e, nil, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		e = e.For(a)
		tx, err := w.db.Begin()
		if err != nil {
			w.t.Fatal(err)
		}
		out, err := tx.Put(e, 0)
		if err == nil {
			err = tx.Commit()
		}
		if err != nil || out.Code != host.Stored {
			w.t.Fatalf("put %s: %+v, %v", e.ID, out, err)
		}
		w.audiences.Committed([]host.Published{{Event: e, Seq: out.Seq}}, nil)
	}
}

func (w *world) apply(_ context.Context, list []audience.Change) error {
	tx, err := w.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, c := range list {
		out, err := tx.SetAudience(c.ID, c.Audience)
		if err != nil {
			return err
		}
		if out != nil {
			w.audiences.Committed([]host.Published{{Event: out.After, Seq: out.Seq, Changed: true}}, nil)
		}
	}
	return tx.Commit()
}

// run keeps the audiences up to date until stop is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.audiences.Run(ctx, w.apply) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		if err := w.db.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// want compares how many events each reader receives.
func (w *world) want(when string, strangers, readers, author int) {
	w.t.Helper()
	for _, tt := range []struct {
		name   string
		reader *host.Reader
		want   int
	}{
		{"a stranger", nil, strangers},
		{"a member", &host.Reader{Sets: []string{members.Set}}, readers},
		{"the author of a message", &host.Reader{Keys: []host.PubKey{{9}}}, author},
	} {
		n, err := w.db.Count(context.Background(), []host.Filter{{Limit: -1, Reader: tt.reader}}, 0)
		if err != nil || n != int64(tt.want) {
			w.t.Errorf("%s, %s receives %d, %v; want %d", when, tt.name, n, err, tt.want)
		}
	}
}

// TestSweep changes settings under a repository and a message.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const address = "30617:0100000000000000000000000000000000000000000000000000000000000000:secret"
		announcement := event(1, 1, 30617, host.Tag{"d", "secret"}, host.Tag{"maintainers", host.PubKey{2}.String()})
		state := event(2, 2, 30618, host.Tag{"d", "secret"})
		issue := event(3, 5, 1621, host.Tag{"a", address})
		comment := event(4, 6, 1111, host.Tag{"E", issue.ID.String()})
		reply := event(5, 7, 1111, host.Tag{"e", comment.ID.String()})
		message := event(6, 9, 1059)
		other := event(7, 3, 30617, host.Tag{"d", "open"})
		elsewhere := event(8, 3, 30618, host.Tag{"d", "secret"}) // of nobody whom the repository lists
		w.put(announcement, state, issue, comment, reply, message, other, elsewhere)
		stop := w.run()
		defer stop()
		settle := func() {
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		settle()
		w.want("without modules", 8, 8, 8)
		w.modules.set("some", false)
		settle()
		w.want("with modules", 2, 7, 3)
		if a := w.audiences.Repository(host.Address{Kind: 30617, PubKey: host.PubKey{1}, D: "secret"}); !members.Equal(&host.Audience{Set: a.Set}) {
			t.Errorf("the repository is for %v", a)
		}
		w.put(event(20, 8, 1111, host.Tag{"e", reply.ID.String()}), event(21, 8, 7, host.Tag{"a", address}), event(22, 8, 1))
		w.want("after more about the repository", 3, 10, 4)
		w.modules.set("", true)
		settle()
		w.want("while a module does not run", 3, 10, 4)
		w.modules.set("", false)
		settle()
		w.want("without modules again", 11, 11, 11)
		if a := w.audiences.Repository(host.Address{Kind: 30617, PubKey: host.PubKey{1}, D: "secret"}); a != nil {
			t.Errorf("the repository is for %v", a)
		}
		w.modules.set("some", false)
		w.put(event(23, 9, 1059)) // answered by other settings than those of the last sweep
		w.modules.set("", false)
		settle()
		w.want("after settings that came and went", 12, 12, 12)
	})
}

// TestMissed has another process make a repository private, unseen.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.modules.set("some", false)
		other := audience.New(audience.Config{Modules: w.modules, Store: w.db, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		announcement := event(1, 1, 30617, host.Tag{"d", "secret"})
		issue := event(3, 5, 1621, host.Tag{"a", "30617:0100000000000000000000000000000000000000000000000000000000000000:secret"})
		w.put(announcement, issue)
		comment := event(4, 5, 1111, host.Tag{"e", issue.ID.String()})
		if a, err := other.Audience(t.Context(), comment, nil, 0); err != nil || a != nil {
			t.Fatalf("the test is wrong: %v, %v", a, err)
		}
		other.Missed()
		if a, err := other.Audience(t.Context(), comment, nil, 0); err != nil || a == nil || a.Set != members.Set {
			t.Errorf("a comment on what was missed: %v, %v", a, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- other.Run(ctx, w.apply) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if a := other.Repository(host.Address{Kind: 30617, PubKey: host.PubKey{1}, D: "secret"}); a == nil {
			t.Error("the repository is for everybody")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPending decides about an event together with the announcement that it names.
func TestPending(t *testing.T) {
	w := newWorld(t)
	defer w.db.Close()
	w.modules.set("some", false)
	announcement := event(1, 1, 30617, host.Tag{"d", "secret"}).For(&host.Audience{Set: members.Set, Repository: true})
	address, _ := announcement.Address()
	issue := event(3, 5, 1621, host.Tag{"a", address.String()})
	if a := w.audiences.With(issue, nil, []*host.Event{announcement}); a == nil || a.Set != members.Set || !a.Repository {
		t.Errorf("in one batch: %v", a)
	}
	private := issue.For(&host.Audience{Set: members.Set, Repository: true})
	if a := w.audiences.With(event(5, 5, 1111, host.Tag{"e", issue.ID.String()}), nil, []*host.Event{private}); a == nil || a.Set != members.Set {
		t.Errorf("a comment in the batch of its issue: %v", a)
	}
	if a := w.audiences.With(event(4, 5, 1), nil, []*host.Event{announcement}); a != nil {
		t.Errorf("of another event: %v", a)
	}
	w.audiences.Committed(nil, []host.HeldChange{{Event: announcement, Status: host.StatusHeld}})
	if a, err := w.audiences.Audience(t.Context(), issue, nil, 0); err != nil || a == nil || a.Set != members.Set {
		t.Errorf("while the announcement is held: %v, %v", a, err)
	}
}
