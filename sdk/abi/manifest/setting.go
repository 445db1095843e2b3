package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/sdk/abi"
)

// Types of a setting.
const (
	TypeString  = "string"
	TypeInt     = "int"
	TypeBool    = "bool"
	TypeFloat   = "float"
	TypeStrings = "strings" // a whole number is taken as its digits
	TypeInts    = "ints"
)

// Setting describes one key of a module's configuration.
type Setting struct {
	Key     string   `json:"key"`
	Type    string   `json:"type"`
	Default any      `json:"default"` // of Type; the type's zero value if absent
	Min     *float64 `json:"min"`     // inclusive, for int, ints and float
	Max     *float64 `json:"max"`     // inclusive, for int, ints and float
	Enum    []string `json:"enum"`    // the only values, for string and strings
	Help    string   `json:"help"`    // one or two sentences for the operator

	// SetPrefix is for string and strings. A value that begins with it names a set: the rest is the
	// name. The host refuses a value that names no set.
	SetPrefix string `json:"set_prefix"`
}

// ConfigError says that a value of the configuration is wrong.
type ConfigError struct {
	Key   string
	Value any
	Want  string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("config %s = %s: want %s", e.Key, show(e.Value), e.Want)
}

// Resolve checks the operator's values, as they come from TOML or JSON, and
// returns every setting in the manifest's order, defaults filled in.
func (m *Manifest) Resolve(values map[string]any) ([]abi.Setting, error) {
	keys := make([]string, len(m.Config))
	for i := range m.Config {
		keys[i] = m.Config[i].Key
	}
	for key, value := range values {
		if slices.Contains(keys, key) {
			continue
		}
		if len(keys) == 0 {
			return nil, &ConfigError{Key: key, Value: value, Want: "nothing: the module has no settings"}
		}
		return nil, &ConfigError{Key: key, Value: value, Want: "one of the keys " + strings.Join(keys, ", ")}
	}
	settings := make([]abi.Setting, len(m.Config))
	for i := range m.Config {
		s := &m.Config[i]
		value, given := values[s.Key]
		if !given {
			value = s.Default
		}
		var err error
		if settings[i], err = s.resolve(value); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

func (s *Setting) validate() error {
	if !isName(s.Key, 64) {
		return errors.New("key: want a-z, 0-9, - and _, at most 64")
	}
	switch s.Type {
	case TypeInt, TypeInts, TypeFloat:
		if s.Enum != nil {
			return fmt.Errorf("enum is not for type %s", s.Type)
		}
		if s.SetPrefix != "" {
			return fmt.Errorf("set_prefix is not for type %s", s.Type)
		}
		if s.Min != nil && s.Max != nil && *s.Min > *s.Max {
			return errors.New("min is greater than max")
		}
	case TypeString, TypeStrings, TypeBool:
		if s.Min != nil || s.Max != nil {
			return fmt.Errorf("min and max are not for type %s", s.Type)
		}
	default:
		return fmt.Errorf("type %.20q: want string, int, bool, float, strings or ints", s.Type)
	}
	if s.Type == TypeString && s.Default == nil && s.Enum != nil {
		return errors.New("a setting with an enum needs a default")
	}
	if _, err := s.resolve(s.Default); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	return nil
}

// resolve checks one value. nil means the zero value of the type.
func (s *Setting) resolve(value any) (abi.Setting, error) {
	out := abi.Setting{Key: s.Key}
	ok := true
	switch s.Type {
	case TypeString:
		var v string
		if value != nil {
			v, ok = value.(string)
		}
		ok = ok && s.allows(v)
		out.Strings = []string{v}
	case TypeBool:
		var v bool
		if value != nil {
			v, ok = value.(bool)
		}
		out.Bools = []bool{v}
	case TypeInt:
		var v int64
		if value != nil {
			v, ok = asInt(value)
		}
		// An absent default of a setting whose minimum is above zero is the minimum.
		if value == nil && s.Min != nil && *s.Min > 0 {
			v = int64(*s.Min)
		}
		ok = ok && s.inRange(float64(v))
		out.Ints = []int64{v}
	case TypeFloat:
		var v float64
		if value != nil {
			v, ok = asFloat(value)
		}
		ok = ok && s.inRange(v)
		out.Floats = []float64{v}
	case TypeStrings:
		ok = each(value, func(item any) bool {
			v, ok := item.(string)
			if n, whole := asInt(item); whole { // kinds = [4, "30000-39999"]
				v, ok = strconv.FormatInt(n, 10), true
			}
			out.Strings = append(out.Strings, v)
			return ok && s.allows(v)
		})
	case TypeInts:
		ok = each(value, func(item any) bool {
			v, ok := asInt(item)
			out.Ints = append(out.Ints, v)
			return ok && s.inRange(float64(v))
		})
	}
	if !ok {
		return out, &ConfigError{Key: s.Key, Value: value, Want: s.Want()}
	}
	return out, nil
}

func (s *Setting) allows(v string) bool {
	return utf8.ValidString(v) && (s.Enum == nil || slices.Contains(s.Enum, v))
}

func (s *Setting) inRange(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (s.Min == nil || v >= *s.Min) && (s.Max == nil || v <= *s.Max)
}

// Want says in words which values the setting takes.
func (s *Setting) Want() string {
	var what string
	switch s.Type {
	case TypeString:
		what = "a string"
	case TypeBool:
		return "true or false"
	case TypeInt:
		what = "a whole number"
	case TypeFloat:
		what = "a number"
	case TypeStrings:
		what = "a list of strings"
	case TypeInts:
		what = "a list of whole numbers"
	}
	switch {
	case s.Enum != nil && s.Type == TypeString:
		return "one of " + quoteAll(s.Enum)
	case s.Enum != nil:
		return what + ", each one of " + quoteAll(s.Enum)
	case s.Min != nil && s.Max != nil:
		return what + " from " + number(*s.Min) + " to " + number(*s.Max)
	case s.Min != nil:
		return what + ", at least " + number(*s.Min)
	case s.Max != nil:
		return what + ", at most " + number(*s.Max)
	}
	return what
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, v := range list {
		quoted[i] = strconv.Quote(v)
	}
	return strings.Join(quoted, ", ")
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// show prints a value as an operator wrote it, cut to a readable length.
func show(value any) string {
	var text string
	switch v := value.(type) {
	case string:
		text = strconv.Quote(v)
	case nil:
		text = "nothing"
	default:
		text = fmt.Sprint(v)
	}
	if len(text) > 120 {
		cut := 117
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

func asInt(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	}
	return 0, false
}

func asFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	}
	n, ok := asInt(value)
	return float64(n), ok
}

// each calls f for the items of a list of any type, until it returns false.
func each(value any, f func(any) bool) bool {
	if value == nil {
		return true
	}
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return false
	}
	for i := range list.Len() {
		if !f(list.Index(i).Interface()) {
			return false
		}
	}
	return true
}
