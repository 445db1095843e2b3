package audience

import (
	"slices"
	"sync"
	"sync/atomic"

	"talon/host"
	"talon/sdk/grasp"
)

// repositories knows the announcements of repositories that are not for everybody. The audiences of
// other events of these repositories are read from the store: strangers can post any number of them.
// The filter says for which events that is not needed.
type repositories struct {
	any atomic.Bool // an event belongs to one; it stays true until the process ends

	mu           sync.RWMutex             // guards the fields below
	seen         *filter                  // the events of these repositories; nil: all may be
	announced    map[string]*restricted   // by address
	byIdentifier map[string][]*restricted // the same
}

// restricted is a repository that is not for everybody.
type restricted struct {
	address  host.Address
	lists    []host.PubKey // its maintainers
	audience *host.Audience
}

func newRepositories() *repositories {
	return &repositories{announced: make(map[string]*restricted), byIdentifier: make(map[string][]*restricted)}
}

// add notes an event that is stored or held now. The repository of an announcement stays restricted
// until another version says otherwise, also when the announcement goes.
func (r *repositories) add(e *host.Event) {
	private := e.Audience != nil && e.Audience.Repository
	if private {
		r.any.Store(true)
		r.note(e.ID)
	}
	if e.Kind != host.KindAnnouncement || !r.any.Load() {
		return
	}
	a, ok := e.Address()
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(a)
	if private {
		x := &restricted{a, e.Maintainers(), e.Audience}
		r.announced[a.String()] = x
		r.byIdentifier[a.D] = append(r.byIdentifier[a.D], x)
	}
}

// note notes an event of a repository that is not for everybody.
func (r *repositories) note(id host.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != nil {
		r.seen.add(id)
	}
}

// missed notes that events of restricted repositories may be here that were not added.
func (r *repositories) missed() {
	r.any.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = nil
}

// forget forgets a repository. REQUIRES: r.mu.
func (r *repositories) forget(a host.Address) {
	x := r.announced[a.String()]
	if x == nil {
		return
	}
	delete(r.announced, a.String())
	list := slices.DeleteFunc(slices.Clone(r.byIdentifier[a.D]), func(o *restricted) bool { return o == x })
	if r.byIdentifier[a.D] = list; len(list) == 0 {
		delete(r.byIdentifier, a.D)
	}
}

// of returns the strictest audience of the repositories to which an event belongs by an address or
// by its identifier, nil if all are for everybody. It also returns the ids that the event names and
// that may belong to such a repository.
func (r *repositories) of(e *host.Event) (out *host.Audience, ids []host.ID) {
	if !r.any.Load() {
		return nil, nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var seen map[host.ID]bool
	for value := range e.References() {
		var id host.ID
		if host.ParseHex(id[:], value) {
			if !seen[id] && (r.seen == nil || r.seen.mayHave(id)) {
				if seen == nil {
					seen = make(map[host.ID]bool)
				}
				seen[id] = true
				ids = append(ids, id)
			}
		} else if x := r.announced[value]; x != nil {
			out = host.StrictestAudience(out, x.audience)
		}
	}
	if e.Kind == host.KindAnnouncement || e.Kind == grasp.KindState {
		for _, x := range r.byIdentifier[e.D()] {
			if x.address.PubKey == e.PubKey || slices.Contains(x.lists, e.PubKey) {
				out = host.StrictestAudience(out, x.audience)
			}
		}
	}
	return out, ids
}

// repository returns the audience of a repository by the address of its announcement.
func (r *repositories) repository(a host.Address) *host.Audience {
	if !r.any.Load() {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if x := r.announced[a.String()]; x != nil {
		return x.audience
	}
	return nil
}

// anyFor reports whether a reader receives a repository that is not for everybody.
func (r *repositories) anyFor(reader *host.Reader) bool {
	if !r.any.Load() {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.announced {
		if reader.Receives(x.audience) {
			return true
		}
	}
	return false
}
