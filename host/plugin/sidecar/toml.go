package sidecar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/internal/tomltable"
)

// reader keeps the first error of a text.
type reader struct{ err error }

// table is one table of the text.
type table struct {
	*reader
	path string // of its keys, such as "budgets."
	keys tomltable.Table
}

// get returns a value as the library decodes it.
func (t table) get(key string) (any, bool) {
	raw, ok := t.keys[key]
	if !ok {
		return nil, false
	}
	value, err := raw.Any()
	if err != nil {
		t.wrong(key, "a value of TOML")
		return nil, false
	}
	return value, true
}

// table returns the table of a key.
func (t table) table(key string) (table, bool) {
	raw, ok := t.keys[key]
	if !ok {
		return table{}, false
	}
	keys, ok := raw.Table()
	if !ok {
		t.wrong(key, "a table")
		return table{}, false
	}
	return table{reader: t.reader, path: t.path + quoted(key) + ".", keys: keys}, true
}

// names returns the keys in alphabetical order.
func (t table) names() []string { return t.keys.Keys() }

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
	value, err := t.keys[key].Any()
	if err != nil {
		value = nil
	}
	t.wrongItem(key, value, want)
}

// wrongItem is wrong, for a value within the value of the key.
func (t table) wrongItem(key string, value any, want string) {
	if t.err == nil {
		t.err = fmt.Errorf("line %d: %s = %s: want %s", t.keys[key].Line(), t.path+quoted(key), show(value), want)
	}
}

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
