package sidecar

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestAssign(t *testing.T) {
	for _, test := range []struct {
		name, text, set, want string // several assignments have | between them
	}{
		{"nothing there", "", "every=true", "[config]\nevery = true\n"},
		{"no table there", "mode = \"shadow\"", "every=true", "mode = \"shadow\"\n[config]\nevery = true\n"},
		{"a key of a table", "[config]\n# why\nevery = false # not yet\nother = 1\n", "every=true", "[config]\n# why\nevery = true # not yet\nother = 1\n"},
		{"a key that a table lacks", "[config]\nother = 1\n\n[budgets]\nfuel = 10000\n", "every=true", "[config]\nevery = true\nother = 1\n\n[budgets]\nfuel = 10000\n"},
		{"a header at the end", "[config]", "every=true", "[config]\nevery = true\n"},
		{"an empty table before another", "[config]\n[budgets]\nfuel = 10000\n", "every=true", "[config]\nevery = true\n[budgets]\nfuel = 10000\n"},
		{"the same key elsewhere", "[budgets]\nfuel = 10000\n[config]\n", "fuel=1", "[budgets]\nfuel = 10000\n[config]\nfuel = 1\n"},
		{"within braces", "config = {every = false, list = [1, \"a\"]}\n", "every=true", "config = {list = [1, \"a\"], every = true}\n"},
		{"within empty braces", "config = {}", "every=true", "config = {every = true}"},
		{"out of braces", "config = {every = true}", "every=", "config = {}"},
		{"dotted", "config.every = false\n", "every=true|other=2", "config.other = 2\nconfig.every = true\n"},
		{"quoted", "[\"config\"]\n'every' = false\n", "every=true", "[\"config\"]\n'every' = true\n"},
		{"a text", "", "text=Good \"morning\"", "[config]\ntext = \"Good \\\"morning\\\"\"\n"},
		{"a text in quotes", "", `text="a = b"`, "[config]\ntext = \"a = b\"\n"},
		{"a list over lines", "[config]\nlist = [\n  1,\n  2,\n]\nx = 1\n", "list=[3]", "[config]\nlist = [3]\nx = 1\n"},
		{"removed", "[config]\nlist = [\n  1,\n]\nx = 1\n", "list=", "[config]\nx = 1\n"},
		{"removed and absent", "mode = \"off\"\n", "list=", "mode = \"off\"\n"},
		{"a key of the side-car", "mode = \"off\"\n", "mode=enforce|place=20|budgets.fuel=20000", "place = 20\nmode = \"enforce\"\n[budgets]\nfuel = 20000\n"},
		{"a setting with such a name", "", "config.place=20", "[config]\nplace = 20\n"},
		{"behind a mark", "\xef\xbb\xbfmode = \"off\"\n", "place=1", "\xef\xbb\xbfplace = 1\nmode = \"off\"\n"},
		{"lines of Windows", "[config]\r\nevery = false\r\n", "every=true|x=1", "[config]\r\nx = 1\r\nevery = true\r\n"},
		{"twice", "", "x=1|x=2", "[config]\nx = 2\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Assign([]byte(test.text), assignments(t, test.set))
			if err != nil || string(got) != test.want {
				t.Errorf("got\n%q, %v, want\n%q", got, err, test.want)
			}
		})
	}
	for _, test := range []struct{ text, set, want string }{
		{"", "place=many", "place"},
		{"mode =", "place=1", "line 2"},
		{"config = {x = 1.5}", "every=true", "by hand"},
	} {
		if got, err := Assign([]byte(test.text), assignments(t, test.set)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q in %q: %q, %v", test.set, test.text, got, err)
		}
	}
}

func assignments(t *testing.T, text string) (list []Assignment) {
	t.Helper()
	for one := range strings.SplitSeq(text, "|") {
		a, err := ParseAssignment(one)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

func TestParseAssignment(t *testing.T) {
	for text, want := range map[string]string{
		"every":           "want KEY=VALUE",
		"a b=1":           "the key",
		"other.x=1":       "no table whose keys can be set",
		"sets.friends=1":  "no table whose keys can be set",
		"config.a.b=1":    "the key",
		"=1":              "the key",
		"budgets.fuel =1": "",
	} {
		if _, err := ParseAssignment(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	// A value stays within its line, and brings no key along.
	for _, text := range []string{"x=1\nmode = \"off\"", "x=1 # comment", "x=\"a\"\r\ny = 2", "x=\x00", "x={", "x=]"} {
		a, err := ParseAssignment(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		out, err := Assign([]byte("mode = \"shadow\"\n"), []Assignment{a})
		f, parseErr := Parse(out)
		if err != nil || parseErr != nil || f.Mode != Shadow || len(f.Config) != 1 {
			t.Errorf("%q: %q, %v, %v", text, out, err, parseErr)
		}
	}
	for _, a := range []Assignment{{"config", "x", "1\nmode = \"off\""}, {"config", "x", "1 # y"}, {"config", "x = 1\ny", "2"}, {"sets", "x", "1"}, {"", "exec", "\"/bin/sh\""}} {
		if out, err := Assign(nil, []Assignment{a}); err == nil {
			t.Errorf("%+v: %q", a, out)
		}
	}
}

// FuzzAssign changes a key in whatever text: there is an error, or the key has its value and all others
// are as they were.
func FuzzAssign(f *testing.F) {
	f.Add("[config]\nx = 1\n", "every", "true")
	f.Add("config = {x = 1}", "x", "[1]")
	f.Add("config.x = \"\"\"\n[config]\n\"\"\"", "y", "2")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		a := Assignment{Table: "config", Key: key, Value: value}
		out, err := Assign([]byte(text), []Assignment{a})
		if err != nil {
			return
		}
		var before, after map[string]any
		if _, err := toml.Decode(text, &before); err != nil {
			return
		}
		if _, err := toml.Decode(string(out), &after); err != nil || !a.holds(out) {
			t.Fatalf("%q in %q makes %q, %v", value, text, out, err)
		}
		for k := range before {
			if _, there := after[k]; !there {
				t.Errorf("%q in %q loses %q: %q", value, text, k, out)
			}
		}
	})
}
