package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// reader holds what the library knows about a text, and the first thing that is
// wrong with it.
type reader struct {
	meta toml.MetaData
	err  error
}

// table is one table of the text. Its values stay undecoded, for only so does
// the library tell the line of a key.
type table struct {
	*reader
	path string // of its keys, such as "budgets."
	keys map[string]toml.Primitive
}

// get returns a value as the library decodes it.
func (t table) get(key string) (any, bool) {
	raw, ok := t.keys[key]
	if !ok {
		return nil, false
	}
	var value any
	if err := t.meta.PrimitiveDecode(raw, &value); err != nil {
		t.wrong(key, "a value of TOML")
		return nil, false
	}
	return value, true
}

// table returns the table of a key.
func (t table) table(key string) (table, bool) {
	value, ok := t.get(key)
	if !ok {
		return table{}, false
	}
	inner := table{reader: t.reader, path: t.path + quoted(key) + "."}
	if _, ok := value.(map[string]any); !ok || t.meta.PrimitiveDecode(t.keys[key], &inner.keys) != nil {
		t.wrong(key, "a table")
		return table{}, false
	}
	return inner, true
}

// names returns the keys in alphabetical order.
func (t table) names() []string { return slices.Sorted(maps.Keys(t.keys)) }

// only takes no keys but these.
func (t table) only(keys ...string) {
	for _, key := range t.names() {
		if !slices.Contains(keys, key) {
			t.wrong(key, "one of the keys "+strings.Join(keys, ", "))
		}
	}
}

// wrong says that a value is not what is wanted, if nothing was wrong before.
func (t table) wrong(key, want string) {
	if t.err != nil {
		return
	}
	var value any
	if t.meta.PrimitiveDecode(t.keys[key], &value) != nil {
		value = nil
	}
	t.wrongItem(key, value, want)
}

// wrongItem is wrong, for a value within the value of the key.
func (t table) wrongItem(key string, value any, want string) {
	if t.err == nil {
		t.err = fmt.Errorf("line %d: %s = %s: want %s", t.line(key), t.path+quoted(key), show(value), want)
	}
}

// line returns the line of a key. The library tells it in its errors alone.
func (t table) line(key string) int {
	var parse toml.ParseError
	errors.As(t.meta.PrimitiveDecode(t.keys[key], new(refuse)), &parse)
	return parse.Position.Line
}

// refuse is the type that no value has.
type refuse struct{}

func (*refuse) UnmarshalTOML(any) error { return errors.New("refused") }

// quoted returns a key as it has to be written.
func quoted(key string) string {
	if isSetName(strings.ToLower(key)) {
		return key
	}
	return strconv.Quote(key)
}

// show prints a value as an operator wrote it, cut to a readable length.
func show(value any) string {
	const maximum = 80
	var text string
	switch v := value.(type) {
	case string:
		text = strconv.Quote(v[:min(len(v), maximum)])
	case map[string]any, []map[string]any:
		return "a table"
	case []any:
		return "a list"
	default:
		text = fmt.Sprint(v)
	}
	if len(text) <= maximum {
		return text
	}
	cut := maximum - 3
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
