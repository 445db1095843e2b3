// Code generated from talon.proto by internal/abigen. DO NOT EDIT.

package abi

// Class says why something ended, or what a relay complains about.
const (
	ClassOther        = 0
	ClassRateLimited  = 1  // too much in too short a time
	ClassAuthRequired = 2  // the relay wants another key, or any (NIP-42)
	ClassRestricted   = 3  // not for us: "restricted", "blocked"
	ClassUnsupported  = 4  // the relay does not know the message or the filter
	ClassTooMuch      = 5  // too many subscriptions, filters or values for the relay
	ClassError        = 6  // the relay failed
	ClassUnreachable  = 7  // name, network, TLS or handshake failed
	ClassLost         = 8  // the connection ended
	ClassAsked        = 9  // the strategy asked for it
	ClassLimit        = 10 // the host did not do it: one of its limits is reached
	ClassForbidden    = 11 // the host does not do it: our own address, a private or malformed one
)

// Support says whether a relay can do something.
const (
	SupportUnknown = 0
	SupportYes     = 1
	SupportNo      = 2
)

// SyncLevel is the part of a repository's events that is wanted.
const (
	SyncLevelUnspecified = 0
	SyncLevelFull        = 1 // its announcement is stored: everything
	SyncLevelState       = 2 // its announcement is held: announcements and states only
)

// Method is the protocol that fetches past events.
const (
	MethodAuto       = 0 // negentropy, or REQ if the relay has no NIP-77
	MethodNegentropy = 1 // NIP-77 only
	MethodREQ        = 2 // REQ and EOSE, page by page
)

// Purpose is the reason for asking for events; metrics name it as their source.
const (
	PurposeLive      = 0
	PurposeStartup   = 1 // the first request for this to this relay
	PurposeReconnect = 2 // events missed during an absence
	PurposeDaily     = 3 // everything again, from time to time
)

// StepLimits is the list of the host's limits for actions. 0: none of it.
type StepLimits struct {
	Connections   uint32 // relays connected to at once
	Subscriptions uint32 // open on one relay
	Filters       uint32 // of one subscription
	Values        uint32 // of one filter: ids, authors, kinds and tag values together
	Historics     uint32 // running on one relay; others wait for their turn
	Timers        uint32 // set at once
	Actions       uint32 // of one answer
	Bytes         uint32 // of one answer; 0: not known
}

func appendStepLimits(b []byte, field byte, m *StepLimits) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Connections))
	b = appendUint(b, 2, uint64(m.Subscriptions))
	b = appendUint(b, 3, uint64(m.Filters))
	b = appendUint(b, 4, uint64(m.Values))
	b = appendUint(b, 5, uint64(m.Historics))
	b = appendUint(b, 6, uint64(m.Timers))
	b = appendUint(b, 7, uint64(m.Actions))
	b = appendUint(b, 8, uint64(m.Bytes))
	return sealSome(b, at)
}

func readStepLimits(r reader) StepLimits {
	var m StepLimits
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Connections = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireVarint:
			m.Subscriptions = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireVarint:
			m.Filters = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.Values = uint32(min(r.num, 1<<32-1))
		case 5<<3 | wireVarint:
			m.Historics = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			m.Timers = uint32(min(r.num, 1<<32-1))
		case 7<<3 | wireVarint:
			m.Actions = uint32(min(r.num, 1<<32-1))
		case 8<<3 | wireVarint:
			m.Bytes = uint32(min(r.num, 1<<32-1))
		}
	}
	return m
}

// Capabilities is the list of known limits of a relay, from its document (NIP-11) and answers.
// 0: not known.
type Capabilities struct {
	Negentropy       uint32
	MaxSubscriptions uint32
	MaxFilters       uint32
	MaxLimit         uint32 // events that it returns for one filter
	MaxMessage       uint32 // bytes
	AuthRequired     bool
	MaxValues        uint32 // of all filters of all open subscriptions together
}

func appendCapabilities(b []byte, field byte, m *Capabilities) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Negentropy))
	b = appendUint(b, 2, uint64(m.MaxSubscriptions))
	b = appendUint(b, 3, uint64(m.MaxFilters))
	b = appendUint(b, 4, uint64(m.MaxLimit))
	b = appendUint(b, 5, uint64(m.MaxMessage))
	b = appendBool(b, 6, m.AuthRequired)
	b = appendUint(b, 7, uint64(m.MaxValues))
	return sealSome(b, at)
}

func readCapabilities(r reader) Capabilities {
	var m Capabilities
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Negentropy = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireVarint:
			m.MaxSubscriptions = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireVarint:
			m.MaxFilters = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.MaxLimit = uint32(min(r.num, 1<<32-1))
		case 5<<3 | wireVarint:
			m.MaxMessage = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			m.AuthRequired = r.num != 0
		case 7<<3 | wireVarint:
			m.MaxValues = uint32(min(r.num, 1<<32-1))
		}
	}
	return m
}

// OpenSubscription is a subscription that was asked for and not closed.
type OpenSubscription struct {
	ID      string
	Filters []Filter
	Live    bool
	Eose    bool // everything stored has arrived
}

func appendOpenSubscription(b []byte, field byte, m *OpenSubscription) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.ID)
	for i := range m.Filters {
		b = appendFilter(b, 2, &m.Filters[i])
	}
	b = appendBool(b, 3, m.Live)
	b = appendBool(b, 4, m.Eose)
	return seal(b, at)
}

// OpenSubscriptionView reads an OpenSubscription in place.
type OpenSubscriptionView struct {
	ID   string
	Live bool
	Eose bool // everything stored has arrived

	b []byte
}

