// Code generated from talon.proto by internal/abigen. DO NOT EDIT.

package abi

import (
	"math"
	"unicode/utf8"
)

// SubjectKind is the kind of a subject.
const (
	SubjectUnspecified = 0
	SubjectDomain      = 1 // git requests to a domain
	SubjectRelay       = 2 // connections to a relay
	SubjectRepository  = 3 // the search for a repository's git data, over all its domains
)

// Outcome is the result of a request, a connection or a round.
const (
	OutcomeUnspecified  = 0
	OutcomeOK           = 1 // relay: connected; domain: all requested objects
	OutcomePartial      = 2 // some of the objects
	OutcomeNotFound     = 3 // the server answered, and has none of the objects, or those that it has were refused
	OutcomeRateLimited  = 4 // 429; a NOTICE or CLOSED that says so
	OutcomeRefused      = 5 // 401, 403; not for us
	OutcomeServer       = 6 // 5xx
	OutcomeTimeout      = 7
	OutcomeUnreachable  = 8  // no connection, or it broke
	OutcomeDNS          = 9  // the name has no address
	OutcomeTLS          = 10 // the certificate or handshake is wrong
	OutcomeProtocol     = 11 // not what git or nostr allow
	OutcomeTooLarge     = 12 // the host stopped reading
	OutcomeDisconnected = 13 // relay: a connection that was up ended
)

// Health is the throttle's judgement of a domain or relay, kept across restarts.
const (
	HealthUnspecified = 0 // as it was
	HealthHealthy     = 1
	HealthDegraded    = 2 // failing, tried again soon
	HealthDead        = 3 // failing for long, tried again seldom
	HealthBarred      = 4 // its name, certificate or protocol is broken: set aside; dead in metrics
)

// Subject is the domain, relay or repository of a request, with its recent history.
type Subject struct {
	Kind         uint32
	Name         string   // a host name, with the port if it is not the usual one; a relay's URL; 30617:pubkey:d
	InFlight     uint32   // requests, connection attempts
	Ages         []uint32 // milliseconds since each of the latest starts, newest first, at most 256
	Failures     uint32   // in a row
	FailingSince int64    // the first of them
	LastSuccess  int64
	NotBefore    int64  // the latest answer of the throttle
	Health       uint32 // the latest answer of the throttle
	Bootstrap    bool   // relay: the operator named it
	Uptime       int64
	Faults       uint32
	FaultySince  int64 // relay: the first of these
}

func appendSubject(b []byte, field byte, m *Subject) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Kind))
	b = appendNonEmpty(b, 2, m.Name)
	b = appendUint(b, 3, uint64(m.InFlight))
	if len(m.Ages) > 0 {
		var at int
		b, at = open(b, 4)
		for _, v := range m.Ages {
			b = appendVarint(b, uint64(v))
		}
		b = seal(b, at)
	}
	b = appendUint(b, 5, uint64(m.Failures))
	b = appendUint(b, 6, uint64(m.FailingSince))
	b = appendUint(b, 7, uint64(m.LastSuccess))
	b = appendUint(b, 8, uint64(m.NotBefore))
	b = appendUint(b, 9, uint64(m.Health))
	b = appendBool(b, 10, m.Bootstrap)
	b = appendUint(b, 11, uint64(m.Uptime))
	b = appendUint(b, 12, uint64(m.Faults))
	b = appendUint(b, 13, uint64(m.FaultySince))
	return seal(b, at)
}

// SubjectView reads a Subject in place.
type SubjectView struct {
	Kind         uint32
	Name         string // a host name, with the port if it is not the usual one; a relay's URL; 30617:pubkey:d
	InFlight     uint32 // requests, connection attempts
	Failures     uint32 // in a row
	FailingSince int64  // the first of them
	LastSuccess  int64
	NotBefore    int64  // the latest answer of the throttle
	Health       uint32 // the latest answer of the throttle
	Bootstrap    bool   // relay: the operator named it
	Uptime       int64
	Faults       uint32
	FaultySince  int64 // relay: the first of these

	b    []byte
	ages []byte // packed
	rare bool   // they are written in another way than that

}

