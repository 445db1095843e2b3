package loop

import (
	"math"
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// Strangers limits what announcements without git data have the loop do: anybody may announce
// anything, and name anybody's relays. An announcement is known by its id and its author. Times
// are milliseconds.
type Strangers interface {
	// Admit takes a place for a relay that such an announcement names, and its first visit.
	// It reports false if there is none. It calls evict when another relay needs the place;
	// release gives it back.
	Admit(id host.ID, author host.PubKey, evict func()) (release func(), ok bool)

	// Wait returns how long until the announcement may have a relay visited.
	Wait(id host.ID, author host.PubKey) int64

	// Visit charges a visit, if Wait is 0.
	Visit(id host.ID, author host.PubKey)
}

// named says which repositories name a relay.
type named struct {
	stored  int     // stored announcements do
	held    []*repo // held ones through which the strategy knows it
	release func()  // gives back its place among the relays of strangers; nil if it has none
	paid    bool    // its first visit is charged
}

// stranger reports whether only held announcements name a relay.
func (s *Loop) stranger(r *relay) bool {
	n := s.named[r.url]
	return n != nil && n.stored == 0 && len(n.held) > 0 && !r.bootstrap
}

// name counts the relays that a repository names, and notes which of them the strategy hears
// of: all, if its announcement is stored.
func (s *Loop) name(r *repo, relays []string) {
	for _, u := range relays {
		switch {
		case r.level == abi.SyncLevelFull:
			n := s.named[u]
			if n == nil {
				n = new(named)
				s.named[u] = n
			}
			n.stored++
			if n.release != nil {
				n.release()
				n.release = nil
			}
			s.unblock(u)
		case !s.nameHeld(r, u):
			r.untold = append(r.untold, u)
			continue
		}
		r.relays = append(r.relays, u)
	}
	if len(r.untold) > 0 {
		s.untold = append(s.untold, r)
	}
}

// nameHeld counts a relay that a held announcement names. It reports false if the strategy must
// not hear of it now.
func (s *Loop) nameHeld(r *repo, u string) bool {
	n := s.named[u]
	if n == nil {
		n = new(named)
		if known := s.relays[u]; s.deps.Strangers != nil && (known == nil || !known.bootstrap) {
			release, ok := s.deps.Strangers.Admit(r.id, r.author, func() { s.displaced = append(s.displaced, u) })
			if !ok {
				return false
			}
			n.release, n.paid = release, true
		}
		s.named[u] = n
	}
	n.held = append(n.held, r)
	s.unblock(u)
	return true
}

// unname is the opposite of name.
func (s *Loop) unname(r *repo) {
	for _, u := range r.relays {
		n := s.named[u]
		if n == nil {
			continue // others needed its place
		}
		if r.level == abi.SyncLevelFull {
			n.stored--
		} else if i := slices.Index(n.held, r); i >= 0 {
			n.held = slices.Delete(n.held, i, i+1)
		}
		if n.stored == 0 && len(n.held) == 0 {
			if n.release != nil {
				n.release()
			}
			delete(s.named, u)
		}
	}
}

// unblock has a relay dialed that waited for a visit: somebody else names it too.
func (s *Loop) unblock(u string) {
	if r := s.relays[u]; r != nil && r.visitless {
		r.visitless, r.retryAt = false, s.clock
		s.update(r)
	}
}

// visitWait returns how long until a relay may be visited: 0 if a stored announcement names it.
func (s *Loop) visitWait(r *relay) int64 {
	if s.deps.Strangers == nil || !s.stranger(r) || s.named[r.url].paid {
		return 0
	}
	wait := int64(math.MaxInt64)
	for _, by := range s.named[r.url].held {
		if wait = min(wait, s.deps.Strangers.Wait(by.id, by.author)); wait == 0 {
			break
		}
	}
	return min(wait, maxVisitWait)
}

// maxVisitWait is how long a relay waits for a visit before that is looked at again.
const maxVisitWait = 10 * minute

// payVisit charges the visit that visitWait has found.
func (s *Loop) payVisit(r *relay) {
	if s.deps.Strangers == nil || !s.stranger(r) {
		return
	}
	n := s.named[r.url]
	if n.paid {
		n.paid = false
		return
	}
	for _, by := range n.held {
		if s.deps.Strangers.Wait(by.id, by.author) == 0 {
			s.deps.Strangers.Visit(by.id, by.author)
			return
		}
	}
}

// untoldEvery is how often relays are looked at that the strategy was not told of, in
// milliseconds.
const untoldEvery = 15_000

// tellStrangers takes relays from the strategy whose places others needed, and tells it of those
// for which there is a place now.
func (s *Loop) tellStrangers() {
	for len(s.displaced) > 0 {
		list := s.displaced
		s.displaced = nil
		for _, u := range list {
			s.displace(u)
		}
	}
	if len(s.untold) == 0 || s.clock < s.untoldAt {
		return
	}
	s.untoldAt = s.clock + untoldEvery
	list := s.untold
	s.untold = nil
	for _, r := range list {
		if s.repos[r.address] != r {
			continue
		}
		told := 0
		for told < len(r.untold) && s.deps.Strangers.Wait(r.id, r.author) == 0 && s.nameHeld(r, r.untold[told]) {
			told++
		}
		if told > 0 {
			r.relays, r.untold = append(r.relays, r.untold[:told]...), r.untold[told:]
			s.retell(r)
		}
		if len(r.untold) > 0 && s.repos[r.address] == r {
			s.untold = append(s.untold, r)
		}
	}
}

// displace takes a relay from the strategy, unless a stored announcement names it by now.
func (s *Loop) displace(u string) {
	n := s.named[u]
	if n == nil || n.stored > 0 {
		return
	}
	delete(s.named, u)
	for _, r := range n.held {
		r.relays = slices.DeleteFunc(slices.Clone(r.relays), func(o string) bool { return o == u })
		if len(r.untold) == 0 {
			s.untold = append(s.untold, r)
		}
		r.untold = append(r.untold, u)
		if s.repos[r.address] == r {
			s.retell(r)
		}
	}
}

// retell tells the strategy which relays of a repository it may ask now.
func (s *Loop) retell(r *repo) {
	s.step(&abi.LocalEvent{
		ID: r.id, PubKey: r.author, Kind: uint32(host.KindAnnouncement), CreatedAt: s.clock / 1000,
		Repositories: []string{r.address}, Relays: r.relays, Level: r.level, Origin: abi.OriginClient,
	})
}
