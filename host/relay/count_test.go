package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr/nip45/hyperloglog"

	"talon/host"
)

func TestCount(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.DefaultLimit = 2 }))
	for i := range 5 {
		w.publish(event(byte(i%2), 1, int64(i), "", host.Tag{"t", "x"}))
	}
	w.publish(event(1, 1, 9, "", host.Tag{"expiration", "10"}))
	id := strings.Repeat("a1", 32)
	for i := range 2 {
		w.publish(event(byte(i), 3, 9, "", host.Tag{"p", id}))
	}
	c := w.dial()
	for filters, want := range map[string]string{
		`{}`:                                `{"count":7}`,
		`{"limit":1}`:                       `{"count":7}`,
		`{"limit":0}`:                       `{"count":7}`,
		`{"kinds":[1]},{"since":3}`:         `{"count":7}`,
		`{"kinds":[2]}`:                     `{"count":0}`,
		`{"kinds":[]}`:                      `{"count":0}`,
		`{"#t":["x"]},{"#t":["y"]}`:         `{"count":5}`,
		`{"#t":["x"],"kinds":[1]}`:          `{"count":5}`,
		`{"#p":["` + id + `"],"kinds":[3]}`: `{"count":2,"hll":"…"}`,
		`{"#p":["` + id + `"],"kinds":[1]}`: `{"count":0}`,
		`{"#e":["` + id + `"],"kinds":[7]}`: `{"count":0,"hll":"` + strings.Repeat("00", 256) + `"}`,
		`{"#t":[]}`:                         `{"count":0}`,
	} {
		c.ask(`["COUNT","q",`+filters+`]`, `["COUNT","q",`+want+`]`)
	}
}

func TestHLLOffset(t *testing.T) {
	id := strings.Repeat("0", 32) + "7" + strings.Repeat("f", 31)
	key := strings.Repeat("f", 64)
	tests := []struct {
		name    string
		filters string
		want    int // 0: none
	}{
		{"reactions", `[{"#e":["` + id + `"],"kinds":[7]}]`, 15},
		{"followers", `[{"#p":["` + key + `"],"kinds":[3],"limit":1}]`, 23},
		{"comments", `[{"#E":["` + id + `"],"kinds":[1111]}]`, 15},
		{"followers of two", `[{"#p":["` + key + `","` + id + `"],"kinds":[3]}]`, 0},
		{"what mentions somebody", `[{"#p":["` + key + `"]}]`, 0},
		{"notes to somebody", `[{"#p":["` + key + `"],"kinds":[1]}]`, 0},
		{"two kinds", `[{"#p":["` + key + `"],"kinds":[3,7]}]`, 0},
		{"reactions by one", `[{"#e":["` + id + `"],"kinds":[7],"authors":["` + key + `"]}]`, 0},
		{"an address", `[{"#a":["30023:` + id + `:a:b"],"kinds":[7]}]`, 0},
		{"not hex", `[{"#E":["nostr"],"kinds":[1111]}]`, 0},
		{"a search", `[{"search":"word","kinds":[1111]}]`, 0},
		{"no tag", `[{"kinds":[7]}]`, 0},
		{"two filters", `[{"#p":["` + key + `"],"kinds":[3]},{"#p":["` + key + `"],"kinds":[3]}]`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := hllOffset(parseFilters(t, tt.filters))
			if ok != (tt.want != 0) || ok && got != tt.want {
				t.Errorf("got %d, %v, want %d", got, ok, tt.want)
			}
		})
	}
}

// The registers are, byte for byte, those of another implementation.
func TestHLLAgainstGoNostr(t *testing.T) {
	for offset := 8; offset <= 23; offset++ {
		var ours hyperLogLog
		theirs := hyperloglog.New(offset)
		for i := range 2000 {
			author := host.PubKey(sha256.Sum256(fmt.Append(nil, i)))
			if i%500 == 0 {
				clear(author[offset+1:]) // no bit set in the window
			}
			ours.add(offset, &author)
			theirs.AddBytes(author[:])
		}
		if got, want := hex.EncodeToString(ours[:]), hex.EncodeToString(theirs.GetRegisters()); got != want {
			t.Fatalf("offset %d:\ngot  %s\nwant %s", offset, got, want)
		}
	}
}

func parseFilters(t testing.TB, text string) []host.Filter {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	var filters []host.Filter
	for _, r := range raw {
		f, err := parseFilter(r)
		if err != nil {
			t.Fatal(err)
		}
		filters = append(filters, f)
	}
	return filters
}
