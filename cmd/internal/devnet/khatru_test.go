package devnet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/relaymodel"
)

// The profile khatru says and does what the real program does, in the same words. (The
// limits of its store are not those of a devnet's.)
func TestKhatruProfile(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Repos, cfg.Relays, cfg.RelaysPer, cfg.Negentropy = 0, 1, 1, 0
	p, err := relaymodel.Builtin("khatru")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Foreign = []Foreign{{"khatru", p, 1}}
	n := open(t, cfg)
	var events []*nostr.Event
	for i := range 5 {
		e, err := n.people[0].sign(1621, time.Now().Unix()-int64(i), fmt.Sprint(i), nostr.Tag{"t", fmt.Sprint(i % 2)})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	deleted, err := n.people[0].sign(5, time.Now().Unix(), "", nostr.Tag{"e", events[1].ID})
	if err != nil {
		t.Fatal(err)
	}
	program, model := connect(t, n.Relays[0]), connect(t, n.Relays[1])
	for _, step := range []struct {
		say     string
		answers int
	}{
		{fmt.Sprintf(`["EVENT",%s]`, events[0]), 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[0]), 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[1]), 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[2]), 1},
		{`["REQ","s",{"kinds":[1621]},{"#t":["0"],"limit":1}]`, 5},
		{`["REQ","z",{"kinds":[1621],"limit":0}]`, 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[3]), 3},
		{`["CLOSE","s"]`, 0},
		{fmt.Sprintf(`["EVENT",%s]`, deleted), 1},
		{`["REQ","d",{"kinds":[1621]}]`, 4},
		{`["CLOSE","d"]`, 0},
		{`["HELLO","x"]`, 1},
		{`["REQ","e",{"ids":[]}]`, 1},
	} {
		var got [2][]string
		for i, c := range []*client{program, model} {
			c.say("%s", step.say)
			for range step.answers {
				text := strings.TrimSpace(c.hear())
				// The order of its fields is the program's own.
				for _, e := range append(events, deleted) {
					if strings.HasPrefix(text, `["EVENT"`) && strings.Contains(text, e.ID) {
						text = text[:strings.Index(text, "{")] + e.ID
					}
				}
				got[i] = append(got[i], text)
			}
			slices.Sort(got[i])
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("to %.80s\nkhatru says  %q\nthe profile  %q", step.say, got[0], got[1])
		}
	}
}
