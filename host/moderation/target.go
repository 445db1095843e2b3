package moderation

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/nip19"
)

// Class says what a target is.
type Class string

// The classes.
const (
	Event      Class = "event"
	Author     Class = "author"
	Repository Class = "repository"
	Kind       Class = "kind"
	Filter     Class = "filter"
	Network    Class = "network"
	Object     Class = "object"
)

// Target is what a row is about. The zero value is none. Its text is canonical: two targets are
// the same if their texts are.
type Target struct {
	class  Class
	value  string // the text after the colon
	id     host.ID
	pubkey host.PubKey // of an author, or the owner of a repository
	kind   host.Kind
	filter *host.Filter
	prefix netip.Prefix
}

// Class returns what the target is.
func (t *Target) Class() Class { return t.class }

// ID returns the event of a target of class Event.
func (t *Target) ID() host.ID { return t.id }

// PubKey returns the author, or the owner of the repository.
func (t *Target) PubKey() host.PubKey { return t.pubkey }

// Kind returns the kind of a target of class Kind.
func (t *Target) Kind() host.Kind { return t.kind }

// Filter returns the filter of a target of class Filter.
func (t *Target) Filter() host.Filter { return *t.filter }

// Network returns the addresses of a target of class Network.
func (t *Target) Network() netip.Prefix { return t.prefix }

// Object returns the git object of a target of class Object, in hex.
func (t *Target) Object() string { return t.value }

// Address returns the address of the repository.
func (t *Target) Address() host.Address {
	_, d, _ := strings.Cut(t.value, "/")
	return host.Address{Kind: host.KindAnnouncement, PubKey: t.pubkey, D: d}
}

// String returns the canonical text: class:value.
func (t Target) String() string {
	if t.class == "" {
		return ""
	}
	return string(t.class) + ":" + t.value
}

// MarshalText returns the canonical text.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the canonical text, or another form that ParseTarget knows.
func (t *Target) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTarget(string(text))
	return err
}

var (
	errTarget = errors.New("want npub…, npub…/identifier, note…, nevent…, naddr…, a network, a filter in {…}, or event:ID, author:KEY, repository:KEY/IDENTIFIER, kind:NUMBER, network:CIDR, filter:JSON, object:ID")

	// maxIdentifier bounds the identifier of a repository, in bytes.
	maxIdentifier = 4096
)

// ParseTarget reads a target as an operator writes it.
func ParseTarget(text string) (Target, error) {
	t, err := parseTarget(strings.TrimSpace(text))
	if err != nil {
		return Target{}, fmt.Errorf("the target %.100q is wrong: %w", text, err)
	}
	return t, nil
}

func parseTarget(text string) (Target, error) {
	if a, ok := host.ParseAddress(text); ok && a.Kind == host.KindAnnouncement {
		return RepositoryTarget(a.PubKey, a.D)
	}
	class, value, _ := strings.Cut(text, ":")
	switch Class(class) {
	case Event:
		id, err := nip19.ParseEventID(value)
		return EventTarget(id), err
	case Author:
		key, err := nip19.ParsePubKey(value)
		return AuthorTarget(key), err
	case Repository:
		return parseRepository(value)
	case Kind:
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return Target{}, errors.New("a kind is a number up to 65535")
		}
		return KindTarget(host.Kind(n)), nil
	case Filter:
		return parseFilter(value)
	case Network:
		return parseNetwork(value)
	case Object:
		return parseObject(value)
	}
	return parseBare(text)
}

// parseBare reads a target without its class.
func parseBare(text string) (Target, error) {
	switch {
	case strings.HasPrefix(text, "{"):
		return parseFilter(text)
	case strings.HasPrefix(text, "note1"), strings.HasPrefix(text, "nevent1"):
		id, err := nip19.ParseEventID(text)
		return EventTarget(id), err
	case strings.HasPrefix(text, "naddr1"):
		a, err := nip19.DecodeNaddr(text)
		if err == nil && host.Kind(a.Kind) != host.KindAnnouncement {
			err = errors.New("this naddr names no repository")
		}
		if err != nil {
			return Target{}, err
		}
		return RepositoryTarget(a.PubKey, a.D)
	case strings.HasPrefix(text, "npub1") && strings.Contains(text, "/"):
		return parseRepository(text)
	case strings.HasPrefix(text, "npub1"):
		key, err := nip19.DecodeNpub(text)
		return AuthorTarget(key), err
	}
	if t, err := parseNetwork(text); err == nil {
		return t, nil
	}
	return Target{}, errTarget
}

// EventTarget returns the target of an event.
func EventTarget(id host.ID) Target { return Target{class: Event, value: id.String(), id: id} }

// AuthorTarget returns the target of an author.
func AuthorTarget(key host.PubKey) Target {
	return Target{class: Author, value: key.String(), pubkey: key}
}

// KindTarget returns the target of a kind.
func KindTarget(k host.Kind) Target {
	return Target{class: Kind, value: strconv.Itoa(int(k)), kind: k}
}

// RepositoryTarget returns the target of a repository.
func RepositoryTarget(owner host.PubKey, identifier string) (Target, error) {
	switch {
	case identifier == "":
		return Target{}, errors.New("the identifier of the repository is empty")
	case len(identifier) > maxIdentifier:
		return Target{}, fmt.Errorf("the identifier has %d bytes, more than %d", len(identifier), maxIdentifier)
	}
	return Target{class: Repository, value: owner.String() + "/" + identifier, pubkey: owner}, nil
}

func parseRepository(text string) (Target, error) {
	owner, identifier, _ := strings.Cut(text, "/")
	key, err := nip19.ParsePubKey(owner)
	if err != nil {
		return Target{}, err
	}
	return RepositoryTarget(key, strings.TrimSuffix(identifier, ".git"))
}

// NetworkTarget returns the target of a range of addresses.
func NetworkTarget(p netip.Prefix) Target {
	p = p.Masked()
	return Target{class: Network, value: p.String(), prefix: p}
}

func parseNetwork(text string) (Target, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		return NetworkTarget(netip.PrefixFrom(addr, addr.BitLen())), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return Target{}, errors.New("want an address, or a network such as 192.0.2.0/24")
	}
	return NetworkTarget(p), nil
}

func parseObject(text string) (Target, error) {
	text = strings.ToLower(text)
	if _, err := hex.DecodeString(text); err != nil || len(text) != 40 && len(text) != 64 {
		return Target{}, errors.New("a git object is named by 40 or 64 hex digits")
	}
	return Target{class: Object, value: text}, nil
}

// maxFilterValues bounds the values of one filter.
const maxFilterValues = 2000

func parseFilter(text string) (Target, error) {
	f, err := wire.ParseFilter([]byte(text), &wire.Limits{Values: maxFilterValues})
	if err != nil {
		return Target{}, err
	}
	return FilterTarget(f)
}

// FilterTarget returns the target of a filter. It has at least one condition and no limit.
func FilterTarget(f host.Filter) (Target, error) {
	switch {
	case f.Limit >= 0:
		return Target{}, errors.New("a filter of the moderation log has no limit")
	case f.IDs == nil && f.Authors == nil && f.Kinds == nil && len(f.Tags) == 0 && f.Since == nil && f.Until == nil:
		return Target{}, errors.New("the filter has no condition and matches everything")
	case f.Empty():
		return Target{}, errors.New("the filter matches nothing")
	}
	// One order, so that equal filters are one target.
	f = f.Canonical()
	return Target{class: Filter, value: string(wire.AppendFilter(nil, &f)), filter: &f}, nil
}
