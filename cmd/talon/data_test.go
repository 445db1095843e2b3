package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestRealEvents imports real events, compares what became of them with the rules
// of NIP-01, NIP-09 and NIP-40 as this test applies them, exports and checks them,
// and reads them back.
func TestRealEvents(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"events.jsonl", "nip34.jsonl"} {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("..", "..", "..", "shared", "data", name))
			if err != nil {
				t.Fatal(err)
			}
			events, err := readEvents(path)
			if errors.Is(err, fs.ErrNotExist) {
				t.Skipf("%s is not here", path)
			}
			if err != nil {
				t.Fatal(err)
			}
			realEvents(t, path, events)
		})
	}
}

func realEvents(t *testing.T, path string, events []*nostr.Event) {
	// Twice the same file: the second time nothing is stored.
	model := newModel(time.Now().Unix())
	first := model.putAll(events)
	second := model.putAll(events)
	t.Logf("first %+v, then %+v; %d remain", first, second, len(model.events))

	data := newData(t)
	for _, want := range []tally{first, second} {
		out, err := talon(t, nil, "import", "--data", data, "--plugins", modules(t), path)
		if err != nil {
			t.Fatal(err)
		}
		if got := readTally(t, out); got != want {
			t.Errorf("got %+v, want %+v:\n%s", got, want, out)
		}
	}
	mustCheck(t, data)

	want := model.ids()
	out, err := talon(t, nil, "export", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	exported, err := parseEvents(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if !sameSet(ids(exported), want) {
		t.Errorf("exported are %d events, want %d", len(exported), len(want))
	}

	// Served, every page of them, with signatures that go-nostr verifies too.
	c := connect(t, start(t, data))
	served := map[string]*nostr.Event{}
	until := nostr.Timestamp(math.MaxInt32)
	for {
		fresh := 0
		for _, e := range c.query(t, fmt.Sprintf(`{"until":%d,"limit":500}`, until)) {
			if served[e.ID] == nil {
				fresh++
			}
			served[e.ID] = e
			until = min(until, e.CreatedAt)
			if ok, err := e.CheckSignature(); !ok || !e.CheckID() {
				t.Errorf("served with a wrong id or signature (%v): %s", err, e)
			}
		}
		if fresh == 0 {
			break
		}
	}
	for _, id := range want {
		if e := served[id]; e == nil {
			t.Errorf("not served: %s", model.events[id])
		} else if e.String() != model.events[id].String() {
			t.Errorf("served as %s\nwant %s", e, model.events[id])
		}
	}
	if len(served) != len(want) {
		t.Errorf("served are %d events, want %d", len(served), len(want))
	}
	c.send(t, `["COUNT","n",{}]`)
	if got, want := c.mustNext(t, "COUNT"), fmt.Sprintf(`["COUNT","n",{"count":%d}]`, len(want)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func readEvents(path string) ([]*nostr.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseEvents(f)
}

func parseEvents(r io.Reader) ([]*nostr.Event, error) {
	var events []*nostr.Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e nostr.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		events = append(events, &e)
	}
	return events, lines.Err()
}

// tally is what became of events.
type tally struct{ stored, known, ephemeral, refused int }

var summary = regexp.MustCompile(`(?m)^(\d+) events in \S+: (\d+) stored, (\d+) known already, (\d+) ephemeral and not kept, (\d+) refused$`)

func readTally(t *testing.T, out string) tally {
	t.Helper()
	m := summary.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("there is no summary in:\n%s", out)
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(m[i])
		return v
	}
	if n(1) != n(2)+n(3)+n(4)+n(5) {
		t.Errorf("the numbers do not add up: %s", m[0])
	}
	return tally{n(2), n(3), n(4), n(5)}
}

// model is a relay made of maps: slow, and simple enough to be believed. Its policy
// is what "open" refuses by default.
type model struct {
	now       int64
	events    map[string]*nostr.Event
	versions  map[string]string // address → id
	deleted   map[string]bool   // id, author
	deletedAt map[string]nostr.Timestamp
}

func newModel(now int64) *model {
	return &model{now, map[string]*nostr.Event{}, map[string]string{}, map[string]bool{}, map[string]nostr.Timestamp{}}
}

func (m *model) ids() []string {
	var list []string
	for id := range m.events {
		list = append(list, id)
	}
	return list
}

func (m *model) putAll(events []*nostr.Event) (n tally) {
	for _, e := range events {
		switch m.put(e) {
		case "stored":
			n.stored++
		case "known":
			n.known++
		case "ephemeral":
			n.ephemeral++
		default:
			n.refused++
		}
	}
	return n
}

func (m *model) put(e *nostr.Event) string {
	if at := e.Tags.Find("expiration"); at != nil {
		if n, err := strconv.ParseInt(at[1], 10, 64); err == nil && n <= m.now {
			return "expired"
		}
	}
	switch {
	case int64(e.CreatedAt) > m.now+900, e.Kind == nostr.KindClientAuthentication:
		return "refused"
	case e.Kind >= 20000 && e.Kind < 30000:
		return "ephemeral"
	case m.events[e.ID] != nil:
		return "known"
	}
	a := address(e)
	if a != "" {
		if old := m.events[m.versions[a]]; old != nil && newerFirst(old, e) < 0 {
			return "known"
		}
		if until, ok := m.deletedAt[a]; ok && e.CreatedAt <= until {
			return "deleted"
		}
	}
	if e.Kind != 5 && m.deleted[e.ID+e.PubKey] {
		return "deleted"
	}
	if a != "" {
		delete(m.events, m.versions[a])
		m.versions[a] = e.ID
	}
	m.events[e.ID] = e
	if e.Kind == 5 {
		m.deleteTargets(e)
	}
	return "stored"
}

func (m *model) deleteTargets(deletion *nostr.Event) {
	for _, tag := range deletion.Tags {
		switch {
		case len(tag) < 2:
		case tag[0] == "e":
			target := m.events[tag[1]]
			if target != nil && (target.PubKey != deletion.PubKey || target.Kind == 5) {
				continue
			}
			m.deleted[tag[1]+deletion.PubKey] = true
			delete(m.events, tag[1])
		case tag[0] == "a" && strings.Contains(tag[1], ":"+deletion.PubKey+":"):
			m.deletedAt[tag[1]] = max(m.deletedAt[tag[1]], deletion.CreatedAt)
			if target := m.events[m.versions[tag[1]]]; target != nil && target.CreatedAt <= deletion.CreatedAt {
				delete(m.events, target.ID)
			}
		}
	}
}

// address returns kind:pubkey:d for events of which the newest counts.
func address(e *nostr.Event) string {
	prefix := strconv.Itoa(e.Kind) + ":" + e.PubKey + ":"
	switch {
	case e.Kind == 0, e.Kind == 3, e.Kind >= 10000 && e.Kind < 20000:
		return prefix
	case e.Kind >= 30000 && e.Kind < 40000:
		return prefix + e.Tags.GetD()
	}
	return ""
}

func newerFirst(a, b *nostr.Event) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.ID, b.ID))
}
