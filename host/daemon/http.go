package daemon

import (
	"io"
	"net/http"

	"talon/host/metrics"
)

// mux serves what is neither a websocket nor NIP-11 on the relay's own address.
func (d *Daemon) mux(registry *metrics.Registry) http.Handler {
	if d.cfg.MetricsListen != "" {
		return front(http.NewServeMux())
	}
	return front(d.admin(registry))
}

// admin serves what operators look at.
func (d *Daemon) admin(registry *metrics.Registry) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", registry.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// front adds what a browser sees that was sent here by mistake.
func front(mux *http.ServeMux) *http.ServeMux {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "This is a nostr relay. Open this address with a nostr client, as ws:// or wss://.\n")
	})
	return mux
}
