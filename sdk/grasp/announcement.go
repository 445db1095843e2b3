package grasp

import (
	"errors"
	"slices"
	"strings"

	"talon/sdk/nip19"
)

// maxMaintainers bounds how many maintainers one announcement names.
const maxMaintainers = 1000

// Announcement is a repository announcement, kind 30617.
type Announcement struct {
	Stamp
	Identifier     string
	Name           string // "" if there is none
	Description    string
	Clone          []string // URLs as written: all values of all tags
	Relays         []string
	Web            []string
	Maintainers    []PubKey // as listed, each once; the author only if listed
	EarliestCommit string   // the earliest unique commit, "" if there is none
	PersonalFork   bool     // not meant as a copy that others work on
}

var errNotAnnouncement = errors.New("invalid: not a repository announcement (kind 30617)")

// ParseAnnouncement reads an announcement. Its identifier must be valid, because it becomes a URL
// and a folder. Other malformed values are left out, since announcements live for years and other
// servers accept them: maintainers that are not 64 hex digits, an earliest commit that is not an
// object name.
func ParseAnnouncement(e *Event) (*Announcement, error) {
	if e.Kind != KindAnnouncement {
		return nil, errNotAnnouncement
	}
	a := &Announcement{
		Stamp:        e.Stamp,
		Identifier:   e.first("d"),
		Name:         e.first("name"),
		Description:  e.first("description"),
		Clone:        e.all("clone"),
		Relays:       e.all("relays"),
		Web:          e.all("web"),
		PersonalFork: e.has("t", "personal-fork"),
	}
	if err := CheckIdentifier(a.Identifier); err != nil {
		return nil, invalidIdentifier(err)
	}
	a.Maintainers = parseMaintainers(e.all("maintainers"))
	for _, tag := range e.Tags {
		if len(tag) > 2 && tag[0] == "r" && tag[2] == "euc" {
			if commit, ok := ParseObject(tag[1]); ok {
				a.EarliestCommit = commit
				break
			}
		}
	}
	return a, nil
}

func parseMaintainers(values []string) (keys []PubKey) {
	seen := make(map[PubKey]bool, min(len(values), maxMaintainers))
	for _, value := range values {
		if len(value) != 64 {
			continue
		}
		key, err := nip19.ParsePubKey(value)
		if err != nil || seen[key] {
			continue
		}
		if len(keys) == maxMaintainers {
			break
		}
		seen[key] = true
		keys = append(keys, key)
	}
	return keys
}

func invalidIdentifier(err error) error {
	return errors.New("invalid: " + err.Error() + " (d tag)")
}

// Repo names the repository that a announces.
func (a *Announcement) Repo() Repo { return Repo{a.PubKey, a.Identifier} }

// ListsService reports whether both the clone and the relays tags have a URL of the service. It
// compares host and port, and ignores the path: a service has one place for each repository.
func (a *Announcement) ListsService(s Service) bool {
	return anyOf(a.Clone, s.ServesGit) && anyOf(a.Relays, s.IsRelay)
}

// Misplaced reports whether the clone URLs of the service are those of other
// repositories, or of pull requests, and none is the repository's own: who clones it
// would get something else. A URL without the path of a repository says nothing.
func (a *Announcement) Misplaced(s Service) (misplaced bool) {
	for _, clone := range a.Clone {
		path, _, ok := s.locate(clone, "http")
		if !ok {
			continue
		}
		path = strings.TrimSuffix(path, "/")
		mine := len(path) > npubPath && path[npubPath-1] == '/' && nip19.IsNpub(path[1:npubPath-1], a.PubKey)
		if mine {
			name, ok := strings.CutSuffix(path[npubPath:], ".git")
			if ok && name == a.Identifier && strings.IndexByte(name, '%') < 0 {
				return false
			}
		} else if misplaced {
			continue // one is enough, and reading it takes a while
		}
		p, err := ParsePath(path)
		switch {
		case err != nil:
			continue
		case !p.PRs && p.Repo == a.Repo():
			return false
		}
		misplaced = true
	}
	return misplaced
}

func anyOf[T any](list []T, f func(T) bool) bool {
	for _, item := range list {
		if f(item) {
			return true
		}
	}
	return false
}

