package guest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"talon/host"
	"talon/host/wire"
	"talon/internal/recent"
)

// EventCache keeps stored events in the form in which modules read them, so that an
// event that many decisions ask for is parsed and encoded once. It knows events by
// their text: it holds no facts, and what it answers is never outdated. It is shared by
// all modules. A nil one keeps nothing.
type EventCache struct {
	seed   maphash.Seed
	shards [eventShards]eventShard
}

// NewEventCache returns a cache for [Options.Events].
func NewEventCache() *EventCache {
	c := &EventCache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].events.Size = eventCacheBytes / (2 * eventShards)
	}
	return c
}

// eventShard keeps what is asked for.
type eventShard struct {
	mu     sync.Mutex
	events recent.Map[eventKey, *encodedEvent] // guarded by mu
}

type eventKey struct {
	hash   uint64 // of the text
	header bool   // without tags, content and signature
}

// encodedEvent is never changed.
type encodedEvent struct {
	text  []byte
	event []byte // one of a list, with its key and length
}

// append appends the event with this text, which nobody may change any more, to a
// message of the ABI, as one of a list or alone.
func (c *EventCache) append(b, text []byte, inList, header bool) ([]byte, error) {
	if c == nil || len(text) > maxCachedEvent {
		e, err := parseStored(text, header)
		if err != nil {
			return b, err
		}
		return appendEvent(b, e, inList), nil
	}
	key := eventKey{maphash.Bytes(c.seed, text), header}
	s := &c.shards[key.hash%eventShards]
	event := s.get(key, text)
	if event == nil {
		e, err := parseStored(text, header)
		if err != nil {
			return b, err
		}
		event = slices.Clip(appendEvent(nil, e, true))
		s.add(key, &encodedEvent{text, event})
	}
	if !inList {
		_, n := binary.Uvarint(event[1:])
		event = event[1+n:]
	}
	return append(b, event...), nil
}

func parseStored(text []byte, header bool) (*host.Event, error) {
	e, err := wire.ParseEvent(text)
	if err != nil {
		return nil, fmt.Errorf("parse a stored event: %w", err)
	}
	if header {
		e.Tags, e.Content, e.Sig = nil, "", host.Sig{}
	}
	return e, nil
}

func (x *encodedEvent) cost() int { return len(x.text) + len(x.event) + eventOverhead }

// get returns the event as it is encoded, nil if it is not remembered.
func (s *eventShard) get(key eventKey, text []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, aging, ok := s.events.Get(key)
	if aging {
		s.events.Add(key, x, x.cost())
	}
	if !ok || !bytes.Equal(x.text, text) {
		return nil
	}
	return x.event
}

func (s *eventShard) add(key eventKey, x *encodedEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, aging, ok := s.events.Get(key); aging || !ok {
		s.events.Add(key, x, x.cost())
	}
}

const (
	eventShards = 16

	// eventCacheBytes bounds the texts and encodings of all shards together; one event
	// is at most maxCachedEvent.
	eventCacheBytes = 8 << 20
	maxCachedEvent  = 32 << 10

	// eventOverhead is the cost of an entry in addition to its bytes.
	eventOverhead = 160
)
