package queue

import "talon/sdk/abi"

// Throttle says when and how much. It always has an answer: what to do without a
// module is for who made it, [Careful] for one.
type Throttle interface {
	Delay(*abi.DelayRequest) abi.DelayAnswer
	Admit(*abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer
	After(*abi.AfterRequest) abi.AfterAnswer
	Pick(*abi.PickRequest) abi.PickAnswer
}

// Lengths of time.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
)

// Clamps are the operator's: they hold whatever a throttle says.
type Clamps struct {
	All       int // requests at once, to everybody
	AtOnce    int // to one domain
	PerMinute int // to one domain, in any minute; at most 256

	Rounds       int // at once
	URLs         int // of one round
	Repositories int
	Domains      int // that are remembered

	Patience     int64 // a request that takes longer makes way for others that wait for a place
	LeastBackoff int64 // between two rounds
	MostBackoff  int64
	MostDelay    int64 // to the first round
	MostRest     int64 // of a domain
	Expiry       int64 // of a search, where the throttle names none
	MostExpiry   int64
}

// DefaultClamps are those of an operator who sets none.
var DefaultClamps = Clamps{
	All: 32, AtOnce: 16, PerMinute: 120,
	Rounds: 256, URLs: 64, Repositories: 50_000, Domains: 5_000,
	Patience: 3 * minute, LeastBackoff: second, MostBackoff: hour, MostDelay: hour, MostRest: 24 * hour, Expiry: 30 * minute, MostExpiry: 24 * hour,
}

// idle is how long a domain without any request is left alone if the throttle wants
// to be asked after one has ended.
const idle = minute

// Careful is what is done where no module answers: the slowest of what the bundled
// ones do.
type Careful struct{}

func (Careful) Delay(q *abi.DelayRequest) abi.DelayAnswer {
	if q.Origin == abi.OriginClient {
		return abi.DelayAnswer{Delay: 3 * minute}
	}
	return abi.DelayAnswer{Delay: 5 * second}
}

func (Careful) Admit(q *abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	const perMinute = 10
	if q.Subject.InFlight > 0 {
		return abi.ThrottleAdmitAnswer{}
	}
	if ages := q.Subject.Ages; len(ages) >= perMinute && int64(ages[perMinute-1]) < minute+second {
		return abi.ThrottleAdmitAnswer{Wait: minute + second - int64(ages[perMinute-1])}
	}
	return abi.ThrottleAdmitAnswer{Start: true}
}

func (Careful) After(q *abi.AfterRequest) abi.AfterAnswer {
	switch {
	case q.Subject.Kind == abi.SubjectRepository:
		return abi.AfterAnswer{Delay: 2 * minute}
	case answered(q.Outcome):
		return abi.AfterAnswer{Health: abi.HealthHealthy}
	}
	return abi.AfterAnswer{Delay: max(min(q.RetryAfter, hour), 2*minute), Health: abi.HealthDegraded}
}

func (Careful) Pick(*abi.PickRequest) abi.PickAnswer { return abi.PickAnswer{} }

// answered reports whether a server did its part, though it may not have had what
// was asked for.
func answered(outcome uint32) bool {
	return outcome == abi.OutcomeOK || outcome == abi.OutcomePartial || outcome == abi.OutcomeNotFound
}
