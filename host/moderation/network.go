package moderation

import (
	"net/netip"
	"slices"
)

// networks are the rules about networks, by prefix. Rows are never taken away, so there may be many:
// a lookup asks once for each length of a prefix that a row has, at most 33 times for IPv4 and 129
// times for IPv6.
type networks struct {
	byPrefix map[netip.Prefix]*rules
	lengths  [2][]int // of IPv4 and of IPv6, the longest first, each once
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// add adds the rules about a network that has none.
func (n *networks) add(p netip.Prefix, t *rules) {
	if n.byPrefix == nil {
		n.byPrefix = make(map[netip.Prefix]*rules)
	}
	n.byPrefix[p] = t
	lengths := &n.lengths[family(p.Addr())]
	at, found := slices.BinarySearchFunc(*lengths, p.Bits(), func(have, bits int) int { return bits - have })
	if !found {
		*lengths = slices.Insert(*lengths, at, p.Bits())
	}
}

// find returns the row of an action about the smallest network with an address, nil for none.
func (n *networks) find(addr netip.Addr, a Action, now int64) *Row {
	if !addr.IsValid() {
		return nil
	}
	for _, bits := range n.lengths[family(addr)] {
		p, err := addr.Prefix(bits)
		if err != nil {
			return nil // no length is longer than an address
		}
		if r := n.byPrefix[p].row(a, now); r != nil {
			return r
		}
	}
	return nil
}
