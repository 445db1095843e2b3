package audience

import (
	"fmt"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// BenchmarkInherited is what it costs to see that an event belongs to no restricted repository, while
// there is one: a note with five references.
func BenchmarkInherited(b *testing.B) {
	r := newRepositories()
	r.seen = newFilter()
	r.add(&host.Event{ID: host.ID{1}, Kind: host.KindAnnouncement, Tags: host.Tags{{"d", "x"}}, Audience: &host.Audience{Set: "s", Repository: true}})
	e := &host.Event{Kind: 1}
	for i := range 5 {
		e.Tags = append(e.Tags, host.Tag{"e", fmt.Sprintf("%064x", i+7)})
	}
	before := testkit.CPU()
	for b.Loop() {
		if a, ids := r.of(e); a != nil || len(ids) > 0 {
			b.Fatal("it belongs to one")
		}
	}
	b.ReportMetric(float64(testkit.CPU()-before)/float64(b.N), "cpu-ns/op")
}
