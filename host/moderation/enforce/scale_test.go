package enforce_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"talon/host"
	"talon/host/moderation"
	"talon/host/moderation/enforce"
	"talon/host/store/storetest"
)

// TestMillion counts 1,000,000 events by a filter, and hides, shows and purges them. It reports the memory
// and the progress. It also reports how long others wait for a commit and for an answer at that time.
// TALON_TEST_SCALE may be another number of events.
func TestMillion(t *testing.T) {
	scale := os.Getenv("TALON_TEST_SCALE")
	if scale == "" {
		t.Skip("TALON_TEST_SCALE is not set")
	}
	events, err := strconv.Atoi(scale)
	if err != nil || events < 1000 {
		events = 1_000_000
	}
	r := newRig(t)
	r.now.Store(int64(events)) // a hide concerns what is older
	var part []*host.Event
	for n := range events {
		e := storetest.Event(n, byte(n%50), 1, int64(n/20), host.Tag{"t", "casino"}, host.Tag{"p", host.PubKey{9}.String()})
		if part = append(part, e); len(part) == 1000 {
			r.put(part...)
			part = part[:0]
		}
	}
	target, err := moderation.ParseTarget(`{"kinds":[1],"#t":["casino"]}`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var waits []time.Duration
	done := make(chan struct{})
	go func() { // somebody who is not concerned
		defer close(done)
		source := &host.Source{}
		for n := 0; ctx.Err() == nil; n++ {
			answer, began := make(chan struct{}), time.Now()
			item := &host.Item{Event: storetest.Event(events+n, 99, 30_023, 5, host.Tag{"d", "x"}), Source: source, Done: func(host.Verdict, error) { close(answer) }}
			if r.pipeline.Submit(ctx, item) != nil {
				return
			}
			<-answer
			waits = append(waits, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var reads []time.Duration
	read := make(chan struct{})
	go func() { // and somebody who reads
		defer close(read)
		others := host.Filter{Kinds: []host.Kind{30_023}, Tags: []host.TagFilter{{Name: 'd', Values: []string{"x"}}}, Limit: 10}
		for ctx.Err() == nil {
			began := time.Now()
			found, err := r.db.Select(ctx, []host.Filter{others}, 10)
			if err == nil {
				err = r.db.Fetch(ctx, found.Rows, func(int64, []byte) error { return nil })
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			reads = append(reads, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, peak := heap(), uint64(0)
	reports := 0
	measure := func(enforce.Progress) {
		if reports++; reports%100 == 0 {
			peak = max(peak, heap())
		}
	}
	count, err := r.enforcer.Count(ctx, &moderation.Row{Action: moderation.Hide, Target: target})
	if err != nil || count.Events != int64(events) {
		t.Errorf("a hide would concern %+v, %v", count, err)
	}
	peak = max(peak, heap())
	for _, action := range []moderation.Action{moderation.Hide, moderation.Unhide, moderation.Purge} {
		began := time.Now()
		reports = 0
		_, sum, err := r.enforcer.Moderate(ctx, []moderation.Row{{Action: action, Target: target}}, measure)
		if err != nil || sum.Events != int64(events) || reports < 2 {
			t.Fatalf("%s: %+v after %d reports, %v", action, sum, reports, err)
		}
		t.Logf("%s: %d events in %v, %d reports of progress", action, sum.Events, time.Since(began).Round(time.Second), reports)
	}
	stop()
	<-done
	<-read
	for what, list := range map[string][]time.Duration{"commits": waits, "answers": reads} {
		slices.Sort(list)
		t.Logf("%d %s of others: p50 %v, p99 %v, most %v", len(list), what, list[len(list)/2], list[len(list)*99/100], list[len(list)-1])
	}
	grown := int64(peak) - int64(before)
	if t.Logf("the heap grew by %d MiB at most", grown>>20); grown > 512<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}
