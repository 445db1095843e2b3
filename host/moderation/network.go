package moderation

import (
	"net/netip"
	"slices"
)

// lengths are the lengths of the prefixes of networks that have rows, of IPv4 and of IPv6, the
// longest first, each once. Rows are never taken away, so there may be many: a lookup asks once for
// each length, at most 33 times for IPv4 and 129 times for IPv6.
type lengths [2][]int

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// networkKey returns the key of a network, whose address is masked.
func networkKey(p netip.Prefix) key {
	k := key{class: Network}
	addr := p.Addr().As16()
	copy(k.id[:], addr[:])
	k.id[16], k.id[17] = byte(p.Bits()), byte(family(p.Addr()))
	return k
}

// add adds the length of a network.
func (l *lengths) add(p netip.Prefix) {
	list := &l[family(p.Addr())]
	at, found := slices.BinarySearchFunc(*list, p.Bits(), func(have, bits int) int { return bits - have })
	if !found {
		*list = slices.Insert(*list, at, p.Bits())
	}
}

// network returns the row of an action about the smallest network with an address, nil for none.
// REQUIRES: l.mu.
func (l *Log) network(addr netip.Addr, a Action, now int64) *Row {
	if !addr.IsValid() {
		return nil
	}
	for _, bits := range l.lengths[family(addr)] {
		p, err := addr.Prefix(bits)
		if err != nil {
			return nil // no length is longer than an address
		}
		if r := l.byTarget[networkKey(p)].row(a, now); r != nil {
			return r
		}
	}
	return nil
}
