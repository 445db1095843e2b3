package code

import (
	"html"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"talon/internal/testkit"
)

// textOf returns what a person reads of a body.
func textOf(b body) string {
	s := regexp.MustCompile(`<a href="#L[0-9]+">[0-9]+</a>`).ReplaceAllString(b.html, "")
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(s, ""))
}

// TestBodies shows that colours change no text, by the scanner and by package chroma.
func TestBodies(t *testing.T) {
	testkit.SkipRace(t)
	source, err := os.ReadFile("scan.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"scan.go": string(source), "a.py": "def f(x):\n    '''doc'''\n    return \"a\" # end\n", "b.c": "#include <a.h>\nint f(void) { return '\\''; } /* x */ // y", "c.html": "<!-- <b> -->\n<a href=\"x\">&amp;</a>\n",
		"d.sh": "echo \"$#\" # comment\n", "e.txt": "plain <text>\n\n", "f.lua": "--[[ a\nb ]] local x = 1", "Makefile": "all: x\n\techo\n", "g.yml": "a: b # c\n- d: 'e'\n", "h.rs": "fn f<'a>(x: &'a str) -> char { 'x' }\n",
	} {
		l := languageOf(name, []byte(content))
		want := strings.TrimSuffix(content, "\n") + "\n"
		if got := textOf(makeBody(content, l)); got != want {
			t.Errorf("%s is shown as %q", name, got)
		}
		coloured, ok := newBodies().colour(name, content)
		for range 20 { // the time for colours passes on a busy machine
			if ok || name == "e.txt" {
				break
			}
			coloured, ok = newBodies().colour(name, content)
		}
		if ok {
			if got := textOf(coloured); got != want {
				t.Errorf("%s is coloured as %q", name, got)
			}
		} else if name != "e.txt" {
			t.Errorf("%s is not coloured", name)
		}
	}
	for content, class := range map[string]string{"return": "k", `"a"`: "s", "/* a */": "c", "12": "n", "#define": "p"} {
		if got := makeBody(content, langC).html; !strings.Contains(got, `<span class="`+class+`">`) {
			t.Errorf("%s is %s", content, got)
		}
	}
}

// TestVisible shows characters that a reader would not see.
func TestVisible(t *testing.T) {
	got := makeBody("a\u202eb\x1bc\xffd\u200be\u00a0f\ufeff", plainText).html
	for _, want := range []string{"a<span class=\"u\">U+202E</span>b", "^[", `\xff`, "U+200B", "U+00A0", "U+FEFF"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	for name, want := range map[string]string{"a": "a", "ü": "ü", "a b": "a b", " a": `" a"`, "a\nb": `"a\nb"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`} {
		if got := fileName(name); got != want {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}

// TestScanIsLinear scans texts that would cost a scanner much that looks at its input again and again.
func TestScanIsLinear(t *testing.T) {
	for _, unit := range []string{"(", "\"", "'", "/*", "<!--", "a", "#", "'a", "\\", "\"\"\"", "--[[", "=", " ", "\t#", "0", "<a", "\u00fc", "{-", "a:"} {
		content := strings.Repeat(unit, maxBlob/len(unit))
		for _, l := range []*language{langC, langPython, langHTML, langYAML, langLua, langRust, langHaskell, langMake} {
			began := testkit.CPU()
			parts := scan(l, content)
			if took := testkit.CPU() - began; took > 5*time.Second {
				t.Errorf("%s takes %v for many %q", l.name, took, unit)
			}
			if parts[len(parts)-1].end != len(content) {
				t.Errorf("%s: %q is cut", l.name, unit)
			}
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add("int main() { return \"a\"; } // b", uint8(1))
	f.Fuzz(func(t *testing.T, content string, which uint8) {
		languages := []*language{langC, langGo, langPython, langHTML, langYAML, langLua, langRust, langSQL, langVim, langMake}
		l := languages[int(which)%len(languages)]
		last := 0
		for _, p := range scan(l, content) {
			if p.end <= last || p.end > len(content) {
				t.Fatalf("%s: a part of %q ends at %d after %d", l.name, content, p.end, last)
			}
			last = p.end
		}
		if last != len(content) {
			t.Fatalf("%s: the parts of %q end at %d", l.name, content, last)
		}
		shown := makeBody(content, l).html
		if strings.Count(shown, "<span") != strings.Count(shown, "</span>") {
			t.Fatalf("%q becomes %q", content, shown)
		}
	})
}
