package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/internal/durable"
)

// historyFile is the file in the data folder that lists backups.
const historyFile = "backups.json"

// maxHistory is how many folders are remembered, the newest.
const maxHistory = 100

// Made is a backup that was made of the data.
type Made struct {
	Dir     string    `json:"dir"`
	ID      string    `json:"id"`
	At      time.Time `json:"at"` // the moment of which it has the data
	Seconds float64   `json:"seconds"`
	Bytes   int64     `json:"bytes"`
}

// History remembers the last good backup in each folder, in the data folder.
type History struct {
	path string

	mu   sync.Mutex // guards what follows
	list []Made     // oldest first

	last, took, size prometheus.Gauge
	failures         prometheus.Counter
}

// OpenHistory reads the list of backups of a data folder.
func OpenHistory(data string) (*History, error) {
	h := &History{
		path: filepath.Join(data, historyFile),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "talon_backup_last_success_timestamp_seconds", Help: "Moment of which the last good backup has the data, 0 if there is none."}),
		took: prometheus.NewGauge(prometheus.GaugeOpts{Name: "talon_backup_last_duration_seconds", Help: "Time that the last good backup took."}),
		size: prometheus.NewGauge(prometheus.GaugeOpts{Name: "talon_backup_last_bytes", Help: "Size of all files in the last good backup."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_backup_failures_total", Help: "Backups that failed or were interrupted.",
		}),
	}
	text, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the list of backups: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(text, &h.list); err != nil {
			return nil, fmt.Errorf("read the list of backups %s: %w", h.path, err)
		}
	}
	h.show()
	return h, nil
}

// show sets the metrics.
func (h *History) show() {
	if len(h.list) == 0 {
		return
	}
	m := h.list[len(h.list)-1]
	h.last.Set(float64(m.At.UnixMilli()) / 1000)
	h.took.Set(m.Seconds)
	h.size.Set(float64(m.Bytes))
}

// Add remembers a good backup.
func (h *History) Add(sum Summary) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(h.list), func(m Made) bool { return m.Dir == sum.Dir })
	list = append(list, Made{Dir: sum.Dir, ID: sum.ID, At: sum.Made, Seconds: sum.Seconds, Bytes: sum.Bytes})
	list = list[max(0, len(list)-maxHistory):]
	text, err := json.MarshalIndent(list, "", "  ")
	if err == nil {
		err = durable.Write(h.path, append(text, '\n'), 0o600)
	}
	h.list = list
	h.show()
	if err != nil {
		return fmt.Errorf("remember the backup: %w", err)
	}
	return nil
}

// Failed counts a backup that failed.
func (h *History) Failed() { h.failures.Inc() }

// List returns the last good backup in each folder, the oldest first.
func (h *History) List() []Made {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

// Collectors returns the metrics.
func (h *History) Collectors() []prometheus.Collector {
	return []prometheus.Collector{h.last, h.took, h.size, h.failures}
}
