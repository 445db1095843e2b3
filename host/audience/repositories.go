package audience

import (
	"slices"
	"sync"
	"sync/atomic"

	"talon/host"
	"talon/sdk/grasp"
)

// repositories knows the stored and held events that belong to repositories which are not for
// everybody.
type repositories struct {
	any atomic.Bool // there is one

	mu           sync.RWMutex // guards the fields below
	ids          map[host.ID]*host.Audience
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
	return &repositories{
		ids: make(map[host.ID]*host.Audience), announced: make(map[string]*restricted), byIdentifier: make(map[string][]*restricted),
	}
}

// add notes an event that is stored or held now.
func (r *repositories) add(e *host.Event) {
	if e.Audience == nil && (e.Kind != host.KindAnnouncement || !r.any.Load()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Audience != nil && e.Audience.Repository {
		r.ids[e.ID] = e.Audience
	} else {
		delete(r.ids, e.ID)
	}
	if a, ok := e.Address(); ok && e.Kind == host.KindAnnouncement {
		r.forget(a)
		if e.Audience != nil && e.Audience.Repository {
			x := &restricted{a, e.Maintainers(), e.Audience}
			r.announced[a.String()] = x
			r.byIdentifier[a.D] = append(r.byIdentifier[a.D], x)
		}
	}
	r.any.Store(len(r.ids) > 0)
}

// remove notes that an event is gone, unless another audience of it has been noted since. The
// repository of an announcement stays restricted until another version says otherwise.
func (r *repositories) remove(e *host.Event) {
	if e.Audience == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[e.ID].Equal(e.Audience) {
		delete(r.ids, e.ID)
	}
	r.any.Store(len(r.ids) > 0)
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

// of returns the strictest audience of the repositories that an event belongs to, nil if all are
// for everybody.
func (r *repositories) of(e *host.Event) (out *host.Audience) {
	if !r.any.Load() {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	add := func(a *host.Audience) {
		if a != nil {
			out = host.StrictestAudience(out, a)
		}
	}
	for value := range e.References() {
		var id host.ID
		if host.ParseHex(id[:], value) {
			add(r.ids[id])
		} else if x := r.announced[value]; x != nil {
			add(x.audience)
		}
	}
	if e.Kind == host.KindAnnouncement || e.Kind == grasp.KindState {
		for _, x := range r.byIdentifier[e.D()] {
			if x.address.PubKey == e.PubKey || slices.Contains(x.lists, e.PubKey) {
				add(x.audience)
			}
		}
	}
	return out
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
