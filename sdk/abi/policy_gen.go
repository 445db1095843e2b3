// Code generated from talon.proto by internal/abigen. DO NOT EDIT.

package abi

import (
	"math"
	"unicode/utf8"
)

// Origin is the door through which an event came in.
const (
	OriginUnspecified = 0
	OriginClient      = 1 // an EVENT message on this relay
	OriginImport      = 2 // the operator's import
	OriginSync        = 3 // another relay
)

// Action is the answer of a policy to an event, a query, a connection or a push.
const (
	ActionPass         = 0 // no opinion: the next policy of the chain decides
	ActionAccept       = 1 // allow it; store the event
	ActionReject       = 2 // refuse it, with a reason
	ActionShadowReject = 3 // event: answer OK true, do not store; query: answer as if nothing were here
	ActionHold         = 4 // event: keep it in purgatory
	ActionRequireAuth  = 5 // event, query: refuse it until the client authenticates (NIP-42)
	ActionRestrict     = 6 // audience: only the readers that the verdict names receive the event
)

// VerdictView reads a Verdict in place. Its texts are valid UTF-8.
type VerdictView struct {
	Action             uint32
	Rule               []byte // stable code of the rule that decided: a-z 0-9 - . _, at most 64 bytes
	Reason             []byte // for the client, "prefix: text"; empty for ACTION_PASS and ACTION_ACCEPT
	End                bool
	MaxAuthorBytes     int64
	MaxRepositoryBytes int64 // The same for a push and the git data of the repository.
	Retry              uint32
	Parent             []byte
	Set                []byte
	Wake               FilterView
	Wait               uint32 // With wake: for how many seconds the host holds the event, at most 30 days. 0 is 7 days.

	keys []byte
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *VerdictView) Decode(b []byte) error {
	*v = VerdictView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Action = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireBytes:
			v.Rule = r.data
		case 3<<3 | wireBytes:
			v.Reason = r.data
		case 4<<3 | wireVarint:
			v.End = r.num != 0
		case 5<<3 | wireVarint:
			v.MaxAuthorBytes = int64(r.num)
		case 6<<3 | wireVarint:
			v.MaxRepositoryBytes = int64(r.num)
		case 10<<3 | wireVarint:
			v.Retry = uint32(min(r.num, 1<<32-1))
		case 11<<3 | wireBytes:
			v.Parent = r.data
		case 12<<3 | wireBytes:
			v.keys = r.data
		case 13<<3 | wireBytes:
			v.Set = r.data
		case 14<<3 | wireBytes:
			if err := v.Wake.Decode(r.data); err != nil {
				return err
			}
		case 7<<3 | wireVarint:
			v.Wait = uint32(min(r.num, 1<<32-1))
		}
	}
	if r.bad || !utf8.Valid(v.Rule) || !utf8.Valid(v.Reason) || !utf8.Valid(v.Parent) || !utf8.Valid(v.Set) {
		return ErrMalformed
	}
	return nil
}

// NumKeys is the number of keys.
func (v *VerdictView) NumKeys() int { return len(v.keys) / 32 }

// Key returns the one at index i.
func (v *VerdictView) Key(i int) [32]byte { return [32]byte(v.keys[32*i:]) }

// Setting is one value of a module's configuration. The list that belongs to
// its type in the manifest is filled; a scalar is a list of one.
type Setting struct {
	Key     string
	Strings []string
	Ints    []int64
	Bools   []bool
	Floats  []float64
}

func appendSetting(b []byte, field byte, m *Setting) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.Key)
	b = appendTexts(b, 2, m.Strings)
	if len(m.Ints) > 0 {
		var at int
		b, at = open(b, 3)
		for _, v := range m.Ints {
			b = appendVarint(b, uint64(v))
		}
		b = seal(b, at)
	}
	if len(m.Bools) > 0 {
		var at int
		b, at = open(b, 4)
		for _, v := range m.Bools {
			b = append(b, bit(v))
		}
		b = seal(b, at)
	}
	if len(m.Floats) > 0 {
		var at int
		b, at = open(b, 5)
		for _, v := range m.Floats {
			b = appendFixed(b, v)
		}
		b = seal(b, at)
	}
	return seal(b, at)
}

