package gitfetch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"talon/host/gitfetch/queue"
)

// Disk keeps records of domains by their names; a nil one is forgotten. Save is
// durable when it returns nil.
type Disk interface {
	Load(ctx context.Context) (map[string][]byte, error)
	Save(ctx context.Context, domains map[string][]byte) error
}

// noDisk keeps nothing.
type noDisk struct{}

func (noDisk) Load(context.Context) (map[string][]byte, error) { return nil, nil }
func (noDisk) Save(context.Context, map[string][]byte) error   { return nil }

// saveEvery is how long what became known of domains may wait to be kept, in
// milliseconds. That a request begins is kept before.
const saveEvery = int64(time.Second / time.Millisecond)

// recall tells the queue what was known of domains before.
func (h *Hunter) recall(ctx context.Context) error {
	texts, err := h.cfg.Disk.Load(ctx)
	if err != nil {
		return fmt.Errorf("read what is known of domains: %w", err)
	}
	known, gone := make(map[string]*queue.Record, len(texts)), make(map[string]*queue.Record)
	for name, text := range texts {
		r := new(queue.Record)
		if err := json.Unmarshal(text, r); err != nil {
			h.log.Warn("what was known of a domain cannot be read", "domain", name, "err", err)
			gone[name] = nil
			continue
		}
		known[name] = r
	}
	h.mu.Lock()
	old := h.queue.Remember(h.now(), known)
	h.mu.Unlock()
	for _, name := range old {
		gone[name] = nil
	}
	h.keep(ctx, gone)
	return nil
}

// news returns what has become known of domains, if it is time to keep it: always
// before a request begins. REQUIRES: mu.
func (h *Hunter) news(now int64, work []queue.Work) map[string]*queue.Record {
	begins := false
	for i := range work {
		begins = begins || work[i].Do == queue.Fetch
	}
	if !h.queue.HasChanged() || !begins && now-h.saved < saveEvery && now >= h.saved {
		return nil
	}
	h.saved = now
	return h.queue.Changed()
}

// keep writes what has become known of domains. What could not be written is tried
// again, and nobody waits for it: a full disk does not end the hunt. It reports
// whether nothing is left to be tried.
func (h *Hunter) keep(ctx context.Context, news map[string]*queue.Record) bool {
	if len(news) == 0 {
		return true
	}
	texts := make(map[string][]byte, len(news))
	for name, r := range news {
		texts[name] = nil
		if r != nil {
			texts[name], _ = json.Marshal(r) // of numbers and a text: it cannot fail
		}
	}
	err := h.cfg.Disk.Save(context.WithoutCancel(ctx), texts)
	if err == nil {
		return true
	}
	if now := h.cfg.Now(); now.Sub(h.complained).Abs() >= time.Minute {
		h.complained = now
		h.log.Error("keep what is known of domains", "err", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range news {
		h.queue.NotKept(name)
	}
	return false
}