// Filters iterates over the filters.
func (v *OpenSubscriptionView) Filters() FilterIter { return FilterIter{it: fields(v.b, 2)} }

// OpenSubscriptionIter walks a list.
type OpenSubscriptionIter struct{ it BytesIter }

// Next moves to the next item, and reports whether there is one.
func (it *OpenSubscriptionIter) Next() bool { return it.it.Next() }

// Subscription returns the item that Next moved to. Its texts are views.
func (it *OpenSubscriptionIter) Subscription() OpenSubscriptionView {
	m := OpenSubscriptionView{b: it.it.Bytes()}
	for r := (reader{rest: m.b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Live = r.num != 0
		case 4<<3 | wireVarint:
			m.Eose = r.num != 0
		}
	}
	return m
}

// RunningHistoric is a historic that was asked for and is not done.
type RunningHistoric struct {
	ID      string
	Filter  Filter
	Method  uint32
	Purpose uint32
}

func appendRunningHistoric(b []byte, field byte, m *RunningHistoric) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.ID)
	b = appendFilter(b, 2, &m.Filter)
	b = appendUint(b, 3, uint64(m.Method))
	b = appendUint(b, 4, uint64(m.Purpose))
	return seal(b, at)
}

// RunningHistoricView reads a RunningHistoric in place.
type RunningHistoricView struct {
	ID      string
	Filter  FilterView
	Method  uint32
	Purpose uint32
}

// RunningHistoricIter walks a list.
type RunningHistoricIter struct{ it BytesIter }

// Next moves to the next item, and reports whether there is one.
func (it *RunningHistoricIter) Next() bool { return it.it.Next() }

// Historic returns the item that Next moved to. Its texts are views.
func (it *RunningHistoricIter) Historic() RunningHistoricView {
	var m RunningHistoricView
	for r := (reader{rest: it.it.Bytes()}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = text(r.data)
		case 2<<3 | wireBytes:
			if m.Filter.Decode(r.data) != nil {
				m.Filter = FilterView{}
			}
		case 3<<3 | wireVarint:
			m.Method = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.Purpose = uint32(min(r.num, 1<<32-1))
		}
	}
	return m
}

// RelayState is a relay that the operator named, that the host keeps a
// connection to, or that it knows from before.
type RelayState struct {
	URL            string
	Bootstrap      bool // the operator named it: the host never drops it
	Wanted         bool // a strategy asked for the connection: the host keeps it up
	Connected      bool
	Capabilities   Capabilities
	LastConnected  int64 // start of the latest connection
	DisconnectedAt int64 // end of the latest connection that ended
	Subscriptions  []OpenSubscription
	Historics      []RunningHistoric
}

func appendRelayState(b []byte, field byte, m *RelayState) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.URL)
	b = appendBool(b, 2, m.Bootstrap)
	b = appendBool(b, 3, m.Wanted)
	b = appendBool(b, 4, m.Connected)
	b = appendCapabilities(b, 5, &m.Capabilities)
	b = appendUint(b, 6, uint64(m.LastConnected))
	b = appendUint(b, 7, uint64(m.DisconnectedAt))
	for i := range m.Subscriptions {
		b = appendOpenSubscription(b, 8, &m.Subscriptions[i])
	}
	for i := range m.Historics {
		b = appendRunningHistoric(b, 9, &m.Historics[i])
	}
	return seal(b, at)
}

// RelayStateView reads a RelayState in place.
type RelayStateView struct {
	URL            string
	Bootstrap      bool // the operator named it: the host never drops it
	Wanted         bool // a strategy asked for the connection: the host keeps it up
	Connected      bool
	Capabilities   Capabilities
	LastConnected  int64 // start of the latest connection
	DisconnectedAt int64 // end of the latest connection that ended

	b []byte
}

// Subscriptions iterates over the subscriptions.
func (v *RelayStateView) Subscriptions() OpenSubscriptionIter {
	return OpenSubscriptionIter{it: fields(v.b, 8)}
}

// Historics iterates over the historics.
func (v *RelayStateView) Historics() RunningHistoricIter {
	return RunningHistoricIter{it: fields(v.b, 9)}
}

// RelayStateIter walks a list.
type RelayStateIter struct{ it BytesIter }

// Next moves to the next item, and reports whether there is one.
func (it *RelayStateIter) Next() bool { return it.it.Next() }

// Relay returns the item that Next moved to. Its texts are views.
func (it *RelayStateIter) Relay() RelayStateView {
	m := RelayStateView{b: it.it.Bytes()}
	for r := (reader{rest: m.b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.URL = text(r.data)
		case 2<<3 | wireVarint:
			m.Bootstrap = r.num != 0
		case 3<<3 | wireVarint:
			m.Wanted = r.num != 0
		case 4<<3 | wireVarint:
			m.Connected = r.num != 0
		case 5<<3 | wireBytes:
			m.Capabilities = readCapabilities(reader{rest: r.data})
		case 6<<3 | wireVarint:
			m.LastConnected = int64(r.num)
		case 7<<3 | wireVarint:
			m.DisconnectedAt = int64(r.num)
		}
	}
	return m
}

// KnownRepository is a repository that is followed: it lists this service, or this
// service archives it.
type KnownRepository struct {
	Address      string // 30617:pubkey:d
	Level        uint32
	Relays       []string
	Roots        [][32]byte // ids of its root events (1617 1618 1619 1621), 32 bytes each, one after the other
	Active       []uint32   // of each of these, in unix seconds, the latest known activity
	Authors      [][32]byte
	AuthorLatest []uint32 // for each of these authors, in unix seconds, created_at of the latest of these events
}

