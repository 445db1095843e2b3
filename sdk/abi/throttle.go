package abi

// Kinds of subject, as in talon.proto.
const (
	SubjectUnspecified = 0
	SubjectDomain      = 1
	SubjectRelay       = 2
	SubjectRepository  = 3
)

// Outcomes, as in talon.proto.
const (
	OutcomeUnspecified  = 0
	OutcomeOK           = 1
	OutcomePartial      = 2
	OutcomeNotFound     = 3
	OutcomeRateLimited  = 4
	OutcomeRefused      = 5
	OutcomeServer       = 6
	OutcomeTimeout      = 7
	OutcomeUnreachable  = 8
	OutcomeDNS          = 9
	OutcomeTLS          = 10
	OutcomeProtocol     = 11
	OutcomeTooLarge     = 12
	OutcomeDisconnected = 13
)

// Healths, as in talon.proto.
const (
	HealthUnspecified = 0
	HealthHealthy     = 1
	HealthDegraded    = 2
	HealthDead        = 3
	HealthBarred      = 4
)

// Most that a request holds: the host leaves out what is beyond.
const (
	MaxAges    = 256 // of a subject
	MaxWaiting = 16  // of a PickRequest
)

// Subject is the message Subject as it is written.
type Subject struct {
	Kind         uint32
	Name         string
	InFlight     uint32
	Ages         []uint32 // milliseconds, newest first
	Failures     uint32
	FailingSince int64
	LastSuccess  int64
	NotBefore    int64
	Health       uint32
}

func appendSubject(b []byte, field byte, m *Subject) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Kind))
	b = appendNonEmpty(b, 2, m.Name)
	b = appendUint(b, 3, uint64(m.InFlight))
	if len(m.Ages) > 0 {
		var ages int
		b, ages = open(b, 4)
		for _, age := range m.Ages {
			b = appendVarint(b, uint64(age))
		}
		b = seal(b, ages)
	}
	b = appendUint(b, 5, uint64(m.Failures))
	b = appendUint(b, 6, uint64(m.FailingSince))
	b = appendUint(b, 7, uint64(m.LastSuccess))
	b = appendUint(b, 8, uint64(m.NotBefore))
	return seal(appendUint(b, 9, uint64(m.Health)), at)
}

// DelayRequest is the message DelayRequest as it is written.
type DelayRequest struct {
	Now       int64
	Subject   Subject
	Origin    uint32
	EventKind uint32
	Planned   int64
}

// AppendDelayRequest appends q.
func AppendDelayRequest(b []byte, q *DelayRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	b = appendUint(b, 3, uint64(q.Origin))
	b = appendUint(b, 4, uint64(q.EventKind))
	return appendUint(b, 5, uint64(q.Planned))
}

// ThrottleAdmitRequest is the message ThrottleAdmitRequest as it is written.
type ThrottleAdmitRequest struct {
	Now         int64
	Subject     Subject
	Repository  string
	AllInFlight uint32
}

// AppendThrottleAdmitRequest appends q.
func AppendThrottleAdmitRequest(b []byte, q *ThrottleAdmitRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	b = appendNonEmpty(b, 3, q.Repository)
	return appendUint(b, 4, uint64(q.AllInFlight))
}

// AfterRequest is the message AfterRequest as it is written.
type AfterRequest struct {
	Now        int64
	Subject    Subject
	Outcome    uint32
	Repository string
	Status     uint32
	RetryAfter int64
	Took       int64
	Bytes      int64
	Found      uint32
	Missing    uint32
	Attempts   uint32
	Since      int64
	Reason     string
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
	return appendNonEmpty(b, 13, q.Reason)
}

// Waiting is the message Waiting.
type Waiting struct {
	Repository string
	Since      int64
	LastTried  int64
	Attempts   uint32
	Missing    uint32
	URLs       uint32
}

// PickRequest is the message PickRequest as it is written.
type PickRequest struct {
	Now     int64
	Subject Subject
	Waiting []Waiting
}

// AppendPickRequest appends q.
func AppendPickRequest(b []byte, q *PickRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendSubject(b, 2, &q.Subject)
	for i := range q.Waiting {
		w := &q.Waiting[i]
		inner, at := open(b, 3)
		inner = appendNonEmpty(inner, 1, w.Repository)
		inner = appendUint(inner, 2, uint64(w.Since))
		inner = appendUint(inner, 3, uint64(w.LastTried))
		inner = appendUint(inner, 4, uint64(w.Attempts))
		inner = appendUint(inner, 5, uint64(w.Missing))
		b = seal(appendUint(inner, 6, uint64(w.URLs)), at)
	}
	return b
}
