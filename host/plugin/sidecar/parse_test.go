package sidecar

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"talon/internal/testkit"
)

const pin = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

const full = `# Kept by the operators' wiki.
mode = "shadow" # until Monday
place = 0
sha256 = "` + pin + `"
capabilities = ["store", "kv.get", "log", "log"]

[on-failure]
policy = "open"
strategy = "closed"

[budgets]
fuel = 5_000_000
memory = "16MiB"
output = 4096
log-lines = 5
log-rate = 7
state = "1 GB"
time = "80ms"
reads = 10
bytes = "1MiB"
host-calls = 500

[config]
deny = ["a", 4, "30000-39999"]
max_bytes = 65536
ratio = 0.5
strict = true
name = 'x'
none = []

[sets.friends]
list = "30000:` + pin + `:friends"
[sets.banned]
file = "banned.txt"
`

func TestParseFull(t *testing.T) {
	place := 0
	want := &File{
		Mode: Shadow, Place: &place, SHA256: pin, Capabilities: []string{"store", "kv.get", "log"},
		OnFailure: map[string]OnFailure{"policy": Open, "strategy": Closed},
		Budgets:   Budgets{Fuel: 5_000_000, Memory: 16 << 20, Output: 4096, LogLines: 5, LogRate: 7, State: 1e9, TimeMS: 80, Reads: 10, Bytes: 1 << 20, HostCalls: 500},
		Config: map[string]any{
			"deny": []any{"a", int64(4), "30000-39999"}, "max_bytes": int64(65536), "ratio": 0.5,
			"strict": true, "name": "x", "none": []any{},
		},
		Sets: []Set{{Name: "banned", File: "banned.txt"}, {Name: "friends", List: "30000:" + pin + ":friends"}},
	}
	got, err := Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for capability, granted := range map[string]bool{
		"store.get": true, "store.query": true, "kv.get": true, "kv.set": false, "log": true, "metric": false, "kv": false,
	} {
		if got.Grants(capability) != granted {
			t.Errorf("grants %s: %v", capability, !granted)
		}
	}
	for world, choice := range map[string]OnFailure{"policy": Open, "strategy": Closed, "throttle": Bundled} {
		if got.Failure(world) != choice {
			t.Errorf("on failure of %s: %s, want %s", world, got.Failure(world), choice)
		}
	}
}

