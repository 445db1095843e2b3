package relaymodel

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed profiles/*.toml
var files embed.FS

// Names returns the names of the embedded profiles, in alphabetical order.
func Names() (names []string) {
	list, err := files.ReadDir("profiles")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, f := range list {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	slices.Sort(names)
	return names
}

// Text returns the text of an embedded profile.
func Text(name string) ([]byte, error) {
	text, err := files.ReadFile("profiles/" + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("there is no profile %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return text, nil
}

// Builtin returns an embedded profile.
func Builtin(name string) (*Profile, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return p, nil
}