func appendKnownRepository(b []byte, field byte, m *KnownRepository) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.Address)
	b = appendUint(b, 2, uint64(m.Level))
	b = appendTexts(b, 3, m.Relays)
	if len(m.Roots) > 0 {
		b = appendVarint(appendKey(b, 4, wireBytes), uint64(32*len(m.Roots)))
		for i := range m.Roots {
			b = append(b, m.Roots[i][:]...)
		}
	}
	if len(m.Active) > 0 {
		var at int
		b, at = open(b, 5)
		for _, v := range m.Active {
			b = appendVarint(b, uint64(v))
		}
		b = seal(b, at)
	}
	if len(m.Authors) > 0 {
		b = appendVarint(appendKey(b, 6, wireBytes), uint64(32*len(m.Authors)))
		for i := range m.Authors {
			b = append(b, m.Authors[i][:]...)
		}
	}
	if len(m.AuthorLatest) > 0 {
		var at int
		b, at = open(b, 7)
		for _, v := range m.AuthorLatest {
			b = appendVarint(b, uint64(v))
		}
		b = seal(b, at)
	}
	return seal(b, at)
}

// KnownRepositoryView reads a KnownRepository in place.
type KnownRepositoryView struct {
	Address string // 30617:pubkey:d
	Level   uint32

	b       []byte
	roots   []byte
	authors []byte
}

// Relays iterates over the relays: of its announcement, normalised, without our own; if it is held, those that may be contacted now.
func (v *KnownRepositoryView) Relays() BytesIter { return fields(v.b, 3) }

// NumRoots is the number of roots.
func (v *KnownRepositoryView) NumRoots() int { return len(v.roots) / 32 }

// Root returns the one at index i.
func (v *KnownRepositoryView) Root(i int) [32]byte { return [32]byte(v.roots[32*i:]) }

// Active iterates over the active: of each of these, in unix seconds, the latest known activity.
func (v *KnownRepositoryView) Active() ActiveIter { return ActiveIter{r: reader{rest: v.b}} }

// ActiveIter walks the active of a message.
type ActiveIter struct {
	r      reader
	packed []byte
	item   uint32
}

// Next moves to the next one, and reports whether there is one.
func (it *ActiveIter) Next() bool {
	for len(it.packed) == 0 {
		if !it.r.next() {
			return false
		}
		switch it.r.key {
		case 5<<3 | wireVarint:
			it.item = uint32(min(it.r.num, 1<<32-1))
			return true
		case 5<<3 | wireBytes:
			it.packed = it.r.data
		}
	}
	v, n := readVarint(it.packed)
	if n == 0 {
		*it = ActiveIter{}
		return false
	}
	it.item, it.packed = uint32(min(v, 1<<32-1)), it.packed[n:]
	return true
}

// Active returns the one that Next moved to.
func (it *ActiveIter) Active() uint32 { return it.item }

// NumAuthors is the number of authors.
func (v *KnownRepositoryView) NumAuthors() int { return len(v.authors) / 32 }

// Author returns the one at index i.
func (v *KnownRepositoryView) Author(i int) [32]byte { return [32]byte(v.authors[32*i:]) }

// AuthorLatest iterates over the author_latest: for each of these authors, in unix seconds, created_at of the latest of these events.
func (v *KnownRepositoryView) AuthorLatest() AuthorLatestIter {
	return AuthorLatestIter{r: reader{rest: v.b}}
}

// AuthorLatestIter walks the author_latest of a message.
type AuthorLatestIter struct {
	r      reader
	packed []byte
	item   uint32
}

// Next moves to the next one, and reports whether there is one.
func (it *AuthorLatestIter) Next() bool {
	for len(it.packed) == 0 {
		if !it.r.next() {
			return false
		}
		switch it.r.key {
		case 7<<3 | wireVarint:
			it.item = uint32(min(it.r.num, 1<<32-1))
			return true
		case 7<<3 | wireBytes:
			it.packed = it.r.data
		}
	}
	v, n := readVarint(it.packed)
	if n == 0 {
		*it = AuthorLatestIter{}
		return false
	}
	it.item, it.packed = uint32(min(v, 1<<32-1)), it.packed[n:]
	return true
}

// AuthorLatest returns the one that Next moved to.
func (it *AuthorLatestIter) AuthorLatest() uint32 { return it.item }

// KnownRepositoryIter walks a list.
type KnownRepositoryIter struct{ it BytesIter }

// Next moves to the next item, and reports whether there is one.
func (it *KnownRepositoryIter) Next() bool { return it.it.Next() }

// Repository returns the item that Next moved to. Its texts are views.
func (it *KnownRepositoryIter) Repository() KnownRepositoryView {
	m := KnownRepositoryView{b: it.it.Bytes()}
	for r := (reader{rest: m.b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Address = text(r.data)
		case 2<<3 | wireVarint:
			m.Level = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireBytes:
			m.roots = r.data
		case 6<<3 | wireBytes:
			m.authors = r.data
		}
	}
	return m
}

// StepInit is the state of the world. It is the first input of a strategy, and comes again
// when the strategy takes over from another. The strategy starts from it and forgets the rest.
// Timers of the earlier strategy are gone. Subscriptions, historics and connections go on
// until an action ends them.
// A large world comes in parts of about 64 KiB, one input each, with nothing in
// between. Limits, own and relays are in the first part. A repository may be in
// several parts: their roots add up.
type StepInit struct {
	Part         uint32 // counted from 0
	More         bool   // another part follows
	Seed         int64  // for random numbers; the same in each part
	Limits       StepLimits
	Own          []string // our own relay's addresses; never contacted
	Relays       []RelayState
	Repositories []KnownRepository
}

