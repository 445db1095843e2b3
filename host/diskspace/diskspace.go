// Package diskspace watches the free space of the file systems that hold the data.
//
// SQLite and git fail late and in the middle of something when a disk is full. So Talon refuses
// writes and pushes before that, and says why. Reads and clones go on. Refusals end by themselves
// when there is room again.
package diskspace

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// Min is the free space below which nothing is written. Zero means no bound.
type Min struct {
	Bytes   int64
	Percent float64 // of the file system
}

// room is the least free space of a file system of a size.
func (m Min) room(size int64) int64 { return max(m.Bytes, int64(m.Percent/100*float64(size))) }

// Folder is a folder whose file system is watched.
type Folder struct{ Name, Path string }

// Watch knows whether there is room to write.
type Watch struct {
	folders []Folder
	min     atomic.Pointer[Min]
	log     *slog.Logger
	space   func(path string) (free, size int64, err error)

	full           atomic.Bool
	free, required *prometheus.GaugeVec
	low            prometheus.Gauge
}

// New returns a watch that has looked once.
func New(folders []Folder, limit Min, log *slog.Logger) *Watch {
	return newWatch(folders, limit, log, statfs)
}

func newWatch(folders []Folder, limit Min, log *slog.Logger, space func(string) (free, size int64, err error)) *Watch {
	w := &Watch{
		folders: folders, log: log, space: space,
		free:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "talon_disk_free_bytes", Help: "Free space of the file system of a folder."}, []string{"folder"}),
		required: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "talon_disk_min_free_bytes", Help: "Free space below which writes and pushes are refused (option min-free)."}, []string{"folder"}),
		low:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "talon_disk_full", Help: "1 while writes and pushes are refused because the disk is nearly full."}),
	}
	w.min.Store(&limit)
	w.check()
	return w
}

// SetMin changes the bound while the watch runs.
func (w *Watch) SetMin(limit Min) { w.min.Store(&limit) }

// every is the time between two looks. At 1 GB/s, the default bound holds that long.
const every = 250 * time.Millisecond

// Run looks at the free space until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.check()
		}
	}
}

// slack is how much more than the bound must be free before writes go on, as a part of it: each
// refused write would else begin a new wave.
const slack = 10

// check compares the free space with the bound.
func (w *Watch) check() {
	was, is := w.full.Load(), false
	var short Folder
	var left, want int64
	for _, f := range w.folders {
		free, size, err := w.space(f.Path)
		if err != nil {
			continue // the folder may come later; a disk that fails is not full
		}
		room := w.min.Load().room(size)
		w.free.WithLabelValues(f.Name).Set(float64(free))
		w.required.WithLabelValues(f.Name).Set(float64(room))
		if was {
			room += room / slack
		}
		if free < room && !is {
			is, short, left, want = true, f, free, room
		}
	}
	if was == is {
		return
	}
	w.full.Store(is)
	if !is {
		w.low.Set(0)
		w.log.Info("the disk has room again: writes and pushes go on")
		return
	}
	w.low.Set(1)
	w.log.Error("the disk is nearly full: writes and pushes are refused until there is room (option min-free)",
		"folder", short.Path, "free", left, "want", want)
}

// Full reports whether nothing may be written.
func (w *Watch) Full() bool { return w.full.Load() }

// Collectors returns the metrics.
func (w *Watch) Collectors() []prometheus.Collector {
	return []prometheus.Collector{w.free, w.required, w.low}
}

// statfs returns the space of a file system that this user may fill, and its size.
func statfs(path string) (free, size int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("look at the free space of %s: %w", path, err)
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}
