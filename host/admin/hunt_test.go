package admin

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host/gitfetch"
)

type fakeHunt struct {
	hurried []string
	limit   int
	err     error
}

func (f *fakeHunt) Status(_ context.Context, maximum int) (gitfetch.Status, error) {
	f.limit = maximum
	return gitfetch.Status{Waiting: 1, Repositories: []gitfetch.RepositoryStatus{{Identifier: "x", Missing: 2}}}, nil
}

func (f *fakeHunt) FetchNow(_ context.Context, repository, identifier string) error {
	f.hurried = append(f.hurried, repository+" "+identifier)
	return f.err
}

func TestHunt(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "talon.sock")
	for _, hunt := range []*fakeHunt{nil, {}} {
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		var h Hunt
		if hunt != nil {
			h = hunt
		}
		go func() { done <- Serve(ctx, l, Surface{Plugins: &fake{}, Hunt: h}, slog.New(slog.DiscardHandler)) }()
		client := Dial(path)
		status, err := client.Hunt(t.Context(), 7)
		now := client.HuntNow(t.Context(), "30617:ab:x", "x")
		if hunt == nil {
			if err == nil || now == nil || !strings.Contains(now.Error(), "does not hunt") {
				t.Errorf("without a hunt: %v, %v", err, now)
			}
		} else {
			if err != nil || status.Repositories[0].Missing != 2 || hunt.limit != defaultHunted || now != nil || hunt.hurried[0] != "30617:ab:x x" {
				t.Errorf("%+v, %v, %v, %+v", status, err, now, hunt)
			}
			hunt.err = errors.New("too many")
			if err := client.HuntNow(t.Context(), "", "x"); err == nil || err.Error() != "too many" {
				t.Errorf("%v", err)
			}
			for _, wrong := range []string{"", strings.Repeat("x", 5000)} {
				if err := client.HuntNow(t.Context(), "", wrong); err == nil || !strings.Contains(err.Error(), "identifier") {
					t.Errorf("%.10q: %v", wrong, err)
				}
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
