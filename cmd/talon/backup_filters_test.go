package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestBackupFilters restores the backup of a relay, and asks both 1,000 random filters. The answers are the same
// bytes.
func TestBackupFilters(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TALON_TEST_SCALE is not set: TestBackup compares events by their ids")
	}
	t.Parallel()
	data := newData(t)
	s := start(t, data)
	c := connect(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	author := func() string { return fmt.Sprint("author ", r.IntN(9)) }
	from := nostr.Now() - 10_000
	for n := range 2000 {
		e := nostr.Event{Kind: []int{0, 1, 7, 30_023}[r.IntN(4)], CreatedAt: from + nostr.Timestamp(r.IntN(5000)), Content: fmt.Sprint(n)}
		e.Tags = nostr.Tags{{"t", fmt.Sprint("topic", r.IntN(20))}, {"d", fmt.Sprint(r.IntN(7))}}
		c.send(t, string(message(signAs(t, author(), e))))
		if n%200 == 199 {
			for range 200 { // some are older versions, which are refused
				c.mustNext(t, "OK")
			}
		}
	}
	folder, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"backup", "--data", data, "--to", folder},
		{"restore", "--from", folder, "--data", restored, "--plugins", filepath.Join(t.TempDir(), "plugins")},
	} {
		if out, err := talon(t, nil, args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	again := connect(t, start(t, restored))
	answer := func(c *client, filter string) string {
		c.send(t, `["REQ","q",`+filter+`]`)
		var all strings.Builder
		for {
			text := c.mustNext(t, "EVENT", "EOSE", "CLOSED")
			all.WriteString(text + "\n")
			if !strings.HasPrefix(text, `["EVENT"`) {
				c.send(t, `["CLOSE","q"]`)
				return all.String()
			}
		}
	}
	found := 0
	for range 1000 {
		var parts []string
		if r.IntN(2) == 0 {
			parts = append(parts, `"authors":["`+pubkey(author())+`"]`)
		}
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"kinds":[%d,%d]`, []int{0, 1}[r.IntN(2)], []int{7, 30_023}[r.IntN(2)]))
		}
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"#t":["topic%d"]`, r.IntN(20)))
		}
		if r.IntN(2) == 0 {
			since := int(from) + r.IntN(5000)
			parts = append(parts, fmt.Sprintf(`"since":%d,"until":%d`, since, since+r.IntN(2000)))
		}
		filter := "{" + strings.Join(append(parts, fmt.Sprintf(`"limit":%d`, 1+r.IntN(50))), ",") + "}"
		want, got := answer(c, filter), answer(again, filter)
		if got != want {
			t.Fatalf("%s has the answer\n%s\nwant\n%s", filter, got, want)
		}
		found += strings.Count(want, `["EVENT"`)
	}
	if found < 1000 {
		t.Errorf("the filters find %d events: they compare too little", found)
	}
}