func TestParseEmpty(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing", "\xef\xbb\xbf"} {
		got, err := Parse([]byte(text))
		if err != nil || !reflect.DeepEqual(got, &File{Mode: Enforce}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	f := &File{}
	if !f.Grants("store.get") || f.Failure("policy") != Closed || f.Failure("throttle") != Bundled {
		t.Error("a side-car that says nothing grants everything, and policies fail closed")
	}
}

func TestParseShortForms(t *testing.T) {
	f, err := Parse([]byte("on-failure = \"open\"\ncapabilities = []\nsha256 = \"" + strings.ToUpper(pin) + "\"\nsets = {a = {file = 'x'}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Failure("policy") != Open || f.Failure("strategy") != Open || f.Failure("throttle") != Open {
		t.Errorf("one choice is for all worlds, got %v", f.OnFailure)
	}
	if f.Grants("log") || f.SHA256 != pin || len(f.Sets) != 1 {
		t.Errorf("got %+v", f)
	}
}

// Each error names the line, the key, the value, and what is wanted.
func TestParseWrong(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "\nplce = 5", `line 2: plce = 5: want one of the keys mode, required, place, sha256, signers, capabilities, on-failure, budgets, config, sets, exec`},
		{"unknown table", "[budget]\nfuel = 1", `line 1: budget = a table: want one of the keys mode,`},
		{"unknown key of a table", "[budgets]\nfual = 1", `line 2: budgets.fual = 1: want one of the keys fuel,`},
		{"required as text", "required = 'yes'", `line 1: required = "yes": want true or false`},
		{"mode", "# x\n\nmode = 'on'", `line 3: mode = "on": want enforce, shadow or off`},
		{"mode of another type", "mode = true", `line 1: mode = true: want enforce`},
		{"mode in capitals", "mode = 'Shadow'", `mode = "Shadow"`},
		{"key in capitals", "Mode = 'shadow'", `Mode = "shadow": want one of the keys`},
		{"place", "place = 1001", `line 1: place = 1001: want a whole number from 0 to 1000`},
		{"place below", "place = -1", `place = -1: want a whole number from 0`},
		{"place as text", "place = '5'", `place = "5"`},
		{"place as float", "place = 5.0", `place = 5:`},
		{"pin too short", "sha256 = 'abc'", `sha256 = "abc": want the 64 hex digits`},
		{"empty pin", "sha256 = ''", `sha256 = ""`},
		{"capability", "capabilities = ['store', 'stroe']", `line 1: capabilities = "stroe": want one of store.get`},
		{"capability of a wrong type", "capabilities = [5]", `capabilities = 5`},
		{"capabilities as text", "capabilities = 'log'", `capabilities = "log": want a list`},
		{"capability of a module", "capabilities = ['']", `capabilities = "": want`},
		{"on-failure", "on-failure = 'die'", `line 1: on-failure = "die": want closed, open or bundled`},
		{"on-failure as number", "on-failure = 1", `on-failure = 1: want closed`},
		{"on-failure of a world", "[on-failure]\npolicy = 'die'", `line 2: on-failure.policy = "die": want closed`},
		{"on-failure of no world", "[on-failure]\npolitics = 'open'", `line 2: on-failure.politics = "open": want one of the keys policy, strategy, throttle`},
		{"budgets as number", "budgets = 5", `budgets = 5: want a table`},
		{"no fuel", "[budgets]\nfuel = 0", `budgets.fuel = 0: want a whole number from 1`},
		{"memory unit", "[budgets]\nmemory = '16XB'", `line 2: budgets.memory = "16XB": want a number of bytes from 65536 to 4294967296`},
		{"memory overflow", "[budgets]\nmemory = '9999999999GiB'", `budgets.memory = "9999999999GiB"`},
		{"time without a unit", "[budgets]\ntime = 50", `line 2: budgets.time = 50: want a time from 1ms to 10s`},
		{"long time", "[budgets]\ntime = '11s'", `line 2: budgets.time = "11s": want a time from 1ms to 10s`},
		{"no reads", "[budgets]\nreads = 0", `budgets.reads = 0: want a whole number from 1`},
		{"negative size", "[budgets]\nstate = '-1MB'", `budgets.state = "-1MB"`},
		{"config as list", "[[config]]\na = 1", `config = a table: want a table`},
		{"config with a table", "[config]\na = 1\n[config.b]\nc = 1", `line 3: config.b = a table: want a string, a number`},
		{"config with a time", "[config]\nat = 2024-01-01", `line 2: config.at = 2024-01-01`},
		{"config with a list of lists", "[config]\na = [[1]]", `line 2: config.a = a list`},
		{"set without source", "[sets.a]", `line 1: sets.a = a table: want file or list, one of the two`},
		{"set with two sources", "[sets.a]\nfile = 'x'\nlist = 'y'", `line 1: sets.a = a table: want file or list`},
		{"set of a wrong type", "[sets]\na = 'x'", `line 2: sets.a = "x": want a table`},
		{"set with an unknown key", "[sets.a]\npath = 'x'", `line 2: sets.a.path = "x": want one of the keys file, list`},
		{"set with an empty path", "[sets.a]\nfile = ''", `line 2: sets.a.file = ""`},
		{"set with a path of two lines", "[sets.a]\nfile = \"x\\ny\"", `sets.a.file = "x\ny": want text of one line`},
		{"name of a set", "[sets.'a b']\nfile = 'x'", `line 1: sets."a b" = a table: want a set whose name`},
		{"bad TOML", "mode = 'off'\nplace = ", "line 2: "},
		{"error of two lines", "place = 0b\n", "line 1: not a binary number: '0b '"},
		{"twice", "mode = 'off'\nmode = 'off'", "line 2: "},
		{"not UTF-8", "mode = 'off'\n# \xff", "line 2: "},
		{"UTF-16", "\xff\xfem\x00", "line 1: the side-car is in UTF-16"},
		{"only the mark of UTF-16", "\xfe\xff", "line 1: the side-car is in UTF-16"},
		{"NUL", "mode = 'off'\x00", "line 1: "},
		{"long value", "mode = '" + strings.Repeat("é", 1000) + "'", "é…: want enforce"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, err := Parse([]byte(test.text))
			if err == nil || f != nil {
				t.Fatalf("accepted: %+v", f)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q does not say %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("%q is more than a sentence", err)
			}
		})
	}
}

// What would make the library recurse without end or keep gigabytes is refused
// before it sees it.
func TestParseBounds(t *testing.T) {
	many := strings.Repeat
	tests := []struct{ name, text, want string }{
		{"size", "#" + many(" ", maxText), "1048577 bytes"},
		{"nested lists", "[config]\na = " + many("[", 500_000), "line 2: brackets stand more than 4 deep"},
		{"nested tables", "a = " + many("{a=", 300_000), "brackets stand more than 4 deep"},
		{"dotted key", many("a.", 500_000) + "a = 1", "line 1: a key is longer than 128 bytes"},
		{"dotted header", "[" + many("a.", 500_000) + "a]", "a key is longer"},
		{"quoted key", "'" + many("a", 1000) + "' = 1", "a key is longer"},
		{"key within braces", "a = {\"" + many("a", 1000) + "\" = 1}", "a key is longer"},
		{"dotted key within braces", "a = { b = 1, " + many("a . ", 1000) + "a = 1}", "a key is longer"},
		{"keys", "[config]\n" + many("a=1\n", 2000), "line 1025: there are more than 1024 keys"},
		{"keys within braces", "a = {" + many("a=1,", 2000), "there are more than 1024 keys"},
		{"headers", many("[[a]]\n", 2000), "there are more than 1024 keys"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Parse([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The largest lists and the worst keys that are allowed are read in a moment.
func TestParseLarge(t *testing.T) {
	header := "[" + strings.Repeat("a.", 62) + "a]\n"
	worst := header + strings.Repeat(strings.Repeat("b.", 62)+"b = 1\n", maxKeys-1)
	list := "[config]\nwords = [" + strings.Repeat("\"#]}='\", ", 100_000) + "]\n"
	for name, text := range map[string]string{"keys": worst, "list": list} {
		start := testkit.CPU()
		f, err := Parse([]byte(text))
		if d := testkit.CPU() - start; d > 10*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
		if name == "list" && (err != nil || len(f.Config["words"].([]any)) != 100_000) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
