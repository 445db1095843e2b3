package daemon

import (
	"fmt"

	"talon/host/admin"
	"talon/host/bound"
	"talon/sdk/nip19"
)

// top returns what this node is busy with, at most limit of each list.
func (p *parts) top(limit int) admin.Top {
	recent, clients := p.counter.Recent(limit), p.relay.Clients(limit)
	top := admin.Top{
		Since: recent.Since, Events: recent.Events, Refused: recent.Refused,
		Connections: clients.Connections, Subscriptions: clients.Subscriptions,
		Addresses: topCounts(recent.Addresses), Kinds: topCounts(recent.Kinds), Reasons: topCounts(recent.Reasons),
	}
	for _, c := range recent.Authors {
		top.Authors = append(top.Authors, admin.TopCount{Name: nip19.EncodeNpub(c.Key), Count: c.N})
	}
	for _, c := range clients.Networks {
		name := "loopback"
		if c.Key.IsValid() {
			name = c.Key.String()
		}
		top.Networks = append(top.Networks, admin.TopCount{Name: name, Count: c.N})
	}
	for _, q := range clients.Slow {
		top.Slow = append(top.Slow, admin.TopQuery{At: q.At, Seconds: q.Took.Seconds(), Address: q.Addr.String(), Verb: q.Verb, Filters: q.Filters})
	}
	return top
}

// topCounts returns counts by the text of their keys.
func topCounts[K comparable](list []bound.Count[K]) (counts []admin.TopCount) {
	for _, c := range list {
		counts = append(counts, admin.TopCount{Name: fmt.Sprint(c.Key), Count: c.N})
	}
	return counts
}