// StepInitView reads a StepInit in place.
type StepInitView struct {
	Part   uint32 // counted from 0
	More   bool   // another part follows
	Seed   int64  // for random numbers; the same in each part
	Limits StepLimits

	b []byte
}

// Own iterates over the own: our own relay's addresses; never contacted.
func (v *StepInitView) Own() BytesIter { return fields(v.b, 5) }

// Relays iterates over the relays.
func (v *StepInitView) Relays() RelayStateIter { return RelayStateIter{it: fields(v.b, 6)} }

// Repositories iterates over the repositories.
func (v *StepInitView) Repositories() KnownRepositoryIter {
	return KnownRepositoryIter{it: fields(v.b, 7)}
}

// LocalEvent is an event that was accepted here, from any source: kind
// 30617, 1617, 1618, 1619, 1621 or 10317.
type LocalEvent struct {
	ID           [32]byte // 32 bytes
	PubKey       [32]byte // 32 bytes
	Kind         uint32
	CreatedAt    int64    // unix seconds
	Repositories []string // known repositories that it announces or tags, 30617:pubkey:d
	Relays       []string
	Level        uint32 // 30617: of the repository
	Origin       uint32
	Relay        string // its source, for ORIGIN_SYNC
}

// LocalEventView reads a LocalEvent in place.
type LocalEventView struct {
	ID        []byte // 32 bytes
	PubKey    []byte // 32 bytes
	Kind      uint32
	CreatedAt int64  // unix seconds
	Level     uint32 // 30617: of the repository
	Origin    uint32
	Relay     string // its source, for ORIGIN_SYNC

	b []byte
}

// Repositories iterates over the repositories: known repositories that it announces or tags, 30617:pubkey:d.
func (v *LocalEventView) Repositories() BytesIter { return fields(v.b, 5) }

// Relays iterates over the relays: 30617, 10317: all that it lists now, normalised, without our own; if a 30617 is held, those that may be contacted now.
func (v *LocalEventView) Relays() BytesIter { return fields(v.b, 6) }

// RepoGone is a repository that Talon stopped following. It was deleted or it expired, or
// its announcement dropped this service and Talon does not archive it.
type RepoGone struct{ Repository string }

// RelayConnected is a connection that is up. It has no subscriptions.
type RelayConnected struct {
	Relay          string
	Capabilities   Capabilities
	LastConnected  int64 // start of the connection before this one; 0: there was none
	DisconnectedAt int64 // end of the connection before this one
	Anew           bool  // the operator asks to compare everything again, also known content
}

// RelayDisconnected is a connection that ended, or an attempt that failed. The
// subscriptions and historics of the connection end with it.
type RelayDisconnected struct {
	Relay     string
	Class     uint32
	Reason    string
	Connected bool   // it was connected; false: an attempt failed
	Failures  uint32 // in a row
	RetryAt   int64  // when the host tries again; 0: only if asked to connect
}

// Eose: all stored events of a subscription have arrived from a relay.
type Eose struct {
	Relay        string
	ID           string
	Events       uint32 // that the relay sent
	New          uint32 // of them, those that were new here
	MinCreatedAt int64  // unix seconds, of all that it sent
}

// Closed is a subscription that the relay ended, or that the host did not open.
type Closed struct {
	Relay  string
	ID     string
	Class  uint32
	Reason string
}

// HistoricDone is a historic that ended.
type HistoricDone struct {
	Relay        string
	ID           string
	Method       uint32 // that was used
	Complete     bool   // all matching events of the relay are here, or were refused here
	Class        uint32 // why it is not complete
	Reason       string
	Have         uint32 // events that the relay lacks (negentropy); with holdings, that it has lost
	Need         uint32 // events that were fetched
	New          uint32 // of them, those that were new here
	Bytes        int64  // received
	Rounds       uint32 // messages of negentropy, or pages
	MinCreatedAt int64  // unix seconds, of all that were fetched
	Kept         uint32 // of the new events, those that were stored or held
	Sent         int64  // bytes, of the messages that asked
	OtherLetter  uint32
}

// Notice is a NOTICE of a relay.
type Notice struct {
	Relay string
	Class uint32
	Text  string
}

// Repeats counts new events that a relay's subscriptions delivered, and that another relay
// had delivered before. It has those since the last such input. It comes at most once in ten
// seconds for each relay. Announcements and states do not count, since they are at all relays.
type Repeats struct {
	Relay  string
	Events uint32
	Bytes  int64 // of their messages
}

// TimerFired is a timer whose time has come. It is no longer set.
type TimerFired struct {
	ID string
	At int64 // the time for which it was set
}

// RootActivity reports root events to which other events refer that were accepted here:
// comments, statuses, updates. The host gathers them for a moment.
type RootActivity struct {
	Roots       [][32]byte
	Latest      []uint32   // for each of these ids, in unix seconds, created_at of the latest event that tags it
	Authors     [][32]byte // keys of the authors of these events, 32 bytes each, one after the other
	AuthorRoots []uint32
}

// RootActivityView reads a RootActivity in place.
type RootActivityView struct {
	b       []byte
	roots   []byte
	authors []byte
}

// NumRoots is the number of roots.
func (v *RootActivityView) NumRoots() int { return len(v.roots) / 32 }

// Root returns the one at index i.
func (v *RootActivityView) Root(i int) [32]byte { return [32]byte(v.roots[32*i:]) }

// Latest iterates over the latest: for each of these ids, in unix seconds, created_at of the latest event that tags it.
func (v *RootActivityView) Latest() LatestIter { return LatestIter{r: reader{rest: v.b}} }

