package manifest

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"talon/sdk/abi"
)

// Key is an event id or a public key of a vector. In JSON it is hex digits. Zeros fill it up to 64
// digits.
type Key [32]byte

func (k *Key) UnmarshalText(text []byte) error {
	*k = Key{}
	return fill(k[:], text)
}

// fill decodes hex digits to the start of dst, whose rest is zeros.
func fill(dst, text []byte) error {
	if len(text) > 2*len(dst) {
		return fmt.Errorf("%.80q: want at most %d hex digits", text, 2*len(dst))
	}
	if _, err := hex.Decode(dst, text); err != nil {
		return fmt.Errorf("%q: want an even number of hex digits", text)
	}
	return nil
}

// VectorEvent is an event as NIP-01 writes it. Ids and signatures are not verified. Zeros fill
// short or missing values. A missing id is computed.
type VectorEvent struct {
	ID        Key        `json:"id"` // that of the event, as NIP-01 defines it, if it is absent
	PubKey    Key        `json:"pubkey"`
	CreatedAt int64      `json:"created_at"` // the vector's now if it is 0 or absent
	Kind      uint16     `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
	Sig       Signature  `json:"sig"`
}

// Signature is that of an event of a vector, as [Key] is its id.
type Signature [64]byte

func (s *Signature) UnmarshalText(text []byte) error {
	*s = Signature{}
	return fill(s[:], text)
}

// complete gives an event a time and an id if it has none.
func (e *VectorEvent) complete(now int64, given eventGiven) {
	if e.CreatedAt == 0 {
		e.CreatedAt = now
	}
	if given.ID == nil {
		e.ID = e.canonicalID()
	}
}

// Encoded returns the event as package abi writes it.
func (e *VectorEvent) Encoded() abi.Event[[]string] {
	return abi.Event[[]string]{
		ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
		CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
	}
}

// VectorSource says where an event comes from.
type VectorSource struct {
	Origin  string  `json:"origin"`            // client (also if absent), import or sync
	Address Address `json:"address,omitempty"` // the client's
	Relay   string  `json:"relay,omitempty"`   // the remote relay's URL
	Authed  []Key   `json:"authed,omitempty"`  // keys that the client has proven
}

func (s *VectorSource) UnmarshalJSON(b []byte) error {
	type plain VectorSource
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return fmt.Errorf("source: %w", inWords(err))
	}
	if _, ok := numbered(originNames, s.Origin, abi.OriginClient); !ok {
		return fmt.Errorf("source: origin %.20q: want client, import or sync", s.Origin)
	}
	return nil
}

func (s *VectorSource) given() bool {
	return s.Origin != "" || s.Address != "" || s.Relay != "" || s.Authed != nil
}

// Address is an IP address, or empty.
type Address string

func (a *Address) UnmarshalText(text []byte) error {
	if len(text) > 0 {
		addr, err := netip.ParseAddr(string(text))
		if err != nil || addr.Zone() != "" {
			return fmt.Errorf("address %.60q: want an IP address", text)
		}
	}
	*a = Address(text)
	return nil
}

// VectorClient is the client of the connection.
type VectorClient struct {
	Address   Address `json:"address,omitempty"`
	Authed    []Key   `json:"authed,omitempty"` // keys that it has proven
	UserAgent string  `json:"user_agent,omitempty"`
	Origin    string  `json:"origin,omitempty"` // the page that a browser was on
	Path      string  `json:"path,omitempty"`   // of the request
}

func (c *VectorClient) given() bool {
	return c.Address != "" || c.Authed != nil || c.UserAgent != "" || c.Origin != "" || c.Path != ""
}

func (c *VectorClient) encoded() abi.Client[Key] {
	return abi.Client[Key]{
		Address: []byte(c.Address), Authed: c.Authed, UserAgent: c.UserAgent, Origin: c.Origin, Path: c.Path,
	}
}

// VectorFilter is a filter as NIP-01 writes it.
type VectorFilter struct {
	filter abi.QueryFilter[Key, Key, uint16, tagCondition]
}

type tagCondition = struct {
	Name   byte
	Values []string
}

func (f *VectorFilter) UnmarshalJSON(b []byte) error {
	var known struct {
		IDs     []Key    `json:"ids"`
		Authors []Key    `json:"authors"`
		Kinds   []uint16 `json:"kinds"`
		Since   *int64   `json:"since"`
		Until   *int64   `json:"until"`
		Limit   *uint32  `json:"limit"`
	}
	if err := json.Unmarshal(b, &known); err != nil {
		return fmt.Errorf("filter: %w", inWords(err))
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	f.filter = abi.QueryFilter[Key, Key, uint16, tagCondition]{
		IDs: known.IDs, Authors: known.Authors, Kinds: known.Kinds, Since: known.Since, Until: known.Until, Limit: -1,
	}
	if known.Limit != nil {
		f.filter.Limit = int(*known.Limit)
	}
	empty := known.IDs != nil && len(known.IDs) == 0 || known.Authors != nil && len(known.Authors) == 0 ||
		known.Kinds != nil && len(known.Kinds) == 0
	for _, name := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
		value, ok := all["#"+string(rune(name))]
		if !ok {
			continue
		}
		condition := tagCondition{Name: name}
		if err := json.Unmarshal(value, &condition.Values); err != nil {
			return fmt.Errorf("filter: #%c: want a list of strings", name)
		}
		empty = empty || len(condition.Values) == 0
		f.filter.Tags = append(f.filter.Tags, condition)
	}
	if empty {
		return errors.New("filter: an empty list matches nothing, and a relay does not ask about it; leave it out")
	}
	return nil
}

// VectorPush is a push to a repository.
type VectorPush struct {
	Repo        string         `json:"repo"` // address of the announcement, 30617:pubkey:d
	Maintainers []Key          `json:"maintainers,omitempty"`
	Updates     []VectorUpdate `json:"updates"`
	Bytes       int64          `json:"bytes,omitempty"`  // of the pack; 0 if it is not known
	Stored      int64          `json:"stored,omitempty"` // bytes that the repository takes on disk
	PRs         bool           `json:"prs,omitempty"`    // to the repository under /prs/ (GRASP-06)
	Fetch       bool           `json:"fetch,omitempty"`  // the relay fetches, and nobody pushes; without updates
}

// VectorUpdate is one command of a push. Object names that are absent are zeros:
// there is no such object.
type VectorUpdate struct {
	Ref string // in full
	Old string
	New string
}

func (p *VectorPush) UnmarshalJSON(b []byte) error {
	type plain VectorPush
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return fmt.Errorf("push: %w", inWords(err))
	}
	kind, rest, _ := strings.Cut(p.Repo, ":")
	owner, _, ok := strings.Cut(rest, ":")
	switch {
	case kind != "30617" || !ok || !isHex(owner, 64):
		return fmt.Errorf("push: repo %.100q: want 30617:<64 hex digits>:<identifier>", p.Repo)
	case p.Fetch != (len(p.Updates) == 0):
		return errors.New("push: updates is empty, or there are some with fetch")
	case p.Bytes < 0, p.Stored < 0:
		return errors.New("push: bytes or stored is negative")
	}
	for i := range p.Updates {
		u := &p.Updates[i]
		if !strings.HasPrefix(u.Ref, "refs/") {
			return fmt.Errorf("push: ref %.100q: want one in full, such as refs/heads/main", u.Ref)
		}
		for _, oid := range []*string{&u.Old, &u.New} {
			if *oid == "" {
				*oid = strings.Repeat("0", 40)
			}
			if !isHex(*oid, 40) && !isHex(*oid, 64) {
				return fmt.Errorf("push: object %.80q: want 40 or 64 hex digits", *oid)
			}
		}
	}
	return nil
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == n
}

// canonicalID returns the id that the event has by its other fields (NIP-01): the
// SHA-256 of [0,pubkey,created_at,kind,tags,content] without white space.
func (e *VectorEvent) canonicalID() Key {
	b := append([]byte(nil), `[0,"`...)
	b = append(hex.AppendEncode(b, e.PubKey[:]), `",`...)
	b = append(strconv.AppendInt(b, e.CreatedAt, 10), ',')
	b = append(strconv.AppendUint(b, uint64(e.Kind), 10), ",["...)
	for i, tag := range e.Tags {
		b = append(appendComma(b, i), '[')
		for j, item := range tag {
			b = appendQuoted(appendComma(b, j), item)
		}
		b = append(b, ']')
	}
	b = appendQuoted(append(b, "],"...), e.Content)
	return sha256.Sum256(append(b, ']'))
}

// appendComma appends the separator before an item of a list.
func appendComma(b []byte, index int) []byte {
	if index > 0 {
		b = append(b, ',')
	}
	return b
}

// appendQuoted appends a string with the escapes that NIP-01 prescribes for ids, which
// are fewer than those of encoding/json.
func appendQuoted(b []byte, s string) []byte {
	const short = "\"\"\\\\\nn\rr\tt\bb\ff" // a character, and what stands for it after a backslash
	b = append(b, '"')
next:
	for i := range len(s) {
		for j := 0; j < len(short); j += 2 {
			if s[i] == short[j] {
				b = append(b, '\\', short[j+1])
				continue next
			}
		}
		if s[i] < 0x20 {
			b = append(b, `\u00`...)
			b = hex.AppendEncode(b, []byte{s[i]})
			continue
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// inWords names the place and the wanted type of a value of the wrong type, in the words of JSON.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	return fmt.Errorf("%s is %.60s: want %s", wrong.Field, wrong.Value, typeInWords(wrong.Type))
}

func typeInWords(t reflect.Type) string {
	if t.Kind() == reflect.Uint32 && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a name"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Array: // keys and signatures are written as text
		return "hex digits"
	case reflect.Float64:
		return "a number"
	case reflect.Uint16:
		return "a whole number from 0 to 65535"
	case reflect.Uint32:
		return "a whole number from 0 to 4294967295"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "an object"
}
