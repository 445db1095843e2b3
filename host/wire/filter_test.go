package wire

import (
	"fmt"
	"testing"
)

// Two relays give HyperLogLogs that can be merged only if both see the same tag
// first (NIP-45).
func TestFilterKeepsTheOrderOfTags(t *testing.T) {
	for text, want := range map[string]string{
		`{"#t":["z","a","z","m"],"kinds":[1],"#E":["y","b"],"#r":["x"]}`: "t[z a m] E[y b] r[x] ",
		`{"#r":["x"],"#E":["b","y"],"#t":["m","z","a"]}`:                 "r[x] E[b y] t[m z a] ",
	} {
		f, err := ParseFilter([]byte(text), &DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, tag := range f.Tags {
			got += fmt.Sprintf("%c%v ", tag.Name, tag.Values)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
