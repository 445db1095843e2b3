package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/sdk/nip19"
)

// TestUsageCommand lists who takes most of a stopped server's disk, and check agrees.
func TestUsageCommand(t *testing.T) {
	t.Parallel()
	data := newData(t)
	var sizes [2]int64
	db, err := daemon.OpenStore(t.Context(), &config.Config{Data: data, Readers: 1, Cache: 64 << 20}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		e := &host.Event{
			ID: host.ID{1, byte(i)}, PubKey: host.PubKey{2, byte(i % 2)}, CreatedAt: int64(i), Kind: 1, Content: strings.Repeat("x", i),
			Tags: host.Tags{{"a", "30617:" + host.PubKey{3}.String() + ":lib\x1b[31m"}},
		}
		e.JSON = e.AppendJSON(nil)
		sizes[i%2] += int64(len(e.JSON))
		if out, err := tx.Put(e, 100); err != nil || out.Code != host.Stored {
			t.Fatal(out, err)
		}
	}
	if err := errors.Join(tx.Commit(), db.Close()); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) (lines []usageLine) {
		t.Helper()
		out, err := talon(t, nil, append([]string{"usage", "--data", data, "--json"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(out), &lines); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return lines
	}
	authors := list("--by", "author")
	if len(authors) != 2 || authors[0].Events != 10 || authors[0].Bytes != max(sizes[0], sizes[1]) || authors[1].Bytes != min(sizes[0], sizes[1]) || !strings.HasPrefix(authors[0].Name, "npub1") {
		t.Errorf("authors: %+v, want %v", authors, sizes)
	}
	if kinds := list("--by", "kind", "--limit", "1"); len(kinds) != 1 || kinds[0].Events == 0 {
		t.Errorf("the largest kind: %+v", kinds)
	}
	repositories := list("--by", "repository")
	if len(repositories) != 1 || repositories[0].Name != nip19.EncodeNpub(host.PubKey{3})+"/lib\x1b[31m" || repositories[0].Events != 20 {
		t.Errorf("repositories: %+v", repositories)
	}
	out, err := talon(t, nil, "usage", "--data", data, "--by", "repository")
	if err != nil || strings.ContainsRune(out, '\x1b') || !strings.Contains(out, "lib") {
		t.Errorf("the table %q, %v", out, err)
	}
	for _, args := range [][]string{{"--by", "colour"}, {"--limit", "0"}} {
		if _, err := talon(t, nil, append([]string{"usage", "--data", data}, args...)...); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestDifferenceText(t *testing.T) {
	for bytes, want := range map[int64]string{-1544: "1544 bytes fewer", 7: "7 bytes more"} {
		if got := differenceText(bytes); got != want {
			t.Errorf("differenceText(%d) = %q, want %q", bytes, got, want)
		}
	}
}
