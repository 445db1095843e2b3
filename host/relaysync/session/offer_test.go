package session

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync/holdings"
	"talon/sdk/abi"
)

// TestLackedIsNotOffered: a comment tags its root by E and by e. The comparison by E finds which
// comments the relay lacks. To offer these once more by e would make the relay list all its ids.
func TestLackedIsNotOffered(t *testing.T) {
	const comments, there = 200, 100
	g := newRig(t, func(cfg *Config) {
		cfg.Holdings, cfg.Capabilities.Negentropy = holdings.New(10_000), abi.SupportYes
	})
	root := strings.Repeat("a", 64)
	var list []*host.Event
	for i := range comments {
		e := alice.Event(1111, epoch-int64(i), "", host.Tag{"E", root}, host.Tag{"e", root})
		list = append(list, e)
		if i%4 != 0 {
			g.stored[e.ID] = e
		}
	}
	var remote []*host.Event
	for i, e := range list {
		if i%2 == 0 {
			remote = append(remote, e)
		}
	}
	g.serve(remote, func(p *relaymodel.Profile) { p.Negentropy.Supported = true })
	fetch := func(letter byte) (bytes int64) {
		g.do(&Fetch{ID: string(letter), Filter: host.Filter{Tags: []host.TagFilter{{Name: letter, Values: []string{root}}}, Limit: -1}})
		for _, r := range g.told {
			if done, ok := r.(*Done); ok {
				bytes = done.Input.Bytes
			}
		}
		return bytes
	}
	all := fetch('E')
	g.want("by E", g.reports(), fmt.Sprintf("done E method=1 complete=true class=0 have=%d need=50 new=50", comments-there))
	if again := fetch('e'); again > 100 || all < 50*64 {
		t.Errorf("%d bytes by E, then %d by e", all, again)
	}
	g.want("by e", g.reports(), fmt.Sprintf("done e method=1 complete=true class=0 have=%d need=0 new=0", comments-there))
}
