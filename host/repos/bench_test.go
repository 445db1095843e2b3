package repos

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
)

// BenchmarkPush is a push of one commit to an announced repository, from the request
// to the released event: ms/push. The client's own time is not in it, nor what it asks
// for before.
func BenchmarkPush(b *testing.B) {
	w := newWorld(b)
	work := w.workspace()
	work.commit("zero")
	var spent atomic.Int64
	inner := w.server.Config.Handler
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		began := time.Now()
		inner.ServeHTTP(rw, r)
		if strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			spent.Add(int64(time.Since(began)))
		}
	}))
	defer front.Close()
	w.sent(w.announce(alice, "demo"), host.Held)
	w.waitIdle()
	url := front.URL + repoOf(alice, "demo").Path()
	b.ResetTimer()
	for i := range b.N {
		commit := work.commit(strings.Repeat("x", i+1))
		state := w.sent(w.state(alice, "demo", "refs/heads/main", commit), host.Held)
		w.waitIdle()
		work.git("push", url, "main")
		if !w.served(state) {
			b.Fatal("the state is not served")
		}
	}
	b.ReportMetric(float64(spent.Load())/float64(b.N)/1e6, "ms/push")
	b.ReportMetric(0, "ns/op")
}
