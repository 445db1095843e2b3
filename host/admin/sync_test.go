package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host/relaysync"
)

type fakeSync struct {
	asked relaysync.Query
	about []string
	err   error
}

func (f *fakeSync) Status(_ context.Context, q relaysync.Query) (relaysync.Snapshot, error) {
	f.asked = q
	return relaysync.Snapshot{Connections: 3, Relays: []relaysync.RelaySnapshot{{Relay: "wss://a", Health: "barred"}}}, f.err
}

func (f *fakeSync) Now(_ context.Context, url string) (int, error) {
	f.about = append(f.about, "now "+url)
	return 2, f.err
}

func (f *fakeSync) Unbar(_ context.Context, url string) error {
	f.about = append(f.about, "unbar "+url)
	return f.err
}

func TestSync(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "talon.sock")
	serve := func(s Sync) (*Client, func()) {
		t.Helper()
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, l, Surface{Plugins: &fake{}, Sync: s}, slog.New(slog.DiscardHandler)) }()
		return Dial(path), func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}

	client, stop := serve(nil)
	_, status := client.Sync(t.Context(), relaysync.Query{Limit: 1})
	_, now := client.SyncNow(t.Context(), "")
	for _, err := range []error{status, now, client.SyncUnbar(t.Context(), "wss://a")} {
		if err == nil || !strings.Contains(err.Error(), "does not follow other relays") {
			t.Errorf("without sync: %v", err)
		}
	}
	stop()

	f := new(fakeSync)
	client, stop = serve(f)
	defer stop()
	q := relaysync.Query{Relay: "wss://a?b=c&d", Repository: "30617:ab:ü", Limit: 7}
	got, err := client.Sync(t.Context(), q)
	if err != nil || got.Connections != 3 || got.Relays[0].Health != "barred" || f.asked != q {
		t.Errorf("%+v, %v, asked for %+v", got, err, f.asked)
	}
	if _, err := client.Sync(t.Context(), relaysync.Query{Limit: 1 << 30}); err != nil || f.asked.Limit != maxSynced {
		t.Errorf("%v, asked for %+v", err, f.asked)
	}
	if _, err := client.Sync(t.Context(), relaysync.Query{}); err == nil || !strings.Contains(err.Error(), "want a number from 1") {
		t.Errorf("a limit of 0: %v", err)
	}
	n, err := client.SyncNow(t.Context(), "")
	if unbarred := client.SyncUnbar(t.Context(), "wss://a"); n != 2 || err != nil || unbarred != nil || fmt.Sprint(f.about) != "[now  unbar wss://a]" {
		t.Errorf("%d, %v, %v, %q", n, err, unbarred, f.about)
	}
	f.err = fmt.Errorf("%w: x", relaysync.ErrUnknownRelay)
	_, status = client.Sync(t.Context(), relaysync.Query{Limit: 1})
	_, now = client.SyncNow(t.Context(), "wss://x")
	for _, err := range []error{status, now, client.SyncUnbar(t.Context(), "wss://x")} {
		if err == nil || err.Error() != f.err.Error() {
			t.Errorf("%v", errors.Join(err))
		}
	}
}
