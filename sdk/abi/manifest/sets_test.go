package manifest

import (
	"fmt"
	"testing"
)

func TestCheckSet(t *testing.T) {
	for _, tt := range []struct {
		fields string
		ok     bool
	}{
		{`"capabilities": []`, false},
		{`"capabilities": ["sets.contains"]`, true},
		{`"capabilities": ["sets.contains"], "sets": ["friends"]`, true},
		{`"capabilities": ["sets.contains"], "sets": ["freinds"]`, false},
	} {
		m, err := Parse(fmt.Appendf(nil, `{"talon_manifest": 1, "name": "x", "version": "1", "worlds": ["policy"], %s}`, tt.fields))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.CheckSet("friends"); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.fields, err)
		}
	}
}

// TestNamedSets refuses a setting that names a set which is not there.
func TestNamedSets(t *testing.T) {
	m := &Manifest{Config: []Setting{{Key: "authors", Type: TypeStrings, SetPrefix: "set:"}, {Key: "words", Type: TypeStrings}}}
	exists := func(name string) bool { return name == "known" }
	for _, tt := range []struct {
		values map[string]any
		want   string
	}{
		{map[string]any{"authors": []any{"set:friends", "set:known", "npub1x"}, "words": []any{"set:nothing"}}, ""},
		{nil, ""},
		{map[string]any{"authors": []any{"set:frends"}}, `config authors = "set:frends": want the name of a set; the sets are: friends, others`},
		{map[string]any{"authors": []any{"set:"}}, `config authors = "set:": want the name of a set; the sets are: friends, others`},
	} {
		got := ""
		if err := m.CheckNamedSets(tt.values, []string{"friends", "others"}, exists); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v: %q, want %q", tt.values, got, tt.want)
		}
	}
}
