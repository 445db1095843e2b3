package author

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"talon/sdk"
)

// TestReleaseIn: only an SDK that was fetched as a version can be fetched again.
func TestReleaseIn(t *testing.T) {
	fetched := debug.Module{Path: sdk.Path(), Version: "v0.9.0", Sum: "h1:x="}
	local, other := fetched, fetched
	local.Sum, local.Replace = "", &debug.Module{Path: "./sdk"}
	other.Path = "example.org/sdk"
	for name, test := range map[string]struct {
		deps []*debug.Module
		want bool
	}{
		"a release":     {[]*debug.Module{&other, &fetched}, true},
		"a folder":      {[]*debug.Module{&local}, false},
		"other modules": {[]*debug.Module{&other}, false},
		"no modules":    {nil, false},
	} {
		r := releaseIn(&debug.BuildInfo{Deps: test.deps})
		if (r != nil) != test.want || r != nil && *r != (release{version: "v0.9.0", sum: "h1:x="}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestCreateWithRelease makes modules with a program that was built with a release of the
// SDK: those in Go require it, others get a copy.
func TestCreateWithRelease(t *testing.T) {
	r := &release{version: "v0.99.0", sum: "h1:x="}
	dir := filepath.Join(t.TempDir(), "mine")
	if err := create(dir, "policy", "go", r); err != nil {
		t.Fatal(err)
	}
	tree, err := readTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	for file := range tree {
		if strings.HasPrefix(file, copyDir) {
			t.Errorf("the module has a copy of the SDK: %s", file)
		}
	}
	if got, want := string(tree["go.mod"]), "module example.com/mine\n\ngo 1.24\n\nrequire "+sdk.Path()+" v0.99.0\n"; got != want {
		t.Errorf("go.mod is %q, want %q", got, want)
	}
	if text := string(tree["README.md"]); strings.Contains(text, "copy") || !strings.Contains(text, "`go.mod` names the version of the SDK.") {
		t.Errorf("README.md is %q", text)
	}
	if _, err := Update(dir); err == nil || !strings.Contains(err.Error(), "run go get "+sdk.Path()+"@VERSION there") {
		t.Errorf("update: %v", err)
	}
	if _, err := exec.LookPath("go"); err == nil {
		t.Setenv("GOMODCACHE", t.TempDir())
		if _, _, err := findGo(dir); err == nil || !strings.Contains(err.Error(), "run go mod download in "+dir+" once") {
			t.Errorf("without the release in the module cache: %v", err)
		}
	}

	rust := filepath.Join(t.TempDir(), "mine")
	if err := create(rust, "policy", "rust", r); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(rust, filepath.FromSlash(sdkDir), "rust", "Cargo.toml")); err != nil {
		t.Error(err)
	}
}

// TestVersions: the SDK has one version in all languages.
func TestVersions(t *testing.T) {
	for file, want := range map[string]string{
		"internal/guest/guest_wasip1.go": `"talon-sdk/go VERSION\x00"`,
		"rust/Cargo.toml":                "\nversion = \"VERSION\"\n",
		"assemblyscript/package.json":    `"version": "VERSION"`,
		"c/talon.h":                      `#define TALON_SDK "VERSION"`,
	} {
		text, err := sdk.Files.ReadFile(file)
		if want = strings.ReplaceAll(want, "VERSION", sdk.Version()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("sdk/%s has no %s: %v", file, want, err)
		}
	}
	if fields := strings.Fields(goModOf(t)); !slices.Contains(fields, "v"+sdk.Version()) {
		t.Errorf("go.mod does not require version %s of the SDK", sdk.Version())
	}
}

// goModOf returns the line of this repository's go.mod that requires the SDK.
func goModOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\t"+sdk.Path()+" v") {
			return line
		}
	}
	return ""
}