// LatestIter walks the latest of a message.
type LatestIter struct {
	r      reader
	packed []byte
	item   uint32
}

// Next moves to the next one, and reports whether there is one.
func (it *LatestIter) Next() bool {
	for len(it.packed) == 0 {
		if !it.r.next() {
			return false
		}
		switch it.r.key {
		case 2<<3 | wireVarint:
			it.item = uint32(min(it.r.num, 1<<32-1))
			return true
		case 2<<3 | wireBytes:
			it.packed = it.r.data
		}
	}
	v, n := readVarint(it.packed)
	if n == 0 {
		*it = LatestIter{}
		return false
	}
	it.item, it.packed = uint32(min(v, 1<<32-1)), it.packed[n:]
	return true
}

// Latest returns the one that Next moved to.
func (it *LatestIter) Latest() uint32 { return it.item }

// NumAuthors is the number of authors.
func (v *RootActivityView) NumAuthors() int { return len(v.authors) / 32 }

// Author returns the one at index i.
func (v *RootActivityView) Author(i int) [32]byte { return [32]byte(v.authors[32*i:]) }

// AuthorRoots iterates over the author_roots: for each of these authors, the index in roots of one that an event of this author tags; an author may be in the list several times.
func (v *RootActivityView) AuthorRoots() AuthorRootIter { return AuthorRootIter{r: reader{rest: v.b}} }

// AuthorRootIter walks the author_roots of a message.
type AuthorRootIter struct {
	r      reader
	packed []byte
	item   uint32
}

// Next moves to the next one, and reports whether there is one.
func (it *AuthorRootIter) Next() bool {
	for len(it.packed) == 0 {
		if !it.r.next() {
			return false
		}
		switch it.r.key {
		case 4<<3 | wireVarint:
			it.item = uint32(min(it.r.num, 1<<32-1))
			return true
		case 4<<3 | wireBytes:
			it.packed = it.r.data
		}
	}
	v, n := readVarint(it.packed)
	if n == 0 {
		*it = AuthorRootIter{}
		return false
	}
	it.item, it.packed = uint32(min(v, 1<<32-1)), it.packed[n:]
	return true
}

// AuthorRoot returns the one that Next moved to.
func (it *AuthorRootIter) AuthorRoot() uint32 { return it.item }

// Kinds of inputs: their fields in a StepRequest.
const (
	InputNone              = 0 // of a kind that this package does not know
	InputInit              = 2
	InputLocalEvent        = 3
	InputRepoGone          = 4
	InputRelayConnected    = 5
	InputRelayDisconnected = 6
	InputEose              = 7
	InputClosed            = 8
	InputHistoricDone      = 9
	InputNotice            = 10
	InputTimerFired        = 11
	InputRootActivity      = 12
	InputRepeats           = 13
)

const lastInput = InputRepeats

func (m *StepInit) appendInput(b []byte) []byte {
	b, at := open(b, InputInit)
	b = appendUint(b, 1, uint64(m.Part))
	b = appendBool(b, 2, m.More)
	b = appendUint(b, 3, uint64(m.Seed))
	b = appendStepLimits(b, 4, &m.Limits)
	b = appendTexts(b, 5, m.Own)
	for i := range m.Relays {
		b = appendRelayState(b, 6, &m.Relays[i])
	}
	for i := range m.Repositories {
		b = appendKnownRepository(b, 7, &m.Repositories[i])
	}
	return seal(b, at)
}

// Init returns the input of kind InputInit; of another kind, an empty one. Its texts are views.
func (v *StepView) Init() StepInitView {
	m := StepInitView{b: v.as(InputInit).rest}
	for r := v.as(InputInit); r.next(); {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Part = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireVarint:
			m.More = r.num != 0
		case 3<<3 | wireVarint:
			m.Seed = int64(r.num)
		case 4<<3 | wireBytes:
			m.Limits = readStepLimits(reader{rest: r.data})
		}
	}
	return m
}

func (m *LocalEvent) appendInput(b []byte) []byte {
	b, at := open(b, InputLocalEvent)
	b = appendField(b, 1, m.ID[:])
	b = appendField(b, 2, m.PubKey[:])
	b = appendUint(b, 3, uint64(m.Kind))
	b = appendUint(b, 4, uint64(m.CreatedAt))
	b = appendTexts(b, 5, m.Repositories)
	b = appendTexts(b, 6, m.Relays)
	b = appendUint(b, 7, uint64(m.Level))
	b = appendUint(b, 8, uint64(m.Origin))
	b = appendNonEmpty(b, 9, m.Relay)
	return seal(b, at)
}

// LocalEvent returns the input of kind InputLocalEvent; of another kind, an empty one. Its texts are views.
func (v *StepView) LocalEvent() LocalEventView {
	m := LocalEventView{b: v.as(InputLocalEvent).rest}
	for r := v.as(InputLocalEvent); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = r.data
		case 2<<3 | wireBytes:
			m.PubKey = r.data
		case 3<<3 | wireVarint:
			m.Kind = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.CreatedAt = int64(r.num)
		case 7<<3 | wireVarint:
			m.Level = uint32(min(r.num, 1<<32-1))
		case 8<<3 | wireVarint:
			m.Origin = uint32(min(r.num, 1<<32-1))
		case 9<<3 | wireBytes:
			m.Relay = text(r.data)
		}
	}
	return m
}

func (m *RepoGone) appendInput(b []byte) []byte {
	b, at := open(b, InputRepoGone)
	b = appendNonEmpty(b, 1, m.Repository)
	return seal(b, at)
}

// RepoGone returns the input of kind InputRepoGone; of another kind, an empty one. Its texts are views.
func (v *StepView) RepoGone() RepoGone {
	var m RepoGone
	for r := v.as(InputRepoGone); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Repository = text(r.data)
		}
	}
	return m
}

