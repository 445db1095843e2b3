// Package tomlschema reads TOML into structs whose tags are a schema, strictly: an
// unknown key, a wrong type or a value out of its range is an error that names the line
// and the key. The same tags make reference pages ([Rows]).
//
//	key  the key of the field; fields of a struct without one are no keys
//	doc  what it means, for the page
//	max  the greatest number; the least is 0, or min
//	min  the least number
//	one  the strings that are allowed, with | between them
//
// A field is a struct, a slice or a map of structs, a boolean, a number, a string, a list of
// integers or strings, or a [Duration]. A key that is missing in a text keeps its value in the
// struct. So read a second text to change the values of the first.
package tomlschema

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"talon/internal/tomltable"
)

// Special decodes values of types that the package does not know. It reports false for
// what it leaves to the package.
type Special func(d *Decoder, raw tomltable.Value, into reflect.Value, tag reflect.StructTag, path string) (bool, error)

// Defaults is implemented by a struct whose entries of a map or a list do not begin with
// zeros.
type Defaults interface{ SetDefaults() }

// Decode reads a text into a struct. special may be nil.
func Decode(text []byte, into any, special Special) error {
	keys, err := tomltable.Parse(text)
	if err != nil {
		return err
	}
	d := Decoder{special: special}
	return d.table(keys, reflect.ValueOf(into).Elem(), "")
}

// Value returns a value as TOML has it, or the text where it is none.
func Value(text string) any {
	v, err := tomltable.ParseValue(text)
	if err != nil {
		return text
	}
	return v
}

// Decoder reads one text.
type Decoder struct{ special Special }

// table reads the keys of a table into a struct.
func (d *Decoder) table(keys tomltable.Table, into reflect.Value, path string) error {
	for _, key := range keys.Keys() {
		f, ok := fieldOf(into.Type(), key)
		if !ok {
			return Wrong(keys[key], path+key, "one of the keys "+strings.Join(keysOf(into.Type()), ", "))
		}
		if err := d.Value(keys[key], into.FieldByIndex(f.Index), f.Tag, path+key); err != nil {
			return err
		}
	}
	return nil
}

// Value reads one value.
func (d *Decoder) Value(raw tomltable.Value, into reflect.Value, tag reflect.StructTag, path string) error {
	if d.special != nil {
		if done, err := d.special(d, raw, into, tag, path); done || err != nil {
			return err
		}
	}
	if into.Type() == reflect.TypeFor[Duration]() {
		var text string
		if raw.Decode(&text) == nil {
			if v, err := ParseDuration(text); err == nil {
				into.SetInt(int64(v))
				return nil
			}
		}
		return Wrong(raw, path, `a length of time such as "90s", "5m", "6h", "2d" or "1d12h"`)
	}
	low, limit := bounds(tag)
	switch into.Kind() {
	case reflect.Struct:
		keys, ok := raw.Table()
		if !ok {
			return Wrong(raw, path, "a table")
		}
		return d.table(keys, into, path+".")
	case reflect.Map:
		return d.entries(raw, into, path)
	case reflect.Slice:
		return d.list(raw, into, tag, path)
	case reflect.Bool:
		var v bool
		if raw.Decode(&v) != nil {
			return Wrong(raw, path, "true or false")
		}
		into.SetBool(v)
	case reflect.Int, reflect.Int64:
		var v int64
		if raw.Decode(&v) != nil || float64(v) < low || float64(v) > limit {
			return Wrong(raw, path, "a whole number, "+between(tag))
		}
		into.SetInt(v)
	case reflect.Float64:
		var v float64
		if raw.Decode(&v) != nil || !(v >= low && v <= limit) {
			return Wrong(raw, path, "a number, "+between(tag))
		}
		into.SetFloat(v)
	default:
		var v string
		one := tag.Get("one")
		if raw.Decode(&v) != nil || one != "" && !slices.Contains(strings.Split(one, "|"), v) {
			want := "a string"
			if one != "" {
				want = "one of " + strings.ReplaceAll(one, "|", ", ")
			}
			return Wrong(raw, path, want)
		}
		into.SetString(v)
	}
	return nil
}

// entries reads a table of tables.
func (d *Decoder) entries(raw tomltable.Value, into reflect.Value, path string) error {
	keys, ok := raw.Table()
	if !ok {
		return Wrong(raw, path, "a table")
	}
	if into.IsNil() {
		into.Set(reflect.MakeMap(into.Type()))
	}
	for _, name := range keys.Keys() {
		entry := reflect.New(into.Type().Elem())
		if old := into.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			entry.Elem().Set(old)
		} else {
			setDefaults(entry)
		}
		inner, ok := keys[name].Table()
		if !ok {
			return Wrong(keys[name], path+"."+name, "a table")
		}
		if err := d.table(inner, entry.Elem(), path+"."+name+"."); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(name), entry.Elem())
	}
	return nil
}

