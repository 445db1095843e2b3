package wake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/contain"
	"talon/host/wire"
)

// fake is a store and a pipeline: decide says what becomes of an event that is submitted.
type fake struct {
	mu        sync.Mutex // guards the fields below, which tests change with do
	stored    []*host.Event
	held      []host.HeldEvent
	decide    func(*host.Item) host.Verdict
	submitted []string
	settings  int
	away      bool
}

// do runs a step of a test.
func (f *fake) do(step func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step()
}

func (f *fake) Query(_ context.Context, filter host.Filter) (texts [][]byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.stored {
		if filter.Matches(e) {
			texts = append(texts, e.JSON)
		}
	}
	return texts, nil
}

func (f *fake) HeldBy(_ context.Context, filter host.Filter) (texts [][]byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.held {
		if e, _ := wire.ParseEvent(slices.Clone(h.JSON)); filter.Matches(e) {
			texts = append(texts, h.JSON)
		}
	}
	return texts, nil
}

func (f *fake) index(id host.ID) int {
	return slices.IndexFunc(f.held, func(h host.HeldEvent) bool {
		e, _ := wire.ParseEvent(slices.Clone(h.JSON))
		return e.ID == id
	})
}

func (f *fake) HeldEvent(_ context.Context, id host.ID) (h host.HeldEvent, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return h, false, errors.New("the database is away")
	}
	if i := f.index(id); i >= 0 {
		return f.held[i], true, nil
	}
	return h, false, nil
}

func (f *fake) EachHeld(_ context.Context, yield func(host.HeldEvent) error) error {
	f.mu.Lock()
	held, away := slices.Clone(f.held), f.away
	f.mu.Unlock()
	if away {
		return errors.New("the database is away")
	}
	for _, h := range held {
		if err := yield(h); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Submit(_ context.Context, it *host.Item) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !it.Woken {
		return errors.New("the item is no woken one")
	}
	f.submitted = append(f.submitted, it.Event.Content)
	v := host.Verdict{Code: host.Stored}
	if f.decide != nil {
		v = f.decide(it)
	}
	if i := f.index(it.Event.ID); v.Code != host.Held && !v.ForNow() {
		f.held = slices.Delete(f.held, i, i+1)
	}
	it.Done(v, nil)
	return nil
}

// event is one by an author, with p tags.
func event(n int, author byte, content string, people ...byte) *host.Event {
	e := &host.Event{Kind: 1, CreatedAt: int64(n), PubKey: host.PubKey{author}, Content: content}
	binary.BigEndian.PutUint32(e.ID[:], uint32(n))
	for _, p := range people {
		e.Tags = append(e.Tags, host.Tag{"p", host.PubKey{p}.String()})
	}
	e.JSON = e.AppendJSON(nil)
	return e
}

// waits holds an event until the author 1 names its author.
func (f *fake) waits(e *host.Event) {
	filter := fmt.Sprintf(`{"authors":[%q],"#p":[%q]}`, host.PubKey{1}, e.PubKey)
	f.do(func() { f.held = append(f.held, host.HeldEvent{JSON: e.JSON, Wake: []byte(filter)}) })
}

func (f *fake) start(t *testing.T) *Waker {
	log := slog.New(slog.DiscardHandler)
	w := New(Config{
		Store: f, Submit: f.Submit, Settings: func() (now any) {
			f.do(func() { now = f.settings })
			return now
		},
		Panics: contain.New(contain.Daemon, log), Log: log, Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return w
}

func (f *fake) want(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.submitted, want) {
		t.Errorf("%s: submitted %q, want %q", what, f.submitted, want)
	}
	f.submitted = nil
}

func published(e *host.Event) []host.Published { return []host.Published{{Event: e, Seq: 1}} }

func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		first, second, other := event(1, 7, "first"), event(2, 7, "second"), event(3, 8, "other")
		f.waits(first)
		f.waits(second)
		w := f.start(t)
		f.want(t, "at the start")
		f.waits(other)
		w.Follow(nil, []host.HeldChange{{Event: other, Status: host.StatusHeld, Awaits: true}})
		f.want(t, "what waits for something that has not come")
		w.Publish(published(event(10, 2, "by a stranger", 7)))
		w.Publish(published(event(11, 1, "about somebody else", 9)))
		w.Publish([]host.Published{{Event: event(12, 1, "ephemeral", 7)}})
		f.want(t, "events that match nothing")
		w.Publish(published(event(13, 1, "answers", 7)))
		f.want(t, "an event that both wait for", "first", "second")
		w.Follow(nil, []host.HeldChange{{Event: event(14, 1, "held itself", 8), Status: host.StatusHeld}})
		f.want(t, "a held event counts too", "other")
		w.Publish(published(event(15, 1, "answers", 7, 8)))
		f.want(t, "nothing waits any more")
	})
}

