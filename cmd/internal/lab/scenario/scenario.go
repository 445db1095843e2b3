// Package scenario parses the description of a simulated network for strategies and
// throttles: relays in classes, Talons, repositories and those who publish, and what goes
// wrong, as TOML with a schema.
//
// A scenario is data and draws nothing: package world makes a network of it and a seed.
// Scenarios that are ready are embedded ([Builtin]).
package scenario

import (
	"cmp"
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

// Parse reads the text of a scenario. Absent keys are as in [Default]. An error is one
// sentence with the line, the key and what is allowed.
func Parse(text []byte) (*Scenario, error) {
	s, _, err := parse(text, "")
	return s, err
}

// parse reads the text of a scenario, and the files in a folder that it names. It reports whether it
// names any. Without a folder it must not.
func parse(text []byte, dir string) (s *Scenario, files bool, err error) {
	if len(text) > maxText {
		return nil, false, fmt.Errorf("the scenario has more than %d bytes", maxText)
	}
	s = Default()
	if err := tomlschema.Decode(text, s, nil); err != nil {
		return nil, false, err
	}
	if dir != "" {
		if files, err = s.readFiles(dir); err != nil {
			return nil, false, err
		}
	}
	return s, files, s.check()
}

// With returns the scenario with keys changed: a dotted path such as relays.strfry.rate, a
// value as TOML has it, the next path, and so on. A text may stand without quotes. In a path,
// relays.* is every class of relays, and git.* every class of git servers.
func (s *Scenario) With(set ...string) (*Scenario, error) {
	changed := s
	for i := 0; i+1 < len(set); i += 2 {
		var err error
		if changed, err = changed.change(set[i], set[i+1]); err != nil {
			return nil, err
		}
	}
	// Together they may be right where one of them is not.
	return changed, changed.check()
}

// change changes one key.
func (s *Scenario) change(path, value string) (*Scenario, error) {
	var classes []string
	kind, rest, _ := strings.Cut(path, ".")
	switch kind {
	case "relays":
		classes = slices.Sorted(maps.Keys(s.Relays))
	case "git":
		classes = slices.Sorted(maps.Keys(s.Git))
	}
	class, key, deep := strings.Cut(rest, ".")
	switch {
	case !deep || kind != "relays" && kind != "git":
	case class == "*":
		changed := s
		for _, class := range classes {
			var err error
			if changed, err = changed.change(kind+"."+class+"."+key, value); err != nil {
				return nil, err
			}
		}
		return changed, nil
	case !slices.Contains(classes, class):
		return nil, fmt.Errorf("set %s: there is no class %s.%s: want one of %s", path, kind, class, strings.Join(append(classes, "*"), ", "))
	}
	if strings.ContainsAny(path, "=\n#") || strings.ContainsRune(value, '\n') {
		return nil, fmt.Errorf("set %q: want a key such as relays.NAME.rate, and a value", path)
	}
	var first error
	for _, text := range []string{value, quoted(value)} {
		changed := *s
		changed.Relays, changed.Git = maps.Clone(s.Relays), maps.Clone(s.Git)
		err := tomlschema.Decode([]byte(path+" = "+text), &changed, nil)
		if err == nil {
			return &changed, nil
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

// Open reads a scenario from a file, or an embedded one by its name. The text that it returns has
// what other files say that the scenario names.
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
	s, files, err := parse(text, filepath.Dir(path))
	if err != nil {
		return nil, nil, fmt.Errorf("scenario %s: %w", path, err)
	}
	if files {
		text = s.Text()
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(path), ".toml")
	}
	return s, text, nil
}

// Digest returns a hash of the scenario: two with the same digest are the same network
// for each seed.
func (s *Scenario) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Profile returns the behaviour of the relays of a class.
func (s *Scenario) Profile(class string) *relaymodel.Profile {
	r := s.Relays[class]
	p, err := r.profile()
	if err != nil {
		panic(err) // check has read it
	}
	return p
}

// TalonProfile returns the behaviour of Talons as relays.
func (s *Scenario) TalonProfile() *relaymodel.Profile {
	r := Relays{Profile: s.Talon.Profile}
	p, err := r.profile()
	if err != nil {
		panic(err) // check has read it
	}
	return p
}

// BucketMS is the step of series over time, in milliseconds.
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
		if !isClass(name) {
			return fmt.Errorf("relays.%s: want a name of small letters, digits and -", name)
		}
		if _, err := r.profile(); err != nil {
			return fmt.Errorf("relays.%s: %w", name, err)
		}
		if err := r.checkMeasured(); err != nil {
			return fmt.Errorf("relays.%s.%w", name, err)
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
	if err := s.checkGit(); err != nil {
		return err
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
	case !areWeights(s.Repositories.Copies), !areWeights(s.Publishers.Copies):
		return errors.New("copies: want 1 to 64 numbers, one of them above 0")
	case s.Duration < Duration(time.Minute):
		return errors.New("duration: want at least 1m")
	case s.Quiet > s.Duration:
		return errors.New("quiet: want at most the duration")
	case s.Bucket > 0 && (s.BucketMS() < 1000 || s.Duration/s.Bucket > 10_000):
		return errors.New("bucket: want at least 1s, and at most 10000 of them in the duration")
	}
	for i, f := range s.Faults {
		if err := s.checkLimits(&f); err != nil {
			return fmt.Errorf("fault[%d].keys: %w", i+1, err)
		}
		_, relays := s.Relays[f.Class]
		if _, git := s.Git[f.Class]; f.Class != "" && !relays && !git {
			return fmt.Errorf("fault[%d].class = %q: there is no such class of relays or git servers", i+1, f.Class)
		}
		switch {
		case f.What == "":
			return fmt.Errorf("fault[%d]: want the key what", i+1)
		case (f.What == "limits") != (f.Keys != ""):
			return fmt.Errorf("fault[%d].keys: want them with what = \"limits\", and only there", i+1)
		case f.What == "limits" && f.Class != "" && !relays:
			return fmt.Errorf("fault[%d].class = %q: limits are those of relays", i+1, f.Class)
		case f.Every > 0 && (f.Every < Duration(time.Second) || f.Every <= f.For && f.What != "reset" && f.What != "swap" && f.What != "restart" && f.What != "crash"):
			return fmt.Errorf("fault[%d].every: want at least 1s, and more than for", i+1)
		}
	}
	return nil
}

// checkLimits checks that a change of limits leaves the events of a relay as they are.
func (s *Scenario) checkLimits(f *Fault) error {
	for _, name := range slices.Sorted(maps.Keys(s.Relays)) {
		if f.Keys == "" || f.Class != "" && f.Class != name {
			continue
		}
		r := s.Relays[name]
		before, err := r.profile()
		if err != nil {
			return err
		}
		after, err := before.With([]byte(f.Keys))
		if err != nil {
			return err
		}
		if after.Honest() != before.Honest() || after.Keep != before.Keep || !slices.Equal(after.Outages, before.Outages) || after.Arrival != before.Arrival {
			return errors.New("want limits, rates and refusals: a fault does not change outages, lies, arrivals and what a relay keeps")
		}
	}
	return nil
}

// areWeights checks a list of how often each number of copies is. None is fine.
func areWeights(list []int) bool {
	return list == nil || len(list) <= 64 && slices.ContainsFunc(list, func(n int) bool { return n > 0 })
}

func isClass(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// maxGit bounds the git servers of a scenario.
const maxGit = 10_000

// checkGit checks the classes of git servers.
func (s *Scenario) checkGit() error {
	all, honest := 0, 0
	for _, name := range slices.Sorted(maps.Keys(s.Git)) {
		g := s.Git[name]
		if _, ok := s.Relays[name]; ok || !isClass(name) {
			return fmt.Errorf("git.%s: want a name of small letters, digits and - that no class of relays has", name)
		}
		if g.OutageEvery > 0 && (g.OutageMedian <= 0 || g.OutageEvery.Milliseconds() < 1000) {
			return fmt.Errorf("git.%s.outage-every: want at least 1s, and outage-median above 0", name)
		}
		if g.Weight > 0 {
			all += g.Count
			if !g.Lying {
				honest += g.Count
			}
		}
	}
	switch {
	case len(s.Git) == 0:
		return nil
	case all > maxGit:
		return fmt.Errorf("git: there are %d servers, want at most %d", all, maxGit)
	case honest == 0:
		return errors.New("git: want a class with count, a weight above 0, and without lying")
	case s.Repositories.GitMin > s.Repositories.GitMax:
		return errors.New("repositories.git-min: want at most git-max")
	case all < s.Repositories.GitMax:
		return fmt.Errorf("repositories.git-max = %d: want at most the %d git servers that may be named", s.Repositories.GitMax, all)
	case s.Talon.Held > 0:
		return errors.New("talon.held: want 0 where there are git servers: what waits then waits for them")
	}
	return nil
}

// profile returns how the relays of a class behave.
func (r *Relays) profile() (p *relaymodel.Profile, err error) {
	if p = relaymodel.Default(); r.Profile != "default" {
		if p, err = relaymodel.Builtin(r.Profile); err != nil {
			return nil, err
		}
	}
	if p, err = p.With([]byte(r.Keys)); err != nil {
		return nil, err
	}
	if r.Keeps > 0 {
		p.Keep.Seconds = float64(r.Keeps.Milliseconds()) / 1000
	}
	p.Keep.Refuses = cmp.Or(r.Refuses, p.Keep.Refuses)
	p.Keep.Drops = cmp.Or(r.Drops, p.Keep.Drops)
	if r.Rate > 0 {
		rate := p.Rate.Requests
		rate.PerMinute, rate.Burst = r.Rate, 0
		if rate.By == "" {
			rate.By = "closed"
		}
		p.Rate.Requests = rate
	}
	return p, nil
}