func (m *RelayConnected) appendInput(b []byte) []byte {
	b, at := open(b, InputRelayConnected)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendCapabilities(b, 2, &m.Capabilities)
	b = appendUint(b, 3, uint64(m.LastConnected))
	b = appendUint(b, 4, uint64(m.DisconnectedAt))
	b = appendBool(b, 5, m.Anew)
	return seal(b, at)
}

// RelayConnected returns the input of kind InputRelayConnected; of another kind, an empty one. Its texts are views.
func (v *StepView) RelayConnected() RelayConnected {
	var m RelayConnected
	for r := v.as(InputRelayConnected); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.Capabilities = readCapabilities(reader{rest: r.data})
		case 3<<3 | wireVarint:
			m.LastConnected = int64(r.num)
		case 4<<3 | wireVarint:
			m.DisconnectedAt = int64(r.num)
		case 5<<3 | wireVarint:
			m.Anew = r.num != 0
		}
	}
	return m
}

func (m *RelayDisconnected) appendInput(b []byte) []byte {
	b, at := open(b, InputRelayDisconnected)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendUint(b, 2, uint64(m.Class))
	b = appendNonEmpty(b, 3, m.Reason)
	b = appendBool(b, 4, m.Connected)
	b = appendUint(b, 5, uint64(m.Failures))
	b = appendUint(b, 6, uint64(m.RetryAt))
	return seal(b, at)
}

// RelayDisconnected returns the input of kind InputRelayDisconnected; of another kind, an empty one. Its texts are views.
func (v *StepView) RelayDisconnected() RelayDisconnected {
	var m RelayDisconnected
	for r := v.as(InputRelayDisconnected); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireVarint:
			m.Class = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireBytes:
			m.Reason = text(r.data)
		case 4<<3 | wireVarint:
			m.Connected = r.num != 0
		case 5<<3 | wireVarint:
			m.Failures = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			m.RetryAt = int64(r.num)
		}
	}
	return m
}

func (m *Eose) appendInput(b []byte) []byte {
	b, at := open(b, InputEose)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendNonEmpty(b, 2, m.ID)
	b = appendUint(b, 3, uint64(m.Events))
	b = appendUint(b, 4, uint64(m.New))
	b = appendUint(b, 5, uint64(m.MinCreatedAt))
	return seal(b, at)
}

// Eose returns the input of kind InputEose; of another kind, an empty one. Its texts are views.
func (v *StepView) Eose() Eose {
	var m Eose
	for r := v.as(InputEose); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Events = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.New = uint32(min(r.num, 1<<32-1))
		case 5<<3 | wireVarint:
			m.MinCreatedAt = int64(r.num)
		}
	}
	return m
}

func (m *Closed) appendInput(b []byte) []byte {
	b, at := open(b, InputClosed)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendNonEmpty(b, 2, m.ID)
	b = appendUint(b, 3, uint64(m.Class))
	b = appendNonEmpty(b, 4, m.Reason)
	return seal(b, at)
}

// Closed returns the input of kind InputClosed; of another kind, an empty one. Its texts are views.
func (v *StepView) Closed() Closed {
	var m Closed
	for r := v.as(InputClosed); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Class = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireBytes:
			m.Reason = text(r.data)
		}
	}
	return m
}

func (m *HistoricDone) appendInput(b []byte) []byte {
	b, at := open(b, InputHistoricDone)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendNonEmpty(b, 2, m.ID)
	b = appendUint(b, 3, uint64(m.Method))
	b = appendBool(b, 4, m.Complete)
	b = appendUint(b, 5, uint64(m.Class))
	b = appendNonEmpty(b, 6, m.Reason)
	b = appendUint(b, 7, uint64(m.Have))
	b = appendUint(b, 8, uint64(m.Need))
	b = appendUint(b, 9, uint64(m.New))
	b = appendUint(b, 10, uint64(m.Bytes))
	b = appendUint(b, 11, uint64(m.Rounds))
	b = appendUint(b, 12, uint64(m.MinCreatedAt))
	b = appendUint(b, 13, uint64(m.Kept))
	b = appendUint(b, 14, uint64(m.Sent))
	b = appendUint(b, 15, uint64(m.OtherLetter))
	return seal(b, at)
}

// HistoricDone returns the input of kind InputHistoricDone; of another kind, an empty one. Its texts are views.
func (v *StepView) HistoricDone() HistoricDone {
	var m HistoricDone
	for r := v.as(InputHistoricDone); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Method = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.Complete = r.num != 0
		case 5<<3 | wireVarint:
			m.Class = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireBytes:
			m.Reason = text(r.data)
		case 7<<3 | wireVarint:
			m.Have = uint32(min(r.num, 1<<32-1))
		case 8<<3 | wireVarint:
			m.Need = uint32(min(r.num, 1<<32-1))
		case 9<<3 | wireVarint:
			m.New = uint32(min(r.num, 1<<32-1))
		case 10<<3 | wireVarint:
			m.Bytes = int64(r.num)
		case 11<<3 | wireVarint:
			m.Rounds = uint32(min(r.num, 1<<32-1))
		case 12<<3 | wireVarint:
			m.MinCreatedAt = int64(r.num)
		case 13<<3 | wireVarint:
			m.Kept = uint32(min(r.num, 1<<32-1))
		case 14<<3 | wireVarint:
			m.Sent = int64(r.num)
		case 15<<3 | wireVarint:
			m.OtherLetter = uint32(min(r.num, 1<<32-1))
		}
	}
	return m
}