// TestCameBefore: the event has come before its filter was known: between two starts, in a gap, and
// right after the one that waits for it.
func TestCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{stored: []*host.Event{event(10, 1, "answers", 7)}}
		f.waits(event(1, 7, "waits"))
		f.waits(event(2, 8, "waits on"))
		w := f.start(t)
		f.want(t, "at the start", "waits")
		gone := event(3, 7, "gone already")
		w.Follow(nil, []host.HeldChange{{Event: gone, Status: host.StatusHeld, Awaits: true}})
		f.want(t, "one that is not held any more")
		late := event(4, 7, "late")
		f.waits(late)
		w.Follow(nil, []host.HeldChange{{Event: late, Status: host.StatusHeld, Awaits: true}})
		f.want(t, "right after", "late")
		f.waits(event(5, 7, "in a gap"))
		w.Missed()
		f.want(t, "in a gap", "in a gap")
	})
}

// TestOften: an event that is held again is left alone for longer and longer.
func TestOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{decide: func(*host.Item) host.Verdict { return host.Verdict{Code: host.Held} }}
		f.waits(event(1, 7, "waits"))
		w := f.start(t)
		n := 0
		for i := range 4 * 60 * 60 {
			w.Publish(published(event(100+i, 1, "dislikes", 7)))
			time.Sleep(time.Second)
			f.do(func() { n, f.submitted = n+len(f.submitted), nil })
		}
		if n < 4*6 || n > 4*6+20 {
			t.Errorf("submitted %d times in four hours of one wake each second", n)
		}
		f.do(func() { f.settings++ })
		time.Sleep(2 * time.Second)
		f.want(t, "after a change of the settings", "waits")
	})
}

// TestForNow: what is refused for now, and what meets a database that is away, is tried again.
func TestForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{decide: func(*host.Item) host.Verdict {
			return host.Verdict{Code: host.Rejected, Reason: "rate-limited: slow down"}
		}}
		f.waits(event(1, 7, "waits"))
		w := f.start(t)
		w.Publish(published(event(10, 1, "answers", 7)))
		f.want(t, "refused for now", "waits")
		f.do(func() { f.away = true })
		time.Sleep(5 * time.Second)
		f.do(func() { f.submitted, f.away, f.decide = nil, false, nil })
		time.Sleep(time.Minute)
		f.want(t, "accepted later", "waits")
		late := event(2, 7, "late")
		f.waits(late)
		f.do(func() { f.away, f.stored = true, append(f.stored, event(10, 1, "answers", 7)) })
		w.Follow(nil, []host.HeldChange{{Event: late, Status: host.StatusHeld, Awaits: true}})
		f.want(t, "while the database is away")
		f.do(func() { f.away = false })
		time.Sleep(2 * time.Second)
		f.want(t, "when it is back", "late")
	})
}

// TestIndex compares the index with all filters, one after the other.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() (list []byte) {
		for range r.IntN(3) {
			list = append(list, byte(r.IntN(6)))
		}
		return list
	}
	x := newIndex()
	for step := range 5000 {
		id := host.ID{0, 0, 0, byte(r.IntN(40))}
		switch r.IntN(3) {
		case 0:
			x.remove(id)
		case 1:
			f := host.Filter{Limit: -1}
			for _, n := range some() {
				f.Authors = append(f.Authors, host.PubKey{n})
			}
			for _, n := range some() {
				f.IDs = append(f.IDs, host.ID{0, 0, 0, n})
			}
			if list := some(); list != nil || f.Authors == nil && f.IDs == nil {
				tag := host.TagFilter{Name: 'p', Values: []string{host.PubKey{9}.String()}}
				for _, n := range list {
					tag.Values = append(tag.Values, host.PubKey{n}.String())
				}
				f.Tags = []host.TagFilter{tag}
			}
			x.add(&row{id: id, filter: f.Canonical()})
		default:
			e := event(r.IntN(40), byte(r.IntN(6)), "", some()...)
			got, want := map[host.ID]bool{}, map[host.ID]bool{}
			x.match(e, func(r *row) { got[r.id] = true })
			for id, r := range x.rows {
				if id != e.ID && r.filter.Matches(e) {
					want[id] = true
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("at step %d: %v, want %v", step, got, want)
			}
		}
	}
	for id := range x.rows {
		x.remove(id)
	}
	if len(x.keys) > 0 {
		t.Errorf("%d keys are left", len(x.keys))
	}
}

// TestRepeatedTag: an event that has one value many times costs what one with it once does.
func TestRepeatedTag(t *testing.T) {
	x := newIndex()
	for i := range 3 {
		f := host.Filter{Limit: -1, Tags: []host.TagFilter{{Name: 'a', Values: []string{"x"}}}}
		x.add(&row{id: host.ID{byte(i + 1)}, filter: f.Canonical()})
	}
	e := &host.Event{ID: host.ID{9}}
	for range 2000 {
		e.Tags = append(e.Tags, host.Tag{"a", "x"}, host.Tag{"a", "elsewhere"})
	}
	looks := 0
	x.match(e, func(*row) { looks++ })
	if looks != 3 {
		t.Errorf("3 filters were looked at %d times", looks)
	}
}
