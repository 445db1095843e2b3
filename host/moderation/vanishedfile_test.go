package moderation

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host"
)

// TestVanishedFile has an author ask again and again, which anybody may. The copy keeps the newest request
// of each author, and the lines that cannot be read.
func TestVanishedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), VanishedFileName)
	verify := func(e *host.Event) error {
		if e.Content == "forged" {
			return errors.New("planted")
		}
		return nil
	}
	request := func(author byte, at int64, content string) host.VanishRequest {
		e := &host.Event{ID: host.ID{author, byte(at >> 8), byte(at)}, PubKey: host.PubKey{author}, Kind: host.KindVanish, CreatedAt: at, Content: content}
		return host.VanishRequest{ID: e.ID, PubKey: e.PubKey, Until: at, JSON: e.AppendJSON(nil)}
	}
	open := func() (*VanishedFile, []host.VanishRequest, int) {
		t.Helper()
		f, list, damaged, err := OpenVanishedFile(path, verify)
		if err != nil {
			t.Fatal(err)
		}
		return f, list, damaged
	}
	cut := append(request(9, 900, "forged").JSON, "\n{\"kind\":62,\"pub"...)
	if err := os.WriteFile(path, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	f, list, damaged := open()
	if len(list) != 0 || damaged != 2 {
		t.Fatalf("%d requests, %d damaged lines", len(list), damaged)
	}
	long := strings.Repeat("x", 7000)
	appendAll := func(list ...host.VanishRequest) {
		t.Helper()
		if err := f.Append(list); err != nil {
			t.Fatal(err)
		}
	}
	appendAll(request(1, 5, "one"), request(9, 7, "nine"), host.VanishRequest{PubKey: host.PubKey{3}, Until: 9}, request(1, 4, "older"))
	// The database knows a later date than the text that it has.
	later := request(1, 5, "one")
	later.ID, later.Until = host.ID{77}, 70
	appendAll(later)
	for at := int64(1); at <= 1000; {
		var part []host.VanishRequest
		for ; len(part) < 200; at++ {
			part = append(part, request(2, at, long))
		}
		appendAll(part...)
		appendAll(part...)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 200*7500+2*maxSuperseded || info.Size() != f.size || len(f.keys) > 500 {
		t.Errorf("1,000 requests of an author take %d bytes, counted as %d, %v", info.Size(), f.size, err)
	}
	_, list, damaged = open()
	newest := make(map[host.PubKey]int64)
	for _, v := range list {
		newest[v.PubKey] = max(newest[v.PubKey], v.Until)
	}
	if want := (map[host.PubKey]int64{{1}: 5, {2}: 1000, {9}: 7}); fmt.Sprint(newest) != fmt.Sprint(want) || damaged != 2 {
		t.Errorf("the copy has %v and %d damaged lines, want %v and 2", newest, damaged, want)
	}
	if text, err := os.ReadFile(path); err != nil || bytes.Count(text, []byte("one")) != 1 {
		t.Errorf("the copy has the first request %d times, %v", bytes.Count(text, []byte("one")), err)
	}

	// A write that fails is tried again.
	f, _, _ = open()
	last := []host.VanishRequest{request(4, 1, "four")}
	f.path = filepath.Join(path, "nowhere")
	if f.Append(last) == nil {
		t.Errorf("a write to %s works", f.path)
	}
	f.path = path
	appendAll(last...)
	if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("four")) {
		t.Errorf("the request that failed first is not in the copy: %v", err)
	}
}
