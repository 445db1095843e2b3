package loop

import (
	"encoding/json"

	"talon/sdk/abi"
)

// record is what is kept of a relay across restarts.
type record struct {
	LastConnected  int64  `json:"last_connected,omitempty"`
	DisconnectedAt int64  `json:"disconnected_at,omitempty"`
	Negentropy     uint32 `json:"negentropy,omitempty"`
	Learnt         learnt `json:"learnt,omitzero"`
}

// load takes the records that were kept.
func (s *Loop) load(all map[string][]byte) {
	for _, url := range sortedKeys(all) {
		var rec record
		if u, ok := Normalise(url); !ok || u != url || s.own.has(u) || json.Unmarshal(all[url], &rec) != nil {
			continue
		}
		r := s.relay(url)
		if r == nil {
			continue
		}
		// Times ahead of us are from a clock that was wrong.
		r.lastConnected = min(rec.LastConnected, s.clock)
		r.disconnectedAt = min(rec.DisconnectedAt, s.clock)
		if rec.Negentropy == abi.SupportYes {
			r.caps.Negentropy = abi.SupportYes
		}
		r.learnt = rec.Learnt
		r.learnt.At = min(r.learnt.At, s.clock)
		r.learnt.merge(&r.caps)
	}
}

// Records returns what is to be kept of relays and was not saved. A relay that is
// connected was seen just now: after a crash that is when it was lost.
func (s *Loop) Records(now int64) map[string][]byte {
	s.tick(now)
	out := make(map[string][]byte)
	for url, r := range s.relays {
		if !s.changed[url] && !r.up {
			continue
		}
		rec := record{LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt, Negentropy: r.caps.Negentropy, Learnt: r.learnt}
		if r.up {
			rec.DisconnectedAt = s.clock
		}
		out[url], _ = json.Marshal(rec) // of numbers and texts: it cannot fail
	}
	for url := range s.changed {
		if s.relays[url] == nil {
			out[url] = nil
		}
	}
	clear(s.changed)
	return out
}

// save keeps what has changed.
func (s *Loop) save() {
	if records := s.Records(s.clock); len(records) > 0 {
		s.saving = true
		s.do(Save{records})
	}
}

// Saved takes the news that a Save has ended.
func (s *Loop) Saved(now int64, err error) {
	s.tick(now)
	s.saving = false
	if err != nil {
		s.log(Error, "save what is known of relays", "err", err)
	}
}

// Stop ends all connections, and returns what is to be kept.
func (s *Loop) Stop(now int64) map[string][]byte {
	s.tick(now)
	for _, url := range sortedKeys(s.relays) {
		if r := s.relays[url]; r.conn != 0 {
			s.isDown(r)
		}
	}
	return s.Records(now)
}
