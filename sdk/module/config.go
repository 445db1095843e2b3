// Package module has the parts that all worlds share: the configuration of a module, and the
// weights of log lines. Packages strategy and throttle export these types under their own names, so
// authors need not import this one.
package module

import (
	"errors"

	"talon/sdk/abi"
)

// Config holds every setting of the manifest, the operator's value or the
// default. The host has checked types and limits.
type Config struct{ c abi.Config }

// Service is how the relay is reached from outside.
type Service = abi.Service

// NewConfig returns a Config of settings that the host has checked.
func NewConfig(c abi.Config) Config { return Config{c} }

// Reread encodes and decodes c, as on the way into a module.
func Reread(c abi.Config) (Config, error) {
	decoded, err := abi.DecodeConfig(abi.AppendConfig(nil, &c))
	return Config{decoded}, err
}

// Service returns how the relay is reached from outside: a setting of the host, the
// same for every module.
func (c Config) Service() Service { return c.c.Service }

// String returns a setting of type string.
func (c Config) String(key string) string { return first(c.get(key).Strings) }

// Strings returns a setting of type strings.
func (c Config) Strings(key string) []string { return c.get(key).Strings }

// Int returns a setting of type int.
func (c Config) Int(key string) int64 { return first(c.get(key).Ints) }

// Ints returns a setting of type ints.
func (c Config) Ints(key string) []int64 { return c.get(key).Ints }

// Bool returns a setting of type bool.
func (c Config) Bool(key string) bool { return first(c.get(key).Bools) }

// Float returns a setting of type float.
func (c Config) Float(key string) float64 { return first(c.get(key).Floats) }

// get panics for a key that the manifest does not have: the module contradicts
// itself, which shows the first time that it is loaded or tested.
func (c Config) get(key string) *abi.Setting {
	for i := range c.c.Settings {
		if c.c.Settings[i].Key == key {
			return &c.c.Settings[i]
		}
	}
	panic("the manifest has no setting " + key)
}

func first[T any](list []T) T {
	if len(list) == 0 {
		var zero T
		return zero
	}
	return list[0]
}

// WrongValue returns the error for a value that the manifest cannot describe as wrong. It names the
// key, the value and a valid one.
func WrongValue(key, value, want string) error {
	return errors.New("config " + key + " has " + quote(value) + ": want " + want)
}

// quote is strconv.Quote for text that is mostly harmless; it keeps fmt and
// strconv out of small modules.
func quote(s string) string {
	b := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			b = append(b, '?')
		default:
			b = append(b, string(r)...)
		}
	}
	return string(append(b, '"'))
}

// Level is the weight of a line in the log.
type Level int32

const (
	Debug Level = abi.LevelDebug
	Info  Level = abi.LevelInfo
	Warn  Level = abi.LevelWarn
	Error Level = abi.LevelError
)
