package plugin

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
)

// recorded is a recording that is under way.
type recorded struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	text strings.Builder // after done
	came Recorded
	err  error
}

// record begins a recording and waits until it has begun.
func (w *world) record(o Recording) *recorded {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	r := &recorded{t: w.t, stop: stop, done: make(chan struct{})}
	begun := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(r.done)
		r.came, r.err = w.Record(ctx, o, func(lines []byte) error {
			once.Do(func() { close(begun) })
			r.text.Write(lines)
			return nil
		})
		once.Do(func() { close(begun) })
	}()
	<-begun
	return r
}

// lines ends the recording, and returns "by action rule" of each line.
func (r *recorded) lines() (list []string) {
	r.t.Helper()
	r.stop()
	<-r.done
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	for line := range strings.Lines(r.text.String()) {
		var l struct {
			Function, By string
			Chain        []string
			Asked        int
			Want         struct{ Action, Rule string }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			r.t.Fatalf("%v: %s", err, line)
		}
		if l.Chain != nil {
			l.By += fmt.Sprintf(" %d of %s", l.Asked, l.Chain)
		}
		list = append(list, strings.TrimSpace(l.Function+" "+l.By+" "+l.Want.Action+" "+l.Want.Rule))
	}
	return list
}

func (r *recorded) want(lines ...string) {
	r.t.Helper()
	if got := fmt.Sprint(r.lines()); got != fmt.Sprint(lines) {
		r.t.Errorf("%s, want %s", got, lines)
	}
}

var hour = Recording{For: time.Hour, Max: 1000}

func of(plugin string) Recording {
	o := hour
	o.Plugin = plugin
	return o
}