func (m *Setting) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			m.Key = string(r.data)
		case 2<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			m.Strings = append(m.Strings, string(r.data))
		case 3<<3 | wireVarint:
			m.Ints = append(m.Ints, int64(r.num))
		case 3<<3 | wireBytes:
			if !eachVarint(r.data, func(v uint64) { m.Ints = append(m.Ints, int64(v)) }) {
				return ErrMalformed
			}
		case 4<<3 | wireVarint:
			m.Bools = append(m.Bools, r.num != 0)
		case 4<<3 | wireBytes:
			if !eachVarint(r.data, func(v uint64) { m.Bools = append(m.Bools, v != 0) }) {
				return ErrMalformed
			}
		case 5<<3 | wireFixed64:
			m.Floats = append(m.Floats, math.Float64frombits(r.num))
		case 5<<3 | wireBytes:
			if !eachFixed(r.data, func(v float64) { m.Floats = append(m.Floats, v) }) {
				return ErrMalformed
			}
		}
	}
	return r.err()
}

// Config is what talon_configure receives: every setting of the manifest, the
// defaults filled in, in the manifest's order.
type Config struct {
	Settings []Setting
	Service  Service
}

// AppendConfig appends c.
func AppendConfig(b []byte, c *Config) []byte {
	for i := range c.Settings {
		b = appendSetting(b, 1, &c.Settings[i])
	}
	b = appendService(b, 2, &c.Service)
	return b
}

// DecodeConfig reads a Config. The strings are copies.
func DecodeConfig(b []byte) (Config, error) {
	var c Config
	if err := c.decode(b); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			var item Setting
			if err := item.decode(r.data); err != nil {
				return err
			}
			c.Settings = append(c.Settings, item)
		case 2<<3 | wireBytes:
			if err := c.Service.decode(r.data); err != nil {
				return err
			}
		}
	}
	return r.err()
}

// Configured is what talon_configure returns. Without one, all is well.
type Configured struct {
	Failure string // one sentence that names the key and the value that are wrong
	Idle    []string
	About   About // of a policy with this configuration
}

// AppendConfigured appends c.
func AppendConfigured(b []byte, c *Configured) []byte {
	b = appendNonEmpty(b, 1, c.Failure)
	b = appendTexts(b, 2, c.Idle)
	b = appendAbout(b, 3, &c.About)
	return b
}

// DecodeConfigured reads a Configured. The strings are copies.
func DecodeConfigured(b []byte) (Configured, error) {
	var c Configured
	if err := c.decode(b); err != nil {
		return Configured{}, err
	}
	return c, nil
}

func (c *Configured) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			c.Failure = string(r.data)
		case 2<<3 | wireBytes:
			if !utf8.Valid(r.data) || len(c.Idle) == 16 {
				return ErrMalformed
			}
			c.Idle = append(c.Idle, string(r.data))
		case 3<<3 | wireBytes:
			if err := c.About.decode(r.data); err != nil {
				return err
			}
		}
	}
	return r.err()
}

// Service is the address of the relay from outside, and its operator. The host sets it, the
// same for every module.
type Service struct {
	Domain   string   // host, with a port if it is not the usual one: relay.example.com, localhost:7334
	PRs      bool     // /prs/ takes pull requests for repositories elsewhere (GRASP-06)
	Operator [32]byte // the operator's public key, 32 bytes; empty: the operator names none
}

func appendService(b []byte, field byte, m *Service) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.Domain)
	b = appendBool(b, 2, m.PRs)
	if m.Operator != ([32]byte{}) {
		b = appendField(b, 3, m.Operator[:])
	}
	return sealSome(b, at)
}