func (m *Notice) appendInput(b []byte) []byte {
	b, at := open(b, InputNotice)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendUint(b, 2, uint64(m.Class))
	b = appendNonEmpty(b, 3, m.Text)
	return seal(b, at)
}

// Notice returns the input of kind InputNotice; of another kind, an empty one. Its texts are views.
func (v *StepView) Notice() Notice {
	var m Notice
	for r := v.as(InputNotice); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireVarint:
			m.Class = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireBytes:
			m.Text = text(r.data)
		}
	}
	return m
}

func (m *TimerFired) appendInput(b []byte) []byte {
	b, at := open(b, InputTimerFired)
	b = appendNonEmpty(b, 1, m.ID)
	b = appendUint(b, 2, uint64(m.At))
	return seal(b, at)
}

// TimerFired returns the input of kind InputTimerFired; of another kind, an empty one. Its texts are views.
func (v *StepView) TimerFired() TimerFired {
	var m TimerFired
	for r := v.as(InputTimerFired); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = text(r.data)
		case 2<<3 | wireVarint:
			m.At = int64(r.num)
		}
	}
	return m
}

func (m *RootActivity) appendInput(b []byte) []byte {
	b, at := open(b, InputRootActivity)
	if len(m.Roots) > 0 {
		b = appendVarint(appendKey(b, 1, wireBytes), uint64(32*len(m.Roots)))
		for i := range m.Roots {
			b = append(b, m.Roots[i][:]...)
		}
	}
	if len(m.Latest) > 0 {
		var at int
		b, at = open(b, 2)
		for _, v := range m.Latest {
			b = appendVarint(b, uint64(v))
		}
		b = seal(b, at)
	}
	if len(m.Authors) > 0 {
		b = appendVarint(appendKey(b, 3, wireBytes), uint64(32*len(m.Authors)))
		for i := range m.Authors {
			b = append(b, m.Authors[i][:]...)
		}
	}
	if len(m.AuthorRoots) > 0 {
		var at int
		b, at = open(b, 4)
		for _, v := range m.AuthorRoots {
			b = appendVarint(b, uint64(v))
		}
		b = seal(b, at)
	}
	return seal(b, at)
}

// RootActivity returns the input of kind InputRootActivity; of another kind, an empty one. Its texts are views.
func (v *StepView) RootActivity() RootActivityView {
	m := RootActivityView{b: v.as(InputRootActivity).rest}
	for r := v.as(InputRootActivity); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.roots = r.data
		case 3<<3 | wireBytes:
			m.authors = r.data
		}
	}
	return m
}

func (m *Repeats) appendInput(b []byte) []byte {
	b, at := open(b, InputRepeats)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendUint(b, 2, uint64(m.Events))
	b = appendUint(b, 3, uint64(m.Bytes))
	return seal(b, at)
}

// Repeats returns the input of kind InputRepeats; of another kind, an empty one. Its texts are views.
func (v *StepView) Repeats() Repeats {
	var m Repeats
	for r := v.as(InputRepeats); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireVarint:
			m.Events = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireVarint:
			m.Bytes = int64(r.num)
		}
	}
	return m
}

// Kinds of StepAction: their fields in the message.
const (
	DoConnect     = 1
	DoDisconnect  = 2
	DoSubscribe   = 3
	DoUnsubscribe = 4
	DoHistoric    = 5
	DoSetTimer    = 6
	DoUncovered   = 7
	DoProgress    = 8
)

var doNames = [...]string{
	DoConnect:     "connect",
	DoDisconnect:  "disconnect",
	DoSubscribe:   "subscribe",
	DoUnsubscribe: "unsubscribe",
	DoHistoric:    "historic",
	DoSetTimer:    "timer",
	DoUncovered:   "uncovered",
	DoProgress:    "progress",
}

// StepAction is the message StepAction. Which of the fields count depends on Do.
type StepAction struct {
	Do           uint32   // DoConnect and so on
	Relay        string   // DoConnect, DoDisconnect, DoSubscribe, DoUnsubscribe, DoHistoric, DoUncovered, DoProgress
	ID           string   // DoSubscribe, DoUnsubscribe, DoHistoric, DoSetTimer
	Reason       string   // DoConnect, DoDisconnect
	Priority     uint32   // DoConnect
	Filters      []Filter // DoSubscribe, DoHistoric
	Live         bool     // DoSubscribe
	Purpose      uint32   // DoSubscribe, DoHistoric
	Method       uint32   // DoHistoric
	Page         uint32   // DoHistoric
	Push         bool     // DoHistoric
	Holdings     bool     // DoHistoric
	At           int64    // DoSetTimer
	Repositories uint32   // DoUncovered
	Roots        uint32   // DoUncovered
	Authors      uint32   // DoUncovered
	Past         bool     // DoProgress
	Closed       bool     // DoProgress
	OldDates     bool     // DoProgress
	Anew         bool     // DoProgress
	NextCheck    int64    // DoProgress
}

// Limits of what an action says.
const (
	MaxActionRelay  = 512 // bytes
	MaxActionID     = 64  // bytes
	MaxActionReason = 256 // bytes
)

// AppendAction appends a as the next action of StepActions. It allocates nothing
// else.
func AppendAction(b []byte, a *StepAction) []byte {
	b, at := open(b, 1)
	b, inner := open(b, byte(a.Do))
	switch a.Do {
	case DoConnect:
		b = appendConnect(b, a)
	case DoDisconnect:
		b = appendDisconnect(b, a)
	case DoSubscribe:
		b = appendSubscribe(b, a)
	case DoUnsubscribe:
		b = appendUnsubscribe(b, a)
	case DoHistoric:
		b = appendHistoric(b, a)
	case DoSetTimer:
		b = appendSetTimer(b, a)
	case DoUncovered:
		b = appendUncovered(b, a)
	case DoProgress:
		b = appendProgress(b, a)
	}
	return seal(seal(b, inner), at)
}

