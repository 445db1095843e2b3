package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"talon/host"
)

// load makes events like those of a busy relay: 1,000 authors, 1 kB, four
// single-letter tags.
type load struct {
	source  *rand.ChaCha8
	rand    *rand.Rand
	authors []host.PubKey
	at      int64
	content string
}

func newLoad(seed byte) *load {
	l := &load{source: rand.NewChaCha8([32]byte{seed}), at: 1_700_000_000}
	l.rand = rand.New(l.source)
	l.authors = make([]host.PubKey, 1000)
	for i := range l.authors {
		l.source.Read(l.authors[i][:])
	}
	l.content = strings.Repeat("all work and no play ", 17)
	return l
}

func (l *load) event() *host.Event {
	e := new(host.Event)
	l.source.Read(e.ID[:])
	l.source.Read(e.Sig[:])
	e.PubKey = l.author()
	e.Kind = []host.Kind{1, 1, 1, 7, 1618, 1621, 30617}[l.rand.IntN(7)]
	l.at += int64(l.rand.IntN(3))
	e.CreatedAt = l.at
	var root host.ID
	l.source.Read(root[:])
	e.Tags = host.Tags{
		{"e", root.String()},
		{"p", l.author().String()},
		{"t", fmt.Sprint("topic", l.rand.IntN(50))},
		{"a", host.Address{Kind: 30617, PubKey: e.PubKey, D: fmt.Sprint("repo", l.rand.IntN(10))}.String()},
	}
	if e.Kind == 30617 {
		e.Tags[0] = host.Tag{"d", root.String()}
	}
	e.Content = l.content
	e.JSON = e.AppendJSON(nil)
	return e
}

func (l *load) author() host.PubKey { return l.authors[l.rand.IntN(len(l.authors))] }

// open opens a store in a directory of the test.
func open(t testing.TB) *Store {
	t.Helper()
	return reopen(t, t.TempDir())
}

func reopen(t testing.TB, dir string) *Store {
	t.Helper()
	return openWith(t, dir, Options{Readers: 2})
}

func openWith(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), filepath.Join(dir, FileName), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// mergesAll has the rows of each transaction merged into the table by its commit.
var mergesAll = func() *tuning {
	t := defaultTuning
	t.mergeFrom, t.usageFrom = 1, 1
	return &t
}()

// merged opens a store in which nothing waits in memory to be merged.
func merged(t testing.TB, dir string) *Store {
	t.Helper()
	return openWith(t, dir, Options{Readers: 2, tune: mergesAll})
}