func (v *SubjectView) decode(b []byte) error {
	*v = SubjectView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Kind = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireBytes:
			v.Name = text(r.data)
		case 3<<3 | wireVarint:
			v.InFlight = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			v.rare = true
		case 4<<3 | wireBytes:
			v.rare = v.rare || v.ages != nil
			v.ages = r.data
		case 5<<3 | wireVarint:
			v.Failures = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			v.FailingSince = int64(r.num)
		case 7<<3 | wireVarint:
			v.LastSuccess = int64(r.num)
		case 8<<3 | wireVarint:
			v.NotBefore = int64(r.num)
		case 9<<3 | wireVarint:
			v.Health = uint32(min(r.num, 1<<32-1))
		case 10<<3 | wireVarint:
			v.Bootstrap = r.num != 0
		case 11<<3 | wireVarint:
			v.Uptime = int64(r.num)
		case 12<<3 | wireVarint:
			v.Faults = uint32(min(r.num, 1<<32-1))
		case 13<<3 | wireVarint:
			v.FaultySince = int64(r.num)
		}
	}
	return r.err()
}

// Ages iterates over the ages: milliseconds since each of the latest starts, newest first, at most 256.
func (v *SubjectView) Ages() AgeIter { return AgeIter{r: reader{rest: v.b}} }

// AgeIter walks the ages of a message.
type AgeIter struct {
	r      reader
	packed []byte
	item   uint32
}

// Next moves to the next one, and reports whether there is one.
func (it *AgeIter) Next() bool {
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
		*it = AgeIter{}
		return false
	}
	it.item, it.packed = uint32(min(v, 1<<32-1)), it.packed[n:]
	return true
}

// Age returns the one that Next moved to.
func (it *AgeIter) Age() uint32 { return it.item }

// DelayRequest asks how long to wait before the first attempt, after an event of a
// repository was held, or before the first connection to a relay.
type DelayRequest struct {
	Now       int64
	Subject   Subject // a repository or a relay
	Origin    uint32  // of the event
	EventKind uint32  // of the event
	Planned   int64   // an attempt that is already planned; the sooner one counts
}

// AppendDelayRequest appends q.
func AppendDelayRequest(b []byte, q *DelayRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	b = appendUint(b, 3, uint64(q.Origin))
	b = appendUint(b, 4, uint64(q.EventKind))
	b = appendUint(b, 5, uint64(q.Planned))
	return b
}

// DelayRequestView reads a DelayRequest in place.
type DelayRequestView struct {
	Now       int64
	Subject   SubjectView // a repository or a relay
	Origin    uint32      // of the event
	EventKind uint32      // of the event
	Planned   int64       // an attempt that is already planned; the sooner one counts
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *DelayRequestView) Decode(b []byte) error {
	*v = DelayRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		case 3<<3 | wireVarint:
			v.Origin = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			v.EventKind = uint32(min(r.num, 1<<32-1))
		case 5<<3 | wireVarint:
			v.Planned = int64(r.num)
		}
	}
	return r.err()
}

// DelayAnswer is the message DelayAnswer.
type DelayAnswer struct {
	Delay  int64 // from now
	Expiry int64 // from now: when to give up the event; 0: the host's default
}

// AppendDelayAnswer appends a.
func AppendDelayAnswer(b []byte, a *DelayAnswer) []byte {
	b = appendUint(b, 1, uint64(a.Delay))
	b = appendUint(b, 2, uint64(a.Expiry))
	return b
}

// DecodeDelayAnswer reads a DelayAnswer. An error is an *AnswerError or
// ErrMalformed.
func DecodeDelayAnswer(b []byte) (DelayAnswer, error) {
	var a DelayAnswer
	if err := a.decode(b); err != nil {
		return DelayAnswer{}, err
	}
	return a, nil
}

func (a *DelayAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Delay = int64(r.num)
		case 2<<3 | wireVarint:
			a.Expiry = int64(r.num)
		}
	}
	if r.bad {
		return ErrMalformed
	}
	if err := checkTime("delay", a.Delay); err != nil {
		return err
	}
	if err := checkTime("expiry", a.Expiry); err != nil {
		return err
	}
	return nil
}

// ThrottleAdmitRequest asks whether one more request may start now.
type ThrottleAdmitRequest struct {
	Now         int64
	Subject     Subject // a domain or a relay
	Repository  string  // the purpose of the request, 30617:pubkey:d; empty for a relay
	AllInFlight uint32  // requests of this kind, to all subjects
}

