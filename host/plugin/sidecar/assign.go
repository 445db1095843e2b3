package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"talon/internal/tomltable"
)

// Assignment gives a key of a side-car a value.
type Assignment struct {
	Table string `json:"table,omitempty"` // empty: the key is in no table
	Key   string `json:"key"`
	Value string `json:"value,omitempty"` // in TOML; empty: the key is removed
}

// Keys in no table, and tables whose keys can be set.
var (
	topKeys   = []string{"mode", "required", "place", "sha256", "signers", "capabilities", "on-failure"}
	setTables = []string{"config", "budgets", "on-failure"}
)

// ParseAssignment reads KEY=VALUE. KEY is a key of the side-car, such as place or budgets.fuel, or
// else one of the table config. VALUE is a value of TOML, or a text without quotes. Without a value
// the key is removed.
func ParseAssignment(text string) (a Assignment, err error) {
	key, value, ok := strings.Cut(text, "=")
	if a.Key = strings.TrimSpace(key); !ok {
		return a, fmt.Errorf("%.80q: want KEY=VALUE", text)
	}
	if table, rest, dotted := strings.Cut(a.Key, "."); dotted {
		a.Table, a.Key = table, rest
	} else if !slices.Contains(topKeys, a.Key) {
		a.Table = "config"
	}
	if value = strings.TrimSpace(value); value == "" {
		return a, a.check()
	}
	if a.Value = value; a.check() != nil {
		a.Value = quotedValue(value)
	}
	return a, a.check()
}

// check says what is wrong with an assignment, nil if nothing is.
func (a *Assignment) check() error {
	if a.Table != "" && !slices.Contains(setTables, a.Table) {
		return fmt.Errorf("%.80q is no table whose keys can be set: want one of %s", a.Table, strings.Join(setTables, ", "))
	}
	if a.Table == "" && !slices.Contains(topKeys, a.Key) {
		return fmt.Errorf("%.80q is no key of a side-car: want one of %s", a.Key, strings.Join(topKeys, ", "))
	}
	if !IsName(a.Key) {
		return fmt.Errorf("the key %.80q is wrong: want a-z, A-Z, 0-9, - and _, at most 64", a.Key)
	}
	if a.Value == "" {
		return nil
	}
	_, err := a.decode()
	return err
}

// decode returns the value.
func (a *Assignment) decode() (any, error) {
	if strings.ContainsAny(a.Value, "\r\n") {
		return nil, fmt.Errorf("the value of %s has more than one line", a.Key)
	}
	text := []byte("x = " + a.Value)
	list, err := scan(text)
	var value any
	if err == nil {
		value, err = tomltable.ParseValue(a.Value)
	}
	// A comment would take what follows the value.
	if err != nil || len(list) != 1 || list[0].end != len(text) {
		return nil, fmt.Errorf("%s = %.80s: want a value of TOML", a.Key, a.Value)
	}
	return value, nil
}

// Assign changes keys in the text of a side-car, or adds them, and keeps everything else. It refuses a
// text that is wrong then.
func Assign(text []byte, list []Assignment) ([]byte, error) {
	for i := range list {
		a := &list[i]
		if err := a.check(); err != nil {
			return nil, err
		}
		var err error
		if text, err = a.apply(text); err != nil {
			return nil, err
		}
	}
	if _, err := Parse(text); err != nil {
		return nil, err
	}
	for i := range list {
		if !list[i].holds(text) && !slices.ContainsFunc(list[i+1:], func(later Assignment) bool {
			return later.Table == list[i].Table && later.Key == list[i].Key
		}) {
			return nil, fmt.Errorf("%s stands in the side-car in a way that cannot be changed here: write it by hand", list[i].Key)
		}
	}
	return text, nil
}

// holds reports whether the text says what is assigned.
func (a *Assignment) holds(text []byte) bool {
	keys, err := tomltable.Parse(text)
	if err != nil {
		return false
	}
	if a.Table != "" {
		keys, _ = keys[a.Table].Table()
	}
	value, there := keys[a.Key]
	if a.Value == "" || !there {
		return there == (a.Value != "")
	}
	got, err := value.Any()
	want, wrong := a.decode()
	return err == nil && wrong == nil && reflect.DeepEqual(got, want)
}

