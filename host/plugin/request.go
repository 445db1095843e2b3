package plugin

import (
	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/sdk/abi"
)

// request is an item as modules receive it, encoded once for the whole chain.
type request struct {
	b       []byte
	address []byte
}

// keepRequest is the largest buffer that goes back to the pool.
const keepRequest = 256 << 10

func (q *request) encode(it *host.Item, now int64) {
	e := it.Event
	wire := abi.AdmitRequest[nostr.Tag, host.PubKey]{
		Event: abi.Event[nostr.Tag]{
			ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
			CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
		},
		Authed: it.Authed,
		Now:    now,
	}
	if s := it.Source; s != nil {
		wire.Origin = origin(s.Origin)
		wire.Relay = s.Relay
		if s.Addr.IsValid() {
			q.address = s.Addr.AppendTo(q.address[:0])
			wire.Address = q.address
		}
	}
	q.b = abi.AppendAdmitRequest(q.b[:0], &wire)
}

func origin(o host.Origin) uint32 {
	switch o {
	case host.FromClient:
		return abi.OriginClient
	case host.FromImport:
		return abi.OriginImport
	case host.FromSync:
		return abi.OriginSync
	}
	return abi.OriginUnspecified
}

// appendEvent appends a stored event as the next of an EventList.
func appendEvent(b []byte, e *host.Event, inList bool) []byte {
	wire := abi.Event[nostr.Tag]{
		ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
		CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
	}
	if inList {
		return abi.AppendEventOf(b, &wire)
	}
	return abi.AppendEvent(b, &wire)
}
