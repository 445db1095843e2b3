package engine

import (
	"context"

	"talon/host/plugin/guest"
	"talon/host/throttle"
)

// strategy is the module as the loop calls it.
type strategy struct {
	t        *talon
	instance Instance
	fresh    bool
}

func (s *strategy) Call(request []byte, now int64) (answer []byte, fresh bool, err error) {
	t := s.t
	if s.instance == nil {
		if s.instance, err = t.e.cfg.Strategy.New(t.e.ctx); err != nil {
			t.e.watch.failed(t, err)
			return nil, false, err
		}
		s.fresh = true
	}
	if fresh, s.fresh = s.fresh, false; fresh {
		request = t.loop.Init()
	}
	if request == nil {
		return nil, fresh, nil
	}
	t.e.watch.step(t)
	answer, err = t.use[0].call(t.e.ctx, s.instance, guest.Step, request, now)
	if err != nil {
		s.close()
		t.e.watch.failed(t, err)
	} else if record := t.e.cfg.Record; record != nil {
		record(t.Number, request, answer)
	}
	return answer, fresh, err
}

func (s *strategy) close() {
	if s.instance != nil {
		s.instance.Close()
		s.instance = nil
	}
}

// throttleModule is the throttle module as a talon asks it.
type throttleModule struct{ t *talon }

func (m throttleModule) Ask(ctx context.Context, q throttle.Function, request []byte, now int64) ([]byte, error) {
	t := m.t
	if t.e.cfg.Throttle == nil {
		return nil, throttle.ErrNoModule
	}
	f := [throttle.Questions]guest.Func{
		throttle.Delay: guest.ThrottleDelay, throttle.Admit: guest.ThrottleAdmit, throttle.After: guest.ThrottleAfter, throttle.Pick: guest.ThrottlePick,
	}[q]
	if t.throttle == nil {
		var err error
		if t.throttle, err = t.e.cfg.Throttle.New(ctx); err != nil {
			t.e.watch.failed(t, err)
			return nil, err
		}
	}
	answer, err := t.use[1].call(ctx, t.throttle, f, request, now)
	if err != nil {
		t.throttle.Close()
		t.throttle = nil
		t.e.watch.failed(t, err)
	}
	return answer, err
}