// State is a repository state, kind 30618: the heads and tags that a maintainer signed.
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

// Tracks reports whether the state names any refs. A state without refs means that its author
// stopped tracking the repository (NIP-34). It matches no push and empties no repository.
func (s *State) Tracks() bool { return len(s.Refs)+len(s.Faults) > 0 }

// Object returns the object that the state has for a ref, "" if it has none.
func (s *State) Object(ref string) string { return objectOf(s.Refs, ref) }

// Latest returns the state that counts: the newest of a maintainer, or the one with the lowest id
// of several. It returns nil if there is none. The refs of a repository follow this state, if the
// list has the states in effect and those whose git data is complete. It is never older than an
// earlier result.
func Latest(states []*State, maintainers []PubKey) *State {
	var latest *State
	for _, s := range states {
		if s.Tracks() && (latest == nil || s.Newer(&latest.Stamp)) && slices.Contains(maintainers, s.PubKey) {
			latest = s
		}
	}
	return latest
}

// Graph says who maintains which repository, by the announcements of one identifier. Building it
// and querying it take time linear in the length of the announcements. It does not change after
// that.
type Graph struct {
	keys    []PubKey
	index   map[PubKey]int32
	lists   [][]int32 // by key: whom its announcement lists
	listers [][]int32 // by key: whose announcements list it
	owners  int32     // the first keys are those with an announcement
}

// NewGraph takes the announcements of one identifier, stored and held. Of two by
// the same author the newer counts. Those of other identifiers than the first
// one's are left out.
func NewGraph(announcements []*Announcement) *Graph {
	g := &Graph{index: make(map[PubKey]int32, len(announcements))}
	var newest []*Announcement
	for _, a := range announcements {
		if a.Identifier != announcements[0].Identifier {
			continue
		}
		i, ok := g.index[a.PubKey]
		if !ok {
			g.add(a.PubKey)
			newest = append(newest, a)
		} else if a.Newer(&newest[i].Stamp) {
			newest[i] = a
		}
	}
	g.owners = int32(len(newest))
	for i, a := range newest {
		list := make([]int32, 0, len(a.Maintainers))
		for _, key := range a.Maintainers {
			j, ok := g.index[key]
			if !ok {
				j = g.add(key)
			}
			list = append(list, j)
			g.listers[j] = append(g.listers[j], int32(i))
		}
		g.lists[i] = list
	}
	return g
}

func (g *Graph) add(key PubKey) int32 {
	i := int32(len(g.keys))
	g.index[key] = i
	g.keys = append(g.keys, key)
	g.lists = append(g.lists, nil)
	g.listers = append(g.listers, nil)
	return i
}

// Maintainers returns the recursive maintainer set of the owner's repository. The owner is first.
// Then come the maintainers that the announcement lists, those that their announcements list, and
// so on, depth-first, each once. A listed maintainer counts without an announcement. The set is
// empty if the owner has no announcement.
func (g *Graph) Maintainers(owner PubKey) []PubKey {
	i, ok := g.index[owner]
	if !ok || i >= g.owners {
		return nil
	}
	var set []PubKey
	for _, j := range reach(i, g.lists) {
		set = append(set, g.keys[j])
	}
	return set
}

// Owners returns those with an announcement in whose recursive maintainer set the
// author is, an author with an announcement included. The order is that of the
// announcements.
func (g *Graph) Owners(author PubKey) []PubKey {
	i, ok := g.index[author]
	if !ok {
		return nil
	}
	found := make([]bool, len(g.keys))
	for _, j := range reach(i, g.listers) {
		found[j] = true
	}
	var owners []PubKey
	for j := range g.owners {
		if found[j] {
			owners = append(owners, g.keys[j])
		}
	}
	return owners
}

// reach returns the nodes that start reaches, depth-first.
func reach(start int32, next [][]int32) (order []int32) {
	seen := make([]bool, len(next))
	stack := []int32{start}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[i] {
			continue
		}
		seen[i] = true
		order = append(order, i)
		for k := len(next[i]) - 1; k >= 0; k-- {
			if j := next[i][k]; !seen[j] {
				stack = append(stack, j)
			}
		}
	}
	return order
}
