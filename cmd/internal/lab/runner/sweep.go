package runner

import (
	"fmt"
	"slices"
	"strings"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
)

// Variant is a strategy and a throttle in a scenario.
type Variant struct {
	Scenario *scenario.Scenario
	Set      []result.Setting // what was changed in the scenario
	Strategy engine.Module
	Throttle engine.Module // nil: the host's own backoff
}

// Sweep is a key and the values to try for it.
type Sweep struct {
	Key    string
	Values []string
}

// ParseSweep reads KEY=V1,V2. A comma in brackets or quotes is one of a value.
func ParseSweep(text string) (Sweep, error) {
	key, list, ok := strings.Cut(text, "=")
	if key = strings.TrimSpace(key); !ok || key == "" || list == "" {
		return Sweep{}, fmt.Errorf("%q: want KEY=VALUE, or KEY=V1,V2 to try several", text)
	}
	var values []string
	depth, quote, from := 0, byte(0), 0
	for i := range len(list) {
		switch c := list[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			values = append(values, strings.TrimSpace(list[from:i]))
			from = i + 1
		}
	}
	values = append(values, strings.TrimSpace(list[from:]))
	if slices.Contains(values, "") {
		return Sweep{}, fmt.Errorf("%q: a value is empty", text)
	}
	return Sweep{key, values}, nil
}

// maxVariants bounds what sweeps make together.
const maxVariants = 1000

// Combinations returns each way to choose a value for every sweep, the last one varying
// first.
func Combinations(sweeps []Sweep) ([][]result.Setting, error) {
	all := [][]result.Setting{nil}
	for _, s := range sweeps {
		if len(all)*len(s.Values) > maxVariants {
			return nil, fmt.Errorf("the values together make more than %d variants", maxVariants)
		}
		var next [][]result.Setting
		for _, before := range all {
			for _, v := range s.Values {
				next = append(next, append(slices.Clone(before), result.Setting{Key: s.Key, Value: v}))
			}
		}
		all = next
	}
	return all, nil
}

// Change returns a scenario with some settings replaced.
func Change(s *scenario.Scenario, set []result.Setting) (*scenario.Scenario, error) {
	var list []string
	for _, c := range set {
		list = append(list, c.Key, c.Value)
	}
	return s.With(list...)
}
