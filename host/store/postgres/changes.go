package postgres

import (
	"encoding/binary"
	"errors"
	"slices"

	"talon/host"
	"talon/host/wire"
)

// changes are what a commit did, as a row of table log has it: for each change its sort,
// a number where it has one, the length of the event's JSON and the JSON. Numbers are
// uvarints.
type changes []byte

const (
	changeStored    = 's' // with its seq
	changeEphemeral = 'e'
	changeRemoved   = 'r'
	changeHeld      = 'h' // with its fate
	changeSynced    = 'y' // likewise, of an event that a relay sent
	changeArrived   = 'a' // no event
)

var errChanges = errors.New("a row of table log is damaged")

func (c *changes) add(sort byte, number uint64, json []byte) {
	b := append(*c, sort)
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, uint64(len(json)))
	*c = append(b, json...)
}

func (c *changes) removed(events []*host.Event) {
	for _, e := range events {
		c.add(changeRemoved, 0, e.JSON)
	}
}

func (c *changes) held(list []host.HeldChange) {
	for _, h := range list {
		sort := byte(changeHeld)
		if h.Synced {
			sort = changeSynced
		}
		c.add(sort, uint64(h.Status), h.Event.JSON)
	}
}

// commit returns what the changes say.
func (c changes) commit() (out host.Commit, err error) {
	for b := []byte(c); len(b) > 0; {
		sort := b[0]
		number, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return out, errChanges
		}
		b = b[1+n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return out, errChanges
		}
		json := b[n : n+int(size)]
		b = b[n+int(size):]
		if sort == changeArrived {
			out.Arrived = true
			continue
		}
		e, err := wire.ParseEvent(slices.Clip(json))
		if err != nil {
			return out, errors.Join(errChanges, err)
		}
		switch sort {
		case changeStored, changeEphemeral:
			out.Published = append(out.Published, host.Published{Event: e, Seq: int64(number)})
		case changeRemoved:
			out.Removed = append(out.Removed, e)
		case changeHeld, changeSynced:
			if number >= uint64(host.HeldStatuses) {
				return out, errChanges
			}
			out.Held = append(out.Held, host.HeldChange{Event: e, Status: host.HeldStatus(number), Synced: sort == changeSynced})
		default:
			return out, errChanges
		}
	}
	return out, nil
}
