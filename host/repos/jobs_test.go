package repos

import (
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
)

// rounds is a set of jobs whose rounds fail as long as fails is set. It remembers each round.
type rounds struct {
	jobs  jobs
	fails bool
	began time.Time
	at    []time.Duration // of each round, since began
	tasks []task
}

func newRounds() *rounds {
	r := &rounds{fails: true, began: time.Now()}
	r.jobs.start = func(key any, j *job) {
		go func() {
			for {
				t, done, ok := r.jobs.dequeue(key, j)
				if !ok {
					return
				}
				r.at, r.tasks = append(r.at, time.Since(r.began)), append(r.tasks, t)
				if r.fails {
					r.jobs.retry(key, t)
				} else {
					r.jobs.succeeded(key)
				}
				close(done)
			}
		}()
	}
	return r
}

// TestFailedRound: a round that fails is made again, with its task, after pauses that grow. The
// first one that succeeds ends this.
func TestFailedRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds()
		r.jobs.enqueue("a", task{all: true, ids: setOf(host.ID{1})})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}
		if len(r.at) != len(want) {
			t.Fatalf("rounds at %v, want %v", r.at, want)
		}
		for i := range want {
			if r.at[i] != want[i] || !r.tasks[i].all || len(r.tasks[i].ids) != 1 {
				t.Errorf("round %d at %v with %+v, want %v and the first task", i, r.at[i], r.tasks[i], want[i])
			}
		}

		// Somebody asks for a round before: it does the failed task too.
		r.fails = false
		<-r.jobs.enqueue("a", task{ids: setOf(host.ID{2})})
		if last := r.tasks[len(r.tasks)-1]; !last.all || len(last.ids) != 2 {
			t.Errorf("the next round has %+v, want both tasks", last)
		}
		n := len(r.at)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(r.at) != n || len(r.jobs.failed) != 0 {
			t.Errorf("%d rounds followed a success, and %d failures are remembered", len(r.at)-n, len(r.jobs.failed))
		}
	})
}

// TestFailedForever: a repository that cannot be brought in line costs a round an hour.
func TestFailedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds()
		r.jobs.enqueue("a", task{})
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if n := len(r.at); n < 48 || n > 48+13 {
			t.Errorf("%d rounds in two days, want one an hour in the end", n)
		}
		r.jobs.close()
		n := len(r.at)
		time.Sleep(2 * time.Hour)
		if len(r.at) != n {
			t.Error("a round was made after the end")
		}
	})
}
