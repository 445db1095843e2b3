package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"talon/host/plugin/sidecar"
)

// Generation is what ran at one time under a name.
type Generation struct {
	Number     int64     `json:"number"`
	Wasm       string    `json:"wasm"`    // SHA-256 of the module, lower-case hex
	Version    string    `json:"version"` // of the manifest
	Sidecar    []byte    `json:"sidecar"` // text
	HasSidecar bool      `json:"has_sidecar"`
	Signature  []byte    `json:"signature,omitempty"` // of the module; empty if none was asked for
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // zero for the one that runs
}

// Record is what is known of one name.
type Record struct {
	Name    string       `json:"name"`
	Last    int64        `json:"last"`    // the highest number that was given
	Current *Generation  `json:"current"` // nil if none runs
	Earlier []Generation `json:"earlier"` // newest first, at most 3, all different and none like Current
	Refused *Refused     `json:"refused"` // nil if what lay in the folder was taken
}

// Refused says what lay in the folder and was refused.
type Refused struct {
	Wasm    string    `json:"wasm"`    // SHA-256 of the module
	Sidecar string    `json:"sidecar"` // SHA-256 of the side-car
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
}

// Bounds of what is kept.
const (
	maxNames   = 1000
	maxEarlier = 3
	maxSidecar = 1 << 20
	maxWasm    = 64 << 20
	maxVersion = 256
	maxReason  = 4 << 10
	maxRecord  = 8 << 20 // bytes of the JSON

	maxSignature = 64 << 10
)

// same says whether two generations are the same files.
func same(a, b *Generation) bool {
	return a.Wasm == b.Wasm && a.HasSidecar == b.HasSidecar && bytes.Equal(a.Sidecar, b.Sidecar) && bytes.Equal(a.Signature, b.Signature)
}

// With returns the record after g has begun to run. If g.Number is 0, it gets the next one. If
// it is what runs already, nothing changes.
func (r Record) With(g Generation) Record {
	if r.Current != nil && same(r.Current, &g) {
		return r
	}
	r = r.clone()
	if g.Number == 0 {
		g.Number = r.Last + 1
	}
	g.Since, g.Until = plain(g.Since), time.Time{}
	r.Last = g.Number
	r.deactivate(g.Since)
	r.forget(&g)
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	r.Current = &g
	return r
}

// Without returns the record after nothing runs under its name any more.
func (r Record) Without(until time.Time) Record {
	r = r.clone()
	r.deactivate(plain(until))
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	return r
}

// deactivate moves what runs to what ran.
func (r *Record) deactivate(until time.Time) {
	if r.Current == nil {
		return
	}
	g := *r.Current
	g.Until = until
	r.Current = nil
	r.forget(&g)
	r.Earlier = slices.Insert(r.Earlier, 0, g)
}

// forget drops what ran if it is the same as g.
func (r *Record) forget(g *Generation) {
	r.Earlier = slices.DeleteFunc(r.Earlier, func(old Generation) bool { return same(&old, g) })
}

// generations returns all that the record names.
func (r *Record) generations() []*Generation {
	var list []*Generation
	if r.Current != nil {
		list = append(list, r.Current)
	}
	for i := range r.Earlier {
		list = append(list, &r.Earlier[i])
	}
	return list
}

func (r *Record) clone() Record {
	c := *r
	c.Earlier = slices.Clone(r.Earlier)
	if r.Current != nil {
		g := *r.Current
		c.Current = &g
	}
	if r.Refused != nil {
		refused := *r.Refused
		c.Refused = &refused
	}
	return c
}

// parseRecord reads the record of a name.
func parseRecord(name string, text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, err
	}
	if r.Name != name {
		return Record{}, fmt.Errorf("it is the record of %.80q", r.Name)
	}
	return r, r.check()
}

// ParseRecords reads records that were written as one list of JSON.
func ParseRecords(text []byte) ([]Record, error) {
	var list []Record
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, fmt.Errorf("plugin %.80q: %w", list[i].Name, err)
		}
		if names[list[i].Name] || len(list) > maxNames {
			return nil, fmt.Errorf("there are two plugins %s, or too many", list[i].Name)
		}
		names[list[i].Name] = true
	}
	return list, nil
}

func (r *Record) check() error {
	if !sidecar.IsName(r.Name) {
		return fmt.Errorf("%.80q is not the name of a plugin", r.Name)
	}
	if len(r.Earlier) > maxEarlier || r.Last < 0 {
		return fmt.Errorf("it names %d earlier generations, and %d as the highest number", len(r.Earlier), r.Last)
	}
	for _, g := range r.generations() {
		if err := g.check(); err != nil {
			return err
		}
		if g.Number <= 0 || g.Number > r.Last {
			return fmt.Errorf("generation %d is not from 1 to %d", g.Number, r.Last)
		}
	}
	return nil
}

func (g *Generation) check() error {
	switch {
	case !isSum(g.Wasm):
		return fmt.Errorf("%.80q is not the SHA-256 of a module", g.Wasm)
	case len(g.Sidecar) > maxSidecar:
		return fmt.Errorf("the side-car has %d bytes: want at most %d", len(g.Sidecar), maxSidecar)
	case len(g.Sidecar) > 0 && !g.HasSidecar:
		return errors.New("there is a side-car where none should be")
	case len(g.Signature) > maxSignature:
		return fmt.Errorf("the signature has %d bytes: want at most %d", len(g.Signature), maxSignature)
	case len(g.Version) > maxVersion:
		return fmt.Errorf("the version has %d bytes: want at most %d", len(g.Version), maxVersion)
	}
	return nil
}

func isSum(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}
