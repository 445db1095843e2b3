package hunt

import (
	"strings"
	"testing"

	"talon/cmd/internal/lab/result"
)

// Scenarios that are drawn can be read, and a seed draws the same one again.
func TestDraw(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		s := Draw(seed)
		if again := Draw(seed); again.Digest() != s.Digest() {
			t.Fatalf("seed %d draws two scenarios", seed)
		}
		seen[s.Digest()] = true
	}
	if len(seen) != 200 {
		t.Errorf("200 seeds draw %d scenarios", len(seen))
	}
}

// A corpus that is opened again still has each finding with its scenario.
func TestCorpus(t *testing.T) {
	dir := t.TempDir()
	c, err := Open(dir)
	if err != nil || c.Next != 1 {
		t.Fatalf("next %d, %v", c.Next, err)
	}
	s := Draw(7)
	r := &result.Run{
		Seed: 7, Strategy: &result.Module{Name: "mine"}, End: result.End{How: result.BrokenInvariant, At: result.Seconds(60e9), Reason: "late: it is"},
		Findings: []result.Finding{
			{Invariant: "module", Text: "it traps"},
			{Invariant: "late", At: result.Seconds(60e9), Text: "it is not here", Prefix: &result.Prefix{Events: []uint32{1, 5}}},
		},
	}
	found := FoundBy(r)
	if found == nil || found.Invariant != "late" || found.Events != 2 {
		t.Fatalf("found %+v", found)
	}
	if err := c.Add(found, s); err != nil {
		t.Fatal(err)
	}
	if err := c.Tried(7); err != nil {
		t.Fatal(err)
	}
	c, err = Open(dir)
	if err != nil || c.Next != 8 || len(c.Found) != 1 {
		t.Fatalf("next %d, %d found, %v", c.Next, len(c.Found), err)
	}
	again, err := c.Scenario(&c.Found[0])
	if err != nil || again.Digest() != s.Digest() {
		t.Errorf("the scenario is another one: %v", err)
	}
	if line := c.Found[0].String(); !strings.Contains(line, "hunt-7.toml --strategy mine --seed 7 --seeds 1") {
		t.Error(line)
	}
	if FoundBy(&result.Run{Strategy: &result.Module{}, End: result.End{How: result.Finished}}) != nil {
		t.Error("a run that finished is a finding")
	}
}
