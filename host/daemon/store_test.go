package daemon

import (
	"log/slog"
	"testing"

	"talon/host/config"
	"talon/internal/testkit"
)

var database testkit.Postgres

// TestBeginFails checks that a transaction that failed to begin is not rolled back.
func TestBeginFails(t *testing.T) {
	t.Cleanup(database.Stop)
	for name, store := range map[string]func(*testing.T) string{
		"file":       func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string { return database.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{Data: t.TempDir(), Store: store(t), Cache: 1 << 20}
			db, err := OpenStore(t.Context(), cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if tx, err := db.Begin(); tx != nil || err == nil {
				t.Errorf("got %v, %v", tx, err)
			}
		})
	}
}
