// Code generated from talon.proto by internal/abigen. DO NOT EDIT.

package manifest

import "talon/sdk/abi"

// originNames are the names of Origin, the index.
var originNames = []string{
	abi.OriginUnspecified: "",
	abi.OriginClient:      "client",
	abi.OriginImport:      "import",
	abi.OriginSync:        "sync",
}

type originForm uint32

func (v *originForm) UnmarshalText(text []byte) error { return named((*uint32)(v), originNames, text) }

func (v originForm) MarshalText() ([]byte, error) { return []byte(originNames[v]), nil }

// actionNames are the names of Action, the index.
var actionNames = []string{
	abi.ActionPass:         "pass",
	abi.ActionAccept:       "accept",
	abi.ActionReject:       "reject",
	abi.ActionShadowReject: "shadow-reject",
	abi.ActionHold:         "hold",
	abi.ActionRequireAuth:  "auth-required",
	abi.ActionRestrict:     "restrict",
}

// verbNames are the names of Verb, the index.
var verbNames = []string{
	abi.VerbUnspecified: "",
	abi.VerbReq:         "req",
	abi.VerbCount:       "count",
	abi.VerbNeg:         "neg",
}

// subjectKindNames are the names of SubjectKind, the index.
var subjectKindNames = []string{
	abi.SubjectUnspecified: "",
	abi.SubjectDomain:      "domain",
	abi.SubjectRelay:       "relay",
	abi.SubjectRepository:  "repository",
}

type subjectKindForm uint32

func (v *subjectKindForm) UnmarshalText(text []byte) error {
	return named((*uint32)(v), subjectKindNames, text)
}

func (v subjectKindForm) MarshalText() ([]byte, error) { return []byte(subjectKindNames[v]), nil }

// outcomeNames are the names of Outcome, the index.
var outcomeNames = []string{
	abi.OutcomeUnspecified:  "",
	abi.OutcomeOK:           "ok",
	abi.OutcomePartial:      "partial",
	abi.OutcomeNotFound:     "not-found",
	abi.OutcomeRateLimited:  "rate-limited",
	abi.OutcomeRefused:      "refused",
	abi.OutcomeServer:       "server",
	abi.OutcomeTimeout:      "timeout",
	abi.OutcomeUnreachable:  "unreachable",
	abi.OutcomeDNS:          "dns",
	abi.OutcomeTLS:          "tls",
	abi.OutcomeProtocol:     "protocol",
	abi.OutcomeTooLarge:     "too-large",
	abi.OutcomeDisconnected: "disconnected",
}

type outcomeForm uint32

func (v *outcomeForm) UnmarshalText(text []byte) error {
	return named((*uint32)(v), outcomeNames, text)
}

func (v outcomeForm) MarshalText() ([]byte, error) { return []byte(outcomeNames[v]), nil }

// healthNames are the names of Health, the index.
var healthNames = []string{
	abi.HealthUnspecified: "unchanged",
	abi.HealthHealthy:     "healthy",
	abi.HealthDegraded:    "degraded",
	abi.HealthDead:        "dead",
	abi.HealthBarred:      "barred",
}

type healthForm uint32

func (v *healthForm) UnmarshalText(text []byte) error { return named((*uint32)(v), healthNames, text) }

func (v healthForm) MarshalText() ([]byte, error) { return []byte(healthNames[v]), nil }

// agesList are as many as a host tells of.
type agesList []uint32

func (l *agesList) UnmarshalJSON(b []byte) error {
	return checkMax(abi.MaxAges, "ages", b, (*[]uint32)(l))
}

// subjectForm is the message Subject.
type subjectForm struct {
	Kind         subjectKindForm `json:"kind"`
	Name         string          `json:"name"`          // a host name, with the port if it is not the usual one; a relay's URL; 30617:pubkey:d
	InFlight     uint32          `json:"in_flight"`     // requests, connection attempts
	Ages         agesList        `json:"ages"`          // milliseconds since each of the latest starts, newest first, at most 256
	Failures     uint32          `json:"failures"`      // in a row
	FailingSince int64           `json:"failing_since"` // the first of them
	LastSuccess  int64           `json:"last_success"`
	NotBefore    int64           `json:"not_before"` // the latest answer of the throttle
	Health       healthForm      `json:"health"`     // the latest answer of the throttle
	Bootstrap    bool            `json:"bootstrap"`  // relay: the operator named it
	Uptime       int64           `json:"uptime"`
	Faults       uint32          `json:"faults"`
	FaultySince  int64           `json:"faulty_since"` // relay: the first of these
}

