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
