package author

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"talon/host/memfacts"
	"talon/internal/race"
	"talon/internal/testkit"
	"talon/sdk"
	"talon/sdk/abi/manifest"
)

// TestNewModules makes a module of each world, and does what its README says. The
// tool must fetch nothing.
func TestNewModules(t *testing.T) {
	for _, lang := range Languages() {
		l, err := languageOf(lang)
		if err != nil {
			t.Fatal(err)
		}
		for _, world := range l.worlds() {
			t.Run(lang+" "+world, func(t *testing.T) {
				quick(t, lang)
				if world == manifest.WorldStrategy || world == manifest.WorldThrottle && lang == rust.name {
					testkit.Nightly(t, "cmd/labtest runs a new strategy in each language, and the throttle is tried in Go")
				}
				if world == manifest.WorldThrottle && os.Getenv("TALON_TEST_GUIDES") == "" {
					testkit.Nightly(t, "its machine code takes several seconds: make guides")
				}
				dir := filepath.Join(t.TempDir(), "mine")
				if err := Create(dir, world, lang); err != nil {
					t.Fatal(err)
				}
				s, _ := compiled(t, l, dir)
				if s.File != filepath.Join(dir, "mine.wasm") || s.Manifest.Name != "mine" {
					t.Errorf("it is %s, named %s", s.File, s.Manifest.Name)
				}
				compiles(t, lang)
				playsStories(t, s)
				in, err := s.Inspect(t.Context())
				if err != nil || in.Problem != "" || in.SDK != lang+" "+sdk.Version() {
					t.Errorf("%+v, %v", in, err)
				}
				// The tests of the others are those of the examples.
				if world == manifest.WorldPolicy {
					testNew(t, s)
				}
				if world == manifest.WorldPolicy && l.native != nil {
					var said bytes.Buffer
					if err := Native(t.Context(), dir, &said); err != nil {
						t.Errorf("%v\n%s", err, &said)
					}
				}
				readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
				if offered := strings.Contains(string(readme), "--native"); err != nil || offered != HasNative(dir) || offered != (lang == golang.name) {
					t.Errorf("the README offers unit tests: %v (%v)", offered, err)
				}
				if err := Create(dir, world, lang); err == nil || !strings.Contains(err.Error(), "is not empty: choose another name") {
					t.Errorf("again: %v", err)
				}
			})
		}
	}
}

// playsStories has a new strategy tell the stories of its folder.
func playsStories(t *testing.T, s *Source) {
	t.Helper()
	files, err := s.Stories()
	if err != nil || (len(files) > 0) != s.plansSync() {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if played, err := s.Play(t.Context(), string(text)); err != nil || played != string(text) {
			t.Errorf("%s: %v\n%s", file, err, StoryDifference(string(text), played))
		}
	}
}

