package loop

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"testing"

	"talon/host"
	"talon/host/relaysync/match"
)

// records is what the host keeps for repositories on 5 relays each: its index, its
// records and the matchers of all subscriptions. It returns the bytes.
func records(repos, relays, rootsOfRelay int) int64 {
	before := inUse()
	hash := match.NewHash(1, 2)
	s := &Loop{repos: map[string]*repo{}, relays: map[string]*relay{}}
	var subs [][]match.Matcher
	for i := range repos {
		s.repos[fmt.Sprintf("30617:%064x:repo%d", i, i)] = &repo{relays: make([]string, 5)}
	}
	for i := range relays {
		r := &relay{url: fmt.Sprintf("wss://relay%d.example", i), subs: map[string]*subRecord{}, hists: map[string]*histRecord{}}
		s.relays[r.url] = r
		for j := range (5*repos/relays + rootsOfRelay + 99) / 100 {
			values := make([]string, 100)
			for k := range values {
				values[k] = fmt.Sprintf("%064x", i*1_000_000+j*1000+k)
			}
			var f []host.Filter
			for _, name := range []byte("eEq") {
				f = append(f, host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}, Limit: 0})
			}
			subs = append(subs, hash.Matchers(f))
			r.subs[fmt.Sprint(j)] = &subRecord{live: true}
		}
	}
	used := inUse() - before
	runtime.KeepAlive(s)
	runtime.KeepAlive(subs)
	return used
}

// TestRecords measures the memory of the host for 1,000 repositories with 50 roots, each on 5 of
// 100 relays. The memory of a module comes on top (layered-v5's TestMemory).
func TestRecords(t *testing.T) {
	used := int64(math.MaxInt64)
	for range 3 { // others may allocate meanwhile
		used = min(used, records(1000, 100, 2500))
	}
	if used > 2_500_000 {
		t.Errorf("%d bytes, want at most 2.5 MB", used)
	}
}

// BenchmarkRecords is what TestRecords looks at, and the same for 10,000 repositories,
// one of 20 with 500 roots, on 500 relays.
func BenchmarkRecords(b *testing.B) {
	for _, size := range []struct{ repos, relays, rootsOfRelay int }{{1000, 100, 2500}, {10_000, 500, 7250}} {
		b.Run(fmt.Sprint(size.repos), func(b *testing.B) {
			for range b.N {
				b.ReportMetric(float64(records(size.repos, size.relays, size.rootsOfRelay))/1e6, "MB")
			}
		})
	}
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A record is written as encoding/json would write it.
func TestRecordIsJSON(t *testing.T) {
	for _, r := range []record{{}, {LastConnected: 5}, {DisconnectedAt: -3, Negentropy: 2}, {1, 2, 3, limitsSeen{}}, {1, 2, 3, limitsSeen{Version: "x", At: 4}}, {1, 2, 0, limitsSeen{disconnects: 1}},
		{Learnt: limitsSeen{Version: "a<\"é\xff\u2028", At: 4, Subscriptions: 5, Values: 6, Filters: 7, Limit: 8, Message: 9, Fit: 10, Over: 11, Pace: 12}}} {
		if want, err := json.Marshal(r); err != nil || string(r.encode()) != string(want) {
			t.Errorf("%+v: %s, want %s (%v)", r, r.encode(), want, err)
		}
	}
}