// delayRequestForm is the message DelayRequest.
type delayRequestForm struct {
	Subject   subjectForm `json:"subject"`    // a repository or a relay
	Origin    originForm  `json:"origin"`     // of the event
	EventKind uint32      `json:"event_kind"` // of the event
	Planned   int64       `json:"planned"`    // an attempt that is already planned; the sooner one counts
}

func (m *delayRequestForm) append(b []byte, now int64) []byte {
	return abi.AppendDelayRequest(b, filled(&abi.DelayRequest{Now: now}, m))
}

func (*delayRequestForm) answer() throttleWanted { return new(delayAnswerForm) }

// delayAnswerForm is the message DelayAnswer.
type delayAnswerForm struct {
	Delay  int64 `json:"delay"`  // from now
	Expiry int64 `json:"expiry"` // from now: when to give up the event; 0: the host's default
}

func (m *delayAnswerForm) read(answer []byte) error {
	a, err := abi.DecodeDelayAnswer(answer)
	filled(m, &a)
	return err
}

func (m *delayAnswerForm) append(b []byte) []byte {
	return abi.AppendDelayAnswer(b, filled(new(abi.DelayAnswer), m))
}

// throttleAdmitRequestForm is the message ThrottleAdmitRequest.
type throttleAdmitRequestForm struct {
	Subject     subjectForm `json:"subject"`       // a domain or a relay
	Repository  string      `json:"repository"`    // the purpose of the request, 30617:pubkey:d; empty for a relay
	AllInFlight uint32      `json:"all_in_flight"` // requests of this kind, to all subjects
}

func (m *throttleAdmitRequestForm) append(b []byte, now int64) []byte {
	return abi.AppendThrottleAdmitRequest(b, filled(&abi.ThrottleAdmitRequest{Now: now}, m))
}

func (*throttleAdmitRequestForm) answer() throttleWanted { return new(throttleAdmitAnswerForm) }

// throttleAdmitAnswerForm is the message ThrottleAdmitAnswer.
type throttleAdmitAnswerForm struct {
	Start bool  `json:"start"`
	Wait  int64 `json:"wait"` // if not, the time until the next question; 0: when another request has ended
}

func (m *throttleAdmitAnswerForm) read(answer []byte) error {
	a, err := abi.DecodeThrottleAdmitAnswer(answer)
	filled(m, &a)
	return err
}

func (m *throttleAdmitAnswerForm) append(b []byte) []byte {
	return abi.AppendThrottleAdmitAnswer(b, filled(new(abi.ThrottleAdmitAnswer), m))
}

// afterRequestForm is the message AfterRequest.
type afterRequestForm struct {
	Subject    subjectForm `json:"subject"` // its failures and ages include this outcome
	Outcome    outcomeForm `json:"outcome"`
	Repository string      `json:"repository"`  // the purpose of a request to a domain, 30617:pubkey:d
	Status     uint32      `json:"status"`      // of HTTP
	RetryAfter int64       `json:"retry_after"` // the time that the server asked for, from now
	Took       int64       `json:"took"`
	Bytes      int64       `json:"bytes"`    // received
	Found      uint32      `json:"found"`    // objects that were missing and have arrived
	Missing    uint32      `json:"missing"`  // objects that are still missing
	Attempts   uint32      `json:"attempts"` // repository: rounds since its latest event
	Since      int64       `json:"since"`    // repository: when its search began; relay: when the connection was made
	Reason     string      `json:"reason"`   // the message of the server or the network
}

func (m *afterRequestForm) append(b []byte, now int64) []byte {
	return abi.AppendAfterRequest(b, filled(&abi.AfterRequest{Now: now}, m))
}

