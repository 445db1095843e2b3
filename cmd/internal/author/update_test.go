package author

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/sdk"
)

// TestUpdate makes folders, lets them be those of an older version, and brings them up to
// date: they are what a new folder is, but for what the author wrote.
func TestUpdate(t *testing.T) {
	for _, lang := range Languages() {
		t.Run(lang, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			if err := Create(dir, "policy", lang); err != nil {
				t.Fatal(err)
			}
			want, err := readTree(dir)
			if err != nil {
				t.Fatal(err)
			}
			put := func(file, text string) {
				t.Helper()
				if err := write(filepath.Join(dir, file), []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			put("README.md", "mine")
			want["README.md"] = []byte("mine")
			put("talon/sdk/VERSION", "0.9.0\n")
			put("talon/sdk/gone.txt", "of an older version")
			if lang == "go" {
				put("go.mod", strings.NewReplacer("talon/sdk v"+sdk.Version(), "talon v0.0.0", "talon/sdk => ./talon/sdk", "talon => ./talon").Replace(string(want["go.mod"])))
				put("talon/go.mod", "module talon\n\ngo 1.24\n")
			}

			u, err := Update(dir)
			if err != nil {
				t.Fatal(err)
			}
			files := []string{"talon/sdk/VERSION", "talon/sdk/gone.txt"}
			if lang == "go" {
				files = append(files, "go.mod")
			}
			if u.From != "0.9.0" || u.To != sdk.Version() || !slices.Equal(u.Files, files) {
				t.Errorf("%+v, want files %q", u, files)
			}
			got, err := readTree(dir)
			if err != nil || !maps.EqualFunc(got, want, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("%v; the folder has %q, want %q", err, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
			if u, err := Update(dir); err != nil || len(u.Files) > 0 {
				t.Errorf("again: %+v, %v", u, err)
			}
		})
	}
}

func TestUpdateRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Update(dir); err == nil || !strings.Contains(err.Error(), "there is no module in the folder") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Update(dir); err == nil || !strings.Contains(err.Error(), "has no talon/sdk/: talon plugin new makes folders that have one") {
		t.Error(err)
	}
}
