package policy

import (
	"talon/sdk/abi"
	"talon/sdk/nip19"
)

// Input is the request of [Policy.Admit]: one event, its source, and the functions of the host.
type Input struct{ Facts }

// Origin says how an event came in.
type Origin uint32

const (
	FromClient Origin = abi.OriginClient // a client of this relay
	FromImport Origin = abi.OriginImport // the operator's import
	FromSync   Origin = abi.OriginSync   // another relay
)

// Event returns the event to decide about.
func (in Input) Event() Event { return Event{&in.c.admit.Event} }

// Origin returns where the event comes from.
func (in Input) Origin() Origin { return Origin(in.c.admit.Source.Origin()) }

// Address returns the client's IP address, or "" if there is none.
func (in Input) Address() string { return in.c.admit.Source.Address() }

// Relay returns the URL of the relay that sent the event, for FromSync.
func (in Input) Relay() string { return in.c.admit.Source.Relay() }

// Authed reports whether the client has proven that it holds the key (NIP-42).
func (in Input) Authed(pk PubKey) bool {
	for i := 0; ; i++ {
		key := in.c.admit.Source.Authed(i)
		if key == nil {
			return false
		}
		if string(key) == string(pk[:]) {
			return true
		}
	}
}

// Keys returns an iterator over the keys that the client has proven.
func (in Input) Keys() abi.BytesIter { return in.c.admit.Source.Keys() }

// SenderInSet reports whether a set has the event's author, or a key that the sender has proven.
// Policies use it to exempt people whom the operator trusts.
func (in Input) SenderInSet(name string) bool {
	if yes, _ := in.PubKeyInSet(name, *in.Event().Author()); yes {
		return true
	}
	for it := in.Keys(); it.Next(); {
		if yes, _ := in.PubKeyInSet(name, it.Key()); yes {
			return true
		}
	}
	return false
}

// ProvenInSet returns a key of a set that the client has proven (NIP-42), and whether there is
// one.
func (in Input) ProvenInSet(name string) (key PubKey, ok bool) {
	return in.provenInSet(name, in.Keys())
}

// ProvenInSet returns a key of a set that the client has proven (NIP-42), and whether there is
// one.
func (in QueryInput) ProvenInSet(name string) (key PubKey, ok bool) {
	return in.provenInSet(name, in.Client().Keys())
}

func (f Facts) provenInSet(name string, keys abi.BytesIter) (key PubKey, ok bool) {
	for keys.Next() {
		if yes, _ := f.PubKeyInSet(name, keys.Key()); yes {
			return keys.Key(), true
		}
	}
	return PubKey{}, false
}

// Verb is the message in which a client sends filters.
type Verb uint32

const (
	VerbReq   Verb = abi.VerbReq   // REQ: stored and live events
	VerbCount Verb = abi.VerbCount // COUNT (NIP-45)
	VerbNeg   Verb = abi.VerbNeg   // NEG-OPEN (NIP-77)
)

// QueryInput is the request of [Querier.Query]: the filters of one message.
type QueryInput struct{ Facts }

// Client returns the client that asks.
func (in QueryInput) Client() Client { return Client{in.c.query.Client} }

// Verb returns the message in which the client sent the filters.
func (in QueryInput) Verb() Verb { return Verb(in.c.query.Verb) }

// Filters returns an iterator over the filters. One that can match nothing is not
// among them.
//
//	for it := in.Filters(); it.Next(); {
//		filter := it.Filter()
//	}
func (in QueryInput) Filters() abi.FilterIter { return in.c.query.Filters() }

// ConnectInput is the request of [Connector.Connect]: a client that has just connected.
type ConnectInput struct{ Facts }

// Client returns the client that connects. It has proven no keys yet.
func (in ConnectInput) Client() Client { return Client{in.c.connect.Client} }

// Open returns the number of connections of the relay, this one included.
func (in ConnectInput) Open() int { return int(in.c.connect.Open) }

// FromAddress returns how many of them come from the client's address, or its IPv6
// /64.
func (in ConnectInput) FromAddress() int { return int(in.c.connect.FromAddress) }

// PushInput is the request of [Pusher.Push]: ref updates of one repository.
type PushInput struct{ Facts }

// Client returns the client that pushes.
func (in PushInput) Client() Client { return Client{in.c.push.Client} }

