package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Talon's own metrics are shown under the operator's prefix, whether the package that
// makes them knows it or not; those of the process keep their names.
func TestPrefix(t *testing.T) {
	for prefix, own := range map[string]string{"talon": "talon", "ngit": "ngit"} {
		r := New("1.2.3", prefix, "")
		count := func(name string) prometheus.Collector {
			return prometheus.NewCounter(prometheus.CounterOpts{Name: name})
		}
		if err := r.Register(count("talon_events_total"), count(prefix+"_sync_total")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w := httptest.NewRecorder()
			r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			text := w.Body.String()
			for _, want := range []string{own + "_build_info{version=\"1.2.3\"} 1\n", own + "_events_total 0\n", own + "_sync_total 0\n", "\ngo_goroutines "} {
				if !strings.Contains(text, want) {
					t.Errorf("with the prefix %s there is no %q in\n%s", prefix, want, text)
				}
			}
			if own != "talon" && strings.Contains(text, "talon") {
				t.Errorf("with the prefix %s there are names with talon:\n%s", prefix, text)
			}
		}
	}
}
