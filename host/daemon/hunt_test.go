//go:build !race

package daemon

// It compiles a module, as tick_serve_test.go does.

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the hunt have the operator's prefix, as those of sync have.
func TestHuntPrefix(t *testing.T) {
	ctx := context.Background()
	plugins := built(t, "plugins/open")
	write(t, plugins, "open.toml", "[config]\nevery = true\n") // a policy has to be there
	cfg := defaults(t, plugins)
	cfg.MetricsPrefix = "ngit"
	core, err := OpenCore(ctx, cfg, slog.New(slog.DiscardHandler), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := core.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	h, err := New(cfg, "test", slog.New(slog.DiscardHandler)).openHunt(ctx, core, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	if !slices.Contains(names, "ngit_purgatory_sync_queue_size") {
		t.Errorf("%q", names)
	}
}