func appendConnect(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendUint(b, 2, uint64(a.Priority))
	b = appendNonEmpty(b, 3, a.Reason)
	return b
}

func appendDisconnect(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendNonEmpty(b, 2, a.Reason)
	return b
}

func appendSubscribe(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendNonEmpty(b, 2, a.ID)
	b = appendFilters(b, 3, a.Filters)
	b = appendBool(b, 4, a.Live)
	b = appendUint(b, 5, uint64(a.Purpose))
	return b
}

func appendUnsubscribe(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendNonEmpty(b, 2, a.ID)
	return b
}

func appendHistoric(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendNonEmpty(b, 2, a.ID)
	b = appendFilters(b, 3, a.Filters)
	b = appendUint(b, 4, uint64(a.Method))
	b = appendUint(b, 5, uint64(a.Purpose))
	b = appendUint(b, 6, uint64(a.Page))
	b = appendBool(b, 7, a.Push)
	b = appendBool(b, 8, a.Holdings)
	return b
}

func appendSetTimer(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.ID)
	b = appendUint(b, 2, uint64(a.At))
	return b
}

func appendUncovered(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendUint(b, 2, uint64(a.Repositories))
	b = appendUint(b, 3, uint64(a.Roots))
	b = appendUint(b, 4, uint64(a.Authors))
	return b
}

func appendProgress(b []byte, a *StepAction) []byte {
	b = appendNonEmpty(b, 1, a.Relay)
	b = appendBool(b, 2, a.Past)
	b = appendBool(b, 3, a.Closed)
	b = appendBool(b, 4, a.OldDates)
	b = appendBool(b, 5, a.Anew)
	b = appendUint(b, 6, uint64(a.NextCheck))
	return b
}

// body reads the fields of an action.
func (d *actionDecoder) body(a *StepAction, b []byte) string {
	r := reader{rest: b}
	for r.next() {
		var what string
		switch uint64(a.Do)<<32 | r.key {
		case DoConnect<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoConnect<<32 | 2<<3 | wireVarint:
			a.Priority = uint32(min(r.num, 1<<32-1))
		case DoConnect<<32 | 3<<3 | wireBytes:
			what = copyText(&a.Reason, "reason", r.data, MaxActionReason)
		case DoDisconnect<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoDisconnect<<32 | 2<<3 | wireBytes:
			what = copyText(&a.Reason, "reason", r.data, MaxActionReason)
		case DoSubscribe<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoSubscribe<<32 | 2<<3 | wireBytes:
			what = copyText(&a.ID, "id", r.data, MaxActionID)
		case DoSubscribe<<32 | 3<<3 | wireBytes:
			what = d.filter(a, r.data)
		case DoSubscribe<<32 | 4<<3 | wireVarint:
			a.Live = r.num != 0
		case DoSubscribe<<32 | 5<<3 | wireVarint:
			a.Purpose = uint32(min(r.num, 1<<32-1))
		case DoUnsubscribe<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoUnsubscribe<<32 | 2<<3 | wireBytes:
			what = copyText(&a.ID, "id", r.data, MaxActionID)
		case DoHistoric<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoHistoric<<32 | 2<<3 | wireBytes:
			what = copyText(&a.ID, "id", r.data, MaxActionID)
		case DoHistoric<<32 | 3<<3 | wireBytes:
			what = d.onlyFilter(a, r.data)
		case DoHistoric<<32 | 4<<3 | wireVarint:
			a.Method = uint32(min(r.num, 1<<32-1))
		case DoHistoric<<32 | 5<<3 | wireVarint:
			a.Purpose = uint32(min(r.num, 1<<32-1))
		case DoHistoric<<32 | 6<<3 | wireVarint:
			a.Page = uint32(min(r.num, 1<<32-1))
		case DoHistoric<<32 | 7<<3 | wireVarint:
			a.Push = r.num != 0
		case DoHistoric<<32 | 8<<3 | wireVarint:
			a.Holdings = r.num != 0
		case DoSetTimer<<32 | 1<<3 | wireBytes:
			what = copyText(&a.ID, "id", r.data, MaxActionID)
		case DoSetTimer<<32 | 2<<3 | wireVarint:
			a.At = int64(r.num)
		case DoUncovered<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoUncovered<<32 | 2<<3 | wireVarint:
			a.Repositories = uint32(min(r.num, 1<<32-1))
		case DoUncovered<<32 | 3<<3 | wireVarint:
			a.Roots = uint32(min(r.num, 1<<32-1))
		case DoUncovered<<32 | 4<<3 | wireVarint:
			a.Authors = uint32(min(r.num, 1<<32-1))
		case DoProgress<<32 | 1<<3 | wireBytes:
			what = copyText(&a.Relay, "relay", r.data, MaxActionRelay)
		case DoProgress<<32 | 2<<3 | wireVarint:
			a.Past = r.num != 0
		case DoProgress<<32 | 3<<3 | wireVarint:
			a.Closed = r.num != 0
		case DoProgress<<32 | 4<<3 | wireVarint:
			a.OldDates = r.num != 0
		case DoProgress<<32 | 5<<3 | wireVarint:
			a.Anew = r.num != 0
		case DoProgress<<32 | 6<<3 | wireVarint:
			a.NextCheck = int64(r.num)
		}
		if what != "" {
			return what
		}
	}
	if r.bad {
		return malformed
	}
	return ""
}
