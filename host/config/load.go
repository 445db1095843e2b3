package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"talon/internal/tomltable"
)

// DefaultFile is read if it exists and no other file was asked for.
const DefaultFile = "talon.toml"

// Loader reads a configuration in two steps: it adds flags to a command, and
// after these have been parsed it reads the file and the environment.
type Loader struct {
	config  *Config
	options []*option
	flags   *pflag.FlagSet
	file    string
}

// Flags adds the options of the scope to the flags, each with its default.
func Flags(flags *pflag.FlagSet, scope Scope) *Loader {
	l := newLoader(flags)
	flags.StringVar(&l.file, "config", "", "TOML `file` with these options by name; "+DefaultFile+" if that exists [TALON_CONFIG]")
	for _, o := range l.options {
		if o.scope&scope != 0 {
			flags.Var(flag{o}, o.name, o.usage())
			// The usage says it, also where pflag would think it not worth saying.
			flags.Lookup(o.name).DefValue = ""
		}
	}
	return l
}

// newLoader returns a loader whose options have their defaults.
func newLoader(flags *pflag.FlagSet) *Loader {
	c := &Config{}
	l := &Loader{config: c, options: c.options(), flags: flags}
	for _, o := range l.options {
		if err := o.value.set(o.preset); err != nil {
			panic("default of option " + o.name + ": want " + err.Error())
		}
	}
	return l
}

// Reload reads file and environment again, with the flags of Load. It returns another
// configuration.
func (l *Loader) Reload(lookupEnv func(string) (string, bool)) (*Config, error) {
	again := newLoader(l.flags)
	again.file = l.file
	c, err := again.Load(lookupEnv)
	if err != nil {
		return nil, err
	}
	c.Compiler = l.config.Compiler
	return c, nil
}

// Load returns the configuration. The flags must have been parsed.
//
// Errors name the option, the place where it was set, the value and what is
// allowed.
func (l *Loader) Load(lookupEnv func(string) (string, bool)) (*Config, error) {
	given := map[string]string{}
	l.flags.Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
	if err := l.readFile(lookupEnv); err != nil {
		return nil, err
	}
	for key := range moved {
		if _, ok := lookupEnv(env(key)); ok {
			if err := gone(key, "environment variable "+env(key)); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range l.options {
		if text, ok := lookupEnv(env(o.name)); ok {
			if err := o.apply(text, "environment variable "+env(o.name)); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range l.options {
		if text, ok := given[o.name]; ok {
			if err := o.apply(text, "flag --"+o.name); err != nil {
				return nil, err
			}
		}
	}
	return l.config, l.config.check()
}

// check looks at what no option can say alone.
func (c *Config) check() error {
	if c.ACME && len(c.Domains) == 0 {
		return errors.New("option acme is true, and option domain is empty: name the domain that the certificate is for")
	}
	if c.DefaultLimit > c.MaxLimit {
		return fmt.Errorf("the value %d of option default-limit is wrong: want at most max-limit, which is %d", c.DefaultLimit, c.MaxLimit)
	}
	// Three messages, and the part of a stored answer that is read ahead.
	if low := 3*c.Message + 512<<10; c.SendQueue < low {
		return fmt.Errorf("the value %s of option send-queue is wrong: want at least %s, three times max-message, which is %s, and 512KiB",
			formatSize(c.SendQueue), formatSize(low), formatSize(c.Message))
	}
	return nil
}

func (l *Loader) readFile(lookupEnv func(string) (string, bool)) error {
	path, must := l.file, true
	if path == "" {
		path, must = lookupEnv("TALON_CONFIG")
	}
	if path == "" {
		path, must = DefaultFile, false
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	l.config.File = path
	return l.parse(path, data)
}

// parse applies the text of a file.
func (l *Loader) parse(path string, data []byte) error {
	keys, err := tomltable.Parse(data)
	var syntax *tomltable.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: %s", path, syntax.Line, syntax.Message)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, key := range keys.Keys() {
		if err := gone(key, path); err != nil {
			return err
		}
		i := slices.IndexFunc(l.options, func(o *option) bool { return o.name == key })
		if i < 0 {
			return fmt.Errorf("%s:%d: there is no option %q%s", path, keys[key].Line(), key, l.nearest(key))
		}
		value, err := keys[key].Any()
		text, ok := plain(value)
		if err != nil || !ok {
			return fmt.Errorf("%s:%d: option %s must be a string, a number or a list of strings", path, keys[key].Line(), key)
		}
		if err := l.options[i].apply(text, path); err != nil {
			return err
		}
	}
	return nil
}

// moved are options that there were, and where to say now what they said.
var moved = map[string]string{
	"on-failure": "on-failure in NAME.toml beside NAME.wasm says what happens when that module fails",
	"module":     "what a module is told stands in NAME.toml beside NAME.wasm, as the table [config]",
}

// gone returns an error for an option that there is no more: who relies on it must
// not get a relay that ignores it.
func gone(key, place string) error {
	if where, ok := moved[key]; ok {
		return fmt.Errorf("%s: there is no option %s any more: %s (see docs/how-to-manage-plugins.md)", place, key, where)
	}
	return nil
}

// plain turns a value of the file into the text of a flag.
func plain(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case int64, bool:
		return fmt.Sprint(v), true
	case []any:
		var items []string
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return "", false
			}
			items = append(items, s)
		}
		return strings.Join(items, ","), true
	}
	return "", false
}

// nearest suggests an option for a key that is none.
func (l *Loader) nearest(key string) string {
	key = strings.ReplaceAll(key, "_", "-")
	for _, o := range l.options {
		if o.name == key || len(key) > 2 && (strings.Contains(o.name, key) || strings.Contains(key, o.name)) {
			return fmt.Sprintf("; is %s meant?", o.name)
		}
	}
	return ""
}
