package result

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"talon/internal/testkit"
)

// The Python package of the SDK reads what is written here, and passes its tests.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing")
	}
	folder := filepath.Join("..", "..", "..", "..", "sdk", "python")
	testkit.Inputs(t, folder)
	run := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(python, args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		return out
	}
	run("-m", "unittest", "discover", "-s", "tests")

	dir := t.TempDir()
	r := sample()
	var b bytes.Buffer
	if err := NewWriter(&b).Write(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runs.jsonl"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Variants []string
		Missing  [][]any
	}
	out := run("-c", "import json, sys, talon_lab; lab = talon_lab.open(sys.argv[1]); print(json.dumps({'variants': lab.variants(), 'missing': lab.missing()}))", dir)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Variants) != 1 || got.Variants[0] != r.Variant() || len(got.Missing) != 1 || got.Missing[0][2] != r.Missing[0].ID {
		t.Errorf("python reads %+v, want the variant %q and the event %s", got, r.Variant(), r.Missing[0].ID)
	}
}
