package strategy

import (
	"talon/sdk/abi"
)

// Actions are what the host is to do, in this order.
type Actions struct {
	b       []byte
	n       int
	action  abi.StepAction
	filters []abi.Filter
}

func (o *Actions) reset(b []byte) { o.b, o.n = b, 0 }

// Len returns the number of actions so far. The host refuses an answer that goes over its
// limits; a strategy with more to do sets a timer for now.
func (o *Actions) Len() int { return o.n }

// Size returns the number of bytes so far.
func (o *Actions) Size() int { return len(o.b) }

// Connect keeps a connection to the relay up. The higher priority comes first
// where limits do not allow all. The reason is for the operator; one that is too long is
// cut.
func (o *Actions) Connect(relay string, priority uint32, reason string) {
	o.add(abi.StepAction{Do: abi.DoConnect, Relay: relay, Priority: priority, Reason: cut(reason)})
}

// Disconnect ends what Connect began.
func (o *Actions) Disconnect(relay, reason string) {
	o.add(abi.StepAction{Do: abi.DoDisconnect, Relay: relay, Reason: cut(reason)})
}

// Subscription is what Subscribe opens.
type Subscription struct {
	Relay   string
	ID      string // 1 to 64 bytes from ! to ~
	Filters []Filter
	Live    bool // nothing that is stored
	Purpose uint32
}

// Subscribe opens a subscription on a connected relay, in place of one with the
// same id. The answer is an Eose or Closed.
func (o *Actions) Subscribe(s Subscription) {
	o.filters = o.filters[:0]
	for i := range s.Filters {
		o.filters = append(o.filters, s.Filters[i].wire())
	}
	o.add(abi.StepAction{Do: abi.DoSubscribe, Relay: s.Relay, ID: s.ID, Filters: o.filters, Live: s.Live, Purpose: s.Purpose})
}

// Unsubscribe closes a subscription or ends a historic. There is no answer.
func (o *Actions) Unsubscribe(relay, id string) {
	o.add(abi.StepAction{Do: abi.DoUnsubscribe, Relay: relay, ID: id})
}

// Catchup is what Historic fetches.
type Catchup struct {
	Relay   string
	ID      string // 1 to 64 bytes from ! to ~; shared with subscriptions
	Filter  Filter
	Method  uint32
	Purpose uint32
	Page    uint32 // events of one page of MethodREQ; 0: the host chooses
	Push    bool   // also send what the relay lacks, after negentropy

	// Compare with what this relay is believed to hold, once this very filter was compared
	// with it to the end, instead of with everything that is here: with nothing new that
	// costs little more than the filter, however much is here that it lacks.
	Holdings bool
}

// Historic fetches what a relay has stored and we have not. The answer is a
// HistoricDone.
func (o *Actions) Historic(h Catchup) {
	o.filters = append(o.filters[:0], h.Filter.wire())
	o.add(abi.StepAction{
		Do: abi.DoHistoric, Relay: h.Relay, ID: h.ID, Filters: o.filters,
		Method: h.Method, Purpose: h.Purpose, Page: h.Page, Push: h.Push, Holdings: h.Holdings,
	})
}

// SetTimer sets a timer to a time in unix milliseconds, in place of one with the
// same id.
func (o *Actions) SetTimer(id string, at int64) {
	o.add(abi.StepAction{Do: abi.DoSetTimer, ID: id, At: max(at, 1)})
}

// StopTimer ends a timer.
func (o *Actions) StopTimer(id string) {
	o.add(abi.StepAction{Do: abi.DoSetTimer, ID: id})
}

func (o *Actions) add(a abi.StepAction) {
	o.action = a // kept here, so that taking its address allocates nothing
	o.b = abi.AppendAction(o.b, &o.action)
	o.n++
}

// Filter selects events (NIP-01). An empty list is no condition.
type Filter struct {
	IDs     []ID
	Authors []ID
	Kinds   []uint32
	Tags    []TagFilter
	Since   int64  // unix seconds, inclusive; 0 is no condition
	Until   int64  // unix seconds, inclusive; 0 is no condition
	Limit   uint32 // 0: none
}

// ID is an event id or a public key.
type ID = [32]byte

// TagFilter asks for a tag whose name is a single letter, with one of the values.
type TagFilter = abi.TagFilter

// Hexes writes many ids as tags and filters have them, without garbage. An action
// copies what it is given.
type Hexes = abi.Hexes

// Hex returns an id as tags and filters have it.
func Hex(id []byte) string { return string(abi.AppendHex(nil, id)) }

func (f *Filter) wire() abi.Filter {
	wire := abi.Filter{IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: f.Tags, Limit: f.Limit}
	if f.Since != 0 {
		wire.Since = &f.Since
	}
	if f.Until != 0 {
		wire.Until = &f.Until
	}
	return wire
}

// cut shortens a reason to what the host takes, not within a rune.
func cut(s string) string {
	if len(s) <= abi.MaxActionReason {
		return s
	}
	n := abi.MaxActionReason
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