func (m *Service) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			m.Domain = string(r.data)
		case 2<<3 | wireVarint:
			m.PRs = r.num != 0
		case 3<<3 | wireBytes:
			if m.Operator = [32]byte{}; len(r.data) == len(m.Operator) {
				m.Operator = [32]byte(r.data)
			}
		}
	}
	return r.err()
}

// Writes says whether a client must know the rules of a relay before it writes there.
// The first policy that says something decides for the relay.
type Writes uint32

const (
	WritesUnsaid     Writes = iota
	WritesOpen              // every valid event is accepted, but for spam and excess
	WritesRestricted        // only events of some authors, of some kinds, or about some subject
)

// About is what a policy says about the relay: for its information document
// (NIP-11) and for people.
type About struct {
	Grasps   []string
	Criteria string     // which repositories are accepted, on one line of at most 1 KiB
	Curation string     // the operator's rule for choosing among them, likewise; empty if there is no choice
	Writes   Writes     // the authors whose events this policy accepts
	Limits   Limitation // figures that it enforces
}

func appendAbout(b []byte, field byte, m *About) []byte {
	b, at := open(b, field)
	b = appendTexts(b, 1, m.Grasps)
	b = appendNonEmpty(b, 2, m.Criteria)
	b = appendNonEmpty(b, 3, m.Curation)
	b = appendUint(b, 4, uint64(m.Writes))
	b = appendLimitation(b, 5, &m.Limits)
	return sealSome(b, at)
}

func (m *About) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			if !utf8.Valid(r.data) || len(m.Grasps) == 16 {
				return ErrMalformed
			}
			m.Grasps = append(m.Grasps, string(r.data))
		case 2<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			m.Criteria = string(r.data)
		case 3<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			m.Curation = string(r.data)
		case 4<<3 | wireVarint:
			m.Writes = Writes(known(r.num, uint32(WritesRestricted)))
		case 5<<3 | wireBytes:
			if err := m.Limits.decode(r.data); err != nil {
				return err
			}
		}
	}
	return r.err()
}

// Limitation has figures that a policy enforces, as the relay's information document (NIP-11)
// names them. The document shows the strictest of all policies. 0 is no limit.
type Limitation struct {
	MaxContentLength    int64 // bytes, which is at least the characters that NIP-11 counts
	MaxEventTags        int64
	CreatedAtLowerLimit int64 // seconds in the past
	CreatedAtUpperLimit int64 // seconds in the future
	MinPowDifficulty    int64 // bits that an event of some class must have
	AuthRequired        bool  // nothing can be read without authentication (NIP-42)
}

func appendLimitation(b []byte, field byte, m *Limitation) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.MaxContentLength))
	b = appendUint(b, 2, uint64(m.MaxEventTags))
	b = appendUint(b, 3, uint64(m.CreatedAtLowerLimit))
	b = appendUint(b, 4, uint64(m.CreatedAtUpperLimit))
	b = appendUint(b, 5, uint64(m.MinPowDifficulty))
	b = appendBool(b, 6, m.AuthRequired)
	return sealSome(b, at)
}

func (m *Limitation) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			m.MaxContentLength = int64(r.num)
		case 2<<3 | wireVarint:
			m.MaxEventTags = int64(r.num)
		case 3<<3 | wireVarint:
			m.CreatedAtLowerLimit = int64(r.num)
		case 4<<3 | wireVarint:
			m.CreatedAtUpperLimit = int64(r.num)
		case 5<<3 | wireVarint:
			m.MinPowDifficulty = int64(r.num)
		case 6<<3 | wireVarint:
			m.AuthRequired = r.num != 0
		}
	}
	return r.err()
}

// Client is the client of a connection, as far as it is known.
type Client[K ~[32]byte] struct {
	Address   []byte // its IP address; empty where there is none
	Authed    []K    // keys that it has proven (NIP-42), 32 bytes each
	UserAgent string // its User-Agent header
	Origin    string // the page that a browser was on
	Path      string // of the request, "/" for most
}

