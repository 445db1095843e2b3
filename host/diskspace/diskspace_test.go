package diskspace

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestWatch fills and empties a disk. Each change is one line of the log.
func TestWatch(t *testing.T) {
	var log strings.Builder
	free := map[string]int64{"/a": 1000, "/b": 1000}
	w := newWatch([]Folder{{"data", "/a"}, {"git", "/b"}, {"absent", "/c"}}, Min{Bytes: 100, Percent: 5}, slog.New(slog.NewTextHandler(&log, nil)),
		func(path string) (int64, int64, error) {
			if path == "/c" {
				return 0, 0, errors.New("no such folder")
			}
			return free[path], 1000, nil
		})
	for _, step := range []struct {
		a, b int64
		full bool
	}{
		{1000, 1000, false}, {100, 100, false}, {100, 99, true}, {0, 0, true},
		{105, 105, true}, // not enough more than the bound
		{110, 110, false}, {99, 110, true}, {1000, 1000, false},
	} {
		free["/a"], free["/b"] = step.a, step.b
		w.check()
		w.check()
		if w.Full() != step.full {
			t.Errorf("%d and %d are free: full %t", step.a, step.b, w.Full())
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, log.String())
	}
	for _, tt := range []struct {
		min  Min
		size int64
		want int64
	}{{Min{}, 1000, 0}, {Min{Bytes: 7}, 1000, 7}, {Min{Percent: 5}, 1000, 50}, {Min{Bytes: 70, Percent: 5}, 1000, 70}} {
		if got := tt.min.room(tt.size); got != tt.want {
			t.Errorf("%+v of %d: %d, want %d", tt.min, tt.size, got, tt.want)
		}
	}
	if f, size, err := statfs(t.TempDir()); err != nil || size <= 0 || f < 0 || f > size {
		t.Errorf("%d of %d, %v", f, size, err)
	}
}
