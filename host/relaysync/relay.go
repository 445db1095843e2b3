package relaysync

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"talon/sdk/abi"
)

// relay is what the loop knows of a relay.
type relay struct {
	url       string
	bootstrap bool
	wanted    bool
	priority  uint32
	reason    string

	conn     *conn // nil: nothing is under way
	up       bool
	retry    time.Time // not before
	standing Standing

	caps           abi.Capabilities
	informed       time.Time // when its NIP-11 document was read
	lastConnected  int64     // unix milliseconds
	disconnectedAt int64

	subs  map[string]*subRecord
	hists map[string]*histRecord
}

// subRecord is a subscription as far as the loop needs to know.
type subRecord struct {
	serial  uint64       // tells it from another with the same id
	filters []abi.Filter // only small ones
	live    bool
	eose    bool
	purpose uint32
}

type histRecord struct {
	serial  uint64
	filter  abi.Filter // only a small one
	method  uint32
	purpose uint32
}

// kept reports whether the host keeps the connection up.
func (r *relay) kept() bool { return r.wanted || r.bootstrap }

// get returns the record of a relay, a new one if there is none, nil if there are too
// many.
func (s *Sync) get(url string) *relay {
	if r := s.relays[url]; r != nil {
		return r
	}
	if len(s.relays) >= s.cfg.Limits.Relays && !s.makeRoom() {
		return nil
	}
	r := &relay{url: url, subs: map[string]*subRecord{}, hists: map[string]*histRecord{}}
	s.relays[url] = r
	return r
}

// makeRoom forgets the relay that nobody wants and that was not connected to for
// longest.
func (s *Sync) makeRoom() bool {
	var oldest *relay
	for _, r := range s.relays {
		if !r.kept() && r.conn == nil && (oldest == nil || r.lastConnected < oldest.lastConnected) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.relays, oldest.url)
	s.changed[oldest.url] = true
	s.metrics.forget(oldest.url)
	return true
}

// connectAll begins attempts where they are due and the limits allow: bootstrap relays
// first, then by priority, then those that failed least.
func (s *Sync) connectAll() {
	now := s.cfg.Now()
	used, dialing, tracked, dead, up := 0, 0, 0, 0, 0
	var due []*relay
	for _, r := range s.relays {
		switch {
		case r.conn != nil:
			used++
			if !r.up {
				dialing++
			}
		case r.kept() && !now.Before(r.retry):
			due = append(due, r)
		}
		if r.kept() {
			tracked++
		}
		if r.up {
			up++
		}
		if r.standing.Status == StatusDead {
			dead++
		}
	}
	s.metrics.tracked.Set(float64(tracked))
	s.metrics.dead.Set(float64(dead))
	s.metrics.up.Set(float64(up))
	slices.SortFunc(due, func(a, b *relay) int {
		switch {
		case a.bootstrap != b.bootstrap:
			return boolOrder(a.bootstrap)
		case a.priority != b.priority:
			return boolOrder(a.priority > b.priority)
		case a.standing.Failures != b.standing.Failures:
			return boolOrder(a.standing.Failures < b.standing.Failures)
		case a.url != b.url:
			return boolOrder(a.url < b.url)
		}
		return 0
	})
	for _, r := range due {
		if used >= s.cfg.Limits.Connections || dialing >= s.cfg.Limits.Dials {
			return
		}
		if wait := s.deps.Health.May(r.url, now); wait > 0 {
			r.retry = now.Add(wait)
			continue
		}
		used++
		dialing++
		s.dial(r, now)
	}
}

func boolOrder(first bool) int {
	if first {
		return -1
	}
	return 1
}

// informedFor is how long what a relay says of itself counts.
const informedFor = 6 * time.Hour

func (s *Sync) dial(r *relay, now time.Time) {
	knows := !r.informed.IsZero() && now.Sub(r.informed) < informedFor
	if !knows && r.caps.Negentropy == abi.SupportNo {
		r.caps.Negentropy = abi.SupportUnknown // it may have learnt
	}
	c := newConn(s.ctx, s.env, r.url, r.caps, knows)
	r.conn = c
	s.env.helpers.Go(c.run)
}

// isUp takes the news that a relay is connected.
func (s *Sync) isUp(r *relay, up *upReport) {
	now := s.cfg.Now()
	r.up = true
	r.caps = up.caps
	if up.info && (r.informed.IsZero() || now.Sub(r.informed) >= informedFor) {
		r.informed = now
	}
	r.standing = s.deps.Health.After(r.url, Ending{Outcome: OutcomeOK, Took: up.took}, now)
	s.metrics.attempted(r.url, true)
	s.metrics.stands(r.url, r.standing)
	s.metrics.isConnected(r.url, true)
	s.cfg.Log.Info("connected to a relay", "relay", r.url)
	last, at := r.lastConnected, r.disconnectedAt
	r.lastConnected = s.clock
	s.changed[r.url] = true
	s.step(&abi.RelayConnected{Relay: r.url, Capabilities: r.caps, LastConnected: last, DisconnectedAt: at})
}

