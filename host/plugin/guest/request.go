package guest

import (
	"net/netip"
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// Request is a buffer for one request, encoded once for all modules. The result of a method
// is valid until the next call of a method. The zero value is ready.
type Request struct {
	b       []byte
	from    netip.Addr // whose text address is
	address []byte
}

// keepRequest is the largest buffer that is used again.
const keepRequest = 256 << 10

// empty returns the buffer to write the next request to.
func (q *Request) empty() []byte {
	if cap(q.b) > keepRequest {
		q.b = nil
	}
	return q.b[:0]
}

// Admit asks about an event.
func (q *Request) Admit(it *host.Item, now int64) []byte {
	e := it.Event
	wire := abi.AdmitRequest[host.Tag, host.PubKey]{
		Event: abi.Event[host.Tag]{
			ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
			CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
		},
		Authed: it.Authed,
		Now:    now,
	}
	if s := it.Source; s != nil {
		wire.Origin = origin(s.Origin)
		wire.Relay = s.Relay
		wire.Address = q.addr(s.Addr)
	}
	q.b = abi.AppendAdmitRequest(q.empty(), &wire)
	return q.b
}

// Query asks about the filters of one message. Filters that can match nothing
// are left out.
func (q *Request) Query(it *host.Query, now int64) []byte {
	b := q.empty()
	for i := range it.Filters {
		f := &it.Filters[i]
		if f.Empty() {
			continue
		}
		tags := f.Tags
		if slices.ContainsFunc(tags, isSearch) {
			tags = slices.DeleteFunc(slices.Clone(tags), isSearch) // the ABI has no searches
		}
		wire := abi.QueryFilter[host.ID, host.PubKey, host.Kind, host.TagFilter]{
			IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: tags, Since: f.Since, Until: f.Until, Limit: f.Limit,
		}
		b = abi.AppendFilterOf(b, &wire)
	}
	wire := abi.QueryRequest[host.PubKey]{Client: q.client(it.Client), Verb: verb(it.Verb), Now: now}
	q.b = abi.AppendQueryRequest(b, &wire)
	return q.b
}

func isSearch(t host.TagFilter) bool { return t.Name == host.WordOf }

// Connect asks about a client that has just come.
func (q *Request) Connect(it *host.Connection, now int64) []byte {
	wire := abi.ConnectRequest[host.PubKey]{
		Client: q.client(&it.Client), Open: uint32(it.Open), FromAddress: uint32(it.FromAddr), Now: now,
	}
	q.b = abi.AppendConnectRequest(q.empty(), &wire)
	return q.b
}

// Push asks about ref updates.
func (q *Request) Push(it *host.Push, now int64) []byte {
	wire := abi.PushRequest[host.PubKey, host.RefUpdate]{
		Client: q.client(it.Client), Repo: it.Repo.String(), Maintainers: it.Maintainers, Updates: it.Updates,
		Bytes: it.Bytes, Stored: it.Stored, PRs: it.PRs, Fetch: it.Fetch, Now: now,
	}
	q.b = abi.AppendPushRequest(q.empty(), &wire)
	return q.b
}

func (q *Request) client(c *host.Client) abi.Client[host.PubKey] {
	if c == nil {
		return abi.Client[host.PubKey]{}
	}
	return abi.Client[host.PubKey]{
		Address: q.addr(c.Addr), Authed: c.Authed, UserAgent: c.UserAgent, Origin: c.Origin, Path: c.Path,
	}
}

// addr returns an address as text, empty where there is none.
func (q *Request) addr(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	// A worker decides about several events of one source, one after the other.
	if a != q.from {
		q.from, q.address = a, a.AppendTo(q.address[:0])
	}
	return q.address
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

func verb(v host.QueryVerb) uint32 {
	switch v {
	case host.QueryReq:
		return abi.VerbReq
	case host.QueryCount:
		return abi.VerbCount
	case host.QueryNeg:
		return abi.VerbNeg
	}
	return abi.VerbUnspecified
}

// appendEvent appends a stored event as the next of an EventList.
func appendEvent(b []byte, e *host.Event, inList bool) []byte {
	wire := abi.Event[host.Tag]{
		ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
		CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
	}
	if inList {
		return abi.AppendEventOf(b, &wire)
	}
	return abi.AppendEvent(b, &wire)
}