// AppendThrottleAdmitRequest appends q.
func AppendThrottleAdmitRequest(b []byte, q *ThrottleAdmitRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	b = appendNonEmpty(b, 3, q.Repository)
	b = appendUint(b, 4, uint64(q.AllInFlight))
	return b
}

// ThrottleAdmitRequestView reads a ThrottleAdmitRequest in place.
type ThrottleAdmitRequestView struct {
	Now         int64
	Subject     SubjectView // a domain or a relay
	Repository  string      // the purpose of the request, 30617:pubkey:d; empty for a relay
	AllInFlight uint32      // requests of this kind, to all subjects
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *ThrottleAdmitRequestView) Decode(b []byte) error {
	*v = ThrottleAdmitRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		case 3<<3 | wireBytes:
			v.Repository = text(r.data)
		case 4<<3 | wireVarint:
			v.AllInFlight = uint32(min(r.num, 1<<32-1))
		}
	}
	return r.err()
}

// ThrottleAdmitAnswer is the message ThrottleAdmitAnswer.
type ThrottleAdmitAnswer struct {
	Start bool
	Wait  int64 // if not, the time until the next question; 0: when another request has ended
}

// AppendThrottleAdmitAnswer appends a.
func AppendThrottleAdmitAnswer(b []byte, a *ThrottleAdmitAnswer) []byte {
	b = appendBool(b, 1, a.Start)
	b = appendUint(b, 2, uint64(a.Wait))
	return b
}

func (a *ThrottleAdmitAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Start = r.num != 0
		case 2<<3 | wireVarint:
			a.Wait = int64(r.num)
		}
	}
	if r.bad {
		return ErrMalformed
	}
	if err := checkTime("wait", a.Wait); err != nil {
		return err
	}
	return nil
}

// AfterRequest gives the outcome of a request or connection, and asks when to go on. For a
// repository it is the outcome of a round over all its URLs that left something missing.
type AfterRequest struct {
	Now        int64
	Subject    Subject // its failures and ages include this outcome
	Outcome    uint32
	Repository string // the purpose of a request to a domain, 30617:pubkey:d
	Status     uint32 // of HTTP
	RetryAfter int64  // the time that the server asked for, from now
	Took       int64
	Bytes      int64  // received
	Found      uint32 // objects that were missing and have arrived
	Missing    uint32 // objects that are still missing
	Attempts   uint32 // repository: rounds since its latest event
	Since      int64  // repository: when its search began; relay: when the connection was made
	Reason     string // the message of the server or the network
}

// AppendAfterRequest appends q.
func AppendAfterRequest(b []byte, q *AfterRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	b = appendUint(b, 3, uint64(q.Outcome))
	b = appendNonEmpty(b, 4, q.Repository)
	b = appendUint(b, 5, uint64(q.Status))
	b = appendUint(b, 6, uint64(q.RetryAfter))
	b = appendUint(b, 7, uint64(q.Took))
	b = appendUint(b, 8, uint64(q.Bytes))
	b = appendUint(b, 9, uint64(q.Found))
	b = appendUint(b, 10, uint64(q.Missing))
	b = appendUint(b, 11, uint64(q.Attempts))
	b = appendUint(b, 12, uint64(q.Since))
	b = appendNonEmpty(b, 13, q.Reason)
	return b
}

// AfterRequestView reads an AfterRequest in place.
type AfterRequestView struct {
	Now        int64
	Subject    SubjectView // its failures and ages include this outcome
	Outcome    uint32
	Repository string // the purpose of a request to a domain, 30617:pubkey:d
	Status     uint32 // of HTTP
	RetryAfter int64  // the time that the server asked for, from now
	Took       int64
	Bytes      int64  // received
	Found      uint32 // objects that were missing and have arrived
	Missing    uint32 // objects that are still missing
	Attempts   uint32 // repository: rounds since its latest event
	Since      int64  // repository: when its search began; relay: when the connection was made
	Reason     string // the message of the server or the network
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *AfterRequestView) Decode(b []byte) error {
	*v = AfterRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		case 3<<3 | wireVarint:
			v.Outcome = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireBytes:
			v.Repository = text(r.data)
		case 5<<3 | wireVarint:
			v.Status = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			v.RetryAfter = int64(r.num)
		case 7<<3 | wireVarint:
			v.Took = int64(r.num)
		case 8<<3 | wireVarint:
			v.Bytes = int64(r.num)
		case 9<<3 | wireVarint:
			v.Found = uint32(min(r.num, 1<<32-1))
		case 10<<3 | wireVarint:
			v.Missing = uint32(min(r.num, 1<<32-1))
		case 11<<3 | wireVarint:
			v.Attempts = uint32(min(r.num, 1<<32-1))
		case 12<<3 | wireVarint:
			v.Since = int64(r.num)
		case 13<<3 | wireBytes:
			v.Reason = text(r.data)
		}
	}
	return r.err()
}

