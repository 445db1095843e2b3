package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"

	"talon/host"
)

const (
	secretSize = 16
	keySize    = 16
)

// What is indexed beside tags stands where a tag's name would, as bytes that no
// tag has: these, and host.MaintainerOf.
const (
	nameAddress = iota
	nameAuthor
)

// Keys of table posting for every event: with its kind, and with kind 0.
var (
	keyKind = []byte{0}
	keyTime = []byte{1}
)

// keyring makes the index keys of one database.
type keyring struct {
	secret [secretSize]byte
}

// keyring returns that of the database.
func (c *conn) keyring() (k keyring, err error) {
	row, err := c.first(`SELECT value FROM meta WHERE name = 'secret'`)
	if err != nil {
		return k, err
	}
	var secret []byte
	if row != nil {
		secret, _ = row[0].([]byte)
	}
	if len(secret) != secretSize {
		return k, errors.New("database has no secret: it is damaged, restore a backup or import an export")
	}
	copy(k.secret[:], secret)
	return k, nil
}

func (k *keyring) key(name byte, value string) []byte {
	var stack [256]byte
	b := append(stack[:0], k.secret[:]...)
	b = append(b, name)
	b = append(b, value...)
	sum := sha256.Sum256(b)
	return sum[:keySize:keySize]
}

func (k *keyring) address(a host.Address) []byte { return k.key(nameAddress, a.String()) }

func (k *keyring) author(pubkey host.PubKey) []byte { return k.key(nameAuthor, string(pubkey[:])) }

// posting is a row of table posting.
type posting struct {
	key   []byte
	kind  int64
	place []byte
}

func (p posting) compare(q posting) int {
	return cmp.Or(bytes.Compare(p.key, q.key), cmp.Compare(p.kind, q.kind), bytes.Compare(p.place, q.place))
}

// postings appends the rows that an event has, each once: time, kind, author, the
// first value of each single-letter tag (NIP-01), and of a repository announcement
// whom it lists as maintainers.
func (k *keyring) postings(rows []posting, e *host.Event, seq int64) []posting {
	kind := int64(e.Kind)
	places := appendPlace(make([]byte, 0, longPlace+shortPlace), e.CreatedAt, e.ID[:], seq)
	long := places[:longPlace]
	short := appendPlace(places, e.CreatedAt, e.ID[:8], seq)[longPlace:]
	rows = append(rows, posting{keyTime, 0, long}, posting{keyKind, kind, long}, posting{k.author(e.PubKey), kind, long})
	var seen tagSet
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && letter(tag[0][0]) && seen.add(tag[0][0], tag[1]) {
			rows = append(rows, posting{k.key(tag[0][0], tag[1]), kind, short})
		}
	}
	return k.maintainerPostings(rows, e, seq)
}

// maintainerPostings appends a row for each maintainer that an announcement lists.
func (k *keyring) maintainerPostings(rows []posting, e *host.Event, seq int64) []posting {
	maintainers := e.Maintainers()
	if len(maintainers) == 0 {
		return rows
	}
	short := appendPlace(make([]byte, 0, shortPlace), e.CreatedAt, e.ID[:8], seq)
	identifier := e.D()
	for _, m := range maintainers {
		rows = append(rows, posting{k.key(host.MaintainerOf, host.Maintains(m, identifier)), int64(e.Kind), short})
	}
	return rows
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// tagSet holds tags, most often few.
type tagSet struct {
	n    int
	few  [8]indexedTag
	many map[indexedTag]struct{} // nil while few will do
}

type indexedTag struct {
	name  byte
	value string
}

// add reports whether the tag was not in the set.
func (s *tagSet) add(name byte, value string) bool {
	t := indexedTag{name, value}
	if s.many == nil {
		for _, have := range s.few[:s.n] {
			if have == t {
				return false
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = t
			s.n++
			return true
		}
		s.many = make(map[indexedTag]struct{})
		for _, have := range s.few {
			s.many[have] = struct{}{}
		}
	}
	if _, ok := s.many[t]; ok {
		return false
	}
	s.many[t] = struct{}{}
	return true
}
