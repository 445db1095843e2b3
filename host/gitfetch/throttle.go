package gitfetch

import (
	"talon/host/gitfetch/queue"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// NewThrottle returns the throttle of a queue that asks a module, and is careful where
// that does not answer.
func NewThrottle(c *throttle.Client) queue.Throttle { return &throttled{client: c} }

type throttled struct {
	client  *throttle.Client
	careful queue.Careful
}

func (t *throttled) Delay(q *abi.DelayRequest) abi.DelayAnswer {
	return t.client.Delay(q, func() abi.DelayAnswer { return t.careful.Delay(q) })
}

func (t *throttled) Admit(q *abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	return t.client.Admit(q, func() abi.ThrottleAdmitAnswer { return t.careful.Admit(q) })
}

func (t *throttled) After(q *abi.AfterRequest) abi.AfterAnswer {
	return t.client.After(q, func() abi.AfterAnswer { return t.careful.After(q) })
}

func (t *throttled) Pick(q *abi.PickRequest) abi.PickAnswer {
	return t.client.Pick(q, func() abi.PickAnswer { return t.careful.Pick(q) })
}
