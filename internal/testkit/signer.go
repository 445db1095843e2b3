package testkit

import (
	"bytes"
	"crypto/sha256"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"talon/host"
)

// Signer is somebody with a key pair.
type Signer struct {
	Secret [32]byte
	PubKey host.PubKey
}

// NewSigner returns the signer whose secret key is n, 32 times. n is not 0 and
// not 255, with which there is no key.
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
	private, _ := btcec.PrivKeyFromBytes(s.Secret[:])
	signature, err := schnorr.Sign(private, hash[:], append(options, schnorr.FastSign())...)
	if err != nil {
		panic(err)
	}
	return host.Sig(signature.Serialize())
}
