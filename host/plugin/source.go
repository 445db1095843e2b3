package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"talon/host/plugin/folder"
)

// source is what a generation is made of: a module and its side-car.
type source struct {
	name    string
	wasm    []byte // nil if the side-car names a program
	sidecar []byte // nil if there is none
	key     key

	signature []byte // nil if there is none, or none is asked for
	hidden    bool   // it is the fallback of others, and no plugin of the operator's
}

// key tells sources apart.
type key struct {
	wasm    [sha256.Size]byte
	sidecar [sha256.Size]byte
	plain   bool // there is no side-car

	signature [sha256.Size]byte
	program   bool // there is no module
	barred    bool // it may not take the place of what ran
}

func newSource(name string, wasm, sidecar []byte) *source {
	return &source{name: name, wasm: wasm, sidecar: sidecar, key: key{
		wasm: sha256.Sum256(wasm), sidecar: sha256.Sum256(sidecar), plain: sidecar == nil, program: wasm == nil,
	}}
}

// sign gives a source its signature, nil if it has none.
func (s *source) sign(signature []byte) *source {
	s.signature = signature
	if signature != nil {
		s.key.signature = sha256.Sum256(signature)
	}
	return s
}

func (k key) sha256() string { return hex.EncodeToString(k.wasm[:]) }

func (k key) sidecarSHA256() string {
	if k.plain {
		return ""
	}
	return hex.EncodeToString(k.sidecar[:])
}

// emptySum is the hash of the module of a program: its source has none, and the history keeps an
// empty one for it.
var emptySum = func() string {
	sum := sha256.Sum256(nil)
	return hex.EncodeToString(sum[:])
}()

func sidecarOf(g *folder.Generation) []byte {
	if !g.HasSidecar {
		return nil
	}
	return append([]byte{}, g.Sidecar...)
}

// moduleOf returns a module as the history keeps it: nil for a program.
func moduleOf(wasm []byte) []byte {
	if len(wasm) == 0 {
		return nil
	}
	return wasm
}

// keyOf returns the key of the source of a generation.
func keyOf(g *folder.Generation) (k key) {
	k = newSource("", nil, sidecarOf(g)).sign(g.Signature).key
	_, _ = hex.Decode(k.wasm[:], []byte(g.Wasm))
	k.program = g.Wasm == emptySum
	return k
}

func sameSidecar(src *source, g *folder.Generation) bool {
	return (src.sidecar != nil) == g.HasSidecar && bytes.Equal(src.sidecar, g.Sidecar)
}
