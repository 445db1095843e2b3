package store

import (
	"crypto/sha256"
	"errors"

	"talon/host"
)

const (
	secretSize = 16
	keySize    = 16
)

// Index rows that are not of tags have these bytes, host.MaintainerOf or host.WordOf in place of
// a tag's name. No tag has them.
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
