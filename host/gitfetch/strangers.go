package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitfetch/queue"
)

// Namer is a held event that names a URL.
type Namer struct {
	Event  host.ID
	Author host.PubKey
}

// strangers limits requests to servers that only held events name: anybody may send such events,
// and name anybody's servers. A server that a stored announcement names, or that has had what was
// asked for, has no such limit.
type strangers struct {
	visits *bound.Visits
	who    func(event host.ID, author host.PubKey) bound.Namer
	repos  Repos
	now    func() time.Time

	stored atomic.Bool // something was stored that waited for git data: there may be other servers

	mu      sync.Mutex // guards the fields below; it is held while the announcements are read
	domains map[string]bool
	read    time.Time // when the announcements were read last
	took    time.Duration
}

const (
	// serversEvery is how often the servers of stored announcements are read, at most; if that
	// takes long, it is done less often.
	serversEvery = 10 * time.Minute
	serversSoon  = 15 * time.Second // instead, after an event was stored that waited
	serversPart  = 100              // of the time, one in this number may be spent with that

	// maxServers bounds how many servers are known. Others are strangers'.
	maxServers = 100_000
)

// newStrangers returns nil if nobody says who sent an event.
func newStrangers(cfg *Config) *strangers {
	if cfg.Namer == nil {
		return nil
	}
	return &strangers{visits: bound.NewVisits("git servers", cfg.Now), who: cfg.Namer, repos: cfg.Repos, now: cfg.Now, domains: make(map[string]bool)}
}

func (s *strangers) namer(n Namer) bound.Namer { return s.who(n.Event, n.Author) }

// left returns how many visits some of the namers have left.
func (s *strangers) left(by []Namer) (left int64) {
	for _, n := range by {
		left = max(left, s.visits.Left(s.namer(n)))
	}
	return left
}

// reserve charges a visit to one of the namers, and reports whether one had any left.
func (s *strangers) reserve(by []Namer) bool {
	for _, n := range by {
		if s.visits.Reserve(s.namer(n)) == 0 {
			return true
		}
	}
	return false
}

// knows reports whether a server is no stranger's.
func (s *strangers) knows(ctx context.Context, a Addresses, domain string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.domains[domain] {
		return true, nil
	}
	began, every := s.now(), serversEvery
	if s.stored.Load() {
		every = serversSoon
	}
	if !s.read.IsZero() && began.Sub(s.read).Abs() < max(every, serversPart*s.took) {
		return false, nil
	}
	s.stored.Store(false)
	err := s.repos.Servers(ctx, func(url string) {
		if u, err := a.ParseURL(url); err == nil {
			s.add(u.Domain)
		}
	})
	if err != nil {
		return false, fmt.Errorf("read the servers of stored announcements: %w", err)
	}
	s.read, s.took = s.now(), s.now().Sub(began)
	return s.domains[domain], nil
}

// proven notes that a server had what was asked for.
func (s *strangers) proven(domain string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(domain)
}

// add notes that a server is no stranger's. REQUIRES: mu.
func (s *strangers) add(domain string) {
	if len(s.domains) < maxServers {
		s.domains[domain] = true
	}
}

// laterError is the error of a connection to an address that was contacted often enough.
type laterError struct {
	to   netip.Addr
	wait time.Duration
}

func (e *laterError) Error() string {
	return fmt.Sprintf("%s was contacted often for events without git data: it is contacted again in %v", e.to, e.wait.Round(time.Second))
}

// charge charges a connection to an address.
func (s *strangers) charge(to netip.Addr) error {
	if wait := s.visits.ReserveAddress(to); wait > 0 {
		return &laterError{to, wait}
	}
	return nil
}

// namers returns who names each URL that some want has: nil where not only held events do, or the
// server is no stranger's.
func (h *Hunter) namers(ctx context.Context, list []Want) (map[string][]Namer, error) {
	if h.strangers == nil {
		return nil, nil
	}
	by, free := make(map[string][]Namer), make(map[string]bool)
	for _, w := range list {
		for _, text := range w.URLs {
			u, err := h.cfg.Addresses.ParseURL(text)
			if err != nil || free[u.Text] {
				continue
			}
			who := w.Strangers[text]
			if len(who) == 0 {
				free[u.Text] = true
				continue
			}
			if by[u.Text] == nil {
				known, err := h.strangers.knows(ctx, h.cfg.Addresses, u.Domain)
				if err != nil {
					return nil, err
				}
				free[u.Text] = known
			}
			by[u.Text] = append(by[u.Text], who...)
		}
	}
	for text := range free {
		if free[text] {
			delete(by, text)
		}
	}
	return by, nil
}

// visit charges the request of a Fetch to one of those who name its URL, if only held events do.
// The addresses of its connections are charged then too. It reports false if there must be no
// request now.
func (h *Hunter) visit(ctx context.Context, w queue.Work, list []Want, origin string) (charged, ok bool) {
	by, err := h.namers(ctx, list)
	if err != nil {
		return false, false
	}
	who := by[w.URL.Text]
	if who == nil {
		who = by[origin]
	}
	if who == nil {
		return false, true
	}
	return true, h.strangers.reserve(who)
}

// affordable returns those of the URLs that may be asked in a round: of servers that only held
// events name, as many as those who name them have visits left. The others join the refused.
func (h *Hunter) affordable(ctx context.Context, list []Want, urls []queue.URL, refused []queue.Refused) ([]queue.URL, []queue.Refused, error) {
	by, err := h.namers(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	var kept []queue.URL
	planned := int64(0)
	for _, u := range urls {
		if who := by[u.Text]; who != nil {
			if planned >= h.strangers.left(who) {
				refused = refuse(refused, u.Text, errVisits)
				continue
			}
			planned++
		}
		kept = append(kept, u)
	}
	return kept, refused, nil
}

// errVisits says why a URL is not asked.
var errVisits = errors.New("only held events name its server, and their senders have no visits left for now")
