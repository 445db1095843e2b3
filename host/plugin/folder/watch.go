package folder

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions says how to watch. A zero field means its default.
type WatchOptions struct {
	Quiet time.Duration // without a change before a change counts; default 250 ms
	Poll  time.Duration // between looks for changes that the system did not report; default 5 s
	Log   *slog.Logger
}

func (o *WatchOptions) setDefaults() {
	o.Quiet = cmp.Or(o.Quiet, 250*time.Millisecond)
	o.Poll = cmp.Or(o.Poll, 5*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// Watch calls changed once when it has begun, then after each change, until ctx
// ends. It never makes two calls at the same time, and makes one more if
// something changed during a call.
//
// It fails only if there is no such folder when it begins.
func Watch(ctx context.Context, dir string, o WatchOptions, changed func()) error {
	return watch(ctx, dir, o, changed)
}

// watch lets tests change the watcher.
func watch(ctx context.Context, dir string, o WatchOptions, changed func(), change ...func(*watcher)) error {
	o.setDefaults()
	w := &watcher{dir: filepath.Clean(dir), poll: o.Poll, log: o.Log, burst: burst{quiet: o.Quiet}, open: openEvents}
	if info, err := os.Stat(w.dir); err != nil {
		return err
	} else if !info.IsDir() {
		return &fs.PathError{Op: "watch", Path: w.dir, Err: errors.New("not a folder")}
	}
	for _, f := range change {
		f(w)
	}
	w.run(ctx, changed)
	return nil
}

type watcher struct {
	dir   string
	poll  time.Duration
	log   *slog.Logger
	burst burst
	open  func(dir string) (*fsnotify.Watcher, error)

	events  *fsnotify.Watcher // nil: there are none, polling must do
	watched os.FileInfo       // the folder that events come from
	warned  bool              // that there are no events
	seen    sight
}

// openEvents is the system's way to report changes.
func openEvents(dir string) (*fsnotify.Watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := events.Add(dir); err != nil {
		return nil, errors.Join(err, events.Close())
	}
	return events, nil
}

func (w *watcher) run(ctx context.Context, changed func()) {
	defer w.close()
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	w.follow()
	w.call(changed)
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for ctx.Err() == nil {
		quiet.Stop()
		if left, ok := w.burst.due(time.Now()); ok {
			quiet.Reset(left)
		}
		var events chan fsnotify.Event
		var errs chan error
		if w.events != nil {
			events, errs = w.events.Events, w.events.Errors
		}
		select {
		case <-ctx.Done():
		case event := <-events:
			if w.relevant(event.Name) {
				w.burst.add(time.Now())
			}
		case err := <-errs:
			// Events were lost: whatever they were, the folder is looked at.
			w.log.Debug("events of the folder of plugins were lost", "dir", w.dir, "err", err)
			w.burst.add(time.Now())
		case <-poll.C:
			w.follow()
			if now := readFolder(w.dir); !reflect.DeepEqual(w.seen, now) {
				w.seen = now
				w.burst.add(time.Now())
			}
		case <-quiet.C:
			w.call(changed)
		}
	}
}

// call reads the folder before it calls, so that it notices later changes.
func (w *watcher) call(changed func()) {
	w.burst.clear()
	w.seen = readFolder(w.dir)
	changed()
}

// relevant says whether a change of the path can change what [Scan] returns.
func (w *watcher) relevant(path string) bool {
	name := filepath.Base(path)
	if path == w.dir || name == "..data" { // the link that Kubernetes swaps
		return true
	}
	_, kind := split(name)
	return kind != other && !ignored(name)
}

// follow makes events come from the folder that is there now. The system ties
// them to the folder, not to its name.
func (w *watcher) follow() {
	info, err := os.Stat(w.dir)
	if err == nil && w.events != nil && os.SameFile(info, w.watched) && len(w.events.WatchList()) > 0 {
		return
	}
	w.close()
	if err == nil {
		w.events, err = w.open(w.dir)
		w.watched = info
	}
	switch {
	case err == nil:
		w.warned = false
		// The events do not include changes before they began.
		w.burst.add(time.Now())
	case !w.warned:
		w.warned = true
		w.log.Warn("the system reports no changes of the folder of plugins, so it is looked at from time to time",
			"dir", w.dir, "every", w.poll, "err", err)
	}
}

func (w *watcher) close() {
	if w.events != nil {
		// Nothing depends on how it ends.
		_ = w.events.Close()
		w.events = nil
	}
}

// sight is what a look at the folder found.
type sight struct {
	Entries  []Entry
	Problems []Problem
	Err      string
}

func readFolder(dir string) sight {
	entries, problems, err := Scan(dir)
	s := sight{Entries: entries, Problems: problems}
	if err != nil {
		s.Err = err.Error()
	}
	return s
}

// burst is a number of changes that are seen as one.
type burst struct {
	quiet       time.Duration
	first, last time.Time // of the changes; zero: there is none
}

// maxQuietTimes is how many times the quiet time a burst lasts at most, so that a file
// that is written without end does not keep the others waiting.
const maxQuietTimes = 10

func (b *burst) add(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// due returns how long the burst still lasts, and whether there is one.
func (b *burst) due(now time.Time) (time.Duration, bool) {
	if b.first.IsZero() {
		return 0, false
	}
	end := b.last.Add(b.quiet)
	if limit := b.first.Add(maxQuietTimes * b.quiet); limit.Before(end) {
		end = limit
	}
	return max(end.Sub(now), 0), true
}

func (b *burst) clear() { b.first, b.last = time.Time{}, time.Time{} }
