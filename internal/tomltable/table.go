// Package tomltable reads TOML for readers that are strict: it keeps values undecoded until the
// reader asks for them, and knows the line of each, so that an error can name the line and the key.
package tomltable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// SyntaxError is the error of a text that is no TOML.
type SyntaxError struct {
	Line    int
	Message string // one line
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Table is a table of a text, or the whole text.
type Table map[string]Value

// Value is a value of a text.
type Value struct {
	raw  toml.Primitive
	meta *toml.MetaData
}

// Parse reads a text. The error of the library may quote the text, with its line breaks. Parse
// makes one line of it.
func Parse(text []byte) (Table, error) {
	var raw map[string]toml.Primitive
	meta, err := toml.Decode(string(text), &raw)
	var parse toml.ParseError
	switch {
	case errors.As(err, &parse):
		return nil, &SyntaxError{parse.Position.Line, strings.Join(strings.Fields(parse.Message), " ")}
	case err != nil:
		return nil, err
	}
	return tableOf(raw, &meta), nil
}

func tableOf(raw map[string]toml.Primitive, meta *toml.MetaData) Table {
	t := make(Table, len(raw))
	for key, value := range raw {
		t[key] = Value{value, meta}
	}
	return t
}

// Keys returns the keys in alphabetical order.
func (t Table) Keys() []string { return slices.Sorted(maps.Keys(t)) }

// Any returns the table decoded: strings, numbers, booleans, times, lists and tables.
func (t Table) Any() (map[string]any, error) {
	all := make(map[string]any, len(t))
	for key, value := range t {
		var err error
		if all[key], err = value.Any(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var errNoValue = errors.New("there is no such key")

// Decode gives the value to a variable, as the library does it. The zero value is an error.
func (v Value) Decode(into any) error {
	if v.meta == nil {
		return errNoValue
	}
	return v.meta.PrimitiveDecode(v.raw, into)
}

// Any returns the value decoded.
func (v Value) Any() (value any, err error) {
	err = v.Decode(&value)
	return value, err
}

// Table returns the value as a table. It reports false for another value. The library takes some
// other values for empty tables.
func (v Value) Table() (Table, bool) {
	value, err := v.Any()
	if _, ok := value.(map[string]any); err != nil || !ok {
		return nil, false
	}
	var raw map[string]toml.Primitive
	if v.Decode(&raw) != nil {
		return nil, false
	}
	return tableOf(raw, v.meta), true
}

// Tables returns the value as a list of tables. It reports false for another value.
func (v Value) Tables() (list []Table, ok bool) {
	var raw []map[string]toml.Primitive
	if v.Decode(&raw) != nil {
		return nil, false
	}
	for _, keys := range raw {
		list = append(list, tableOf(keys, v.meta))
	}
	return list, true
}

// Line returns the line of the value. A table that only dotted keys make has the line of its first
// key.
func (v Value) Line() int {
	// The library tells the line of a value in its own errors alone.
	var parse toml.ParseError
	errors.As(v.Decode(new(refuse)), &parse)
	if parse.Position.Line > 0 {
		return parse.Position.Line
	}
	first := 0
	keys, _ := v.Table()
	for _, inner := range keys {
		if n := inner.Line(); n > 0 && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}

// refuse is a type that no value has.
type refuse struct{}

func (*refuse) UnmarshalTOML(any) error { return errors.New("refused") }

// ParseValue reads the text of one value, as it can follow a key and an equals sign.
func ParseValue(text string) (any, error) {
	t, err := Parse([]byte("x = " + text))
	if err != nil {
		return nil, err
	}
	if len(t) != 1 {
		return nil, errors.New("want one value of TOML")
	}
	return t["x"].Any()
}
