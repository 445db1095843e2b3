package negentropy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"talon/host"
)

// transcript is a whole reconciliation between two peers.
type transcript struct {
	Name     string           `json:"name"`
	Frame    int              `json:"frameSizeLimit"`
	Client   []transcriptItem `json:"client"`
	Server   []transcriptItem `json:"server"`
	Messages []string         `json:"messages_client_first"`
	Have     []string         `json:"have"`
	Need     []string         `json:"need"`
}

type transcriptItem Item

func (it *transcriptItem) UnmarshalJSON(b []byte) error {
	var id string
	if err := json.Unmarshal(b, &[]any{&it.CreatedAt, &id}); err != nil {
		return err
	}
	if !host.ParseHex(it.ID[:], id) {
		return fmt.Errorf("bad id %q", id)
	}
	return nil
}

var rewrite = flag.Bool("rewrite", false, "write the golden transcripts anew, from this implementation")

func (it transcriptItem) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{it.CreatedAt, it.ID.String()})
}

// The transcripts of the reference implementation, and golden ones of our own
// that hold the codec still where the former are absent.
func TestTranscripts(t *testing.T) {
	golden := filepath.Join("testdata", "golden.jsonl")
	if *rewrite {
		writeTranscripts(t, golden)
	}
	for _, path := range []string{
		golden,
		filepath.Join("..", "..", "..", "shared", "data", "negentropy-transcripts.jsonl"),
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, tr := range readTranscripts(t, path) {
				t.Run(tr.Name, func(t *testing.T) { tr.replay(t) })
			}
		})
	}
}

// writeTranscripts reconciles sets that anyone can make again, and writes down
// what was said.
func writeTranscripts(t *testing.T, path string) {
	var out bytes.Buffer
	for _, c := range []struct{ client, server, common, frame int }{
		{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 3, 0}, {9, 11, 40, 0}, {60, 40, 120, 4096},
	} {
		tr := transcript{
			Name:  fmt.Sprintf("client=%d server=%d common=%d frame=%d", c.client, c.server, c.common, c.frame),
			Frame: c.frame, Have: []string{}, Need: []string{}, Messages: []string{},
		}
		for i := range c.client + c.server + c.common {
			it := transcriptItem{CreatedAt: uint64(1700000000 + i/2), ID: host.ID(sha256.Sum256([]byte(tr.Name + fmt.Sprint(i))))}
			if i < c.client || i >= c.client+c.server {
				tr.Client = append(tr.Client, it)
			}
			if i >= c.client {
				tr.Server = append(tr.Server, it)
			}
		}
		m := meet(t, transcriptSet(tr.Client), transcriptSet(tr.Server), tr.Frame)
		for _, msg := range m.sent {
			tr.Messages = append(tr.Messages, hex.EncodeToString(msg))
		}
		tr.Have, tr.Need = sortedHex(m.client.Have()), sortedHex(m.client.Need())
		if len(tr.Have) != c.client || len(tr.Need) != c.server {
			t.Fatalf("%s: have %d, need %d", tr.Name, len(tr.Have), len(tr.Need))
		}
		if err := json.NewEncoder(&out).Encode(tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readTranscripts(t *testing.T, path string) []transcript {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != "testdata" {
		t.Skipf("%s is absent", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []transcript
	dec := json.NewDecoder(bufio.NewReader(f))
	for dec.More() {
		var tr transcript
		if err := dec.Decode(&tr); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, tr)
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no transcripts", path)
	}
	return all
}

// replay gives each side the messages of the other and expects its own.
func (tr *transcript) replay(t *testing.T) {
	client, err := NewClient(transcriptSet(tr.Client), ClientLimits{Frame: tr.Frame, IDs: 1e6, Rounds: 1000})
	if err != nil {
		t.Fatal(err)
	}
	server := mustServer(t, transcriptSet(tr.Server), tr.Frame)
	msgs := make([][]byte, len(tr.Messages))
	for i, m := range tr.Messages {
		msgs[i] = unhex(t, m)
	}

	got, err := client.Initiate()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range msgs {
		if !bytes.Equal(got, want) {
			t.Fatalf("message %d:\n got %x\nwant %x", i, got, want)
		}
		if i%2 == 0 {
			got, err = server.Reconcile(want)
		} else {
			var done bool
			got, done, err = client.Reconcile(want)
			if last := i == len(msgs)-1; done != last {
				t.Fatalf("done is %v after message %d of %d", done, i+1, len(msgs))
			}
		}
		if err != nil {
			t.Fatalf("answer message %d: %v", i, err)
		}
	}
	if got := sortedHex(client.Have()); !slices.Equal(got, sorted(tr.Have)) {
		t.Errorf("have: got %v, want %v", got, sorted(tr.Have))
	}
	if got := sortedHex(client.Need()); !slices.Equal(got, sorted(tr.Need)) {
		t.Errorf("need: got %v, want %v", got, sorted(tr.Need))
	}
}

func transcriptSet(list []transcriptItem) *Set {
	var b Builder
	for _, it := range list {
		b.Add(Item(it))
	}
	return b.Build()
}

func sortedHex(ids []host.ID) []string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = id.String()
	}
	return sorted(s)
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
