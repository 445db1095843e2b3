package plugin

import (
	"time"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/sdk/grasp"
)

// question is what plugins are asked about: one of item, query, connection and push, by its
// function.
type question struct {
	function   guest.Func
	item       *host.Item
	query      *host.Query
	connection *host.Connection
	push       *host.Push

	client  *host.Client // that asks; nil for an item
	source  string       // client, import or sync
	facts   *host.FactReader
	now     int64  // unix seconds
	request []byte // for modules

	ended time.Duration // of guest.Question
}

// encode returns the request for modules about a client, which is valid until b encodes another.
func (q *question) encode(b *guest.Request) []byte {
	switch {
	case q.query != nil:
		return b.Query(q.query, q.now)
	case q.connection != nil:
		return b.Connect(q.connection, q.now)
	}
	return b.Push(q.push, q.now)
}

// ofRepository reports whether the question is about an event that a policy that hosts
// repositories may hold for their git data.
func (q *question) ofRepository() bool {
	return q.item != nil && grasp.NeedsGitData(int(q.item.Event.Kind))
}

// causes returns the sources that a failure at the question counts against.
func (q *question) causes() (c causes) {
	switch {
	case q.item != nil:
		return causesOf(q.item)
	case q.function == guest.Connect:
		c.network(q.client.Addr)
		return c
	}
	return causesOfClient(q.client)
}
