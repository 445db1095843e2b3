package grasp

import "slices"

// Alignment has the changes that bring a repository in line with a state.
type Alignment struct {
	// Updates are the ref updates, deletions first: refs/heads/a is in the way of
	// refs/heads/a/b. Git refuses that pair within one transaction, so deletions
	// need one of their own. It is empty while anything is missing.
	Updates []Update

	// Head is the branch that HEAD should name; "" leaves HEAD as it is. It is set only if the
	// branch exists after the updates.
	Head string

	// Missing are the refs of the state whose object is not there, by name.
	Missing []Ref

	// Impossible is whether the state has a fault, or says nothing of refs: no data
	// that may come changes that.
	Impossible bool
}

// Complete reports whether the repository can be brought in line now.
func (al *Alignment) Complete() bool { return !al.Impossible && len(al.Missing) == 0 }

// Align compares a repository with a state. Refs are all that the repository has,
// head is the branch that HEAD names. Available says whether the object of a ref
// is in the repository, whole, and of a type that the ref can have: a commit for
// a head.
//
// Except for HEAD, it is all or nothing: heads and tags that the state does not have are deleted,
// and no ref moves while an object is missing.
func Align(refs []Ref, head string, s *State, available func(Ref) bool) (al Alignment) {
	if !s.Tracks() {
		return Alignment{Impossible: true}
	}
	al.Impossible = len(s.Faults) > 0
	for _, ref := range s.Refs {
		if !available(ref) {
			al.Missing = append(al.Missing, ref)
		}
	}
	refs = sortedRefs(refs)
	if al.Complete() {
		al.Updates = updatesTo(refs, s.Refs)
	}
	if s.Head == "" || s.Head == head {
		return al
	}
	target := s.Object(s.Head)
	if !al.Complete() {
		// The branch must be there already, at the commit that the state has for it.
		if target == "" || target != objectOf(refs, s.Head) {
			return al
		}
	}
	if target != "" {
		al.Head = s.Head
	}
	return al
}

// updatesTo returns the updates that turn the heads and tags among refs into want.
// Both are by name.
func updatesTo(refs, want []Ref) []Update {
	var deletions, updates []Update
	for _, ref := range refs {
		if tracked(ref.Name) && objectOf(want, ref.Name) == "" {
			deletions = append(deletions, Update{ref.Name, ref.Object, zeros(ref.Object)})
		}
	}
	for _, ref := range want {
		old := objectOf(refs, ref.Name)
		if old == ref.Object {
			continue
		}
		if old == "" {
			old = zeros(ref.Object)
		}
		updates = append(updates, Update{ref.Name, old, ref.Object})
	}
	return append(deletions, updates...)
}

// KeepPushed leaves out updates of refs that pushes have moved to where a state has them
// that is newer and waits for the rest of its data: such a state may come with several
// pushes. Refs that it does not have are deleted when it takes effect, and not before.
// A ref stays only where no ref of the state in effect is in its way.
func (al *Alignment) KeepPushed(effective *State, waiting []*State) {
	if len(waiting) == 0 {
		return
	}
	var names, folders map[string]bool // of the refs in effect, once they are asked for
	inTheWay := func(ref string) bool {
		if names == nil {
			names, folders = make(map[string]bool), make(map[string]bool)
			if effective != nil {
				for _, r := range effective.Refs {
					names[r.Name] = true
					for i := range r.Name {
						if r.Name[i] == '/' {
							folders[r.Name[:i]] = true
						}
					}
				}
			}
		}
		for i := range ref {
			if ref[i] == '/' && names[ref[:i]] {
				return true
			}
		}
		return folders[ref]
	}
	al.Updates = slices.DeleteFunc(al.Updates, func(u Update) bool {
		return !IsZero(u.Old) && slices.ContainsFunc(waiting, func(s *State) bool {
			return len(s.Faults) == 0 && s.Object(u.Ref) == u.Old
		}) && !inTheWay(u.Ref)
	})
}

// zeros returns the object name for "does not exist", as long as object.
func zeros(object string) string {
	const none = "0000000000000000000000000000000000000000000000000000000000000000"
	return none[:min(len(object), len(none))]
}
