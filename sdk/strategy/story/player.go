package story

import (
	"errors"
	"fmt"

	"talon/sdk/abi"
)

// Start is the time at the beginning of a story, in unix milliseconds.
const Start int64 = 1_700_000_000_000

// Limits are the limits of a host, unless a story sets others.
var Limits = abi.StepLimits{
	Connections: 100, Subscriptions: 70, Filters: 10, Values: 200, Historics: 10, Timers: 1000, Actions: 1000,
	Bytes: 256 << 10,
}

// Step answers an encoded StepRequest with encoded StepActions, which are valid until
// the next call.
type Step func(request []byte) ([]byte, error)

// Player gives inputs to a strategy, keeps its timers, and checks its answers as a host does.
type Player struct {
	Now int64 // unix milliseconds

	step   Step
	limits abi.StepLimits
	timers map[string]int64
}

// NewPlayer returns a player of a configured strategy.
func NewPlayer(step Step) *Player {
	return &Player{Now: Start, step: step, limits: Limits, timers: make(map[string]int64)}
}

// Step gives the strategy an input and returns its actions. An init without limits gets [Limits].
func (p *Player) Step(input abi.Input) ([]abi.StepAction, error) {
	if init, ok := input.(*abi.StepInit); ok && init.Part == 0 {
		if init.Limits == (abi.StepLimits{}) {
			init.Limits = Limits
		}
		p.limits = init.Limits
		clear(p.timers)
	}
	b, err := p.step(abi.AppendStep(nil, p.Now, input))
	if err != nil {
		return nil, fmt.Errorf("ask the strategy: %w", err)
	}
	if limit := p.limits.Bytes; limit > 0 && len(b) > int(limit) {
		return nil, fmt.Errorf("the answer has %d bytes; the limit is %d", len(b), limit)
	}
	actions, err := abi.DecodeActions(b, abi.ActionLimits{
		Actions: int(p.limits.Actions), Filters: int(p.limits.Filters), Values: int(p.limits.Values), AllValues: 1 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("a host refuses the answer: %w", err)
	}
	for _, a := range actions {
		switch {
		case a.Do != abi.DoSetTimer:
		case a.At == 0:
			delete(p.timers, a.ID)
		default:
			p.timers[a.ID] = a.At
		}
	}
	if len(p.timers) > int(p.limits.Timers) {
		return nil, fmt.Errorf("%d timers are set; the limit is %d", len(p.timers), p.limits.Timers)
	}
	return actions, nil
}

// Pass lets time pass. When a timer fires, it calls then with the actions and with the time before.
// More timers than limit are an error with the text tooMany.
func (p *Player) Pass(millis int64, limit int, tooMany string, then func(before int64, actions []abi.StepAction)) error {
	end := p.Now + millis
	for fired := 0; ; fired++ {
		id, at, due := p.next(end)
		if !due {
			break
		}
		if fired > limit {
			return errors.New(tooMany)
		}
		delete(p.timers, id)
		before := p.Now
		p.Now = max(before, at)
		actions, err := p.Step(&abi.TimerFired{ID: id, At: at})
		if err != nil {
			return err
		}
		then(before, actions)
	}
	p.Now = end
	return nil
}

// next returns the timer that is due first, until end.
func (p *Player) next(end int64) (id string, at int64, due bool) {
	for i, t := range p.timers {
		if t <= end && (!due || t < at || t == at && i < id) {
			id, at, due = i, t, true
		}
	}
	return id, at, due
}
