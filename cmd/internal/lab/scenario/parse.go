package scenario

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host/relaymodel"
	"talon/internal/tomlschema"
)

// maxText bounds the text of a scenario.
const maxText = 1 << 20

// Parse reads the text of a scenario. What it does not say is as in [Default]. An error is
// one sentence with the line, the key and what is wanted.
func Parse(text []byte) (*Scenario, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the scenario has more than %d bytes", maxText)
	}
	s := Default()
	if err := tomlschema.Decode(text, s, nil); err != nil {
		return nil, err
	}
	return s, s.check()
}

// With returns the scenario with one key changed: a dotted path such as
// relays.strfry.rate, and a value as TOML has it. A text may stand without quotes. In a
// path, relays.* is every class of relays.
func (s *Scenario) With(path, value string) (*Scenario, error) {
	if rest, ok := strings.CutPrefix(path, "relays.*."); ok {
		changed := s
		for _, class := range slices.Sorted(maps.Keys(s.Relays)) {
			var err error
			if changed, err = changed.With("relays."+class+"."+rest, value); err != nil {
				return nil, err
			}
		}
		return changed, nil
	}
	if strings.ContainsAny(path, "=\n#") || strings.ContainsRune(value, '\n') {
		return nil, fmt.Errorf("set %q: want a key such as relays.NAME.rate, and a value", path)
	}
	var first error
	for _, text := range []string{value, quoted(value)} {
		changed := *s
		changed.Relays = maps.Clone(s.Relays)
		err := tomlschema.Decode([]byte(path+" = "+text), &changed, nil)
		if err == nil {
			return &changed, changed.check()
		}
		if first == nil {
			first = err
		}
		if !strings.HasPrefix(err.Error(), "line 1: "+path) {
			continue
		}
		first = err
	}
	return nil, fmt.Errorf("set %s: %w", path, first)
}

// quoted writes a basic string of TOML.
func quoted(text string) string {
	b, _ := json.Marshal(text) // its escapes are TOML's, too
	return string(b)
}

//go:embed builtin/*.toml
var files embed.FS

// Names returns the names of the embedded scenarios, in alphabetical order.
func Names() (names []string) {
	list, err := files.ReadDir("builtin")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, f := range list {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	return names
}

// Builtin returns an embedded scenario, and its text.
func Builtin(name string) (*Scenario, []byte, error) {
	text, err := files.ReadFile("builtin/" + strings.TrimSuffix(name, ".toml") + ".toml")
	if err != nil {
		return nil, nil, fmt.Errorf("there is no scenario %q: want a file, or one of %s", name, strings.Join(Names(), ", "))
	}
	return named(text, name)
}

// Open reads a scenario from a file, or an embedded one by its name.
func Open(path string) (*Scenario, []byte, error) {
	if info, err := os.Stat(path); (errors.Is(err, os.ErrNotExist) || err == nil && info.IsDir()) && !strings.ContainsAny(path, `/\`) {
		return Builtin(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the scenario: %w", err)
	}
	return named(text, path)
}

func named(text []byte, path string) (*Scenario, []byte, error) {
	s, err := Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("scenario %s: %w", path, err)
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(path), ".toml")
	}
	return s, text, nil
}

// Digest names what a scenario says: two with the same digest are the same network for
// each seed.
func (s *Scenario) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Profile returns how the relays of a class behave.
func (s *Scenario) Profile(class string) *relaymodel.Profile {
	r := s.Relays[class]
	p, err := r.profile()
	if err != nil {
		panic(err) // check has read it
	}
	return p
}

// TalonProfile returns how Talons serve others.
func (s *Scenario) TalonProfile() *relaymodel.Profile {
	r := Relays{Profile: s.Talon.Profile}
	p, err := r.profile()
	if err != nil {
		panic(err) // check has read it
	}
	return p
}

// BucketMS is the step of what is drawn over time, in milliseconds.
func (s *Scenario) BucketMS() int64 {
	if s.Bucket > 0 {
		return s.Bucket.Milliseconds()
	}
	return max(1000, s.Duration.Milliseconds()/200)
}

// maxRelays bounds the relays of a scenario.
const maxRelays = 100_000

// check refuses values that contradict each other.
func (s *Scenario) check() error {
	relays, bootstrap, listed := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(s.Relays)) {
		r := s.Relays[name]
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("relays.%s: want a name of small letters, digits and -", name)
		}
		if _, err := r.profile(); err != nil {
			return fmt.Errorf("relays.%s: %w", name, err)
		}
		if r.Bootstrap > r.Count {
			return fmt.Errorf("relays.%s.bootstrap = %d: want at most count, %d", name, r.Bootstrap, r.Count)
		}
		if r.OutageEvery > 0 && (r.OutageMedian <= 0 || r.OutageEvery.Milliseconds() < 1000) {
			return fmt.Errorf("relays.%s.outage-every: want at least 1s, and outage-median above 0", name)
		}
		relays += r.Count
		bootstrap += r.Bootstrap
		if r.Listed && r.Weight > 0 {
			listed += r.Count
		}
	}
	p := Relays{Profile: s.Talon.Profile}
	if _, err := p.profile(); err != nil {
		return fmt.Errorf("talon: %w", err)
	}
	switch {
	case relays == 0 || relays > maxRelays:
		return fmt.Errorf("relays: there are %d, want 1 to %d: [relays.NAME] with count", relays, maxRelays)
	case bootstrap == 0:
		return errors.New("relays: want bootstrap = 1 or more in one class: a Talon begins there")
	case listed < s.Repositories.RelaysMax:
		return fmt.Errorf("repositories.relays-max = %d: want at most the %d relays that may be listed", s.Repositories.RelaysMax, listed)
	case s.Repositories.RelaysMin > s.Repositories.RelaysMax:
		return errors.New("repositories.relays-min: want at most relays-max")
	case s.Repositories.Talons > s.Talon.Count:
		return errors.New("repositories.talons: want at most talon.count")
	case s.Repositories.CopiesMin > s.Repositories.CopiesMax, s.Publishers.CopiesMin > s.Publishers.CopiesMax:
		return errors.New("copies-min: want at most copies-max")
	case s.Duration < Duration(time.Minute):
		return errors.New("duration: want at least 1m")
	case s.Quiet > s.Duration:
		return errors.New("quiet: want at most the duration")
	case s.Bucket > 0 && (s.BucketMS() < 1000 || s.Duration/s.Bucket > 10_000):
		return errors.New("bucket: want at least 1s, and at most 10000 of them in the duration")
	}
	for i, f := range s.Faults {
		if _, ok := s.Relays[f.Class]; f.Class != "" && !ok {
			return fmt.Errorf("fault[%d].class = %q: there is no such class of relays", i+1, f.Class)
		}
		switch {
		case f.What == "":
			return fmt.Errorf("fault[%d]: want the key what", i+1)
		case f.Every > 0 && (f.Every < Duration(time.Second) || f.Every <= f.For && f.What != "reset" && f.What != "swap" && f.What != "restart" && f.What != "crash"):
			return fmt.Errorf("fault[%d].every: want at least 1s, and more than for", i+1)
		}
	}
	return nil
}
