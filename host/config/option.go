package config

import (
	"fmt"
	"strconv"
	"strings"
)

// option is one thing that an operator can choose.
type option struct {
	name    string // of the flag and of the key in the file
	scope   Scope
	preset  string // the default, as it would be written
	help    string
	value   value
	changed bool // by the file or the environment
}

// apply sets the option from a place that is not a flag.
func (o *option) apply(text, place string) error {
	if err := o.value.set(text); err != nil {
		return fmt.Errorf("%s: the value %q of option %s is wrong: want %w", place, text, o.name, err)
	}
	o.changed = true
	return nil
}

// usage is the option's help with its environment variable and its default.
func (o *option) usage() string {
	shown := o.preset
	if shown == "" || o.value.kind == "string" {
		shown = strconv.Quote(shown)
	}
	return o.help + " [" + env(o.name) + "] (default " + shown + ")"
}

// value is a variable that can be set from text.
type value struct {
	set  func(text string) error // the error says what is allowed
	get  func() string
	kind string
}

func opt(name string, scope Scope, preset string, v value, help string) *option {
	return &option{name: name, scope: scope, preset: preset, value: v, help: help}
}

// env is the name of the option's environment variable.
func env(name string) string {
	return "TALON_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// flag makes an option a flag (pflag.Value).
type flag struct{ *option }

func (f flag) String() string { return f.value.get() }

func (f flag) Type() string { return f.value.kind }

func (f flag) Set(text string) error {
	if err := f.value.set(text); err != nil {
		return fmt.Errorf("want %w", err)
	}
	return nil
}
