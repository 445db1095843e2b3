package repos

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host/contain"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// TestPanicInJob: a round that panics is a round that failed. Those who wait for it go on, and
// so do other jobs and the next round of the same job.
func TestPanicInJob(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	f := &Reconciler{log: log, metrics: newMetrics(), panics: contain.New(contain.Repos, log), ctx: context.Background()}
	f.jobs.start = func(key any, j *job) { go f.runJob(key, j) }
	for round := range 3 {
		// There is no store, so that the search for maintainers panics.
		bad := f.jobs.enqueue(identifier("demo"), task{authors: setOf(grasp.PubKey{})})
		good := f.jobs.enqueue("other", task{})
		testkit.Receive(t, "the end of the round that panics", bad)
		testkit.Receive(t, "the end of another", good)
		if n := testutil.ToFloat64(f.panics.Collector()); int(n) != round+1 {
			t.Errorf("%v panics are counted after %d rounds", n, round+1)
		}
	}
	f.jobs.close() // waits for all jobs
	if n := testutil.ToFloat64(f.metrics.failed); n != 3 {
		t.Errorf("%v failures are counted", n)
	}
}
