package world

import (
	"crypto/sha256"
	"errors"

	"talon/host"
)

// Sign fills in the id, the signature and the JSON. Ids are real; signatures only say that
// they were made here, which costs a hash: whether signatures are checked right is no
// question for a simulation.
func Sign(e *host.Event) error {
	if e.Tags == nil {
		e.Tags = host.Tags{}
	}
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.Sig = signature(e.ID)
	e.JSON = e.AppendJSON(make([]byte, 0, 400+len(e.Content)+80*len(e.Tags)))
	return nil
}

func signature(id host.ID) (sig host.Sig) {
	half := sha256.Sum256(id[:])
	copy(sig[:32], half[:])
	copy(sig[32:], id[:])
	return sig
}

var errForged = errors.New("the signature is wrong")

// Verify checks a signature of [Sign].
func Verify(e *host.Event) error {
	if e.Sig != signature(e.ID) {
		return errForged
	}
	return e.CheckID()
}
