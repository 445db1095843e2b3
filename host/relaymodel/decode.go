package relaymodel

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

// maxText bounds the text of a profile.
const maxText = 64 << 10

// Parse reads the text of a profile. Keys that it does not have are those of
// [Default]. An error is one sentence with the line, the key and what is wanted.
func Parse(text []byte) (*Profile, error) { return Default().With(text) }

// With returns the profile with keys of a text in place of its own. A list or an
// answer is replaced as a whole.
func (p *Profile) With(text []byte) (*Profile, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the profile has more than %d bytes", maxText)
	}
	d := decoder{}
	var keys map[string]toml.Primitive
	meta, err := toml.Decode(string(text), &keys)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return nil, fmt.Errorf("line %d: %s", parse.Position.Line, strings.Join(strings.Fields(parse.Message), " "))
		}
		return nil, err
	}
	d.meta = meta
	changed := *p
	if err := d.table(keys, reflect.ValueOf(&changed).Elem(), ""); err != nil {
		return nil, err
	}
	if err := changed.check(); err != nil {
		return nil, err
	}
	return &changed, nil
}

// check refuses values that contradict each other.
func (p *Profile) check() error {
	if f := p.Negentropy.FrameBytes; f != 0 && f < 4096 {
		return fmt.Errorf("negentropy.frame-bytes = %d: want 0, or 4096 and more", f)
	}
	for i, o := range p.Outages {
		if o.ForSeconds <= 0 || o.EverySeconds > 0 && o.EverySeconds <= o.ForSeconds {
			return fmt.Errorf("outage[%d]: want for-s above 0, and every-s above for-s where it is given", i+1)
		}
	}
	if p.Arrival.Late > 0 && p.Arrival.LateS <= 0 {
		return errors.New("arrival.late needs arrival.late-s: events that are late by no time are not late")
	}
	return nil
}

type decoder struct{ meta toml.MetaData }

// table reads the keys of a table into a struct.
func (d *decoder) table(keys map[string]toml.Primitive, into reflect.Value, path string) error {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		f, ok := fieldOf(into.Type(), key)
		if !ok {
			return d.wrong(keys[key], path+key, "one of the keys "+strings.Join(keysOf(into.Type()), ", "))
		}
		if err := d.value(keys[key], into.FieldByIndex(f.Index), f.Tag, path+key); err != nil {
			return err
		}
	}
	return nil
}

// value reads one value.
func (d *decoder) value(raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) error {
	most := 0.0
	if text := tag.Get("max"); text != "" {
		most, _ = strconv.ParseFloat(text, 64)
	}
	switch into.Interface().(type) {
	case Answer:
		keys, ok := d.keys(raw)
		if !ok {
			return d.wrong(raw, path, `a table such as { by = "closed", text = "…" }`)
		}
		return d.answer(keys, into.Addr().Interface().(*Answer), path)
	case map[string]any:
		return d.limitation(raw, into, tag, path)
	case []int:
		var list []int
		if d.meta.PrimitiveDecode(raw, &list) != nil || slices.ContainsFunc(list, func(n int) bool { return n < 0 || float64(n) > most }) {
			return d.wrong(raw, path, fmt.Sprintf("a list of whole numbers, each 0 to %s", tag.Get("max")))
		}
		into.Set(reflect.ValueOf(list))
		return nil
	}
	switch into.Kind() {
	case reflect.Struct:
		keys, ok := d.keys(raw)
		if !ok {
			return d.wrong(raw, path, "a table")
		}
		return d.table(keys, into, path+".")
	case reflect.Slice:
		var list []map[string]toml.Primitive
		if d.meta.PrimitiveDecode(raw, &list) != nil {
			return d.wrong(raw, path, "tables, each written [["+path+"]]")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
		for i, keys := range list {
			if err := d.table(keys, into.Index(i), fmt.Sprintf("%s[%d].", path, i+1)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Bool:
		var v bool
		if d.meta.PrimitiveDecode(raw, &v) != nil {
			return d.wrong(raw, path, "true or false")
		}
		into.SetBool(v)
	case reflect.Int:
		var v int64
		if d.meta.PrimitiveDecode(raw, &v) != nil || v < 0 || float64(v) > most {
			return d.wrong(raw, path, "a whole number, 0 to "+tag.Get("max"))
		}
		into.SetInt(v)
	case reflect.Float64:
		var v float64
		if d.meta.PrimitiveDecode(raw, &v) != nil || !(v >= 0 && v <= most) {
			return d.wrong(raw, path, "a number, 0 to "+tag.Get("max"))
		}
		into.SetFloat(v)
	default:
		var v string
		one := tag.Get("one")
		if d.meta.PrimitiveDecode(raw, &v) != nil || one != "" && !slices.Contains(strings.Split(one, "|"), v) {
			want := "a string"
			if one != "" {
				want = "one of " + strings.ReplaceAll(one, "|", ", ")
			}
			return d.wrong(raw, path, want)
		}
		into.SetString(v)
	}
	return nil
}

// keys returns the keys of a table, undecoded. The library takes other values for
// empty tables.
func (d *decoder) keys(raw toml.Primitive) (keys map[string]toml.Primitive, ok bool) {
	var value any
	if d.meta.PrimitiveDecode(raw, &value) != nil {
		return nil, false
	}
	if _, ok = value.(map[string]any); !ok {
		return nil, false
	}
	return keys, d.meta.PrimitiveDecode(raw, &keys) == nil
}

// answer reads how something is refused. What is not said is nothing, not the default.
func (d *decoder) answer(keys map[string]toml.Primitive, a *Answer, path string) error {
	*a = Answer{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var err error
		switch key {
		case "by":
			err = d.value(keys[key], reflect.ValueOf(&a.By).Elem(), `one:"`+ways+`|"`, path+".by")
		case "text":
			err = d.value(keys[key], reflect.ValueOf(&a.Text).Elem(), "", path+".text")
		case "code":
			err = d.value(keys[key], reflect.ValueOf(&a.Code).Elem(), `max:"4999"`, path+".code")
		default:
			err = d.wrong(keys[key], path+"."+key, "one of the keys by, code, text")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitation reads what is advertised: numbers and booleans.
func (d *decoder) limitation(raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) error {
	keys, ok := d.keys(raw)
	if !ok {
		return d.wrong(raw, path, "a table")
	}
	names := strings.Split(tag.Get("one"), "|")
	all := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(names, key) {
			return d.wrong(keys[key], path+"."+key, "one of the keys "+strings.Join(names, ", "))
		}
		var number int64
		var flag bool
		switch {
		case d.meta.PrimitiveDecode(keys[key], &number) == nil:
			all[key] = number
		case d.meta.PrimitiveDecode(keys[key], &flag) == nil:
			all[key] = flag
		default:
			return d.wrong(keys[key], path+"."+key, "a whole number, or true or false")
		}
	}
	into.Set(reflect.ValueOf(all))
	return nil
}

// wrong says where a value is not what is wanted.
func (d *decoder) wrong(raw toml.Primitive, path, want string) error {
	return fmt.Errorf("line %d: %s: want %s", d.line(raw), path, want)
}

// line returns the line of a value. The library tells it in its own errors alone, and
// not of a table that only dotted keys make: that has the line of its first key.
func (d *decoder) line(raw toml.Primitive) int {
	var parse toml.ParseError
	errors.As(d.meta.PrimitiveDecode(raw, new(refuse)), &parse)
	if parse.Position.Line > 0 {
		return parse.Position.Line
	}
	keys, _ := d.keys(raw)
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
		if f := t.Field(i); f.Tag.Get("key") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("key"))
	}
	return keys
}
