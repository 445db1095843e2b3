package grasp

import (
	"errors"
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

// ParseAnnouncement reads an announcement. Its identifier must be a right one: it
// becomes a URL and a folder. Whatever else is malformed is left out, since
// announcements live for years and other servers accept them: maintainers that
// are not 64 hex digits, an earliest commit that is not an object name.
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

// ListsService reports whether both the clone and the relays tags have a URL of
// the service. Host and port decide, the path does not: a service has one place
// for each repository, whatever the URL says.
func (a *Announcement) ListsService(s Service) bool {
	return anyOf(a.Clone, s.ServesGit) && anyOf(a.Relays, s.IsRelay)
}

// Misplaced reports whether the clone URLs of the service are those of other
// repositories, or of pull requests, and none is the repository's own: who clones it
// would get something else. A URL without the path of a repository says nothing.
func (a *Announcement) Misplaced(s Service) (misplaced bool) {
	for _, clone := range a.Clone {
		u, ok := parseURL(clone)
		if !ok || !s.ServesGit(clone) {
			continue
		}
		p, err := ParsePath(strings.TrimSuffix(u.path, "/"))
		if err != nil {
			continue
		}
		if !p.PRs && p.Repo == a.Repo() {
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
