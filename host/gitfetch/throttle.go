package gitfetch

import (
	"context"
	"time"

	"talon/host/gitfetch/queue"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// NewThrottle returns the throttle of a queue that asks a module, and is careful where
// that does not answer.
func NewThrottle(c *throttle.Client) queue.Throttle { return &throttled{client: c} }

type throttled struct {
	client         *throttle.Client
	defaultBackoff queue.DefaultBackoff
}

func (t *throttled) Delay(q *abi.DelayRequest) abi.DelayAnswer {
	return t.client.Delay(q, func() abi.DelayAnswer { return t.defaultBackoff.Delay(q) })
}

func (t *throttled) Admit(q *abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	return t.client.Admit(q, func() abi.ThrottleAdmitAnswer { return t.defaultBackoff.Admit(q) })
}

func (t *throttled) After(q *abi.AfterRequest) abi.AfterAnswer {
	return t.client.After(q, func() abi.AfterAnswer { return t.defaultBackoff.After(q) })
}

func (t *throttled) Pick(q *abi.PickRequest) abi.PickAnswer {
	return t.client.Pick(q, func() abi.PickAnswer { return t.defaultBackoff.Pick(q) })
}

// noDisk keeps nothing.
type noDisk struct{}

func (noDisk) Load(context.Context) (map[string][]byte, error) { return nil, nil }

func (noDisk) Save(context.Context, map[string][]byte) error { return nil }

// saveEvery is how long new knowledge of domains may wait for the disk, in milliseconds. The
// start of a request does not wait.
const saveEvery = int64(time.Second / time.Millisecond)

// restoreRecords tells the queue what was known of domains before.
func (h *Hunter) restoreRecords(ctx context.Context) error {
	known, damaged, err := throttle.Load[queue.Record](ctx, h.cfg.Disk, h.log)
	if err != nil {
		return err
	}
	h.mu.Lock()
	old := h.queue.Restore(h.now(), known)
	h.mu.Unlock()
	gone := make(map[string]*queue.Record)
	for _, name := range append(old, damaged...) {
		gone[name] = nil
	}
	h.keep(ctx, gone)
	return nil
}

// changedRecords returns what has become known of domains, if it is time to keep it: always
// before a request begins. REQUIRES: mu.
func (h *Hunter) changedRecords(now int64, work []queue.Work) map[string]*queue.Record {
	begins := false
	for i := range work {
		begins = begins || work[i].Kind == queue.Fetch
	}
	if !h.queue.HasChanged() || !begins && now-h.saved < saveEvery && now >= h.saved {
		return nil
	}
	h.saved = now
	return h.queue.Changed()
}

// keep writes new knowledge of domains. The hunter tries failed writes again, and nothing waits
// for them: a full disk does not end the hunt. It reports whether all were written.
func (h *Hunter) keep(ctx context.Context, records map[string]*queue.Record) bool {
	if len(records) == 0 {
		return true
	}
	err := throttle.Save(context.WithoutCancel(ctx), h.cfg.Disk, records)
	if err == nil {
		return true
	}
	if now := h.cfg.Now(); now.Sub(h.complained).Abs() >= time.Minute {
		h.complained = now
		h.log.Error("keep what is known of domains", "err", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range records {
		h.queue.NotKept(name)
	}
	return false
}
