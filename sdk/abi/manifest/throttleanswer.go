package manifest

import "talon/sdk/abi"

// delayWanted is the message DelayAnswer, and so on.
type delayWanted struct {
	Delay  int64 `json:"delay"`
	Expiry int64 `json:"expiry"`
}

func (*delayAsked) answer() throttleWanted { return new(delayWanted) }

func (w *delayWanted) read(answer []byte) error {
	a, err := abi.DecodeDelayAnswer(answer)
	*w = delayWanted(a)
	return err
}

func (w *delayWanted) append(b []byte) []byte {
	return abi.AppendDelayAnswer(b, (*abi.DelayAnswer)(w))
}

type admitWanted struct {
	Start bool  `json:"start"`
	Wait  int64 `json:"wait"`
}

func (*admitAsked) answer() throttleWanted { return new(admitWanted) }

func (w *admitWanted) read(answer []byte) error {
	a, err := abi.DecodeThrottleAdmitAnswer(answer)
	*w = admitWanted(a)
	return err
}

func (w *admitWanted) append(b []byte) []byte {
	return abi.AppendThrottleAdmitAnswer(b, (*abi.ThrottleAdmitAnswer)(w))
}

type afterWanted struct {
	Delay  int64  `json:"delay"`
	GiveUp bool   `json:"give_up"`
	Health health `json:"health"`
	Reason string `json:"reason"`
}

func (*afterAsked) answer() throttleWanted { return new(afterWanted) }

func (w *afterWanted) read(answer []byte) error {
	a, err := abi.DecodeAfterAnswer(answer)
	*w = afterWanted{a.Delay, a.GiveUp, health(a.Health), a.Reason}
	return err
}

func (w *afterWanted) append(b []byte) []byte {
	return abi.AppendAfterAnswer(b, &abi.AfterAnswer{Delay: w.Delay, GiveUp: w.GiveUp, Health: uint32(w.Health), Reason: w.Reason})
}

type pickWanted struct {
	Index uint32 `json:"index"`
	None  bool   `json:"none"`

	waiting int // repositories of the request
}

func (q *pickAsked) answer() throttleWanted { return &pickWanted{waiting: len(q.Waiting)} }

func (w *pickWanted) read(answer []byte) error {
	a, err := abi.DecodePickAnswer(answer, w.waiting)
	w.Index, w.None = a.Index, a.None
	return err
}

func (w *pickWanted) append(b []byte) []byte {
	return abi.AppendPickAnswer(b, &abi.PickAnswer{Index: w.Index, None: w.None})
}

// tickWanted has no limits where the answer leaves them as they are.
type tickWanted struct {
	Limits *clientLimits `json:"limits"`
}

func (*tickAsked) answer() throttleWanted { return new(tickWanted) }

func (w *tickWanted) read(answer []byte) error {
	a, err := abi.DecodeTickAnswer(answer)
	if w.Limits = nil; a.Set {
		w.Limits = (*clientLimits)(&a.Limits)
	}
	return err
}

func (w *tickWanted) append(b []byte) []byte {
	if w.Limits == nil {
		return b
	}
	return abi.AppendTickAnswer(b, &abi.TickAnswer{Set: true, Limits: abi.ClientLimits(*w.Limits)})
}
