package grasp

import (
	"errors"
	"slices"
	"strings"
)

// State is a repository state, kind 30618: what heads and tags a maintainer says
// there are.
type State struct {
	Stamp
	Identifier string
	Refs       []Ref   // heads and tags, by name, each once
	Head       string  // the branch that HEAD names, such as refs/heads/main; "" if none
	Faults     []Fault // what no repository can have
}

// Fault is an entry of a state that no repository can have. A state with one is
// accepted and waits; nothing ever meets it.
type Fault struct {
	Ref    string // as in the event
	Reason string
}

var errNotState = errors.New("invalid: not a repository state (kind 30618)")

const (
	faultObject  = "the object name is not 40 or 64 hex digits"
	faultTwice   = "the ref stands twice, with different objects"
	faultNested  = "the ref would be inside another ref"
	peeledSuffix = "^{}"
)

// ParseState reads a state. Ref values are not validated on acceptance, so that
// wrong ones become faults. Entries outside refs/heads/ and refs/tags/, and
// peeled tags (^{}), are left out; so is a HEAD that names no branch.
func ParseState(e *Event) (*State, error) {
	if e.Kind != KindState {
		return nil, errNotState
	}
	s := &State{Stamp: e.Stamp, Identifier: e.first("d")}
	if err := CheckIdentifier(s.Identifier); err != nil {
		return nil, invalidIdentifier(err)
	}
	for _, tag := range e.Tags {
		if len(tag) == 0 {
			continue
		}
		name, value := tag[0], ""
		if len(tag) > 1 {
			value = tag[1]
		}
		switch {
		case name == "HEAD" && s.Head == "":
			s.Head = parseHead(value)
		case tracked(name) && !strings.HasSuffix(name, peeledSuffix):
			s.add(name, value)
		}
	}
	s.settle()
	return s, nil
}

// parseHead returns the branch that HEAD names, with or without "ref: ".
func parseHead(value string) string {
	branch := strings.TrimSpace(strings.TrimPrefix(value, "ref:"))
	if !strings.HasPrefix(branch, "refs/heads/") || CheckRef(branch) != nil {
		return ""
	}
	return branch
}

func (s *State) add(name, value string) {
	if err := CheckRef(name); err != nil {
		s.Faults = append(s.Faults, Fault{name, err.Error()})
		return
	}
	object, ok := ParseObject(value)
	if !ok {
		s.Faults = append(s.Faults, Fault{name, faultObject})
		return
	}
	s.Refs = append(s.Refs, Ref{name, object})
}

// settle sorts the refs and takes out those that contradict each other.
func (s *State) settle() {
	slices.SortStableFunc(s.Refs, compareRefs)
	kept := s.Refs[:0]
	for i := 0; i < len(s.Refs); {
		ref, agree := s.Refs[i], true
		for i++; i < len(s.Refs) && s.Refs[i].Name == ref.Name; i++ {
			agree = agree && s.Refs[i].Object == ref.Object
		}
		if agree {
			kept = append(kept, ref)
		} else {
			s.Faults = append(s.Faults, Fault{ref.Name, faultTwice})
		}
	}
	s.Refs = kept
	if _, inner, found := nested(s.Refs); found {
		s.Faults = append(s.Faults, Fault{inner, faultNested})
	}
}

// Tracks reports whether the state says anything about refs. One without any
// means that its author no longer tracks the repository (NIP-34): it matches no
// push and empties no repository.
func (s *State) Tracks() bool { return len(s.Refs)+len(s.Faults) > 0 }

// Object returns the object that the state has for a ref, "" if it has none.
func (s *State) Object(ref string) string { return objectOf(s.Refs, ref) }

// Latest returns the state that counts: the newest, ties by lowest id, among those
// whose author is a maintainer. It is nil if there is none. Given the states that
// have taken effect and those whose data is complete, it is what a repository is
// to be brought in line with: never an older one than before.
func Latest(states []*State, maintainers []PubKey) *State {
	var latest *State
	for _, s := range states {
		if s.Tracks() && (latest == nil || s.Newer(&latest.Stamp)) && slices.Contains(maintainers, s.PubKey) {
			latest = s
		}
	}
	return latest
}
