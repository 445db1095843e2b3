package relaymodel

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed profiles/*.toml faults/*.toml
var files embed.FS

// Names returns the names of the embedded profiles of relays that exist, in
// alphabetical order.
func Names() []string { return namesIn("profiles") }

// Faults returns the names of the embedded profiles of relays with a fault.
func Faults() []string { return namesIn("faults") }

func namesIn(dir string) (names []string) {
	list, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // they are embedded
	}
	for _, f := range list {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	slices.Sort(names)
	return names
}

// Builtin returns an embedded profile.
func Builtin(name string) (*Profile, error) {
	dir := "profiles/"
	if slices.Contains(Faults(), name) {
		dir = "faults/"
	}
	text, err := files.ReadFile(dir + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("there is no profile %q: want one of %s", name, strings.Join(slices.Concat(Names(), Faults()), ", "))
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return p, nil
}

// Honest reports whether what such a relay has can be had from it: it is there at times,
// and neither withholds events nor changes them.
func (p *Profile) Honest() bool {
	away := slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.AfterSeconds == 0 && o.EverySeconds == 0 })
	l := &p.Lies
	return !away && !p.Connection.DropAtOnce && p.Refuse.Every.By == "" && l.Omits == 0 && l.ForgedIDs == 0 && l.ForgedSigs == 0
}