func appendClient[K ~[32]byte](b []byte, field byte, m *Client[K]) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.Address)
	b = appendKeys(b, 2, m.Authed)
	b = appendNonEmpty(b, 3, m.UserAgent)
	b = appendNonEmpty(b, 4, m.Origin)
	b = appendNonEmpty(b, 5, m.Path)
	return seal(b, at)
}

// ClientView reads a Client in place.
type ClientView struct{ b []byte }

// Address: its IP address; empty where there is none.
func (v ClientView) Address() string { return text(lastField(v.b, 1)) }

// Authed iterates over the authed: keys that it has proven (NIP-42), 32 bytes each.
func (v ClientView) Authed() BytesIter { return fields(v.b, 2) }

// UserAgent: its User-Agent header.
func (v ClientView) UserAgent() string { return text(lastField(v.b, 3)) }

// Origin: the page that a browser was on.
func (v ClientView) Origin() string { return text(lastField(v.b, 4)) }

// Path: of the request, "/" for most.
func (v ClientView) Path() string { return text(lastField(v.b, 5)) }

// Verb is the message in which a client sends filters.
const (
	VerbUnspecified = 0
	VerbReq         = 1 // REQ: stored and live events
	VerbCount       = 2 // COUNT (NIP-45)
	VerbNeg         = 3 // NEG-OPEN (NIP-77)
)

// QueryRequest asks a policy about the filters of one message. A filter that can
// match nothing, since one of its lists is empty, is left out.
type QueryRequest[K ~[32]byte] struct {
	Client Client[K]
	Verb   uint32
	Now    int64 // unix seconds
}

// AppendQueryRequest appends q, but for its filters, which are to be there already.
func AppendQueryRequest[K ~[32]byte](b []byte, q *QueryRequest[K]) []byte {
	b = appendClient(b, 2, &q.Client)
	b = appendUint(b, 3, uint64(q.Verb))
	b = appendUint(b, 4, uint64(q.Now))
	return b
}

// QueryRequestView reads a QueryRequest in place.
type QueryRequestView struct {
	Client ClientView
	Verb   uint32
	Now    int64 // unix seconds

	b []byte
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *QueryRequestView) Decode(b []byte) error {
	*v = QueryRequestView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 2<<3 | wireBytes:
			v.Client.b = r.data
		case 3<<3 | wireVarint:
			v.Verb = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			v.Now = int64(r.num)
		}
	}
	return r.err()
}

// Filters iterates over the filters.
func (v *QueryRequestView) Filters() FilterIter { return FilterIter{it: fields(v.b, 1)} }

// ConnectRequest asks a policy about a client that has just come.
type ConnectRequest[K ~[32]byte] struct {
	Client      Client[K]
	Open        uint32 // connections of the relay, this one included
	FromAddress uint32 // of them from the client's address, or its IPv6 /64
	Now         int64  // unix seconds
}

// AppendConnectRequest appends q.
func AppendConnectRequest[K ~[32]byte](b []byte, q *ConnectRequest[K]) []byte {
	b = appendClient(b, 1, &q.Client)
	b = appendUint(b, 2, uint64(q.Open))
	b = appendUint(b, 3, uint64(q.FromAddress))
	b = appendUint(b, 4, uint64(q.Now))
	return b
}

// ConnectRequestView reads a ConnectRequest in place.
type ConnectRequestView struct {
	Client      ClientView
	Open        uint32 // connections of the relay, this one included
	FromAddress uint32 // of them from the client's address, or its IPv6 /64
	Now         int64  // unix seconds
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *ConnectRequestView) Decode(b []byte) error {
	*v = ConnectRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			v.Client.b = r.data
		case 2<<3 | wireVarint:
			v.Open = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireVarint:
			v.FromAddress = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			v.Now = int64(r.num)
		}
	}
	return r.err()
}

