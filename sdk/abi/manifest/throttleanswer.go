package manifest

import "talon/sdk/abi"

// pickWanted is the message PickAnswer.
type pickWanted struct {
	Index uint32 `json:"index"`
	None  bool   `json:"none"`

	waiting int // repositories of the request
}

func (q *pickRequestForm) answer() throttleWanted { return &pickWanted{waiting: len(q.Waiting)} }

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
	Limits *clientLimitsForm `json:"limits"`
}

func (*tickRequestForm) answer() throttleWanted { return new(tickWanted) }

func (w *tickWanted) read(answer []byte) error {
	a, err := abi.DecodeTickAnswer(answer)
	if w.Limits = nil; a.Set {
		w.Limits = (*clientLimitsForm)(&a.Limits)
	}
	return err
}

func (w *tickWanted) append(b []byte) []byte {
	if w.Limits == nil {
		return b
	}
	return abi.AppendTickAnswer(b, &abi.TickAnswer{Set: true, Limits: w.Limits.encoded()})
}
