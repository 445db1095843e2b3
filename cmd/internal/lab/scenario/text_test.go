package scenario_test

import (
	"testing"

	"talon/cmd/internal/lab/scenario"
)

// A scenario that is written and read again is the same network.
func TestText(t *testing.T) {
	for _, name := range scenario.Names() {
		s, _, err := scenario.Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := scenario.Parse(s.Text())
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, s.Text())
		}
		if again.Digest() != s.Digest() {
			t.Errorf("%s is another network when it is read again:\n%s", name, s.Text())
		}
	}
}