// RefUpdate is one command of a push. An object name is hex digits, all zeros for
// "does not exist".
type RefUpdate struct {
	Ref string // in full, such as refs/heads/main
	Old string
	New string
}

func appendRefUpdate(b []byte, field byte, m *RefUpdate) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.Ref)
	b = appendNonEmpty(b, 2, m.Old)
	b = appendNonEmpty(b, 3, m.New)
	return seal(b, at)
}

// RefUpdateIter walks a list.
type RefUpdateIter struct{ it BytesIter }

// Next moves to the next item, and reports whether there is one.
func (it *RefUpdateIter) Next() bool { return it.it.Next() }

// Update returns the item that Next moved to. Its texts are views.
func (it *RefUpdateIter) Update() RefUpdate {
	var m RefUpdate
	for r := (reader{rest: it.it.Bytes()}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Ref = text(r.data)
		case 2<<3 | wireBytes:
			m.Old = text(r.data)
		case 3<<3 | wireBytes:
			m.New = text(r.data)
		}
	}
	return m
}

// PushRequest asks a policy about ref updates. An update that GRASP's own rules refuse stays
// refused, with the policy's reason if the policy refuses it too.
type PushRequest[K ~[32]byte, U ~struct{ Ref, Old, New string }] struct {
	Client      Client[K]
	Repo        string // address of the announcement, 30617:pubkey:d
	Maintainers []K    // the keys whose states count for the repository, 32 bytes each
	Updates     []U
	Bytes       int64 // of the pack, as far as it is known; 0 if it is not
	Stored      int64 // bytes that the repository takes on disk
	Now         int64 // unix seconds
	PRs         bool  // to the repository under /prs/ (GRASP-06): repo names its owner, and needs no announcement
	Fetch       bool
}

// AppendPushRequest appends q.
func AppendPushRequest[K ~[32]byte, U ~struct{ Ref, Old, New string }](b []byte, q *PushRequest[K, U]) []byte {
	b = appendClient(b, 1, &q.Client)
	b = appendNonEmpty(b, 2, q.Repo)
	b = appendKeys(b, 3, q.Maintainers)
	for i := range q.Updates {
		item := RefUpdate(q.Updates[i])
		b = appendRefUpdate(b, 4, &item)
	}
	b = appendUint(b, 5, uint64(q.Bytes))
	b = appendUint(b, 6, uint64(q.Stored))
	b = appendUint(b, 7, uint64(q.Now))
	b = appendBool(b, 8, q.PRs)
	b = appendBool(b, 9, q.Fetch)
	return b
}

// PushRequestView reads a PushRequest in place.
type PushRequestView struct {
	Client ClientView
	Repo   string // address of the announcement, 30617:pubkey:d
	Bytes  int64  // of the pack, as far as it is known; 0 if it is not
	Stored int64  // bytes that the repository takes on disk
	Now    int64  // unix seconds
	PRs    bool   // to the repository under /prs/ (GRASP-06): repo names its owner, and needs no announcement
	Fetch  bool

	b []byte
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *PushRequestView) Decode(b []byte) error {
	*v = PushRequestView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			v.Client.b = r.data
		case 2<<3 | wireBytes:
			v.Repo = text(r.data)
		case 5<<3 | wireVarint:
			v.Bytes = int64(r.num)
		case 6<<3 | wireVarint:
			v.Stored = int64(r.num)
		case 7<<3 | wireVarint:
			v.Now = int64(r.num)
		case 8<<3 | wireVarint:
			v.PRs = r.num != 0
		case 9<<3 | wireVarint:
			v.Fetch = r.num != 0
		}
	}
	return r.err()
}

// Maintainers iterates over the maintainers: the keys whose states count for the repository, 32 bytes each.
func (v *PushRequestView) Maintainers() BytesIter { return fields(v.b, 3) }

// Updates iterates over the updates.
func (v *PushRequestView) Updates() RefUpdateIter { return RefUpdateIter{it: fields(v.b, 4)} }