// AfterAnswer is the message AfterAnswer.
type AfterAnswer struct {
	Delay  int64  // from now: the earliest next attempt
	GiveUp bool   // repository: end the search
	Health uint32 // of a domain or relay
	Reason string // for the operator, at most 256 bytes
}

// AppendAfterAnswer appends a.
func AppendAfterAnswer(b []byte, a *AfterAnswer) []byte {
	b = appendUint(b, 1, uint64(a.Delay))
	b = appendBool(b, 2, a.GiveUp)
	b = appendUint(b, 3, uint64(a.Health))
	b = appendNonEmpty(b, 4, a.Reason)
	return b
}

// DecodeAfterAnswer reads an AfterAnswer. An error is an *AnswerError or
// ErrMalformed.
func DecodeAfterAnswer(b []byte) (AfterAnswer, error) {
	var a AfterAnswer
	if err := a.decode(b); err != nil {
		return AfterAnswer{}, err
	}
	return a, nil
}

func (a *AfterAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Delay = int64(r.num)
		case 2<<3 | wireVarint:
			a.GiveUp = r.num != 0
		case 3<<3 | wireVarint:
			a.Health = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireBytes:
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			a.Reason = string(r.data)
		}
	}
	if r.bad {
		return ErrMalformed
	}
	if err := checkTime("delay", a.Delay); err != nil {
		return err
	}
	if err := checkKnown("health", a.Health, HealthBarred); err != nil {
		return err
	}
	if err := checkText("reason", a.Reason, 256); err != nil {
		return err
	}
	return nil
}

// Waiting is a repository that waits for a domain.
type Waiting struct {
	Repository string // 30617:pubkey:d
	Since      int64  // when it came into this queue
	LastTried  int64  // the latest request for it to this domain; 0: none yet
	Attempts   uint32 // rounds since its latest event
	Missing    uint32 // objects
	URLs       uint32 // of this domain that are not tried yet
}

func appendWaiting(b []byte, field byte, m *Waiting) []byte {
	b, at := open(b, field)
	b = appendNonEmpty(b, 1, m.Repository)
	b = appendUint(b, 2, uint64(m.Since))
	b = appendUint(b, 3, uint64(m.LastTried))
	b = appendUint(b, 4, uint64(m.Attempts))
	b = appendUint(b, 5, uint64(m.Missing))
	b = appendUint(b, 6, uint64(m.URLs))
	return seal(b, at)
}

// WaitingIter walks a list.
type WaitingIter struct{ it BytesIter }

// Next moves to the next item, and reports whether there is one.
func (it *WaitingIter) Next() bool { return it.it.Next() }

// Waiting returns the item that Next moved to. Its texts are views.
//
// It is one loop without calls, as EventView.Decode is; what that loop does not
// know it leaves to readWaiting.
func (it *WaitingIter) Waiting() Waiting {
	var m Waiting
	b := it.it.Bytes()
	for pos := 0; pos < len(b); {
		k := b[pos]
		if k < 1<<3 || k >= 0x80 || k&^wireBytes&7 != 0 {
			return readWaiting(b)
		}
		var n uint64
		var shift uint
		for pos++; ; pos++ {
			if pos == len(b) || shift > 56 {
				return readWaiting(b)
			}
			c := b[pos]
			n |= uint64(c&0x7f) << shift
			if c < 0x80 {
				pos++
				break
			}
			shift += 7
		}
		if k&7 == wireBytes {
			if n > uint64(len(b)-pos) {
				return readWaiting(b)
			}
			if k == 1<<3|wireBytes {
				m.Repository = text(b[pos : pos+int(n)])
			}
			pos += int(n)
			continue
		}
		switch k {
		case 2<<3 | wireVarint:
			m.Since = int64(n)
		case 3<<3 | wireVarint:
			m.LastTried = int64(n)
		case 4<<3 | wireVarint:
			m.Attempts = uint32(min(n, 1<<32-1))
		case 5<<3 | wireVarint:
			m.Missing = uint32(min(n, 1<<32-1))
		case 6<<3 | wireVarint:
			m.URLs = uint32(min(n, 1<<32-1))
		}
	}
	return m
}

