// Package bundle holds the modules that come with the program, and their compiled code.
//
// A build with the tag "bundled" has them inside ([Own]). The command internal/bundler makes
// the files for that. Without the tag the program has none.
//
// Invariants:
//
//  1. A module is returned only if it has the SHA-256 that the bundle names.
//  2. The same modules make the same bytes, on every machine.
//  3. Nothing is decompressed before somebody asks for it.
//
// The package does not know what is in a module, or in its compiled code.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// Module describes one of the modules.
type Module struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`  // of its .wasm, in hex
	Default bool   `json:"default"` // it runs if the operator says nothing else
}

// Bundle is the modules of a program. A nil Bundle has none.
type Bundle struct {
	list    []Module
	modules *pack
	code    *pack // nil: there is none for this kind of machine
}

// Own returns the bundle of this program, nil if it was built without modules.
func Own() *Bundle { return own() }

var own = sync.OnceValue(func() *Bundle {
	if len(embeddedModules) == 0 {
		return nil
	}
	b, err := Open(embeddedModules, embeddedCode)
	if err != nil {
		panic("the modules inside this program are damaged: " + err.Error())
	}
	return b
})

// Open returns the bundle in two files, as [Write] and [WriteCode] have written them. The second
// may be empty.
func Open(modules, code []byte) (*Bundle, error) {
	b := &Bundle{}
	var err error
	if b.modules, err = openPack(modules); err != nil {
		return nil, fmt.Errorf("open the modules: %w", err)
	}
	if err := json.Unmarshal(b.modules.About, &b.list); err != nil {
		return nil, fmt.Errorf("read the list of modules: %w", err)
	}
	if len(code) == 0 {
		return b, nil
	}
	if b.code, err = openPack(code); err != nil {
		return nil, fmt.Errorf("open the compiled code: %w", err)
	}
	return b, nil
}

// Modules returns all modules. The caller must not change them.
func (b *Bundle) Modules() []Module {
	if b == nil {
		return nil
	}
	return b.list
}

// Find returns the module of a name.
func (b *Bundle) Find(name string) (Module, bool) {
	for _, m := range b.Modules() {
		if m.Name == name {
			return m, true
		}
	}
	return Module{}, false
}

// Wasm returns the bytes of the module of a name.
func (b *Bundle) Wasm(name string) ([]byte, error) {
	m, ok := b.Find(name)
	if !ok {
		return nil, fmt.Errorf("this program has no module %.80q inside: %w", name, fs.ErrNotExist)
	}
	wasm, err := b.modules.read(name)
	if err != nil {
		return nil, fmt.Errorf("read the module %s inside this program: %w", name, err)
	}
	if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != m.SHA256 {
		return nil, fmt.Errorf("the module %s inside this program is damaged", name)
	}
	return wasm, nil
}

// Code returns the compiled code of the module with a SHA-256, nil if there is none.
func (b *Bundle) Code(module [sha256.Size]byte) ([]byte, error) {
	if b == nil || b.code == nil {
		return nil, nil
	}
	code, err := b.code.read(hex.EncodeToString(module[:]))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return code, err
}

// Source is a module to be bundled.
type Source struct {
	Name    string
	Wasm    []byte
	Default bool
}

// Write writes a file of modules. Those that run by default are first, so that a start reads
// nothing else.
func Write(w io.Writer, sources []Source) error {
	var list []Module
	groups := make([][]entry, 2)
	for _, s := range sources {
		sum := sha256.Sum256(s.Wasm)
		list = append(list, Module{s.Name, hex.EncodeToString(sum[:]), s.Default})
		group := 1
		if s.Default {
			group = 0
		}
		groups[group] = append(groups[group], entry{s.Name, s.Wasm})
	}
	return writePack(w, list, groups)
}

// Code is the compiled code of the module with a SHA-256.
type Code struct {
	Module [sha256.Size]byte
	Data   []byte
}

// WriteCode writes a file of compiled code.
func WriteCode(w io.Writer, codes []Code) error {
	var groups [][]entry
	for _, c := range codes {
		groups = append(groups, []entry{{hex.EncodeToString(c.Module[:]), c.Data}})
	}
	return writePack(w, nil, groups)
}
