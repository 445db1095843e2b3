package relay

import (
	"testing"

	"talon/host"
)

// TestAudienceSet finds those who receive an event for a set, whether the members or those who read
// are fewer.
func TestAudienceSet(t *testing.T) {
	w := newWorld(t, ticking)
	key := func(n byte) host.PubKey { return host.PubKey{n} }
	conns := map[byte]*conn{}
	for n := byte(1); n <= 4; n++ {
		c := w.relay.newConn(host.Source{}.Addr)
		c.authed = []host.PubKey{key(n)}
		w.relay.index.prove(c)
		conns[n] = c
	}
	for name, members := range map[string][]host.PubKey{
		"few members":  {key(2), key(9)},
		"many members": {key(2), key(9), key(10), key(11), key(12), key(13)},
	} {
		found := map[*conn]int{}
		w.relay.index.audience(&host.Audience{Set: "s"}, fewReaders{members}, func(c *conn, _ *provenConn) { found[c]++ })
		if len(found) != 1 || found[conns[2]] != 1 {
			t.Errorf("%s: %d connections, and that of the member %d times", name, len(found), found[conns[2]])
		}
	}
}