// list reads tables, whole numbers or strings.
func (d *Decoder) list(raw tomltable.Value, into reflect.Value, tag reflect.StructTag, path string) error {
	switch into.Type().Elem().Kind() {
	case reflect.Int:
		var list []int
		low, limit := bounds(tag)
		if raw.Decode(&list) != nil || slices.ContainsFunc(list, func(n int) bool { return float64(n) < low || float64(n) > limit }) {
			return Wrong(raw, path, "a list of whole numbers, each "+between(tag))
		}
		into.Set(reflect.ValueOf(list))
		return nil
	case reflect.String:
		var list []string
		if raw.Decode(&list) != nil {
			return Wrong(raw, path, "a list of strings")
		}
		into.Set(reflect.ValueOf(list))
		return nil
	}
	list, ok := raw.Tables()
	if !ok {
		return Wrong(raw, path, "tables, each written [["+path+"]]")
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
	for i, keys := range list {
		setDefaults(into.Index(i).Addr())
		if err := d.table(keys, into.Index(i), fmt.Sprintf("%s[%d].", path, i+1)); err != nil {
			return err
		}
	}
	return nil
}

func setDefaults(pointer reflect.Value) {
	if s, ok := pointer.Interface().(Defaults); ok {
		s.SetDefaults()
	}
}

func bounds(tag reflect.StructTag) (low, limit float64) {
	low, _ = strconv.ParseFloat(tag.Get("min"), 64)
	limit, _ = strconv.ParseFloat(tag.Get("max"), 64)
	return low, limit
}

func between(tag reflect.StructTag) string {
	low := tag.Get("min")
	if low == "" {
		low = "0"
	}
	return low + " to " + tag.Get("max")
}

// Wrong says where a value is not what is wanted.
func Wrong(raw tomltable.Value, path, want string) error {
	return fmt.Errorf("line %d: %s: want %s", raw.Line(), path, want)
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); key != "" && f.Tag.Get("key") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("key"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Shown writes a default of a type that the package does not know, and reports false for
// what it leaves to the package.
type Shown func(value any) (string, bool)

// Rows writes the keys of a table as rows of a Markdown table with the columns key,
// default and meaning; those of tables in it with a dot.
func Rows(b *bytes.Buffer, path string, value reflect.Value, shown Shown) {
	table := value.Type()
	for i := range table.NumField() {
		f := table.Field(i)
		key, doc := f.Tag.Get("key"), f.Tag.Get("doc")
		if key == "" {
			continue
		}
		text, special := "", false
		if shown != nil {
			text, special = shown(value.Field(i).Interface())
		}
		if f.Type.Kind() == reflect.Struct && !special {
			fmt.Fprintf(b, "| **%s** | | %s |\n", path+key, doc)
			Rows(b, path+key+".", value.Field(i), shown)
			continue
		}
		if one := f.Tag.Get("one"); one != "" {
			doc += " (" + Alternatives(one) + ")"
		} else if f.Tag.Get("max") != "" {
			doc += " (" + between(f.Tag) + ")"
		}
		if !special {
			text = show(value.Field(i))
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", path+key, text, doc)
	}
}

// Alternatives writes the values of a tag "one".
func Alternatives(one string) string { return "`" + strings.ReplaceAll(one, "|", "`, `") + "`" }

func show(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		if v.Len() == 0 {
			return "none"
		}
	case reflect.Map:
		return "none"
	}
	return fmt.Sprint(v.Interface())
}

// Duration is a length of time of at least a millisecond, or none. A text of it is written
// with the units d, h, m, s and ms, such as "1d12h".
type Duration time.Duration

// MaxDuration is the longest one.
const MaxDuration = 10 * 366 * 24 * time.Hour

// Milliseconds returns it in milliseconds.
func (d Duration) Milliseconds() int64 { return time.Duration(d).Milliseconds() }

var errDuration = errors.New("it is no length of time")

var units = []struct {
	name string
	long time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration reads a length of time, at most [MaxDuration].
func ParseDuration(text string) (Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if text == "" {
		return 0, errDuration
	}
	var all time.Duration
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, errDuration
		}
		n, err := strconv.ParseFloat(text[:end], 64)
		text = text[end:]
		unit := text
		if end := strings.IndexAny(text, "0123456789."); end >= 0 {
			unit = text[:end]
		}
		text = text[len(unit):]
		found := false
		for _, u := range units {
			if u.name == unit && err == nil && n <= float64(MaxDuration/u.long) {
				all += time.Duration(n * float64(u.long)).Round(time.Millisecond)
				found = true
			}
		}
		if !found || all > MaxDuration {
			return 0, errDuration
		}
	}
	return Duration(all), nil
}

// String writes it so that ParseDuration reads the same.
func (d Duration) String() string {
	if d == 0 {
		return "0"
	}
	var b strings.Builder
	rest := time.Duration(d)
	for _, u := range units {
		if n := rest / u.long; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.long
		}
	}
	return b.String()
}