// readWaiting reads messages of any shape: as much as can be read.
func readWaiting(b []byte) Waiting {
	var m Waiting
	for r := (reader{rest: b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Repository = text(r.data)
		case 2<<3 | wireVarint:
			m.Since = int64(r.num)
		case 3<<3 | wireVarint:
			m.LastTried = int64(r.num)
		case 4<<3 | wireVarint:
			m.Attempts = uint32(min(r.num, 1<<32-1))
		case 5<<3 | wireVarint:
			m.Missing = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			m.URLs = uint32(min(r.num, 1<<32-1))
		}
	}
	return m
}

// PickRequest asks which of the repositories that wait for a domain is next.
type PickRequest struct {
	Now     int64
	Subject Subject   // the domain
	Waiting []Waiting // at most 16, the one served longest ago first
}

// AppendPickRequest appends q.
func AppendPickRequest(b []byte, q *PickRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	for i := range q.Waiting {
		b = appendWaiting(b, 3, &q.Waiting[i])
	}
	return b
}

// PickRequestView reads a PickRequest in place.
type PickRequestView struct {
	Now     int64
	Subject SubjectView // the domain

	b []byte
}

// Decode reads b. What has a method is looked into only when that is called.
func (v *PickRequestView) Decode(b []byte) error {
	*v = PickRequestView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		}
	}
	return r.err()
}

// Waiting iterates over the waiting: at most 16, the one served longest ago first.
func (v *PickRequestView) Waiting() WaitingIter { return WaitingIter{it: fields(v.b, 3)} }

// PickAnswer is the message PickAnswer.
type PickAnswer struct {
	Index uint32 // into waiting
	None  bool   // nobody now; asked again when another request has ended
}

// AppendPickAnswer appends a.
func AppendPickAnswer(b []byte, a *PickAnswer) []byte {
	b = appendUint(b, 1, uint64(a.Index))
	b = appendBool(b, 2, a.None)
	return b
}

func (a *PickAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Index = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireVarint:
			a.None = r.num != 0
		}
	}
	if r.bad {
		return ErrMalformed
	}
	return nil
}

// ClientLimits is the list of limits of one client. 0: no limit.
type ClientLimits struct {
	Connections   uint32 // from one address
	Subscriptions uint32 // open on one connection
	Filters       uint32 // of one subscription
	Events        uint32 // EVENT messages in a minute
	Queries       uint32 // REQ, COUNT and NEG-OPEN in a minute
	BytesIn       int64  // in a second
	BytesOut      int64  // in a second
}

func appendClientLimits(b []byte, field byte, m *ClientLimits) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Connections))
	b = appendUint(b, 2, uint64(m.Subscriptions))
	b = appendUint(b, 3, uint64(m.Filters))
	b = appendUint(b, 4, uint64(m.Events))
	b = appendUint(b, 5, uint64(m.Queries))
	b = appendUint(b, 6, uint64(m.BytesIn))
	b = appendUint(b, 7, uint64(m.BytesOut))
	return seal(b, at)
}

func readClientLimits(r reader) ClientLimits {
	var m ClientLimits
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Connections = uint32(min(r.num, 1<<32-1))
		case 2<<3 | wireVarint:
			m.Subscriptions = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireVarint:
			m.Filters = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			m.Events = uint32(min(r.num, 1<<32-1))
		case 5<<3 | wireVarint:
			m.Queries = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			m.BytesIn = int64(r.num)
		case 7<<3 | wireVarint:
			m.BytesOut = int64(r.num)
		}
	}
	return m
}

