package grasp

import "slices"

// Root returns the event that e belongs to: the issue, pull request or first patch
// that a comment, a status, an update or a later patch is about. It reports false
// for those that are a root themselves, and for other kinds.
func (e *Event) Root() (ID, bool) {
	switch e.Kind {
	case KindComment, KindPRUpdate: // NIP-22 names the root in E
		return ParseID(e.first("E"))
	case KindOpen, KindApplied, KindClosed, KindDraft:
		return e.marked()
	case KindPatch:
		if e.has("t", "root") {
			return ID{}, false
		}
		return e.marked()
	}
	return ID{}, false
}

// marked returns the e tag that is marked as root (NIP-10), else the first.
func (e *Event) marked() (root ID, ok bool) {
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "e" {
			continue
		}
		id, right := ParseID(tag[1])
		if !right {
			continue
		}
		if len(tag) > 3 && tag[3] == "root" {
			return id, true
		}
		if !ok {
			root, ok = id, true
		}
	}
	return root, ok
}

// Status returns the kind of the status that counts for an issue, a patch or a
// pull request: the newest of those that name it as root and come from its author
// or a maintainer, KindOpen if there is none.
func Status(root *Event, statuses []*Event, maintainers []PubKey) int {
	var newest *Event
	for _, s := range statuses {
		if s.Kind < KindOpen || s.Kind > KindDraft || newest != nil && !s.Newer(&newest.Stamp) {
			continue
		}
		if id, ok := s.Root(); !ok || id != root.ID {
			continue
		}
		if s.PubKey == root.PubKey || slices.Contains(maintainers, s.PubKey) {
			newest = s
		}
	}
	if newest == nil {
		return KindOpen
	}
	return newest.Kind
}
