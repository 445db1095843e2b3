package author

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"talon/internal/testkit"
)

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
			if testkit.RaceDetector {
				t.Skip("the race detector has nothing to watch in compilers")
			}
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
			if lang == assemblyscript.name {
				npmInstall(t, dir)
			}
			if _, _, err := l.find(dir); err != nil {
				t.Skip(err)
			}
			var said bytes.Buffer
			s, err := Find(t.Context(), dir, "", &said)
			if err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			if said.Len() > 0 {
				t.Errorf("the compiler says: %s", &said)
			}
			testNew(t, s)
		})
	}
}
