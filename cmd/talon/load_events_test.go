//go:build linux

package main_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/schnorr"
)

// The population from which authors and tag values are drawn: 100,000 events have
// 200 of each author, and 5 that name each event and address.
const (
	authors   = 500
	named     = 20_000
	eventSize = 1024
)

var eventKinds = []host.Kind{1, 1, 1, 7, 1111}

// created is when the i-th event was made: events come roughly in the order of time,
// ten minutes late at most.
func created(i int) int64 {
	rnd := rand.New(rand.NewPCG(3, uint64(i)))
	return epoch + int64(i)*10 - rnd.Int64N(600)
}

const epoch = 1_700_000_000

// numbered returns 32 bytes that follow from a name and a number.
func numbered(name byte, i int) (b [32]byte) {
	var seed [32]byte
	seed[0] = name
	binary.LittleEndian.PutUint64(seed[8:], uint64(i))
	_, _ = rand.NewChaCha8(seed).Read(b[:])
	return b
}

func namedEvent(i int) string {
	id := numbered('e', i)
	return hex.EncodeToString(id[:])
}

func namedAddress(i int) string {
	pk := numbered('a', i)
	return fmt.Sprintf("30617:%x:repository", pk)
}

// draft makes the i-th event of 1 kB with 4 tags, all of which are indexed. Its id
// and signature are made up.
func draft(i int, pubkey host.PubKey) *host.Event {
	rnd := rand.New(rand.NewPCG(1, uint64(i)))
	e := &host.Event{
		ID:        numbered('i', i),
		PubKey:    pubkey,
		CreatedAt: created(i),
		Kind:      eventKinds[rnd.IntN(len(eventKinds))],
		Tags: host.Tags{
			{"e", namedEvent(rnd.IntN(named))},
			{"p", namedEvent(rnd.IntN(named))},
			{"a", namedAddress(rnd.IntN(named))},
			{"t", fmt.Sprintf("topic%d", rnd.IntN(100))},
		},
	}
	seal(e)
	return e
}

// seal sets the text, with content that gives it its length.
func seal(e *host.Event) {
	e.Content = ""
	e.Content = strings.Repeat("lorem ipsum dolor sit amet, ", eventSize)[:max(0, eventSize-len(e.AppendJSON(nil)))]
	e.JSON = e.AppendJSON(nil)
}

// signed is an event that a client may send.
type signed struct {
	id   string // hex
	json []byte
}

// sign makes the events from to to-1 with valid signatures, on all processors.
func sign(tb testing.TB, from, to int) []signed {
	tb.Helper()
	list := make([]signed, to-from)
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for core := range cores {
		wg.Go(func() {
			for i := core; i < len(list); i += cores {
				author := i % authors
				secret := numbered('s', author)
				d := draft(from+i, host.PubKey{})
				if err := schnorr.Sign(secret, d); err != nil {
					tb.Error(err)
					return
				}
				list[i] = signed{d.ID.String(), d.JSON}
			}
		})
	}
	wg.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	return list
}

func author(i int) host.PubKey { return numbered('k', i%authors) }

// small is the i-th event of the database for reconciliation, one a second. It has neither
// tags nor content: an index has all that is read of it.
func small(i int) *host.Event {
	e := &host.Event{ID: numbered('i', i), PubKey: author(i), CreatedAt: epoch + int64(i), Kind: 1}
	e.JSON = e.AppendJSON(nil)
	return e
}

// fixture returns a data folder with n events that were put into the store as they
// are, made by an earlier run if there was one. Those of other recipes are removed.
func fixture(tb testing.TB, name string, n int, event func(i int) *host.Event) string {
	tb.Helper()
	dir := filepath.Join("..", "..", "build", "bench", fmt.Sprintf("%s-%d-%x", name, n, recipe(tb, event(0))))
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	old, err := filepath.Glob(filepath.Join(filepath.Dir(dir), fmt.Sprintf("%s-%d-*", name, n)))
	if err != nil {
		tb.Fatal(err)
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			tb.Fatal(err)
		}
	}
	fill(tb, dir, n, event)
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// recipe is a hash of what decides about a fixture's bytes: what an event looks
// like, and the sources of the store.
func recipe(tb testing.TB, sample *host.Event) []byte {
	tb.Helper()
	h := sha256.New()
	h.Write(sample.JSON)
	sources, err := filepath.Glob("../../host/store/*.go")
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		h.Write(text)
	}
	return h.Sum(nil)[:6]
}

func fill(tb testing.TB, dir string, n int, event func(i int) *host.Event) {
	tb.Helper()
	cfg := &config.Config{Data: dir, Readers: 1, Cache: 2 << 30}
	db, err := daemon.OpenStore(tb.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	const batch = 10_000
	for i := 0; i < n; i += batch {
		tx, err := db.Begin()
		if err != nil {
			tb.Fatal(err)
		}
		for j := i; j < min(n, i+batch); j++ {
			if out, err := tx.Put(event(j), epoch); err != nil || out.Code != host.Stored {
				tb.Fatal(out, err)
			}
		}
		if err := tx.Commit(); err != nil {
			tb.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}

// warm returns a copy of a folder with 100,000 events, to write to.
func warm(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	err := os.CopyFS(dir, os.DirFS(fixture(tb, "warm", 100_000, func(i int) *host.Event { return draft(i, author(i)) })))
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}
