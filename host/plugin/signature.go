package plugin

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"talon/host"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/internal/smallfile"
	"talon/sdk/nip19"
)

// What the author of a module says of it is a claim: an event of kind 1063 (NIP-94),
// signed, that names the hash of the file and the capabilities that it asks for. It is true
// of exactly these bytes. Who the key belongs to, and whether to trust it, it does not say.

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

// signatureOf reads the signature of an entry, if it must have one; nil if there is
// none.
func (r *Registry) signatureOf(e folder.Entry, text []byte) ([]byte, error) {
	if e.Wasm == nil || e.Signature == nil || !r.mustBeSigned(text) {
		return nil, nil
	}
	return folder.Read(e.Signature, MaxSignature)
}

// readSignature returns the signature that lies beside a module, if it must have one;
// nil if there is none.
func (r *Registry) readSignature(name string, text []byte) ([]byte, error) {
	if !r.mustBeSigned(text) {
		return nil, nil
	}
	if now := r.agreed(name); now != nil && now.Signature != nil {
		return now.Signature, nil
	}
	signature, err := smallfile.Read(filepath.Join(r.o.Dir, name+".wasm"+SignatureSuffix), MaxSignature)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	return signature, nil
}

// Where only signed modules run, whoever writes into the folder must not bring back what
// was mended, nor weaken a policy that is required. What the operator says by a command
// is taken as it is.

// checkReplacing says why what lies in the folder may not take the place of what runs
// under its name, or ran last.
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

func sameSidecar(src *source, g *folder.Generation) bool {
	return (src.sidecar != nil) == g.HasSidecar && bytes.Equal(src.sidecar, g.Sidecar)
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

// older reports whether a version comes before another: numbers with dots between them,
// and what is marked by a hyphen, such as 1.2.0-rc1, before the same without. What has
// another form is not compared.
func older(version, than string) bool {
	a, aMark, aOK := parseVersion(version)
	b, bMark, bOK := parseVersion(than)
	if !aOK || !bOK {
		return false
	}
	for i := range max(len(a), len(b)) {
		if x, y := at(a, i), at(b, i); x != y {
			return x < y
		}
	}
	switch {
	case aMark == bMark:
		return false
	case aMark == "" || bMark == "":
		return bMark == ""
	}
	return aMark < bMark
}

func at(numbers []uint64, i int) uint64 {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}

func parseVersion(text string) (numbers []uint64, preRelease string, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "+")
	text, preRelease, _ = strings.Cut(text, "-")
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, "", false
		}
		numbers = append(numbers, n)
	}
	return numbers, preRelease, true
}
