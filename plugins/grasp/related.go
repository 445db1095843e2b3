package main

import (
	"encoding/hex"
	"strconv"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

// An event may name thousands of others. The first of them are looked for.
const (
	maxIDs       = 200
	maxAddresses = 30
)

// related reports whether the event names one that is stored or held, or is named
// by one that is stored. Repositories that the operator denies do not count.
func (q *question) related(event policy.Event) bool {
	if q.names(event, false) {
		return true
	}
	if id := event.ID(); q.referenced(hex.EncodeToString(id[:])) {
		return true
	}
	switch kind := event.Kind(); {
	case kind == 0 || kind == 3 || kind >= 10000 && kind < 20000, kind >= 30000 && kind < 40000:
		return q.referenced(addressOf(event))
	}
	return false
}

// deletion accepts the deletion of anything that is here, and of what the operator
// has denied since.
func (q *question) deletion(event policy.Event) policy.Verdict {
	if q.names(event, true) {
		return deletes
	}
	return unrelated
}

// names reports whether the event names one that is stored or held, by a, A, q or
// by e, E, q.
func (q *question) names(event policy.Event, deniedToo bool) bool {
	var ids []policy.ID
	var addresses []string
	for it := walk(event); it.next() && (len(ids) < maxIDs || len(addresses) < maxAddresses); {
		name, value := it.Name(), it.Value()
		if len(name) != 1 {
			continue
		}
		switch name[0] {
		case 'e', 'E', 'q', 'a', 'A':
		default:
			continue
		}
		// What is as long as an id is no address, and the other way round.
		if len(value) == 64 {
			if name[0]|0x20 != 'a' && len(ids) < maxIDs {
				if id, ok := grasp.ParseID(value); ok {
					ids = append(ids, policy.ID(id))
				}
			}
		} else if name[0]|0x20 != 'e' && len(addresses) < maxAddresses && len(value) > 64 && !contains(addresses, value) {
			addresses = append(addresses, value)
		}
	}
	return len(addresses) > 0 && q.hasAddress(addresses, deniedToo) || len(ids) > 0 && q.exists(policy.Filter{IDs: ids})
}

// hasAddress asks for all addresses at once.
func (q *question) hasAddress(addresses []string, deniedToo bool) bool {
	f := policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress}}}
	for _, address := range addresses {
		if kind, pubkey, d, ok := grasp.ParseAddress(address); ok && askable(d) && (deniedToo || !q.denies(kind, pubkey, d)) {
			f.Tags[0].Values = append(f.Tags[0].Values, address)
		}
	}
	return len(f.Tags[0].Values) > 0 && q.exists(f)
}

// denies reports whether an address is that of a repository, or of its state, which
// the operator does not want.
func (q *question) denies(kind int, pubkey grasp.PubKey, d string) bool {
	return (kind == grasp.KindAnnouncement || kind == grasp.KindState) && q.rules.Deny.Has(grasp.Repo{PubKey: pubkey, Identifier: d})
}

// addressOf returns kind:pubkey:d of an event that has an address.
func addressOf(event policy.Event) string {
	b := strconv.AppendInt(make([]byte, 0, 128), int64(event.Kind()), 10)
	b = hex.AppendEncode(append(b, ':'), event.Author()[:])
	b = append(b, ':')
	if event.Kind() >= 30000 {
		d, _ := event.Tag("d")
		b = append(b, d...)
	}
	return string(b)
}
