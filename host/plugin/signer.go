package plugin

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/nip19"
)

// mustBeSigned reports whether a module with this side-car runs only if it is signed.
// A signature that nobody asks for is not read.
func (r *Registry) mustBeSigned(text []byte) bool {
	if len(r.o.Signers) > 0 {
		return true
	}
	file, err := sidecar.Parse(text)
	return err == nil && len(file.Signers) > 0
}

// checkSigner returns who signed the module, as an npub; nothing if nobody must. The signer
// must be among the signers of the side-car and among those of the options, if these name
// any. A side-car cannot widen the operator's choice at the start. A bundled module needs a
// signature like others.
func (r *Registry) checkSigner(file *sidecar.File, s *source) (string, error) {
	if s.hidden || len(file.Signers) == 0 && len(r.o.Signers) == 0 {
		return "", nil
	}
	if s.signature == nil {
		return "", fmt.Errorf("it is not signed: want %s.wasm%s beside it, as talon plugin sign writes it", s.name, SignatureSuffix)
	}
	man, err := guest.ReadManifest(s.wasm)
	if err != nil {
		return "", err
	}
	e, err := VerifySignature(s.signature, s.key.sha256(), man.Capabilities)
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

// If only signed modules run, a writer of the folder must not bring back a fault, nor weaken a
// required policy. A command of the operator may.

// checkReplacing returns why the files of the folder may not replace the plugin that runs under
// their name, or ran last.
func (r *Registry) checkReplacing(e folder.Entry, s *slot, src *source) error {
	if len(r.o.Signers) == 0 || s == nil || s.record.Current == nil {
		return nil
	}
	before := s.record.Current
	if r.requires(e.Name, s) && !sameSidecar(src, before) {
		if err := r.checkSidecarSigner(e, src); err != nil {
			return err
		}
	}
	if src.wasm == nil || src.key.sha256() == before.Wasm {
		return nil
	}
	man, err := guest.ReadManifest(src.wasm)
	if err != nil {
		return err
	}
	if older(man.Release, before.Version) {
		return fmt.Errorf("its version %.80q is older than %.80q, which ran before: talon plugin swap %s FILE takes it all the same", man.Release, before.Version, e.Name)
	}
	return nil
}

// checkSidecarSigner expects that one of the operator's signers has signed the side-car.
func (r *Registry) checkSidecarSigner(e folder.Entry, src *source) error {
	if src.sidecar == nil {
		return fmt.Errorf("the policy is required, and ran with a side-car that is not there any more: want %s.toml", e.Name)
	}
	if e.SidecarSignature == nil {
		return fmt.Errorf("the policy is required, and its side-car is another than before: want %s.toml%s beside it, as talon plugin sign writes it, or a command of talon plugin",
			e.Name, SignatureSuffix)
	}
	text, err := folder.Read(e.SidecarSignature, MaxSignature)
	if err != nil {
		return err
	}
	signed, err := VerifySignature(text, fmt.Sprintf("%x", sha256.Sum256(src.sidecar)), nil)
	if err != nil {
		return fmt.Errorf("%s.toml: %w", e.Name, err)
	}
	if !slices.Contains(r.o.Signers, [32]byte(signed.PubKey)) {
		return fmt.Errorf("%s.toml is signed by %s, who is not among --plugin-signers", e.Name, nip19.EncodeNpub(signed.PubKey))
	}
	return nil
}
