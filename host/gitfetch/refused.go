package gitfetch

import "slices"

// source is an object of a server.
type source struct{ url, object string }

// maxRefused bounds how many objects of servers are remembered as refused.
const maxRefused = 10_000

// refuse remembers objects that a URL has and that are not taken for what is in them.
// The search does not ask for them there again: a name of an object stands for all that
// it refers to, so that will not change. It asks other URLs, for a server may have added
// something to what it sent.
func (h *Hunter) refuse(identifier string, ids []string, urls ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range urls {
		for _, id := range ids {
			if u == "" || h.isRefused(identifier, u, id) {
				continue
			}
			if h.refusals >= maxRefused {
				clear(h.refused)
				h.refusals = 0
			}
			if h.refused[identifier] == nil {
				h.refused[identifier] = make(map[source]bool)
			}
			h.refused[identifier][source{u, id}] = true
			h.refusals++
		}
	}
}

// isRefused reports whether an object was refused that a URL has. REQUIRES: mu.
func (h *Hunter) isRefused(identifier, u, id string) bool {
	return h.refused[identifier][source{u, id}]
}

// forget forgets what was refused in the search for an identifier. REQUIRES: mu.
func (h *Hunter) forget(identifier string) {
	h.refusals -= len(h.refused[identifier])
	delete(h.refused, identifier)
}

// takeable returns those of the objects that a URL may be asked for.
func (h *Hunter) takeable(identifier, u string, ids []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.refused[identifier]) == 0 {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return h.isRefused(identifier, u, id) })
}