// compiled builds a new module, where there is a compiler for it.
func compiled(t *testing.T, l *language, dir string) (s *Source, said string) {
	t.Helper()
	if l.name == assemblyscript.name {
		npmInstall(t, dir)
	}
	if _, _, err := l.find(dir); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	s, err := Find(t.Context(), dir, "", &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return s, out.String()
}

// quick ends a test of a language whose compiler takes several seconds, unless the pages for authors
// are followed (make guides). The tests of the examples run modules in every language.
func quick(t *testing.T, lang string) {
	t.Helper()
	if (lang == rust.name || lang == assemblyscript.name) && os.Getenv("TALON_TEST_GUIDES") == "" && !testkit.Scale() {
		t.Skip("its compiler takes several seconds: make guides")
	}
}

// compiles ends a test under the race detector that would load a Go module: to
// compile one takes half a minute there, and nothing runs side by side.
func compiles(t *testing.T, lang string) {
	t.Helper()
	if race.Detector && lang == golang.name {
		t.Skip("it takes too long under the race detector")
	}
}

// npmInstall does what npm install does, with the compiler of this repository, if it
// is there.
func npmInstall(t *testing.T, dir string) {
	t.Helper()
	compiler, err := filepath.Abs("../../../sdk/assemblyscript/node_modules/assemblyscript")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(compiler); err != nil {
		return
	}
	modules := filepath.Join(dir, "node_modules")
	if err := os.MkdirAll(filepath.Join(modules, ".bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"talon-policy": "../talon/sdk/assemblyscript", "assemblyscript": compiler, ".bin/asc": "../assemblyscript/bin/asc.js",
	} {
		if err := os.Symlink(to, filepath.Join(modules, link)); err != nil {
			t.Fatal(err)
		}
	}
}

// testNew asks the vectors of a new folder.
func testNew(t *testing.T, s *Source) {
	t.Helper()
	if err := s.SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
	f, err := os.Open(filepath.Join(s.dir(), "vectors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	vectors, err := s.ReadVectors("vectors.jsonl", f)
	if err == nil {
		err = s.Test(t.Context(), vectors, Options{Store: new(memfacts.Facts)}, func(r Tested) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	if err != nil {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ name, world, lang, want string }{
		{"My Policy", "policy", "go", `the name "My Policy" is wrong: want a-z, 0-9, - and _`},
		{"9", "policy", "go", "beginning with a letter"},
		{strings.Repeat("a", 33), "policy", "go", "at most 32"},
		{"talon", "policy", "rust", "the name talon is that of the SDK in rust: choose another"},
		{"talon-policy", "policy", "assemblyscript", "the name talon-policy is that of the SDK in assemblyscript"},
		{"a", "polcy", "go", `world "polcy": want one of policy, strategy, throttle`},
		{"a", "policy", "cobol", `language "cobol": want one of go, rust, assemblyscript, c`},
		{"a", "strategy", "c", `the language c has no SDK for the world strategy, only for policy: choose go or rust`},
	} {
		err := Create(filepath.Join(dir, test.name), test.world, test.lang)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q %s %s: %v, want %s", test.name, test.world, test.lang, err, test.want)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("something was made: %v, %v", list, err)
	}
}

// TestLicense: the copy that goes with the SDK is the project's.
func TestLicense(t *testing.T) {
	text, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := sdk.Files.ReadFile("LICENSE"); err != nil || !bytes.Equal(text, copied) {
		t.Errorf("sdk/LICENSE is not LICENSE: %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	const text = `{"talon_manifest": 1, "name": "m", "version": "1", "worlds": ["policy"]}`
	for name, test := range map[string]struct {
		files map[string]string
		path  string // of programs, where it is not the usual one
		want  string
	}{
		"nothing":         {nil, "", "there is no module in the folder "},
		"no manifest":     {map[string]string{"main.go": "package main"}, "", "manifest.json is missing: it says what the module is"},
		"no JSON":         {map[string]string{"main.go": "package main", "manifest.json": "{\n\"talon_manifest\": 1,\n}"}, "", "manifest.json:3: this is not JSON: "},
		"half":            {map[string]string{"main.go": "package main", "manifest.json": "{"}, "", "manifest.json ends too early: a bracket is not closed"},
		"a wrong setting": {map[string]string{"main.go": "package main", "manifest.json": `{"talon_manifest":1,"name":"m","worlds":["policy"],"config":[{"key":"a","type":"number"}]}`}, "", `config "a": type "number": want string, int, `},
		"no compiler":     {map[string]string{"main.go": "package main", "manifest.json": text}, "/nowhere", "the compiler is missing, there is no go: install Go 1.24 or later (https://go.dev/dl)"},
		"a mistake":       {map[string]string{"go.mod": "module m\n", "main.go": "package main\nfunc main() { x }", "manifest.json": text}, "", "the build failed: ./main.go:2:15: undefined: x"},
		"no registration": {map[string]string{"go.mod": "module m\n", "main.go": "package main\nfunc main() {}", "manifest.json": text}, "", "the module has no manifest: hand the text of manifest.json to Register"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range test.files {
				put(t, filepath.Join(dir, file), content)
			}
			if test.path != "" {
				t.Setenv("PATH", test.path)
			}
			_, err := Build(t.Context(), dir, "", io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, test.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("something is left: %v", left)
			}
		})
	}
}

// named is a file of a page: its name stands before its text.
var named = regexp.MustCompile("(?ms)`([^`\n]+)`:\n\n```[a-z]+\n(.*?)^```$")

// TestGuidesAskTheRelay writes the policy of docs/how-to-ask-the-relay.md in each
// language, as the page says, and asks its vectors.
func TestGuidesAskTheRelay(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to-ask-the-relay.md")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, found := range named.FindAllStringSubmatch(string(page), -1) {
		files[found[1]] = found[2]
	}
	sources := map[string]string{"go": "main.go", "rust": "src/lib.rs", "assemblyscript": "assembly/index.ts", "c": "greylist.c"}
	for _, lang := range Languages() {
		t.Run(lang, func(t *testing.T) {
			if race.Detector {
				t.Skip("the race detector has nothing to watch in compilers")
			}
			quick(t, lang)
			l, err := languageOf(lang)
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"talon plugin new " + lang + "/greylist", "talon plugin test " + lang + "/greylist\n"} {
				if !strings.Contains(string(page), command) {
					t.Errorf("the page does not say: %s", command)
				}
			}
			dir := filepath.Join(t.TempDir(), "greylist")
			if err := Create(dir, "policy", lang); err != nil {
				t.Fatal(err)
			}
			if lang == golang.name {
				if err := os.Remove(filepath.Join(dir, "main_test.go")); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{
				"manifest.json": files["manifest.json"], "vectors.jsonl": files["vectors.jsonl"], sources[lang]: files[lang+"/greylist/"+sources[lang]],
			} {
				if text == "" {
					t.Fatalf("the page has no %s", name)
				}
				put(t, filepath.Join(dir, name), text)
			}
			s, said := compiled(t, l, dir)
			if said != "" {
				t.Errorf("the compiler says: %s", said)
			}
			testNew(t, s)
		})
	}
}

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
			put(sdkDir+"VERSION", "0.8.0\n")
			put(sdkDir+"gone.txt", "of an older version")
			if lang == "go" {
				put("go.mod", strings.NewReplacer(sdk.Path()+" v"+sdk.Version(), "talon v0.0.0", replaceSDK, "replace talon => ./talon").Replace(string(want["go.mod"])))
				put("talon/go.mod", "module talon\n\ngo 1.24\n")
			}

			u, err := Update(dir)
			if err != nil {
				t.Fatal(err)
			}
			files := []string{sdkDir + "VERSION", sdkDir + "gone.txt"}
			if lang == "go" {
				files = append(files, "go.mod")
			}
			if u.From != "0.8.0" || u.To != sdk.Version() || !slices.Equal(u.Files, files) {
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
	if _, err := Update(dir); err == nil || !strings.Contains(err.Error(), "has no "+sdkDir+": talon plugin new makes folders that have one") {
		t.Error(err)
	}
}
