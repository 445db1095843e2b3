package tomlschema

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Special decodes values of types that the package does not know. It reports false for
// what it leaves to the package.
type Special func(d *Decoder, raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) (bool, error)

// Defaults is implemented by a struct whose entries of a map or a list do not begin with
// zeros.
type Defaults interface{ SetDefaults() }

// Decode reads a text into a struct. special may be nil.
func Decode(text []byte, into any, special Special) error {
	d := Decoder{special: special}
	var keys map[string]toml.Primitive
	meta, err := toml.Decode(string(text), &keys)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return fmt.Errorf("line %d: %s", parse.Position.Line, strings.Join(strings.Fields(parse.Message), " "))
		}
		return err
	}
	d.meta = meta
	return d.table(keys, reflect.ValueOf(into).Elem(), "")
}

// Value returns a value as TOML has it, or the text where it is none.
func Value(text string) any {
	var v struct{ V any }
	if _, err := toml.Decode("V = "+text, &v); err != nil {
		return text
	}
	return v.V
}

// Decoder reads one text.
type Decoder struct {
	meta    toml.MetaData
	special Special
}

// Decode gives a value to a variable of Go, as the library does it.
func (d *Decoder) Decode(raw toml.Primitive, into any) error {
	return d.meta.PrimitiveDecode(raw, into)
}

// table reads the keys of a table into a struct.
func (d *Decoder) table(keys map[string]toml.Primitive, into reflect.Value, path string) error {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		f, ok := fieldOf(into.Type(), key)
		if !ok {
			return d.Wrong(keys[key], path+key, "one of the keys "+strings.Join(keysOf(into.Type()), ", "))
		}
		if err := d.Value(keys[key], into.FieldByIndex(f.Index), f.Tag, path+key); err != nil {
			return err
		}
	}
	return nil
}

// Value reads one value.
func (d *Decoder) Value(raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) error {
	if d.special != nil {
		if done, err := d.special(d, raw, into, tag, path); done || err != nil {
			return err
		}
	}
	if into.Type() == reflect.TypeFor[Duration]() {
		var text string
		if d.Decode(raw, &text) == nil {
			if v, err := ParseDuration(text); err == nil {
				into.SetInt(int64(v))
				return nil
			}
		}
		return d.Wrong(raw, path, `a length of time such as "90s", "5m", "6h", "2d" or "1d12h"`)
	}
	least, most := bounds(tag)
	switch into.Kind() {
	case reflect.Struct:
		keys, ok := d.Keys(raw)
		if !ok {
			return d.Wrong(raw, path, "a table")
		}
		return d.table(keys, into, path+".")
	case reflect.Map:
		return d.entries(raw, into, path)
	case reflect.Slice:
		return d.list(raw, into, tag, path)
	case reflect.Bool:
		var v bool
		if d.Decode(raw, &v) != nil {
			return d.Wrong(raw, path, "true or false")
		}
		into.SetBool(v)
	case reflect.Int, reflect.Int64:
		var v int64
		if d.Decode(raw, &v) != nil || float64(v) < least || float64(v) > most {
			return d.Wrong(raw, path, "a whole number, "+between(tag))
		}
		into.SetInt(v)
	case reflect.Float64:
		var v float64
		if d.Decode(raw, &v) != nil || !(v >= least && v <= most) {
			return d.Wrong(raw, path, "a number, "+between(tag))
		}
		into.SetFloat(v)
	default:
		var v string
		one := tag.Get("one")
		if d.Decode(raw, &v) != nil || one != "" && !slices.Contains(strings.Split(one, "|"), v) {
			want := "a string"
			if one != "" {
				want = "one of " + strings.ReplaceAll(one, "|", ", ")
			}
			return d.Wrong(raw, path, want)
		}
		into.SetString(v)
	}
	return nil
}

// entries reads a table of tables.
func (d *Decoder) entries(raw toml.Primitive, into reflect.Value, path string) error {
	keys, ok := d.Keys(raw)
	if !ok {
		return d.Wrong(raw, path, "a table")
	}
	if into.IsNil() {
		into.Set(reflect.MakeMap(into.Type()))
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		entry := reflect.New(into.Type().Elem())
		if old := into.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			entry.Elem().Set(old)
		} else {
			setDefaults(entry)
		}
		inner, ok := d.Keys(keys[name])
		if !ok {
			return d.Wrong(keys[name], path+"."+name, "a table")
		}
		if err := d.table(inner, entry.Elem(), path+"."+name+"."); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(name), entry.Elem())
	}
	return nil
}

// list reads tables, whole numbers or strings.
func (d *Decoder) list(raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) error {
	switch into.Type().Elem().Kind() {
	case reflect.Int:
		var list []int
		least, most := bounds(tag)
		if d.Decode(raw, &list) != nil || slices.ContainsFunc(list, func(n int) bool { return float64(n) < least || float64(n) > most }) {
			return d.Wrong(raw, path, "a list of whole numbers, each "+between(tag))
		}
		into.Set(reflect.ValueOf(list))
		return nil
	case reflect.String:
		var list []string
		if d.Decode(raw, &list) != nil {
			return d.Wrong(raw, path, "a list of strings")
		}
		into.Set(reflect.ValueOf(list))
		return nil
	}
	var list []map[string]toml.Primitive
	if d.Decode(raw, &list) != nil {
		return d.Wrong(raw, path, "tables, each written [["+path+"]]")
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

func bounds(tag reflect.StructTag) (least, most float64) {
	least, _ = strconv.ParseFloat(tag.Get("min"), 64)
	most, _ = strconv.ParseFloat(tag.Get("max"), 64)
	return least, most
}

func between(tag reflect.StructTag) string {
	least := tag.Get("min")
	if least == "" {
		least = "0"
	}
	return least + " to " + tag.Get("max")
}

// Keys returns the keys of a table, undecoded, and false for what is no table. The library
// takes other values for empty tables.
func (d *Decoder) Keys(raw toml.Primitive) (keys map[string]toml.Primitive, ok bool) {
	var value any
	if d.Decode(raw, &value) != nil {
		return nil, false
	}
	if _, ok = value.(map[string]any); !ok {
		return nil, false
	}
	return keys, d.Decode(raw, &keys) == nil
}

// Wrong says where a value is not what is wanted.
func (d *Decoder) Wrong(raw toml.Primitive, path, want string) error {
	return fmt.Errorf("line %d: %s: want %s", d.line(raw), path, want)
}

// line returns the line of a value. The library tells it in its own errors alone, and
// not of a table that only dotted keys make: that has the line of its first key.
func (d *Decoder) line(raw toml.Primitive) int {
	var parse toml.ParseError
	errors.As(d.Decode(raw, new(refuse)), &parse)
	if parse.Position.Line > 0 {
		return parse.Position.Line
	}
	keys, _ := d.Keys(raw)
	first := 0
	for _, inner := range keys {
		if n := d.line(inner); n > 0 && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}

// refuse is the type that no value has.
type refuse struct{}

func (*refuse) UnmarshalTOML(any) error { return errors.New("refused") }

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