// isDown takes the news that a connection ended, or could not be made.
func (s *Sync) isDown(c *conn, down *downReport) {
	r := s.relays[c.url]
	if r == nil || r.conn != c {
		return
	}
	wasUp := r.up
	r.conn, r.up = nil, false
	clear(r.subs)
	clear(r.hists)
	if wasUp {
		r.disconnectedAt = s.clock
		s.changed[r.url] = true
		s.metrics.isConnected(r.url, false)
	}
	if s.ctx.Err() != nil {
		return // we ended it
	}
	now := s.cfg.Now()
	before := r.standing.Status
	e := down.ending
	r.standing = s.deps.Health.After(r.url, e, now)
	r.retry = now.Add(max(r.standing.Wait, leastWait))
	s.metrics.stands(r.url, r.standing)
	if !wasUp {
		s.metrics.attempted(r.url, false)
		s.cfg.Log.Warn("could not connect to a relay", "relay", r.url, "attempt", r.standing.Failures, "again_in", r.standing.Wait, "err", e.Reason)
	} else {
		s.cfg.Log.Info("a relay's connection ended", "relay", r.url, "reason", e.Reason, "again_in", r.standing.Wait)
	}
	if r.standing.Status == StatusDead && before != StatusDead {
		s.cfg.Log.Error("a relay is dead", "relay", r.url, "failures", r.standing.Failures, "failing_for", r.standing.Failing, "again_in", r.standing.Wait)
	}
	retryAt := int64(0)
	if r.kept() {
		retryAt = r.retry.UnixMilli()
	}
	s.step(&abi.RelayDisconnected{
		Relay: r.url, Class: down.class, Reason: e.Reason, Connected: wasUp, Failures: uint32(max(0, r.standing.Failures)), RetryAt: retryAt,
	})
}

// leastWait is between two attempts, whatever the throttle says.
const leastWait = 250 * time.Millisecond

// hangUp ends a relay's connection because the strategy asked for it.
func (s *Sync) hangUp(r *relay) {
	c := r.conn
	if c == nil {
		return
	}
	wasUp := r.up
	// What it still reports finds that the relay has no such connection.
	r.conn, r.up = nil, false
	r.retry = s.cfg.Now().Add(leastWait)
	clear(r.subs)
	clear(r.hists)
	c.cancel()
	s.deps.Health.Left(r.url)
	if wasUp {
		r.disconnectedAt = s.clock
		s.changed[r.url] = true
		s.metrics.isConnected(r.url, false)
		s.cfg.Log.Info("a relay is not needed any more", "relay", r.url)
	}
}

// record is what is kept of a relay across restarts.
type record struct {
	LastConnected  int64  `json:"last_connected,omitempty"`
	DisconnectedAt int64  `json:"disconnected_at,omitempty"`
	Negentropy     uint32 `json:"negentropy,omitempty"`
}

func (s *Sync) load(ctx context.Context) error {
	if s.deps.Memory == nil {
		return nil
	}
	all, err := s.deps.Memory.Load(ctx)
	if err != nil {
		return err
	}
	for url, text := range all {
		var rec record
		if u, ok := Normalise(url); !ok || u != url || s.own.has(u) || json.Unmarshal(text, &rec) != nil {
			continue
		}
		if r := s.get(url); r != nil {
			// Times ahead of us are from a clock that was wrong.
			r.lastConnected = min(rec.LastConnected, s.clock)
			r.disconnectedAt = min(rec.DisconnectedAt, s.clock)
			if rec.Negentropy == abi.SupportYes {
				r.caps.Negentropy = abi.SupportYes
			}
		}
	}
	return nil
}

// toSave takes what is to be saved. A relay that is connected was seen just now: after
// a crash that is when it was lost.
func (s *Sync) toSave() map[string][]byte {
	out := make(map[string][]byte)
	for url, r := range s.relays {
		if !s.changed[url] && !r.up {
			continue
		}
		rec := record{LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt, Negentropy: r.caps.Negentropy}
		if r.up {
			rec.DisconnectedAt = s.clock
		}
		if text, err := json.Marshal(rec); err == nil {
			out[url] = text
		}
	}
	for url := range s.changed {
		if s.relays[url] == nil {
			out[url] = nil
		}
	}
	clear(s.changed)
	return out
}

func (s *Sync) saveSoon() {
	if s.deps.Memory == nil {
		return
	}
	relays := s.toSave()
	if len(relays) == 0 {
		return
	}
	done := make(chan error, 1)
	s.saving = done
	ctx := context.WithoutCancel(s.ctx)
	s.env.helpers.Go(func() { done <- s.deps.Memory.Save(ctx, relays) })
}

// save saves at the end.
func (s *Sync) save(ctx context.Context) {
	if s.deps.Memory == nil {
		return
	}
	if err := s.deps.Memory.Save(ctx, s.toSave()); err != nil {
		s.cfg.Log.Error("save what is known of relays", "err", err)
	}
}
