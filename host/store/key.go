package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"

	"talon/host"
	"talon/host/store/semantics"
)

const (
	secretSize = 16
	keySize    = 16
)

// What is indexed beside tags stands where a tag's name would, as bytes that no
// tag has: these, and host.MaintainerOf.
const (
	nameAddress = 0
	nameAuthor  = 1
	nameID      = 4
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

func (k *keyring) id(id host.ID) []byte { return k.key(nameID, string(id[:])) }

// posting is a row of table posting.
type posting struct {
	key     []byte
	kind    int64
	sortKey []byte
}

func (p posting) compare(q posting) int {
	return cmp.Or(bytes.Compare(p.key, q.key), cmp.Compare(p.kind, q.kind), bytes.Compare(p.sortKey, q.sortKey))
}

// postings appends the rows that an event has, each once: time, kind, author, the
// first value of each single-letter tag (NIP-01), and of a repository announcement
// whom it lists as maintainers.
func (k *keyring) postings(rows []posting, e *host.Event, seq int64) []posting {
	kind := int64(e.Kind)
	both := appendSortKey(make([]byte, 0, longSortKey+shortSortKey), e.CreatedAt, e.ID[:], seq)
	long := both[:longSortKey]
	short := appendSortKey(both, e.CreatedAt, e.ID[:8], seq)[longSortKey:]
	rows = append(rows, posting{keyTime, 0, long}, posting{keyKind, kind, long}, posting{k.author(e.PubKey), kind, long})
	semantics.Tags(e, func(name byte, value string) {
		rows = append(rows, posting{k.key(name, value), kind, short})
	})
	return k.maintainerPostings(rows, e, seq)
}

// maintainerPostings appends a row for each maintainer that an announcement lists.
func (k *keyring) maintainerPostings(rows []posting, e *host.Event, seq int64) []posting {
	if e.Kind != host.KindAnnouncement {
		return rows
	}
	short := appendSortKey(make([]byte, 0, shortSortKey), e.CreatedAt, e.ID[:8], seq)
	semantics.Maintained(e, func(value string) {
		rows = append(rows, posting{k.key(host.MaintainerOf, value), int64(e.Kind), short})
	})
	return rows
}