func (*afterRequestForm) answer() throttleWanted { return new(afterAnswerForm) }

// afterAnswerForm is the message AfterAnswer.
type afterAnswerForm struct {
	Delay  int64      `json:"delay"`   // from now: the earliest next attempt
	GiveUp bool       `json:"give_up"` // repository: end the search
	Health healthForm `json:"health"`  // of a domain or relay
	Reason string     `json:"reason"`  // for the operator, at most 256 bytes
}

func (m *afterAnswerForm) read(answer []byte) error {
	a, err := abi.DecodeAfterAnswer(answer)
	filled(m, &a)
	return err
}

func (m *afterAnswerForm) append(b []byte) []byte {
	return abi.AppendAfterAnswer(b, filled(new(abi.AfterAnswer), m))
}

// waitingForm is the message Waiting.
type waitingForm struct {
	Repository string `json:"repository"` // 30617:pubkey:d
	Since      int64  `json:"since"`      // when it came into this queue
	LastTried  int64  `json:"last_tried"` // the latest request for it to this domain; 0: none yet
	Attempts   uint32 `json:"attempts"`   // rounds since its latest event
	Missing    uint32 `json:"missing"`    // objects
	URLs       uint32 `json:"urls"`       // of this domain that are not tried yet
}

// waitingList are as many as a host tells of.
type waitingList []waitingForm

func (l *waitingList) UnmarshalJSON(b []byte) error {
	return checkMax(abi.MaxWaiting, "waiting", b, (*[]waitingForm)(l))
}

// pickRequestForm is the message PickRequest.
type pickRequestForm struct {
	Subject subjectForm `json:"subject"` // the domain
	Waiting waitingList `json:"waiting"` // at most 16, the one served longest ago first
}

func (m *pickRequestForm) append(b []byte, now int64) []byte {
	return abi.AppendPickRequest(b, filled(&abi.PickRequest{Now: now}, m))
}

// clientLimitsForm is the message ClientLimits.
type clientLimitsForm struct {
	Connections   uint32 `json:"connections"`   // from one address
	Subscriptions uint32 `json:"subscriptions"` // open on one connection
	Filters       uint32 `json:"filters"`       // of one subscription
	Events        uint32 `json:"events"`        // EVENT messages in a minute
	Queries       uint32 `json:"queries"`       // REQ, COUNT and NEG-OPEN in a minute
	BytesIn       int64  `json:"bytes_in"`      // in a second
	BytesOut      int64  `json:"bytes_out"`     // in a second
}

// telemetryForm is the message Telemetry.
type telemetryForm struct {
	Interval      int64   `json:"interval"`
	CPU           float64 `json:"cpu"`          // share of all processors, 0 to 1
	Memory        int64   `json:"memory"`       // bytes in use
	MemoryLimit   int64   `json:"memory_limit"` // bytes; 0: none
	Connections   uint32  `json:"connections"`
	Subscriptions uint32  `json:"subscriptions"`
	Events        float64 `json:"events"`    // in a second, from clients
	Queries       float64 `json:"queries"`   // in a second
	BytesIn       float64 `json:"bytes_in"`  // in a second
	BytesOut      float64 `json:"bytes_out"` // in a second
	Queue         uint32  `json:"queue"`     // events that wait to be decided or written
	QueueLimit    uint32  `json:"queue_limit"`
	AnswerTime    int64   `json:"answer_time"`  // from EVENT to OK, the 99th percentile, in microseconds
	SlowClients   uint32  `json:"slow_clients"` // clients that do not read fast enough
}

// tickRequestForm is the message TickRequest.
type tickRequestForm struct {
	Telemetry telemetryForm    `json:"telemetry"`
	Current   clientLimitsForm `json:"current"`
	Least     clientLimitsForm `json:"least"` // the operator's limits: the host keeps every answer within them
	Most      clientLimitsForm `json:"most"`
}

func (m *tickRequestForm) append(b []byte, now int64) []byte {
	return abi.AppendTickRequest(b, filled(&abi.TickRequest{Now: now}, m))
}
