package plugin

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
)

// journal remembers the last decisions about events, to answer why. Entries are numbered
// from 1 in the order in which they came; the last maxEntries are in the ring.
//
// A search for an event follows the entries of its bucket back from the newest. It stops at
// an entry that is older than all in the ring. So overwriting an entry removes nothing
// else.
type journal struct {
	maxEntries uint64
	key        uint64 // random: who sends events chooses their ids, and must not choose their buckets

	mu      sync.Mutex // guards the fields below
	ring    []entry    // entry n stands at (n-1) % maxEntries; grows up to there
	newest  uint64
	buckets []uint64                     // by hash: the newest entry, or 0; made with the first entry
	last    [host.Restrict + 1]*decision // by action: which the next entries may share
}

// entry is the last decision about an event.
type entry struct {
	event host.ID
	at    int64 // unix seconds
	fuel  int64
	*decision
	audience *Opinion // who may receive it; nil: everybody
	older    uint64   // the entry before it in its bucket, or 0
}

// decision is immutable: most entries share that of an earlier one.
type decision struct {
	source   string
	ruling   host.Ruling
	number   int64     // of the generation that decided; 0: none did
	refused  string    // why the server refused what the plugins accepted; "": it did not
	asked    []string  // shared by all entries of an active set
	opinions []Opinion // nil for most
}

func (d *decision) equal(other *decision) bool {
	return d.source == other.source && d.refused == other.refused && d.ruling == other.ruling && d.number == other.number &&
		len(d.opinions)+len(other.opinions) == 0 && sameNames(d.asked, other.asked)
}

// sameNames compares names, which are most often those of the same active set.
func sameNames(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func newJournal(limit int) *journal {
	return &journal{maxEntries: uint64(limit), key: rand.Uint64() | 1}
}

// add notes a decision. One that is taken again takes the place of the first.
func (j *journal) add(t *trace) {
	if j.maxEntries == 0 {
		return
	}
	event := &t.item.Event.ID
	d := decision{source: t.source, ruling: t.ruling}
	names, asked := t.names()
	d.asked = names[:asked]
	d.ruling.Reason = keptReason(d.ruling.Reason)
	if len(d.ruling.Wake) > keepReason {
		d.ruling.Wake = keptReason(d.ruling.Wake) + "…"
	}
	if t.by != nil {
		d.number = t.by.number
	}
	for _, o := range t.opinions() {
		d.opinions = append(d.opinions, o.said())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	shared := j.last[d.ruling.Action]
	if shared == nil || !shared.equal(&d) {
		kept := d // only here does it move to the heap
		shared = &kept
		j.last[d.ruling.Action] = shared
	}
	bucket := j.bucket(event)
	if e := j.lookup(*bucket, event); e != nil {
		e.at, e.fuel, e.decision, e.audience = t.now, t.fuel, shared, nil
		return
	}
	e := entry{*event, t.now, t.fuel, shared, nil, *bucket}
	if at := j.newest % j.maxEntries; at == uint64(len(j.ring)) {
		j.ring = append(j.ring, e)
	} else {
		j.ring[at] = e
	}
	j.newest++
	*bucket = j.newest
}

// refused notes that the server refused an event about which a decision is noted.
func (j *journal) refused(event host.ID, reason string) {
	if j.maxEntries == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.lookup(*j.bucket(&event), &event); e != nil {
		d := *e.decision // which others share
		d.refused = keptReason(reason)
		e.decision = &d
	}
}

// keptReason returns as much of a reason as the journal holds.
func keptReason(reason string) string {
	if len(reason) <= keepReason {
		return reason
	}
	return strings.ToValidUTF8(strings.Clone(reason[:keepReason]), "")
}

// addAudience notes who may receive an event about which a decision is noted.
func (j *journal) addAudience(t *trace) {
	if j.maxEntries == 0 || t.ruling.Action != host.Restrict {
		return
	}
	said := saidBy(t.by, t.ruling, t.fuel)
	j.mu.Lock()
	defer j.mu.Unlock()
	event := &t.item.Event.ID
	if e := j.lookup(*j.bucket(event), event); e != nil {
		e.audience = &said
	}
}

// bucket returns the newest entry of the bucket of an event. REQUIRES: mu.
func (j *journal) bucket(event *host.ID) *uint64 {
	width := bits.Len64(j.maxEntries) // about one entry a bucket
	if j.buckets == nil {
		j.buckets = make([]uint64, 1<<width)
	}
	return &j.buckets[binary.LittleEndian.Uint64(event[:])*j.key>>(64-width)]
}

// lookup returns the entry of an event, nil if there is none, in the bucket that begins
// with entry n. REQUIRES: mu.
func (j *journal) lookup(n uint64, event *host.ID) *entry {
	for n != 0 && n+j.maxEntries > j.newest {
		e := &j.ring[(n-1)%j.maxEntries]
		if e.event == *event {
			return e
		}
		n = e.older
	}
	return nil
}

// keepDecisions is how long a decision can be looked up, if newer ones do not
// displace it.
const keepDecisions = 24 * time.Hour

// keepReason bounds what a module can make the journal hold.
const keepReason = 200

// find returns the last decision about an event that is remembered.
func (j *journal) find(event host.ID, now time.Time) (Why, bool) {
	j.mu.Lock()
	var e entry
	found := j.lookup(*j.bucket(&event), &event)
	if found != nil {
		e = *found
	}
	j.mu.Unlock()
	if found == nil || now.Sub(time.Unix(e.at, 0)) > keepDecisions {
		return Why{}, false
	}
	var limits *AllowedBytes
	if l := e.ruling.Limits; l != (host.UsageLimits{}) {
		limits = &AllowedBytes{Author: l.Author, Repository: l.Repository}
	}
	return Why{
		Limits: limits,
		Event:  event.String(),
		At:     time.Unix(e.at, 0),
		Source: e.source,
		Ruling: Opinion{
			Plugin: e.ruling.Module, Generation: e.number, Action: e.ruling.Action.String(),
			Rule: e.ruling.Rule, Reason: e.ruling.Reason, Wake: e.ruling.Wake, Fuel: e.fuel,
		},
		Refused:  e.decision.refused,
		Asked:    e.asked,
		Shadow:   e.opinions,
		Audience: e.audience,
	}, true
}
