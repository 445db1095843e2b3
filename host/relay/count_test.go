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
	c := w.dial()
	for filters, want := range map[string]string{
		`{}`:                        `{"count":5}`,
		`{"limit":1}`:               `{"count":5}`,
		`{"limit":0}`:               `{"count":5}`,
		`{"kinds":[1]},{"since":3}`: `{"count":5}`,
		`{"kinds":[2]}`:             `{"count":0}`,
		`{"kinds":[]}`:              `{"count":0}`,
		`{"#t":["x"]},{"#t":["y"]}`: `{"count":5}`,
		`{"#t":["x"],"kinds":[1]}`:  `{"count":5,"hll":"…"}`,
		`{"#t":["z"]}`:              `{"count":0,"hll":"` + strings.Repeat("00", 256) + `"}`,
		`{"#t":[]}`:                 `{"count":0}`,
	} {
		c.ask(`["COUNT","q",`+filters+`]`, `["COUNT","q",`+want+`]`)
	}
}

func TestHLLOffset(t *testing.T) {
	id := strings.Repeat("0", 32) + "7" + strings.Repeat("f", 31)
	hash := sha256.Sum256([]byte("nostr"))
	tests := []struct {
		name    string
		filters string
		want    int // 0: none
	}{
		{"event id", `[{"#e":["` + id + `"],"kinds":[7]}]`, 15},
		{"public key", `[{"#p":["` + strings.Repeat("f", 64) + `"]}]`, 23},
		{"address", `[{"#a":["30023:` + id + `:a:b"]}]`, 15},
		{"anything else", `[{"#t":["nostr"]}]`, int(hash[16]>>4) + 8},
		{"first of several tags and values", `[{"#e":["` + id + `","x"],"#p":["` + strings.Repeat("f", 64) + `"]}]`, 15},
		{"no tag", `[{"kinds":[7]}]`, 0},
		{"two filters", `[{"#t":["nostr"]},{"#t":["nostr"]}]`, 0},
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
