package gitfetch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"talon/host/gitfetch/queue"
	"talon/sdk/abi"
)

// Question is a function of the throttle world.
type Question uint8

const (
	Delay Question = iota
	Admit
	After
	Pick
)

// Questions is the number of questions.
const Questions = int(Pick) + 1

func (q Question) String() string {
	return [Questions]string{"throttle_delay", "throttle_admit", "throttle_after", "throttle_pick"}[q]
}

// ErrNoModule says that there is no throttle module: the operator runs none.
var ErrNoModule = errors.New("no plugin is the throttle")

// Module is the throttle module. Its answer is valid until the next question. An
// error says that it has none, or did not do its part; ErrNoModule that it is not there.
type Module interface {
	Ask(ctx context.Context, q Question, request []byte, now int64) (answer []byte, err error)
}

// throttled asks a module, and answers itself where that fails: an answer that makes
// no sense is a failure. It belongs to the queue.
type throttled struct {
	ctx     context.Context
	module  Module
	careful queue.Careful
	request []byte
	failed  func(q Question)
	log     *slog.Logger
	said    time.Time // when a failure was logged last
	absent  bool      // there is no module, which was said
}

var _ queue.Throttle = (*throttled)(nil)

func (t *throttled) Delay(q *abi.DelayRequest) abi.DelayAnswer {
	t.request = abi.AppendDelayRequest(t.request[:0], q)
	return ask(t, Delay, q.Now, abi.DecodeDelayAnswer, func() abi.DelayAnswer { return t.careful.Delay(q) })
}

func (t *throttled) Admit(q *abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	t.request = abi.AppendThrottleAdmitRequest(t.request[:0], q)
	return ask(t, Admit, q.Now, abi.DecodeThrottleAdmitAnswer, func() abi.ThrottleAdmitAnswer { return t.careful.Admit(q) })
}

func (t *throttled) After(q *abi.AfterRequest) abi.AfterAnswer {
	t.request = abi.AppendAfterRequest(t.request[:0], q)
	return ask(t, After, q.Now, abi.DecodeAfterAnswer, func() abi.AfterAnswer { return t.careful.After(q) })
}

func (t *throttled) Pick(q *abi.PickRequest) abi.PickAnswer {
	t.request = abi.AppendPickRequest(t.request[:0], q)
	decode := func(b []byte) (abi.PickAnswer, error) { return abi.DecodePickAnswer(b, len(q.Waiting)) }
	return ask(t, Pick, q.Now, decode, func() abi.PickAnswer { return t.careful.Pick(q) })
}

func ask[A any](t *throttled, q Question, now int64, decode func([]byte) (A, error), careful func() A) A {
	if t.module == nil {
		return careful()
	}
	b, err := t.module.Ask(t.ctx, q, t.request, now/1000)
	if t.is(errors.Is(err, ErrNoModule)) {
		return careful()
	}
	if err == nil {
		var a A
		if a, err = decode(b); err == nil {
			return a
		}
	}
	t.failed(q)
	// One line a minute says it: a module that fails does so often.
	if at := time.UnixMilli(now); at.Sub(t.said) >= time.Minute || t.said.After(at) {
		t.said = at
		t.log.Warn("the throttle does not answer: being careful", "question", q, "err", err)
	}
	return careful()
}

// is says once that there is no module, and once that there is one again.
func (t *throttled) is(absent bool) bool {
	if absent != t.absent {
		t.absent = absent
		if absent {
			t.log.Warn("no plugin says how hard to press on git servers: being careful")
		} else {
			t.log.Info("a plugin says how hard to press on git servers")
		}
	}
	return absent
}
