package plugin

import (
	"errors"
	"fmt"
	"slices"

	"talon/host"
	"talon/host/schnorr"
	"talon/host/wire"
)

// The author of a module can make a claim about it: a signed event of kind 1063 (NIP-94),
// with the hash of the file and the capabilities that it asks for. The claim covers exactly
// these bytes. It does not say who owns the key, or whether to trust it.

// SignatureSuffix is what the file with a claim ends with, after the name of the module's.
const SignatureSuffix = ".sig"

// SignatureKind is the event kind of a claim.
const SignatureKind host.Kind = 1063

// MaxSignature bounds the bytes of a claim.
const MaxSignature = 64 << 10

// VerifySignature checks that a claim is signed, and names the module with this SHA-256, in
// lower-case hex, and these capabilities. It returns the signer's key.
func VerifySignature(text []byte, sha256 string, capabilities []string) (*host.Event, error) {
	if len(text) > MaxSignature {
		return nil, fmt.Errorf("the signature is longer than %d bytes: want the event that talon plugin sign writes", MaxSignature)
	}
	e, err := wire.ParseEvent(text)
	if err != nil {
		return nil, fmt.Errorf("the signature is no event: %w", err)
	}
	if err := e.CheckID(); err != nil {
		return nil, fmt.Errorf("the signature was changed after it was made: %w", err)
	}
	if err := schnorr.Verify(e); err != nil {
		return nil, fmt.Errorf("the signature is not by the key that it names: %w", err)
	}
	if e.Kind != SignatureKind {
		return nil, fmt.Errorf("the signature is an event of kind %d: want kind %d", e.Kind, SignatureKind)
	}
	switch hashes := tagValues(e, "x"); {
	case len(hashes) != 1:
		return nil, errors.New("the signature does not name one hash: want one x tag")
	case hashes[0] != sha256:
		return nil, fmt.Errorf("the signature is for another file: it names sha256 %.64q, this file has %s", hashes[0], sha256)
	}
	signed := slices.Sorted(slices.Values(tagValues(e, "capability")))
	asked := slices.Sorted(slices.Values(capabilities))
	if !slices.Equal(signed, asked) {
		return nil, fmt.Errorf("the signature is for the capabilities %.500q; the module asks for %q", signed, asked)
	}
	return e, nil
}

// tagValues are those of all tags of a name.
func tagValues(e *host.Event, name string) (list []string) {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == name {
			list = append(list, tag[1])
		}
	}
	return list
}
