package relaymodel

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"talon/internal/tomlschema"
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
	changed := *p
	if err := tomlschema.Decode(text, &changed, special); err != nil {
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

// special reads what only profiles have.
func special(d *tomlschema.Decoder, raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) (bool, error) {
	switch into.Interface().(type) {
	case Answer:
		keys, ok := d.Keys(raw)
		if !ok {
			return true, d.Wrong(raw, path, `a table such as { by = "closed", text = "…" }`)
		}
		return true, answer(d, keys, into.Addr().Interface().(*Answer), path)
	case map[string]any:
		return true, limitation(d, raw, into, tag, path)
	}
	return false, nil
}

// answer reads how something is refused. What is not said is nothing, not the default.
func answer(d *tomlschema.Decoder, keys map[string]toml.Primitive, a *Answer, path string) error {
	*a = Answer{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var err error
		switch key {
		case "by":
			err = d.Value(keys[key], reflect.ValueOf(&a.By).Elem(), `one:"`+ways+`|"`, path+".by")
		case "text":
			err = d.Value(keys[key], reflect.ValueOf(&a.Text).Elem(), "", path+".text")
		case "code":
			err = d.Value(keys[key], reflect.ValueOf(&a.Code).Elem(), `max:"4999"`, path+".code")
		default:
			err = d.Wrong(keys[key], path+"."+key, "one of the keys by, code, text")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitation reads what is advertised: numbers and booleans.
func limitation(d *tomlschema.Decoder, raw toml.Primitive, into reflect.Value, tag reflect.StructTag, path string) error {
	keys, ok := d.Keys(raw)
	if !ok {
		return d.Wrong(raw, path, "a table")
	}
	names := strings.Split(tag.Get("one"), "|")
	all := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(names, key) {
			return d.Wrong(keys[key], path+"."+key, "one of the keys "+strings.Join(names, ", "))
		}
		var number int64
		var flag bool
		switch {
		case d.Decode(keys[key], &number) == nil:
			all[key] = number
		case d.Decode(keys[key], &flag) == nil:
			all[key] = flag
		default:
			return d.Wrong(keys[key], path+"."+key, "a whole number, or true or false")
		}
	}
	into.Set(reflect.ValueOf(all))
	return nil
}
