// Package testkit has the common parts of tests: signers of events, git as a user runs it,
// a network in memory, waiting for a condition, and the cost of work. Only tests import it.
//
// Invariants:
//
//  1. It links no C. So the tests of a package without C need no C either.
//  2. It imports only packages host and race of Talon, so that the tests inside any other
//     package of the host may import it.
//  3. The same calls make the same bytes in every run.
//  4. No wait has a bound of its own: only the deadline of the whole test binary
//     (go test -timeout) ends it, so that a machine that pauses fails no test.
package testkit

import (
	"bytes"
	"context"
	"crypto/sha256"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"talon/host"
)

// Unsigned returns an event of an author with the right id and no signature, as it would come
// from a parser.
func Unsigned(author host.PubKey, kind host.Kind, createdAt int64, content string, tags ...host.Tag) *host.Event {
	e := &host.Event{PubKey: author, Kind: kind, CreatedAt: createdAt, Content: content, Tags: tags}
	Seal(e)
	return e
}

// Seal fills in the id and the JSON of an event that is not signed.
func Seal(e *host.Event) {
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.JSON = e.AppendJSON(nil)
}

// Store is a store as Facts reads it.
type Store interface {
	Get(ctx context.Context, id host.ID) ([]byte, error)
	Referenced(ctx context.Context, idOrAddress string) (bool, error)
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
}

// Facts are the events of a store as a policy reads them, at a time in unix seconds.
type Facts struct {
	Store
	Now int64
}

// Query returns the events that match, newest first.
func (f Facts) Query(ctx context.Context, filter host.Filter) (list [][]byte, err error) {
	found, err := f.Select(ctx, []host.Filter{filter}, f.Now)
	if err != nil {
		return nil, err
	}
	err = f.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		list = append(list, bytes.Clone(json))
		return nil
	})
	return list, err
}

// Signer is somebody with a key pair.
type Signer struct {
	Secret [32]byte
	PubKey host.PubKey
}

// NewSigner returns the signer whose secret key is the byte n, 32 times. n must not be 0 or 255,
// which give no valid key.
func NewSigner(n byte) *Signer {
	return SignerOf([32]byte(bytes.Repeat([]byte{n}, 32)))
}

// SignerOf returns the signer with a secret key.
func SignerOf(secret [32]byte) *Signer {
	var scalar btcec.ModNScalar
	if overflow := scalar.SetBytes(&secret); overflow != 0 || scalar.IsZero() {
		panic("it is no secret key")
	}
	_, public := btcec.PrivKeyFromBytes(secret[:])
	return &Signer{Secret: secret, PubKey: host.PubKey(schnorr.SerializePubKey(public))}
}

// Event returns a signed event, as it would come from a parser.
func (s *Signer) Event(kind host.Kind, createdAt int64, content string, tags ...host.Tag) *host.Event {
	e := &host.Event{Kind: kind, CreatedAt: createdAt, Content: content, Tags: tags}
	s.Sign(e)
	return e
}

// Sign fills in the author, the id, the signature and the JSON of e; a nil list
// of tags becomes an empty one.
func (s *Signer) Sign(e *host.Event) {
	if e.Tags == nil {
		e.Tags = host.Tags{}
	}
	e.PubKey = s.PubKey
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.Sig = s.signature(e.ID)
	e.JSON = e.AppendJSON(nil)
}

// signature signs 32 bytes (BIP-340). Its nonce comes from the key and the hash
// alone.
func (s *Signer) signature(hash [32]byte, options ...schnorr.SignOption) host.Sig {
	var private btcec.PrivateKey // PrivKeyFromBytes would compute the public key each time
	private.Key.SetBytes(&s.Secret)
	signature, err := schnorr.Sign(&private, hash[:], append(options, schnorr.FastSign())...)
	if err != nil {
		panic(err)
	}
	return host.Sig(signature.Serialize())
}
