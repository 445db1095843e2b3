package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
)

// TestCopyKeepsWaits: an event that a module holds waits in the copy as long as the module said.
func TestCopyKeepsWaits(t *testing.T) {
	t.Parallel()
	const since, wait = 1_700_000_000, 1000
	data, other := newData(t), filepath.Join(t.TempDir(), "other")
	open := func(folder string) daemon.Store {
		t.Helper()
		db, err := daemon.OpenStore(t.Context(), &config.Config{Data: folder, Readers: 1, Cache: 64 << 20}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(data)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	e := &host.Event{ID: host.ID{1}, PubKey: host.PubKey{2}, CreatedAt: since, Kind: 1111, Content: "first contact"}
	e.JSON = e.AppendJSON(nil)
	out, err := tx.Hold(e, host.HoldOptions{Reason: host.ReasonHeld, Wake: []byte(`{"kinds":[3]}`), Wait: wait}, since)
	if err != nil || out.Code != host.Held {
		t.Fatal(out, err)
	}
	if err := errors.Join(tx.Commit(), db.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := talon(t, nil, "copy", "--data", data, "--to", other); err != nil {
		t.Fatalf("copy: %v\n%s", err, out)
	}
	db = open(other)
	defer db.Close()
	h, ok, err := db.HeldEvent(t.Context(), e.ID)
	if err != nil || !ok || h.Since != since || h.Due != since+wait {
		t.Errorf("the copy holds it from %d to %d (%v, %v), want %d to %d", h.Since, h.Due, ok, err, since, since+wait)
	}
}
