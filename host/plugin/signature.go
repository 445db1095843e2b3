package plugin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"talon/host/plugin/claim"
	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
	"talon/sdk/nip19"
)

// sign gives a source the signature that lies beside it, nil if none does.
func (s *source) sign(signature []byte) *source {
	s.signature = signature
	if signature != nil {
		s.key.signature = sha256.Sum256(signature)
	}
	return s
}

// mustBeSigned reports whether a module with this side-car runs only if it is signed.
// A signature that nobody asks for is not read.
func (r *Registry) mustBeSigned(text []byte) bool {
	if len(r.o.Signers) > 0 {
		return true
	}
	file, err := sidecar.Parse(text)
	return err == nil && len(file.Signers) > 0
}

// checkSigner returns who signed the module, as an npub; nothing if nobody must. Who it
// is must be among the signers of the side-car and of the options, where these name
// any: a side-car cannot widen what the operator chose at the start.
func (r *Registry) checkSigner(file *sidecar.File, s *source) (string, error) {
	if s.bundled || len(file.Signers) == 0 && len(r.o.Signers) == 0 {
		return "", nil
	}
	if s.signature == nil {
		return "", fmt.Errorf("it is not signed: want %s.wasm%s beside it, as talon plugin sign writes it", s.name, claim.Suffix)
	}
	man, err := manifest.FromModule(s.wasm)
	if err != nil {
		return "", err
	}
	e, err := claim.Verify(s.signature, s.key.sha256(), man.Capabilities)
	if err != nil {
		return "", err
	}
	signer := nip19.EncodeNpub(e.PubKey)
	for _, list := range []struct {
		where   string
		signers [][32]byte
	}{{"the signers of " + s.name + ".toml", file.Signers}, {"--plugin-signers", r.o.Signers}} {
		if len(list.signers) > 0 && !slices.Contains(list.signers, [32]byte(e.PubKey)) {
			return "", fmt.Errorf("it is signed by %s, who is not among %s", signer, list.where)
		}
	}
	return signer, nil
}

// signatureOf reads the signature of an entry, if it must have one; nil if there is
// none.
func (r *Registry) signatureOf(e folder.Entry, text []byte) ([]byte, error) {
	if e.Wasm == nil || e.Signature == nil || !r.mustBeSigned(text) {
		return nil, nil
	}
	return folder.Read(e.Signature, claim.Max)
}

// readSignature returns the signature that lies beside a module, if it must have one;
// nil if there is none.
func (r *Registry) readSignature(name string, text []byte) ([]byte, error) {
	if !r.mustBeSigned(text) {
		return nil, nil
	}
	signature, err := readFile(filepath.Join(r.o.Dir, name+".wasm"+claim.Suffix), claim.Max)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	return signature, nil
}
