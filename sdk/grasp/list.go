package grasp

import (
	"errors"
	"strconv"
	"strings"

	"talon/sdk/nip19"
)

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
