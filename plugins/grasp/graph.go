package main

import (
	"talon/sdk/abi"
	"talon/sdk/grasp"
	"talon/sdk/policy"
)

const (
	// maxListed is how many maintainers are read at first. An announcement counts as
	// six: that is what it costs.
	maxListed = 1000
	perEvent  = 6

	// maxRounds is how far the maintainer set is followed by name, with how many
	// authors and what they list in each round.
	maxRounds   = 3
	maxFrontier = 50
	maxRound    = 150
)

// graph says in whose maintainer sets the author is, among those who announced the
// identifier, stored or held. What the operator denies is left out.
//
// Strangers may announce the same identifier, any number of them. Where there are
// more than are read, those that decide about the author are asked for by name: its
// own announcement, those of whom that lists, and so on. So nobody is pushed out,
// if maintainers list each other.
func (q *question) graph(identifier string, author grasp.PubKey) *grasp.Graph {
	c := collection{question: q, identifier: identifier, room: maxListed}
	f := policy.Filter{
		Kinds: []int{grasp.KindAnnouncement},
		Tags:  []policy.TagFilter{{Name: "d", Values: []string{identifier}}},
	}
	c.collect(f)
	asked := []grasp.PubKey{author}
	for next, round := asked, 0; round < maxRounds && c.more && len(next) > 0; round++ {
		f.Authors = f.Authors[:0]
		for _, key := range next {
			f.Authors = append(f.Authors, policy.PubKey(key))
		}
		from := len(c.announcements)
		c.room = maxRound
		c.collect(f)
		done := len(asked)
		for _, a := range c.announcements[from:] {
			for _, key := range a.Maintainers {
				if len(asked)-done < maxFrontier && !hasKey(asked, &key) {
					asked = append(asked, key)
				}
			}
		}
		next = asked[done:]
	}
	return grasp.NewGraph(c.about(author))
}

// collection is what is announced for one identifier, as far as it is read.
type collection struct {
	*question
	identifier    string
	announcements []*grasp.Announcement
	room          int  // for announcements and maintainers
	more          bool // there are others
}

func (c *collection) collect(f policy.Filter) {
	if !c.may(4) {
		return
	}
	for _, ask := range c.everywhere() {
		found := ask(f)
		for found.Next() {
			if c.room <= 0 {
				c.more = true
				return
			}
			c.add(found.Event())
		}
		c.more = c.more || found.More()
	}
}

// add keeps of an announcement what says who maintains what. The event's texts are
// gone with the next answer.
func (c *collection) add(event policy.Event) {
	c.room -= perEvent
	a := &grasp.Announcement{Stamp: stamp(event), Identifier: c.identifier}
	d, _ := event.Tag("d")
	// A second d tag may be the one that matched.
	if d != c.identifier || c.rules.Deny.Has(a.Repo()) {
		return
	}
	for it := walk(event); it.next(); {
		if it.Name() == "maintainers" {
			items := it.Tag().Items()
			items.Next()
			a.Maintainers = appendKeys(a.Maintainers, items, c.room)
		}
	}
	if c.room -= len(a.Maintainers); c.room <= 0 {
		c.more = true
	}
	c.announcements = append(c.announcements, a)
}

// maxChosen is how many owners of one author's work are told apart.
const maxChosen = 50

// about returns the announcements of those whose maintainer the author is, directly
// or over others, and the author's own. Of whom they list, only those stay that
// matter for that. So the graph is small, however much strangers announce. It has
// an announcement if there is any.
func (c *collection) about(author grasp.PubKey) (chosen []*grasp.Announcement) {
	keys := []grasp.PubKey{author}
	left := c.announcements
	// Each announcement is compared with each key once.
	for from, to := 0, 1; from < to; from, to = to, len(keys) {
		var rest []*grasp.Announcement
		for _, a := range left {
			switch {
			case hasKey(keys, &a.PubKey):
				chosen = append(chosen, a)
			case len(keys) <= maxChosen && namesOne(a.Maintainers, keys[from:to]):
				chosen = append(chosen, a)
				keys = append(keys, a.PubKey)
			default:
				rest = append(rest, a)
			}
		}
		left = rest
	}
	if len(chosen) == 0 && len(left) > 0 {
		chosen = left[:1]
	}
	for _, a := range chosen {
		a.Maintainers = onlyKeys(a.Maintainers, keys)
	}
	return chosen
}

// The functions below are small and have one loop each, since a module pays for
// each round by the size of the whole function.

func hasKey(keys []grasp.PubKey, key *grasp.PubKey) bool {
	for i := range keys {
		if k := &keys[i]; k[0] == key[0] && k[1] == key[1] && *k == *key {
			return true
		}
	}
	return false
}

// namesOne reports whether one of the keys is on the list.
func namesOne(list, keys []grasp.PubKey) bool {
	for i := range keys {
		if hasKey(list, &keys[i]) {
			return true
		}
	}
	return false
}

// onlyKeys returns what is on the list and among the keys.
func onlyKeys(list, keys []grasp.PubKey) (both []grasp.PubKey) {
	for i := range keys {
		if hasKey(list, &keys[i]) {
			both = append(both, keys[i])
		}
	}
	return both
}

// appendKeys adds at most room keys that are written as 64 hex digits. The rest is
// left out, as everywhere in package grasp.
func appendKeys(keys []grasp.PubKey, items abi.BytesIter, room int) []grasp.PubKey {
	for len(keys) < room && items.Next() {
		if text := items.Bytes(); len(text) == 64 {
			keys = appendKey(keys, text)
		}
	}
	return keys
}

func appendKey(keys []grasp.PubKey, text []byte) []grasp.PubKey {
	var key grasp.PubKey
	if decodeKey(&key, text) {
		keys = append(keys, key)
	}
	return keys
}

//go:noinline
func decodeKey(key *grasp.PubKey, text []byte) bool {
	var wrong byte
	for i := range key {
		high, low := nibbles[text[2*i]], nibbles[text[2*i+1]]
		wrong |= high | low
		key[i] = high<<4 | low&15
	}
	return wrong < 16
}

// nibbles has the value of each hex digit, and more than 15 for other bytes.
var nibbles = func() (table [256]byte) {
	for i := range table {
		table[i] = 255
	}
	for i, c := range "0123456789abcdef" {
		table[c] = byte(i)
	}
	for i, c := range "ABCDEF" {
		table[c] = byte(10 + i)
	}
	return table
}()
