package loop

import (
	"slices"

	"talon/host"
	"talon/host/relaysync/session"
)

// A private repository is not for everybody here. Only the relays that its announcement names may
// learn that it exists: no filter to another relay names it, its identifier or its root events.
// Comparisons offer only events for everybody.

// private has the private repositories, by address, and their root events. A private repository stays
// private here until its announcement comes again.
type private struct {
	repos map[string]*repo
	roots map[host.ID]string
}

func newPrivate() private {
	return private{make(map[string]*repo), make(map[host.ID]string)}
}

// note notes whether a repository is private.
func (p *private) note(r *repo) {
	if r.private {
		p.repos[r.address] = r
	} else {
		delete(p.repos, r.address)
	}
}

// noteRoot notes a root event of repositories.
func (p *private) noteRoot(id host.ID, repositories []string) {
	for _, address := range repositories {
		if p.repos[address] != nil {
			p.roots[id] = address
		}
	}
}

// names reports whether the announcement of a repository names a relay.
func (r *repo) names(u string) bool {
	return slices.Contains(r.relays, u) || slices.Contains(r.untold, u)
}

// withoutPrivate removes from a filter to a relay what the relay must not learn. It reports false if
// nothing is left to ask for.
func (s *Loop) withoutPrivate(u string, f *host.Filter) bool {
	if len(s.private.repos) == 0 {
		return true
	}
	if f.IDs != nil {
		f.IDs = slices.DeleteFunc(slices.Clone(f.IDs), func(id host.ID) bool { return !s.mayNameRoot(u, id) })
		if len(f.IDs) == 0 {
			return false
		}
	}
	tags := slices.Clone(f.Tags)
	for i := range tags {
		t := &tags[i]
		t.Values = slices.DeleteFunc(slices.Clone(t.Values), func(value string) bool { return !s.mayName(u, t.Name, value) })
		if len(t.Values) == 0 {
			return false
		}
	}
	f.Tags = tags
	return true
}

// mayName reports whether a relay may learn the value of a tag.
func (s *Loop) mayName(u string, tag byte, value string) bool {
	if r := s.private.repos[value]; r != nil {
		return r.names(u)
	}
	if tag == 'd' {
		return s.mayNameIdentifier(u, value)
	}
	var id host.ID
	return !host.ParseHex(id[:], value) || s.mayNameRoot(u, id)
}

func (s *Loop) mayNameRoot(u string, id host.ID) bool {
	r := s.private.repos[s.private.roots[id]]
	return r == nil || r.names(u)
}

// mayNameIdentifier reports whether no private repository has the identifier, or a repository that the
// relay may know of has it too.
func (s *Loop) mayNameIdentifier(u, identifier string) bool {
	known := true
	for _, r := range s.private.repos {
		if a, ok := host.ParseAddress(r.address); !ok || a.D != identifier {
			continue
		}
		if r.names(u) {
			return true
		}
		known = false
	}
	if known {
		return true
	}
	for _, r := range s.repos {
		if a, ok := host.ParseAddress(r.address); ok && a.D == identifier && !r.private {
			return true
		}
	}
	return false
}

// conceal ends the connections to relays that may have subscriptions about a repository which has
// become private. They are made again, without it.
func (s *Loop) conceal(repository *repo) {
	for _, u := range sortedKeys(s.relays) {
		if r := s.relays[u]; r.conn != 0 && !repository.names(u) {
			s.disconnectRelay(r, "a repository that this relay may have been asked about is private now")
		}
	}
	s.log(session.Info, "a repository is private now: only relays that its announcement names are asked about it", "repo", repository.address)
}
