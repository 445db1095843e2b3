package grasp

import (
	"errors"
	"strconv"
	"strings"

	"talon/sdk/nip19"
)

// Rules are an operator's rules for the repositories of a service.
type Rules struct {
	Service Service // how the service is called from outside
	Archive Archive
	Allow   List // if it is not empty, new repositories must be on it
	Deny    List // comes before everything else
}

// Archive says which announcements that do not list the service are accepted all
// the same (GRASP-05). The zero Archive takes none.
type Archive struct {
	All      bool
	List     List
	Services []Service // those that list one of these
}

// Takes reports whether the archive wants the repository.
func (ar *Archive) Takes(a *Announcement) bool {
	return ar.All || ar.List.Has(a.Repo()) || anyOf(ar.Services, a.ListsService)
}

// Standing says how a service treats an announcement.
type Standing uint8

const (
	Refused  Standing = iota
	Hosted            // it has a repository here, and pushes are accepted
	Archived          // it has a repository here that is read-only (GRASP-05)
	Member            // it only says who maintains others' repositories: it has none here
)

func (s Standing) String() string {
	return [...]string{"refused", "hosted", "archived", "member"}[s]
}

// ReasonArchived refuses a push.
const ReasonArchived = "this repository is a read-only archive: push to a service that its announcement lists"

// Announcement decides about an announcement, and says why it is refused.
// Maintained is whether its author is in the recursive maintainer set of an
// accepted announcement with the same identifier: then it must be accepted, and
// if no other rule gives it a repository, it has none.
func (r *Rules) Announcement(a *Announcement, maintained bool) (standing Standing, reason string) {
	if r.Deny.Has(a.Repo()) {
		return Refused, ReasonDenied
	}
	listed := a.ListsService(r.Service)
	misplaced := listed && a.Misplaced(r.Service)
	switch {
	case misplaced && !maintained:
		return Refused, ReasonMisplaced
	case misplaced:
		return Member, ""
	case listed && (r.Allow.Empty() || r.Allow.Has(a.Repo())):
		return Hosted, ""
	case !listed && r.Archive.Takes(a):
		return Archived, ""
	case maintained:
		return Member, ""
	case listed:
		return Refused, ReasonCurated
	}
	return Refused, ReasonNotListed
}

// Reasons in answers to clients, word for word as existing clients know them.
const (
	// ReasonHeld goes with OK true: the event waits for its git data.
	ReasonHeld = "purgatory: won't be served until git data arrives"

	// ReasonNoAnnouncement refuses a state of an identifier that nobody announced.
	ReasonNoAnnouncement = "invalid: no announcement exists for this repository"

	// ReasonNotMaintainer refuses a state by an author in nobody's maintainer set.
	ReasonNotMaintainer = "invalid: author not authorized for this repository"

	// ReasonNotListed refuses an announcement that does not list this service.
	ReasonNotListed = "invalid: the announcement must list this service in both its clone and its relays tags"

	// ReasonMisplaced refuses an announcement whose clone URLs lead to other places of
	// this service than that of its repository.
	ReasonMisplaced = "invalid: the clone tag must list this service with the path /<npub of the author>/<identifier>.git"

	// ReasonDenied refuses a repository that the operator denies.
	ReasonDenied = "blocked: this repository is not welcome here"

	// ReasonCurated refuses a repository that is not on the operator's list.
	ReasonCurated = "blocked: this service hosts chosen repositories only"

	// ReasonUnrelated refuses an event that has nothing to do with a repository here.
	ReasonUnrelated = "blocked: the event is not about a repository or an event that is accepted here"
)

// AdmitState returns the owners whose repositories a state may move: those in
// whose maintainer set its author is. If there are none, the reason says why the
// state is refused. The graph is that of the state's identifier, nil or empty if
// nobody announced it, stored or held.
func AdmitState(s *State, g *Graph) (owners []PubKey, reason string) {
	if g == nil || g.owners == 0 {
		return nil, ReasonNoAnnouncement
	}
	if owners = g.Owners(s.PubKey); len(owners) == 0 {
		return nil, ReasonNotMaintainer
	}
	return owners, ""
}

// List is a choice of repositories: by author, by author and identifier, by
// identifier. It does not change. The zero List is empty.
type List struct {
	authors     map[PubKey]bool
	repos       map[Repo]bool
	identifiers map[string]bool
}

// ParseList parses entries of the forms npub, npub/identifier and identifier. The
// error names the entry that is wrong.
func ParseList(entries []string) (List, error) {
	l := List{map[PubKey]bool{}, map[Repo]bool{}, map[string]bool{}}
	for _, entry := range entries {
		if err := l.add(entry); err != nil {
			return List{}, errors.New(strconv.Quote(entry) + ": " + err.Error())
		}
	}
	return l, nil
}

var (
	errListNpub = errors.New("an author is written as npub, with a right checksum")
	errListHex  = errors.New("64 hex digits may be an author or an identifier: write an author as npub")
)

func (l *List) add(entry string) error {
	npub, identifier, slash := strings.Cut(entry, "/")
	if slash || strings.HasPrefix(entry, "npub1") {
		key, err := nip19.DecodeNpub(npub)
		if err != nil {
			return errListNpub
		}
		if !slash {
			l.authors[key] = true
			return nil
		}
		l.repos[Repo{key, identifier}] = true
		return CheckIdentifier(identifier)
	}
	if len(entry) == 64 && isHex(lowerASCII(entry)) {
		return errListHex
	}
	l.identifiers[entry] = true
	return CheckIdentifier(entry)
}

// Empty reports whether nothing is on the list.
func (l List) Empty() bool { return len(l.authors)+len(l.repos)+len(l.identifiers) == 0 }

// Has reports whether the repository is on the list.
func (l List) Has(r Repo) bool {
	return l.authors[r.PubKey] || l.repos[r] || l.identifiers[r.Identifier]
}

// HasAuthor reports whether the author is on the list as such.
func (l List) HasAuthor(key PubKey) bool { return l.authors[key] }
