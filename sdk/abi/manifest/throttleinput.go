package manifest

import (
	"fmt"

	"talon/sdk/abi"
)

// vectorSubject is the message Subject.
type vectorSubject struct {
	Kind         subjectKind `json:"kind"`
	Name         string      `json:"name"`
	InFlight     uint32      `json:"in_flight"`
	Ages         ages        `json:"ages"` // milliseconds, newest first
	Failures     uint32      `json:"failures"`
	FailingSince int64       `json:"failing_since"`
	LastSuccess  int64       `json:"last_success"`
	NotBefore    int64       `json:"not_before"`
	Health       health      `json:"health"`
}

func (s *vectorSubject) encoded() abi.Subject {
	return abi.Subject{
		Kind: uint32(s.Kind), Name: s.Name, InFlight: s.InFlight, Ages: s.Ages, Failures: s.Failures, FailingSince: s.FailingSince,
		LastSuccess: s.LastSuccess, NotBefore: s.NotBefore, Health: uint32(s.Health),
	}
}

// ages are as many as a host tells of.
type ages []uint32

func (a *ages) UnmarshalJSON(b []byte) error { return atMost(abi.MaxAges, "ages", b, (*[]uint32)(a)) }

// atMost reads a list that a host cuts.
func atMost[E any](n int, name string, b []byte, list *[]E) error {
	if err := strictly(b, list); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(*list) > n {
		return fmt.Errorf("%s has %d entries; a host tells of %d", name, len(*list), n)
	}
	return nil
}

// delayAsked is the message DelayRequest. So are the others, and all leave out now,
// which is that of the vector.
type delayAsked struct {
	Subject   vectorSubject `json:"subject"`
	Origin    eventOrigin   `json:"origin"`
	EventKind uint32        `json:"event_kind"`
	Planned   int64         `json:"planned"`
}

func (q *delayAsked) append(b []byte, now int64) []byte {
	return abi.AppendDelayRequest(b, &abi.DelayRequest{
		Now: now, Subject: q.Subject.encoded(), Origin: uint32(q.Origin), EventKind: q.EventKind, Planned: q.Planned,
	})
}

type admitAsked struct {
	Subject     vectorSubject `json:"subject"`
	Repository  string        `json:"repository"`
	AllInFlight uint32        `json:"all_in_flight"`
}

func (q *admitAsked) append(b []byte, now int64) []byte {
	return abi.AppendThrottleAdmitRequest(b, &abi.ThrottleAdmitRequest{
		Now: now, Subject: q.Subject.encoded(), Repository: q.Repository, AllInFlight: q.AllInFlight,
	})
}

type afterAsked struct {
	Subject    vectorSubject `json:"subject"`
	Outcome    outcome       `json:"outcome"`
	Repository string        `json:"repository"`
	Status     uint32        `json:"status"`
	RetryAfter int64         `json:"retry_after"`
	Took       int64         `json:"took"`
	Bytes      int64         `json:"bytes"`
	Found      uint32        `json:"found"`
	Missing    uint32        `json:"missing"`
	Attempts   uint32        `json:"attempts"`
	Since      int64         `json:"since"`
	Reason     string        `json:"reason"`
}

func (q *afterAsked) append(b []byte, now int64) []byte {
	return abi.AppendAfterRequest(b, &abi.AfterRequest{
		Now: now, Subject: q.Subject.encoded(), Outcome: uint32(q.Outcome), Repository: q.Repository, Status: q.Status,
		RetryAfter: q.RetryAfter, Took: q.Took, Bytes: q.Bytes, Found: q.Found, Missing: q.Missing, Attempts: q.Attempts,
		Since: q.Since, Reason: q.Reason,
	})
}

type pickAsked struct {
	Subject vectorSubject `json:"subject"`
	Waiting waiting       `json:"waiting"`
}

// waiting are as many as a host tells of.
type waiting []vectorWaiting

type vectorWaiting struct {
	Repository string `json:"repository"`
	Since      int64  `json:"since"`
	LastTried  int64  `json:"last_tried"`
	Attempts   uint32 `json:"attempts"`
	Missing    uint32 `json:"missing"`
	URLs       uint32 `json:"urls"`
}

func (w *waiting) UnmarshalJSON(b []byte) error {
	return atMost(abi.MaxWaiting, "waiting", b, (*[]vectorWaiting)(w))
}

func (q *pickAsked) append(b []byte, now int64) []byte {
	request := abi.PickRequest{Now: now, Subject: q.Subject.encoded()}
	for _, w := range q.Waiting {
		request.Waiting = append(request.Waiting, abi.Waiting(w))
	}
	return abi.AppendPickRequest(b, &request)
}

type tickAsked struct {
	Telemetry telemetry    `json:"telemetry"`
	Current   clientLimits `json:"current"`
	Least     clientLimits `json:"least"`
	Most      clientLimits `json:"most"`
}

type telemetry struct {
	Interval      int64   `json:"interval"`
	CPU           float64 `json:"cpu"`
	Memory        int64   `json:"memory"`
	MemoryLimit   int64   `json:"memory_limit"`
	Connections   uint32  `json:"connections"`
	Subscriptions uint32  `json:"subscriptions"`
	Events        float64 `json:"events"`
	Queries       float64 `json:"queries"`
	BytesIn       float64 `json:"bytes_in"`
	BytesOut      float64 `json:"bytes_out"`
	Queue         uint32  `json:"queue"`
	QueueLimit    uint32  `json:"queue_limit"`
	AnswerTime    int64   `json:"answer_time"`
	SlowClients   uint32  `json:"slow_clients"`
}

type clientLimits struct {
	Connections   uint32 `json:"connections"`
	Subscriptions uint32 `json:"subscriptions"`
	Filters       uint32 `json:"filters"`
	Events        uint32 `json:"events"`
	Queries       uint32 `json:"queries"`
	BytesIn       int64  `json:"bytes_in"`
	BytesOut      int64  `json:"bytes_out"`
}

func (q *tickAsked) append(b []byte, now int64) []byte {
	return abi.AppendTickRequest(b, &abi.TickRequest{
		Now: now, Telemetry: abi.Telemetry(q.Telemetry), Current: abi.ClientLimits(q.Current), Least: abi.ClientLimits(q.Least),
		Most: abi.ClientLimits(q.Most),
	})
}