// apply changes one key.
func (a *Assignment) apply(text []byte) ([]byte, error) {
	list, err := scan(text)
	if err != nil {
		return nil, err
	}
	head := slices.IndexFunc(list, func(st statement) bool { return st.header })
	if head < 0 {
		head = len(list)
	}
	top, tables := list[:head], list[head:]
	if a.Table == "" {
		if st := find(top, a.Key); st != nil {
			return a.replace(text, st), nil
		}
		from := 0
		if strings.HasPrefix(string(text), string(bom)) {
			from = len(bom)
		}
		return a.insert(text, from, a.Key), nil
	}
	for i, st := range tables {
		if !st.header || unquoted(strings.TrimPrefix(st.key, "[")) != a.Table {
			continue
		}
		end := slices.IndexFunc(tables[i+1:], func(st statement) bool { return st.header })
		if end < 0 {
			end = len(tables[i+1:])
		}
		if own := find(tables[i+1:i+1+end], a.Key); own != nil {
			return a.replace(text, own), nil
		}
		if st.to == len(text) {
			text = append(slices.Clip(text), '\n')
		}
		return a.insert(text, st.to+1, a.Key), nil // behind the end of the line
	}
	if st := find(top, a.Table+"."+a.Key); st != nil {
		return a.replace(text, st), nil
	}
	if st := find(top, a.Table); st != nil {
		return a.inline(text, st)
	}
	for _, st := range top {
		if strings.HasPrefix(st.key, a.Table+".") {
			return a.insert(text, st.from, a.Table+"."+a.Key), nil
		}
	}
	if a.Value == "" {
		return text, nil
	}
	text = slices.Clip(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, newline(text)...)
	}
	return append(text, "["+a.Table+"]"+newline(text)+a.Key+" = "+a.Value+newline(text)...), nil
}

// find returns the statement of a key, nil if there is none.
func find(list []statement, key string) *statement {
	for i := range list {
		if unquoted(list[i].key) == key {
			return &list[i]
		}
	}
	return nil
}

// unquoted returns a simple key without quotes around it.
func unquoted(key string) string {
	key = strings.TrimSpace(key)
	if len(key) > 1 && (key[0] == '"' || key[0] == '\'') && key[len(key)-1] == key[0] {
		return key[1 : len(key)-1]
	}
	return key
}

// replace changes the value of a statement, or removes the statement.
func (a *Assignment) replace(text []byte, st *statement) []byte {
	if a.Value != "" {
		return slices.Concat(text[:st.start], []byte(a.Value), text[st.end:])
	}
	to := st.to
	if to < len(text) {
		to++ // the end of the line
	}
	return slices.Concat(text[:st.from], text[to:])
}

// insert adds a line at a position, unless the key is to be removed.
func (a *Assignment) insert(text []byte, at int, key string) []byte {
	if a.Value == "" {
		return text
	}
	return slices.Concat(text[:at], []byte(key+" = "+a.Value+newline(text)), text[at:])
}

// inline changes a key of a table within braces, which is written again.
func (a *Assignment) inline(text []byte, st *statement) ([]byte, error) {
	value, err := tomltable.ParseValue(string(text[st.start:st.end]))
	if err != nil {
		return nil, fmt.Errorf("read the table %s: %w", a.Table, err)
	}
	table, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no table: write it by hand", a.Table)
	}
	var items []string
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if key == a.Key {
			continue
		}
		value, err := encode(table[key])
		if err != nil {
			return nil, err
		}
		items = append(items, quoted(key)+" = "+value)
	}
	if a.Value != "" {
		items = append(items, a.Key+" = "+a.Value)
	}
	return slices.Concat(text[:st.start], []byte("{"+strings.Join(items, ", ")+"}"), text[st.end:]), nil
}

var errByHand = errors.New("the table has a value that cannot be written here: change it by hand")

// encode writes a value in TOML.
func encode(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return quotedValue(v), nil
	case int64, bool:
		return fmt.Sprint(v), nil
	case []any:
		var items []string
		for _, item := range v {
			text, err := encode(item)
			if err != nil {
				return "", err
			}
			items = append(items, text)
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	}
	return "", errByHand
}

// quotedValue writes a text as a string of TOML.
func quotedValue(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&out, "\\u%04x", r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
