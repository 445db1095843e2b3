//go:build linux

package main_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd are the broad questions of clients who ask for everything, each valid and within
// the default limits.
func crowd() (frames []string) {
	all := func(name string, n int, value func(int) string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = `"` + value(i) + `"`
		}
		return `"` + name + `":[` + strings.Join(list, ",") + `]`
	}
	topics := all("#t", 100, func(i int) string { return fmt.Sprintf("topic%d", i) })
	people := all("authors", authors, authorHex)
	pubkeys := all("#p", 1500, namedEvent)
	var pages []string
	for i := range 10 {
		pages = append(pages, fmt.Sprintf(`{"limit":5000,"until":%d}`, created(10_000*(i+1))))
	}
	for _, message := range []string{
		`["REQ","s",{"limit":5000}]`,
		`["REQ","s",{"kinds":[1,7,1111],"limit":5000}]`,
		`["REQ","s",{` + people + `,"limit":5000}]`,
		`["REQ","s",{` + topics + `,"limit":5000}]`,
		`["REQ","s",{` + topics + `,` + people + `,"limit":5000}]`,
		`["REQ","s",{` + topics + `,` + pubkeys + `,"limit":5000}]`,
		`["REQ","s",` + strings.Join(pages, ",") + `]`,
		`["COUNT","s",{` + topics + `}]`,
		`["COUNT","s",{` + topics + `,` + people + `}]`,
		`["COUNT","s",{` + people + `,"#t":["topic1","topic2","topic3"],` + pubkeys + `}]`,
	} {
		frames = append(frames, string(appendFrame(nil, message)))
	}
	return frames
}

// BenchmarkServerCrowd asks a small question again and again, alone and beside 30
// connections that ask broad ones without a pause, or for events that are in memory.
func BenchmarkServerCrowd(b *testing.B) {
	b.Run("broad", func(b *testing.B) { besideCrowd(b, crowd()) })
	b.Run("newest", func(b *testing.B) {
		besideCrowd(b, []string{string(appendFrame(nil, `["REQ","s",{"limit":5000}]`))})
	})
}

func besideCrowd(b *testing.B, frames []string) {
	const conns, asked = 30, 200
	s := serve(b, warm(b), "--max-values", "4000")
	bystander := dial(b, s, false)
	rnd := rand.New(rand.NewPCG(4, 4))
	small := func() []string {
		reqs := make([]string, asked)
		for i := range reqs {
			reqs[i] = string(appendFrame(nil, fmt.Sprintf(`["REQ","b",{"authors":["%s"],"kinds":[1],"limit":20}]`, authorHex(rnd.IntN(authors)))))
		}
		return reqs
	}
	for b.Loop() {
		_, alone := ask(b, bystander, small())

		var stop atomic.Bool
		var events, answers, refused atomic.Int64
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for i := range conns {
			p := dial(b, s, false)
			wg.Go(func() {
				for n := 0; !stop.Load(); n++ {
					got, err := p.query([]byte(frames[(i+n)%len(frames)]))
					if errors.Is(err, errRefused) {
						refused.Add(1)
					} else if err != nil {
						b.Error(err)
						return
					}
					events.Add(int64(got))
					if answers.Add(1) == conns {
						close(ready)
					}
				}
			})
		}
		<-ready
		began, used := time.Now(), s.cpu()
		events.Store(0)
		answers.Store(conns)
		// At a person's pace, so that the crowd is met at every moment of what it does.
		pace := time.NewTicker(50 * time.Millisecond)
		var beside []time.Duration
		for list := small(); len(list) > 0 && time.Since(began) < 20*time.Second; list = list[1:] {
			<-pace.C
			_, times := ask(b, bystander, list[:1])
			beside = append(beside, times...)
		}
		pace.Stop()
		wall := time.Since(began)
		used = s.cpu() - used
		e, a := float64(events.Load()), float64(answers.Load()-conns)
		stop.Store(true)
		wg.Wait()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(quantile(alone, 0.5)), "alone-p50-ms")
		b.ReportMetric(millis(quantile(alone, 0.99)), "alone-p99-ms")
		b.ReportMetric(millis(quantile(beside, 0.5)), "beside-p50-ms")
		b.ReportMetric(millis(quantile(beside, 0.99)), "beside-p99-ms")
		b.ReportMetric(millis(quantile(beside, 1)), "beside-max-ms")
		b.ReportMetric(a/wall.Seconds(), "crowd-answers/s")
		b.ReportMetric(float64(refused.Load()), "crowd-refused")
		b.ReportMetric(e/wall.Seconds(), "crowd-events/s")
		b.ReportMetric(float64(len(beside)), "asked")
		b.ReportMetric(100*used.Seconds()/wall.Seconds(), "cpu-%")
	}
}