// Telemetry is the load of this server, over the time since the last tick.
type Telemetry struct {
	Interval      int64
	CPU           float64 // share of all processors, 0 to 1
	Memory        int64   // bytes in use
	MemoryLimit   int64   // bytes; 0: none
	Connections   uint32
	Subscriptions uint32
	Events        float64 // in a second, from clients
	Queries       float64 // in a second
	BytesIn       float64 // in a second
	BytesOut      float64 // in a second
	Queue         uint32  // events that wait to be decided or written
	QueueLimit    uint32
	AnswerTime    int64  // from EVENT to OK, the 99th percentile, in microseconds
	SlowClients   uint32 // clients that do not read fast enough
}

func appendTelemetry(b []byte, field byte, m *Telemetry) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Interval))
	b = appendDouble(b, 2, m.CPU)
	b = appendUint(b, 3, uint64(m.Memory))
	b = appendUint(b, 4, uint64(m.MemoryLimit))
	b = appendUint(b, 5, uint64(m.Connections))
	b = appendUint(b, 6, uint64(m.Subscriptions))
	b = appendDouble(b, 7, m.Events)
	b = appendDouble(b, 8, m.Queries)
	b = appendDouble(b, 9, m.BytesIn)
	b = appendDouble(b, 10, m.BytesOut)
	b = appendUint(b, 11, uint64(m.Queue))
	b = appendUint(b, 12, uint64(m.QueueLimit))
	b = appendUint(b, 13, uint64(m.AnswerTime))
	b = appendUint(b, 14, uint64(m.SlowClients))
	return seal(b, at)
}

func readTelemetry(r reader) Telemetry {
	var m Telemetry
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Interval = int64(r.num)
		case 2<<3 | wireFixed64:
			m.CPU = math.Float64frombits(r.num)
		case 3<<3 | wireVarint:
			m.Memory = int64(r.num)
		case 4<<3 | wireVarint:
			m.MemoryLimit = int64(r.num)
		case 5<<3 | wireVarint:
			m.Connections = uint32(min(r.num, 1<<32-1))
		case 6<<3 | wireVarint:
			m.Subscriptions = uint32(min(r.num, 1<<32-1))
		case 7<<3 | wireFixed64:
			m.Events = math.Float64frombits(r.num)
		case 8<<3 | wireFixed64:
			m.Queries = math.Float64frombits(r.num)
		case 9<<3 | wireFixed64:
			m.BytesIn = math.Float64frombits(r.num)
		case 10<<3 | wireFixed64:
			m.BytesOut = math.Float64frombits(r.num)
		case 11<<3 | wireVarint:
			m.Queue = uint32(min(r.num, 1<<32-1))
		case 12<<3 | wireVarint:
			m.QueueLimit = uint32(min(r.num, 1<<32-1))
		case 13<<3 | wireVarint:
			m.AnswerTime = int64(r.num)
		case 14<<3 | wireVarint:
			m.SlowClients = uint32(min(r.num, 1<<32-1))
		}
	}
	return m
}

// TickRequest gives the load of this server, every few seconds.
type TickRequest struct {
	Now       int64
	Telemetry Telemetry
	Current   ClientLimits
	Least     ClientLimits // the operator's limits: the host keeps every answer within them
	Most      ClientLimits
}

// AppendTickRequest appends q.
func AppendTickRequest(b []byte, q *TickRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendTelemetry(b, 2, &q.Telemetry)
	b = appendClientLimits(b, 3, &q.Current)
	b = appendClientLimits(b, 4, &q.Least)
	b = appendClientLimits(b, 5, &q.Most)
	return b
}

// Decode reads b. What has a method is looked into only when that is called.
func (q *TickRequest) Decode(b []byte) error {
	*q = TickRequest{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			q.Now = int64(r.num)
		case 2<<3 | wireBytes:
			q.Telemetry = readTelemetry(reader{rest: r.data})
		case 3<<3 | wireBytes:
			q.Current = readClientLimits(reader{rest: r.data})
		case 4<<3 | wireBytes:
			q.Least = readClientLimits(reader{rest: r.data})
		case 5<<3 | wireBytes:
			q.Most = readClientLimits(reader{rest: r.data})
		}
	}
	return r.err()
}

// Most that a request holds: the host leaves out what is beyond.
const (
	MaxAges    = 256 // of a Subject
	MaxWaiting = 16  // of a PickRequest
)