// TestRecord records what the chain says, and what one plugin says, in its place and
// in shadow.
func TestRecord(t *testing.T) {
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	guard := rejecting("no")
	guard.trap = true // on event 255
	w.drop("guard.wasm", guard.wasm(t))
	w.drop("guard.toml", []byte(`mode = "shadow"`))
	connects := rejecting("full")
	connects.functions = []string{"connect"}
	w.drop("door.wasm", connects.wasm(t))
	w.mustOpen()
	ask := func() {
		t.Helper()
		w.later(time.Hour) // it may fail again
		w.said(1)
		w.said(255)
		for _, f := range []func() (host.Ruling, error){
			func() (host.Ruling, error) { return w.Connect(t.Context(), &host.Connection{}) },
			func() (host.Ruling, error) {
				return w.Query(t.Context(), &host.Query{Client: &host.Client{}, Filters: []host.Filter{{Limit: -1}}})
			},
		} {
			if _, err := f(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask() // nobody records
	r := w.record(hour)
	ask()
	r.want("admit open 1 of [open] accept v1", "admit open 1 of [open] accept v1", "connect door 1 of [door] reject full", "query  0 of [] pass")
	if r.came.Ended != "stopped" || r.came.Lines != 4 || r.came.Functions["admit"] != 2 {
		t.Errorf("%+v", r.came)
	}
	ask() // nobody records any more
	r = w.record(of("guard"))
	ask()
	r.want("admit guard reject no", "admit guard pass failed")
	r = w.record(of("door"))
	ask()
	r.want("connect door reject full")

	w.change("guard.toml", []byte(`mode = "enforce"`))
	r = w.record(of("guard"))
	ask()
	r.want("admit guard reject no", "admit guard reject failed")
}

// TestRecordEnds has a recording end by time, by count, and by who cannot write it.
func TestRecordEnds(t *testing.T) {
	w := openWorld(t)
	r := w.record(Recording{For: time.Nanosecond, Max: 5})
	<-r.done
	if r.err != nil || r.came.Ended != "time" || r.came.Lines != 0 {
		t.Errorf("%+v, %v", r.came, r.err)
	}
	r = w.record(Recording{For: time.Hour, Max: 2})
	if _, err := w.Record(t.Context(), hour, nil); !errors.Is(err, ErrRecording) {
		t.Errorf("two at once: %v", err)
	}
	for id := range byte(5) {
		w.said(id)
	}
	<-r.done
	if r.err != nil || r.came.Ended != "count" || r.came.Lines != 2 {
		t.Errorf("%+v, %v", r.came, r.err)
	}
	full := errors.New("the disk is full")
	if _, err := w.Record(t.Context(), hour, func([]byte) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := w.Record(t.Context(), of("nobody"), nil); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if w.recording.Load() != nil {
		t.Error("somebody records")
	}
}

// TestRecordDoesNotWait decides while nobody reads the recording.
func TestRecordDoesNotWait(t *testing.T) {
	w := openWorld(t)
	first, read := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	var came Recorded
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		var err error
		came, err = w.Record(ctx, Recording{For: time.Hour, Max: 100_000}, func(lines []byte) error {
			if len(lines) == 0 {
				close(first)
				<-read
			}
			return nil
		})
		done <- err
	}()
	<-first
	it := item(1)
	it.Event.Content = strings.Repeat("x", 500_000)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				if _, err := w.Admit(context.Background(), it, nil, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait() // all are decided, with nobody to read
	stop()
	close(read)
	if err := <-done; err != nil || came.Lines == 0 || came.Dropped == 0 || came.Lines+came.Dropped != 80 {
		t.Errorf("%+v, %v; want all 80 to be there or counted", came, err)
	}
}

// BenchmarkRecord decides about a note of 500 bytes, while nobody records and while
// somebody does.
func BenchmarkRecord(b *testing.B) {
	for _, recording := range []bool{false, true} {
		b.Run(fmt.Sprintf("recording=%v", recording), func(b *testing.B) {
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "open.wasm"), accepting("1").wasm(b), 0o600); err != nil {
				b.Fatal(err)
			}
			r, err := Open(b.Context(), Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = r.Close(context.Background()) }()
			if recording {
				s := newRecording(Recording{Max: math.MaxInt}, math.MaxInt64, host.Service{})
				r.recording.Store(s)
				defer s.close()
				go func() {
					for len(s.next()) > 0 {
					}
				}()
			}
			it := item(1)
			it.Event.Content = strings.Repeat("x", 500)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Admit(b.Context(), it, nil, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// traceOf is the trace of a decision about an event of a client.
func traceOf(event host.ID, at int64) *trace {
	return &trace{question: &question{item: &host.Item{Event: &host.Event{ID: event}}, source: "client", now: at}}
}

// TestJournalShares checks that equal decisions take the room of one, and that entries of
// different ones are not mixed up.
func TestJournalShares(t *testing.T) {
	const entries = 10_000
	id := func(n int) (id host.ID) {
		binary.LittleEndian.PutUint64(id[:], uint64(n))
		return id
	}
	chains := [][]string{{"open"}, {"lists", "open"}}
	ask := func(n int) *trace {
		q := traceOf(id(n), 1000)
		q.fuel, q.chain, q.asked, q.ruling = int64(n), chains[0], 1, host.Ruling{Action: host.Accept, Module: "open"}
		q.answers = make([]answer, 2)
		switch {
		case n%2 == 1:
			q.ruling = host.Ruling{Action: host.Reject, Reason: "blocked: spam", Module: "lists"}
		case n >= entries/2:
			q.chain, q.asked = chains[1], 2
		}
		if n == 4 {
			q.source = "sync"
		}
		if n == 5 {
			q.ruling.Reason = "blocked: other"
		}
		q.answers = q.answers[:q.asked]
		if n == 6 {
			q.answers = append(q.answers, answer{by: &generation{name: "shadow"}, ruling: host.Ruling{Action: host.Reject}})
		}
		return q
	}
	j := newJournal(entries)
	shared := map[*decision]bool{}
	for n := range entries {
		j.add(ask(n))
		shared[j.ring[n].decision] = true
	}
	// Three common ones, and three single ones. After one or two of these a common one is kept again.
	if len(shared) != 8 {
		t.Errorf("%d decisions are kept, want 8", len(shared))
	}
	for n := range entries {
		why, ok := j.find(id(n), time.Unix(1000, 0))
		want, shadows := ask(n), 0
		if n == 6 {
			shadows = 1
		}
		if !ok || why.Source != want.source || why.Ruling.Reason != want.ruling.Reason || why.Ruling.Plugin != want.ruling.Module ||
			why.Ruling.Fuel != want.fuel || fmt.Sprint(why.Asked) != fmt.Sprint(want.chain) || len(why.Shadow) != shadows {
			t.Errorf("event %d: %+v", n, why)
		}
	}
}

// TestJournalRemembersTheLast compares the journal with a list, for events that come again
// or not: a decision that is taken again keeps its place, and the oldest make room.
func TestJournalRemembersTheLast(t *testing.T) {
	const entries, events = 7, 20
	random := rand.New(rand.NewPCG(1, 2))
	j := newJournal(entries)
	var places []host.ID // of the last, the oldest first
	fuel := map[host.ID]int64{}
	for n := range int64(10_000) {
		event := host.ID{31: byte(random.IntN(events))}
		if random.IntN(4) > 0 && len(places) > 0 {
			event = places[random.IntN(len(places))]
		}
		d := traceOf(event, 1000)
		d.fuel, d.ruling.Action = n, host.Accept
		j.add(d)
		if fuel[event] = n; !slices.Contains(places, event) {
			places = append(places, event)
			places = places[max(len(places)-entries, 0):]
		}
		for i := range byte(events) {
			event := host.ID{31: i}
			why, ok := j.find(event, time.Unix(1000, 0))
			if ok != slices.Contains(places, event) || ok && why.Ruling.Fuel != fuel[event] {
				t.Fatalf("after %d decisions: event %d: %v, %+v; want %d of %v", n+1, i, ok, why.Ruling, fuel[event], places)
			}
		}
	}
}
