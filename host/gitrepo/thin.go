package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A thin pack has deltas against objects that only the receiver has. Git appends each of these
// to the pack as a whole, so that a few hundred bytes can append an object of any size.

// ThinLimit bounds the bytes that git may append to a thin pack: Free, and Times what was sent.
type ThinLimit struct {
	Free  int64
	Times int64
}

// NoThinLimit is of packs from somebody who may append anything.
var NoThinLimit = ThinLimit{Free: 1 << 62}

// of returns how many bytes git may append to a pack of the given size.
func (l ThinLimit) of(sent int64) int64 {
	if l.Times > 0 && sent > (1<<62)/l.Times {
		return 1 << 62
	}
	return add(l.Free, l.Times*sent)
}

// NoThin begins the reason why a thin pack is refused. It says what helps.
const NoThin = "push again with --no-thin"

// refuseThin refuses a thin pack to which git would append too much.
func (q *Incoming) refuseThin() error {
	q.tooThin = true
	allowed := q.thin.of(q.sent.Load())
	return &Refused{Reason: fmt.Sprintf("%s: the pack is thin, and the server may add only %.1f MiB to it", NoThin, float64(allowed)/(1<<20))}
}

// TooThin reports whether Indexed has refused a pack because it is thin.
func (q *Incoming) TooThin() bool { return q.tooThin }

// packInput is the input of git index-pack. Before git gets more of a pack, its files may be
// longer.
type packInput struct {
	io.WriteCloser
	incoming *Incoming
}

// maxIndex is how many times its pack an index is long at most: an object takes eleven bytes
// of a pack, and 48 of an index by SHA-256 with its .rev file.
const maxIndex = 5

// minFile is the length of an index and of the two heads of a pack, without objects.
const minFile = 64 << 10

func (w *packInput) Write(b []byte) (int, error) {
	q := w.incoming
	sent := q.sent.Add(int64(len(b)))
	// The pack and its index are files of their own.
	q.indexer.limitFile(sent + max(q.thin.of(sent), maxIndex*sent) + minFile)
	return w.WriteCloser.Write(b)
}

// measure finds out what git made of the pack, and refuses what it appended too much: that
// is exact, while the limit of the process is not.
func (q *Incoming) measure() error {
	entries, err := os.ReadDir(filepath.Join(q.dir, "objects", "pack"))
	if err != nil {
		return fmt.Errorf("measure a pack: %w", err)
	}
	packs := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("measure a pack: %w", err)
		}
		q.stored += info.Size()
		if strings.HasSuffix(entry.Name(), ".pack") {
			packs += info.Size()
		}
	}
	sent := q.sent.Load()
	q.completed = max(0, packs-sent)
	q.redundant = q.completed
	if q.completed > q.thin.of(sent) {
		return q.refuseThin()
	}
	return nil
}

// Stored returns the bytes that the pack takes on disk, with its index, and how many of them
// git appended. REQUIRES: Indexed has returned.
func (q *Incoming) Stored() (all, completed int64) { return q.stored, q.completed }

// SentInFull says that the client was asked for a pack that is not thin. It may have objects
// as a whole that a repack makes deltas of. REQUIRES: Indexed has returned.
func (q *Incoming) SentInFull() { q.redundant = q.stored }

// outOfFile reports whether a process ended because a file became too long.
func outOfFile(err error) bool {
	if status, ok := waitStatus(err); ok && status.Signaled() && status.Signal() == syscall.SIGXFSZ {
		return true
	}
	// It ignores the signal if its parent did.
	failure := new(Failure)
	return errors.As(err, &failure) && strings.HasSuffix(strings.ToLower(failure.Stderr), syscall.EFBIG.Error())
}

// Source is a git server that objects are fetched from.
type Source struct {
	URL string

	// Received returns the bytes that the server has sent so far, and Thin bounds what git may
	// append to a thin pack of that size. Nil: nobody counts, and nothing is bounded.
	Received func() int64
	Thin     ThinLimit

	// Completed is called with what git has appended when objects are about to land. Its
	// error refuses them. Nil is not called.
	Completed func(bytes int64) error
}

// completed returns how many bytes git has appended to packs so far.
func (q *fetchQuarantine) completed() int64 {
	if q.from.Received == nil {
		return 0
	}
	packs := int64(0)
	entries, _ := os.ReadDir(filepath.Join(q.dir, "objects", "pack"))
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".pack") && !strings.HasPrefix(entry.Name(), "tmp_pack_") {
			continue
		}
		if info, err := entry.Info(); err == nil {
			packs += info.Size()
		}
	}
	return max(0, packs-q.from.Received())
}

// checkCompleted refuses a fetch whose packs git appends too much to.
func (q *fetchQuarantine) checkCompleted() error {
	if q.from.Received == nil || q.completed() <= q.from.Thin.of(q.from.Received()) {
		return nil
	}
	return &Refused{Reason: fmt.Sprintf("the server sends a thin pack, and git may add only %.1f MiB to it in this hour",
		float64(q.from.Thin.of(q.from.Received()))/(1<<20))}
}