// Repo returns the address of the repository's announcement, 30617:pubkey:d.
func (in PushInput) Repo() string { return in.c.push.Repo }

// Maintainers returns an iterator over the keys whose state counts for the
// repository.
func (in PushInput) Maintainers() abi.BytesIter { return in.c.push.Maintainers() }

// Updates returns an iterator over the ref updates:
//
//	for it := in.Updates(); it.Next(); {
//		update := it.Update()
//	}
func (in PushInput) Updates() abi.RefUpdateIter { return in.c.push.Updates() }

// PRs reports whether the push goes to the repository under /prs/ (GRASP-06), which
// needs no announcement, and not to that of Repo's announcement.
func (in PushInput) PRs() bool { return in.c.push.PRs }

// Fetch reports whether nobody pushes: the host is about to fetch git data that events name from
// another server. There are no updates, and only the limits of the verdict count, see
// [Verdict.Within].
func (in PushInput) Fetch() bool { return in.c.push.Fetch }

// Bytes returns the size of the pack, 0 if it is not known.
func (in PushInput) Bytes() int64 { return in.c.push.Bytes }

// Stored returns how many bytes the repository takes on disk.
func (in PushInput) Stored() int64 { return in.c.push.Stored }

// Client describes the peer of a connection.
type Client struct{ v abi.ClientView }

// Address returns the IP address, or "" if there is none.
func (c Client) Address() string { return c.v.Address() }

// UserAgent returns the client's User-Agent header.
func (c Client) UserAgent() string { return c.v.UserAgent() }

// Origin returns the page that a browser was on, empty for other clients.
func (c Client) Origin() string { return c.v.Origin() }

// Path returns the path of the request, "/" for most.
func (c Client) Path() string { return c.v.Path() }

// Authed reports whether the client has proven that it holds the key (NIP-42).
func (c Client) Authed(pk PubKey) bool {
	for it := c.v.Authed(); it.Next(); {
		if string(it.Bytes()) == string(pk[:]) {
			return true
		}
	}
	return false
}

// Keys returns an iterator over the keys that the client has proven.
func (c Client) Keys() abi.BytesIter { return c.v.Authed() }

// ID is an event id.
type ID [32]byte

// PubKey is an author's public key.
type PubKey [32]byte

func (id ID) String() string     { return string(abi.AppendHex(nil, id[:])) }
func (pk PubKey) String() string { return string(abi.AppendHex(nil, pk[:])) }

// ParsePubKey decodes an npub (NIP-19) or 64 hex digits.
func ParsePubKey(s string) (PubKey, error) {
	key, err := nip19.ParsePubKey(s)
	return PubKey(key), err
}

// Event is a nostr event, read in place.
type Event struct{ v *abi.EventView }

func (e Event) ID() ID {
	var id ID
	copy(id[:], e.v.ID())
	return id
}

func (e Event) PubKey() PubKey {
	var pk PubKey
	copy(pk[:], e.v.PubKey())
	return pk
}

// Author returns PubKey without a copy. It is valid as long as the event.
func (e Event) Author() *PubKey {
	if b := e.v.PubKey(); len(b) == len(PubKey{}) {
		return (*PubKey)(b)
	}
	return new(PubKey)
}

// CreatedAt returns unix seconds.
func (e Event) CreatedAt() int64 { return e.v.CreatedAt() }

// Kind returns 0 to 65535.
func (e Event) Kind() int { return int(e.v.Kind()) }

func (e Event) Content() string { return e.v.Content() }

// Tags returns an iterator over the tags:
//
//	for it := in.Event().Tags(); it.Next(); {
//		if it.Name() == "t" && it.Value() == "nostr" {
func (e Event) Tags() abi.TagIter { return e.v.Tags() }

// TagBytes returns the size of the encoded tags: at least two bytes for each tag and each item, and
// the items themselves. It costs nothing, and bounds the cost of walking the tags.
func (e Event) TagBytes() int { return e.v.TagBytes() }

// TagCount returns the number of tags. It costs much less than walking them.
func (e Event) TagCount() int { return e.v.TagCount() }

// Tag returns the value of the first tag with this name, and whether there is
// one.
func (e Event) Tag(name string) (value string, ok bool) {
	for it := e.v.Tags(); it.Next(); {
		if it.Name() == name {
			return it.Value(), true
		}
	}
	return "", false
}
