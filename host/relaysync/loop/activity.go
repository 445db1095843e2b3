package loop

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// activity gathers what events tag that may be root events, until the strategy gets it: a relay
// may have no room for all of them, and those that are talked about come first.
type activity struct {
	latest map[host.ID]uint32 // unix seconds
	next   int64              // unix milliseconds, when the strategy gets it
}

// Bounds of what is gathered.
const (
	activityEvery = 1000 // milliseconds
	maxActivity   = 2000 // ids; later ones of that time are left out
	activityTags  = 16   // of one event
	recentEvents  = 2000 // comments and statuses that are read when a strategy begins
)

// talked notes which events another one is about.
func (s *Loop) talked(e *host.Event) {
	if len(s.activity.latest) == 0 {
		s.activity.next = s.clock + activityEvery
	}
	if s.activity.latest == nil {
		s.activity.latest = make(map[host.ID]uint32)
	}
	note(s.activity.latest, e)
}

// note adds the ids that an event tags by e, E or q.
func note(latest map[host.ID]uint32, e *host.Event) {
	at, tags := seconds(e.CreatedAt), 0
	for _, tag := range e.Tags {
		var id host.ID
		if len(tag) < 2 || tag[0] != "e" && tag[0] != "E" && tag[0] != "q" || !host.ParseHex(id[:], tag[1]) {
			continue
		}
		if tags++; tags > activityTags {
			return
		}
		if before, ok := latest[id]; ok || len(latest) < maxActivity {
			latest[id] = max(before, at)
		}
	}
}

// seconds returns a date as the ABI has it.
func seconds(at int64) uint32 { return uint32(min(max(at, 0), math.MaxUint32)) }

// tellActivity passes on what was gathered, when its time has come.
func (s *Loop) tellActivity() {
	if len(s.activity.latest) == 0 || s.clock < s.activity.next {
		return
	}
	latest := s.activity.latest
	s.activity.latest = nil
	in := new(abi.RootActivity)
	for id := range latest {
		in.Roots = append(in.Roots, id)
	}
	slices.SortFunc(in.Roots, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range in.Roots {
		in.Latest = append(in.Latest, latest[id])
	}
	s.step(in)
}

// talkKinds are the kinds of events about root events: comments and statuses.
var talkKinds = []host.Kind{grasp.KindComment, grasp.KindPRUpdate, 1630, 1631, 1632, 1633}

// latestActivity reads what the latest comments and statuses are about.
func (s *Loop) latestActivity() (map[host.ID]uint32, error) {
	texts, err := s.deps.Facts.Query(host.Filter{Kinds: talkKinds, Limit: recentEvents})
	if err != nil {
		return nil, fmt.Errorf("read the latest comments: %w", err)
	}
	latest := make(map[host.ID]uint32)
	for _, text := range texts {
		if e, err := wire.ParseEvent(text); err == nil { // else the store's own check finds it
			note(latest, e)
		}
	}
	return latest, nil
}
