package abi

// Input is something that a strategy is told. Exactly the messages that a
// StepRequest can hold are inputs.
type Input interface {
	// appendInput appends the input as a field of a StepRequest.
	appendInput(b []byte) []byte
}

// AppendStep appends a StepRequest. It allocates nothing else.
func AppendStep(b []byte, now int64, input Input) []byte {
	b = appendUint(b, 1, uint64(now))
	return input.appendInput(b)
}

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
)

// Classes of what ended or was complained about, as in talon.proto.
const (
	ClassOther        = 0
	ClassRateLimited  = 1
	ClassAuthRequired = 2
	ClassRestricted   = 3
	ClassUnsupported  = 4
	ClassTooMuch      = 5
	ClassError        = 6
	ClassUnreachable  = 7
	ClassLost         = 8
	ClassAsked        = 9
	ClassLimit        = 10
	ClassForbidden    = 11
)

// Support of a relay for something, as in talon.proto.
const (
	SupportUnknown = 0
	SupportYes     = 1
	SupportNo      = 2
)

// Levels of a repository, as in talon.proto.
const (
	SyncLevelUnspecified = 0
	SyncLevelFull        = 1
	SyncLevelState       = 2
)

// StepLimits is the message StepLimits.
type StepLimits struct {
	Connections   uint32
	Subscriptions uint32
	Filters       uint32
	Values        uint32
	Historics     uint32
	Timers        uint32
	Actions       uint32
	Bytes         uint32
}

// Capabilities is the message Capabilities.
type Capabilities struct {
	Negentropy       uint32 // SupportUnknown, SupportYes, SupportNo
	MaxSubscriptions uint32
	MaxFilters       uint32
	MaxLimit         uint32
	MaxMessage       uint32
	AuthRequired     bool
}

// OpenSubscription is the message OpenSubscription as it is written.
type OpenSubscription struct {
	ID      string
	Filters []Filter
	Live    bool
	Eose    bool
}

// RunningHistoric is the message RunningHistoric as it is written.
type RunningHistoric struct {
	ID      string
	Filter  Filter
	Method  uint32
	Purpose uint32
}

// RelayState is the message RelayState as it is written.
type RelayState struct {
	URL            string
	Bootstrap      bool
	Wanted         bool
	Connected      bool
	Capabilities   Capabilities
	LastConnected  int64
	DisconnectedAt int64
	Subscriptions  []OpenSubscription
	Historics      []RunningHistoric
}

// KnownRepository is the message KnownRepository as it is written.
type KnownRepository struct {
	Address string
	Level   uint32
	Relays  []string
	Roots   [][32]byte
}

// StepInit is the message StepInit as it is written.
type StepInit struct {
	Part         uint32
	More         bool
	Seed         int64
	Limits       StepLimits
	Own          []string
	Relays       []RelayState
	Repositories []KnownRepository
}

func (m *StepInit) appendInput(b []byte) []byte {
	b, at := open(b, InputInit)
	b = appendUint(b, 1, uint64(m.Part))
	b = appendBool(b, 2, m.More)
	b = appendUint(b, 3, uint64(m.Seed))
	if m.Limits != (StepLimits{}) {
		b = appendStepLimits(b, 4, &m.Limits)
	}
	b = appendTexts(b, 5, m.Own)
	for i := range m.Relays {
		b = appendRelayState(b, 6, &m.Relays[i])
	}
	for i := range m.Repositories {
		r := &m.Repositories[i]
		inner, at := open(b, 7)
		inner = appendNonEmpty(inner, 1, r.Address)
		inner = appendUint(inner, 2, uint64(r.Level))
		inner = appendTexts(inner, 3, r.Relays)
		if len(r.Roots) > 0 {
			inner = appendVarint(appendKey(inner, 4, wireBytes), uint64(32*len(r.Roots)))
			for i := range r.Roots {
				inner = append(inner, r.Roots[i][:]...)
			}
		}
		b = seal(inner, at)
	}
	return seal(b, at)
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
	return seal(appendUint(b, 8, uint64(m.Bytes)), at)
}

// appendCapabilities appends m as a field, nothing if nothing is known.
func appendCapabilities(b []byte, field byte, m *Capabilities) []byte {
	if *m == (Capabilities{}) {
		return b
	}
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Negentropy))
	b = appendUint(b, 2, uint64(m.MaxSubscriptions))
	b = appendUint(b, 3, uint64(m.MaxFilters))
	b = appendUint(b, 4, uint64(m.MaxLimit))
	b = appendUint(b, 5, uint64(m.MaxMessage))
	return seal(appendBool(b, 6, m.AuthRequired), at)
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
		s := &m.Subscriptions[i]
		inner, at := open(b, 8)
		inner = appendNonEmpty(inner, 1, s.ID)
		inner = appendFilters(inner, 2, s.Filters)
		inner = appendBool(inner, 3, s.Live)
		b = seal(appendBool(inner, 4, s.Eose), at)
	}
	for i := range m.Historics {
		h := &m.Historics[i]
		inner, at := open(b, 9)
		inner = appendNonEmpty(inner, 1, h.ID)
		inner = appendOneFilter(inner, 2, &h.Filter)
		inner = appendUint(inner, 3, uint64(h.Method))
		b = seal(appendUint(inner, 4, uint64(h.Purpose)), at)
	}
	return seal(b, at)
}

func appendOneFilter(b []byte, field byte, f *Filter) []byte {
	b, at := open(b, field)
	return seal(AppendFilter(b, f), at)
}

func appendFilters(b []byte, field byte, list []Filter) []byte {
	for i := range list {
		b = appendOneFilter(b, field, &list[i])
	}
	return b
}
