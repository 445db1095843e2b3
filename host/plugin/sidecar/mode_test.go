package sidecar

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestSetMode(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "mode = \"off\"\n"},
		{"first line", "mode = \"shadow\"\nplace = 5\n", "mode = \"off\"\nplace = 5\n"},
		{"comment behind", "place = 1\n  mode='shadow'   # why\n", "place = 1\n  mode=\"off\"   # why\n"},
		{"no newline at the end", "mode = 'shadow'", "mode = \"off\""},
		{"quoted key", "\"mode\" = 'shadow'\n", "\"mode\" = \"off\"\n"},
		{"wrong value", "mode = 5\n", "mode = \"off\"\n"},
		{"wrong list", "mode = [\n'a', # b\n'c'] # d\n", "mode = \"off\" # d\n"},
		{"string of many lines", "mode = \"\"\"\nshadow\"\"\"\n", "mode = \"off\"\n"},
		{"not there", "# head\nplace = 1\n", "mode = \"off\"\n# head\nplace = 1\n"},
		{"not there, with BOM", "\xef\xbb\xbfplace = 1\n", "\xef\xbb\xbfmode = \"off\"\nplace = 1\n"},
		{"CRLF", "place = 1\r\nmode = 'shadow'\r\n[config]\r\n", "place = 1\r\nmode = \"off\"\r\n[config]\r\n"},
		{"not there, CRLF", "place = 1\r\n", "mode = \"off\"\r\nplace = 1\r\n"},
		{"in a comment", "# mode = 'shadow'\n", "mode = \"off\"\n# mode = 'shadow'\n"},
		{"of a table", "[config]\nmode = 'mine'\n", "mode = \"off\"\n[config]\nmode = 'mine'\n"},
		{"in a string", "config = {a = '''\nmode = 1\n'''}\n", "mode = \"off\"\nconfig = {a = '''\nmode = 1\n'''}\n"},
		{"in a list", "capabilities = [\n'log', # mode = 1\n]\nmode = 'shadow'\n", "capabilities = [\n'log', # mode = 1\n]\nmode = \"off\"\n"},
		{"within braces", "config = {mode = 'a'}\n", "mode = \"off\"\nconfig = {mode = 'a'}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := SetMode([]byte(test.text), Off)
			if err != nil || string(got) != test.want {
				t.Errorf("got  %q, %v\nwant %q", got, err, test.want)
			}
		})
	}
}

func TestSetModeRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		mode       Mode
		want       string
	}{
		{"no such mode", "", "on", `mode "on": want enforce, shadow or off`},
		{"text that is wrong", "plce = 5", Off, "line 2: plce"},
		{"text that is no TOML", "mode 5", Off, "line "},
		{"key that hides", `"\u006dode" = "shadow"`, Off, "line 2"},
		{"mode twice", "mode = 'off'\nmode = 'off'\n", Off, "line 2"},
		{"too large", strings.Repeat("#", maxText), Off, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := SetMode([]byte(test.text), test.mode)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		full, "", "mode = 'off'", "mode = [\n1, # ]\n]\n", "a = \"\\\"\" # b", "config = {a = '''\n'''''}\nmode = 'shadow'", "[sets.a]\nfile = 'x'",
		"capabilities = ['log']\r\n\"mode\" = \"\"\"off\"\"\"", "\xef\xbb\xbfmode = 'off'",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v with error %v", file, err)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), []byte("\n")) {
			t.Errorf("error of more than one line: %q", err)
		}
		changed, err := SetMode(text, Shadow)
		if err != nil {
			if file != nil && !bytes.Contains(text, []byte{'\\'}) && len(text) < maxText/2 {
				t.Errorf("the mode of %q cannot be set: %v", text, err)
			}
			return
		}
		again, err := Parse(changed)
		if err != nil || again.Mode != Shadow {
			t.Fatalf("%q became %q: %v", text, changed, err)
		}
		if file != nil {
			again.Mode = file.Mode
			if !equal(file, again) {
				t.Errorf("%q became %q, which says more than another mode", text, changed)
			}
		}
	})
}

// equal compares side-cars; NaN is equal to nothing, so that it is left out.
func equal(a, b *File) bool {
	for _, f := range []*File{a, b} {
		for key, value := range f.Config {
			list, _ := value.([]any)
			for _, v := range append(list, value) {
				if n, ok := v.(float64); ok && n != n {
					delete(f.Config, key)
				}
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

const npub = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6" // of NIP-01's author

func TestParseProgram(t *testing.T) {
	for _, test := range []struct {
		text string
		want Program
	}{
		{`exec = "/opt/spam filter.py"`, Program{Path: "/opt/spam filter.py", TimeoutMS: 1000, Processes: 1}},
		{"exec = '/opt/x'\ntimeout = '250ms'\nprocesses = 4\non-accept = 'accept'\nplace = 5\non-failure = 'open'",
			Program{Path: "/opt/x", TimeoutMS: 250, Processes: 4, Accepts: true}},
		{"exec = '/opt/x'\non-accept = 'pass'", Program{Path: "/opt/x", TimeoutMS: 1000, Processes: 1}},
	} {
		f, err := Parse([]byte(test.text))
		if err != nil {
			t.Fatalf("%s: %v", test.text, err)
		}
		if f.Program == nil || *f.Program != test.want {
			t.Errorf("%s: %+v, want %+v", test.text, f.Program, test.want)
		}
	}
}

func TestParseProgramWrong(t *testing.T) {
	for text, want := range map[string]string{
		"exec = 'spam.py'":                        `line 1: exec = "spam.py": want the absolute path`,
		"exec = ''":                               `exec = "": want text of one line`,
		"exec = '/opt/../bin/sh'":                 `want the absolute path`,
		"exec = '/bin/sh -c x'\nargs = ['x']":     `args = a list: want one of the keys mode, required, place, on-failure, exec`,
		"exec = 5":                                `exec = 5: want`,
		"exec = '/x'\ntimeout = '11s'":            `line 2: timeout = "11s": want a time from 10ms to 10s`,
		"exec = '/x'\ntimeout = '1.5s'":           `timeout = "1.5s": want a time`,
		"exec = '/x'\ntimeout = '70000ms'":        `timeout = "70000ms": want a time`,
		"exec = '/x'\ntimeout = '9ms'":            `timeout = "9ms": want a time`,
		"exec = '/x'\ntimeout = '1m'":             `timeout = "1m": want a time`,
		"exec = '/x'\ntimeout = 1":                `timeout = 1: want a time`,
		"exec = '/x'\nprocesses = 0":              `processes = 0: want a whole number from 1 to 64`,
		"exec = '/x'\non-accept = 'yes'":          `on-accept = "yes": want accept or pass`,
		"exec = '/x'\non-accept = true":           `on-accept = true: want accept or pass`,
		"exec = '/x'\nsha256 = '" + pin + "'":     `sha256`,
		"exec = '/x'\n[config]\nx = 1":            `config = a table: want one of the keys`,
		"timeout = '1s'":                          `timeout = "1s": want one of the keys mode,`,
		"exec = '/x'\nsigners = ['" + npub + "']": `signers`,
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestParseSigners(t *testing.T) {
	f, err := Parse([]byte("signers = ['" + npub + "', '" + pin + "']"))
	if err != nil {
		t.Fatal(err)
	}
	want := [][32]byte{{0x3b, 0xf0, 0xc6, 0x3f}, {0x9f, 0x86, 0xd0, 0x81}}
	if len(f.Signers) != 2 || !reflect.DeepEqual(f.Signers[0][:4], want[0][:4]) || !reflect.DeepEqual(f.Signers[1][:4], want[1][:4]) {
		t.Errorf("%x", f.Signers)
	}
	for text, want := range map[string]string{
		"signers = []":                  `signers = a list: want a list of 1 to 64 keys`,
		"signers = '" + npub + "'":      `want a list of 1 to 64 keys`,
		"signers = ['npub1x']":          `signers = "npub1x": want an npub, or 64 lower-case hex digits`,
		"signers = [7]":                 `signers = 7: want an npub`,
		"signers = [' nsec1secret']":    `signers = "nsec…": want an npub`,
		"signers = ['" + npub + "', 1]": `signers = 1: want an npub`,
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"lists": true, "A-1_b": true, "": false, "../x": false, "a.b": false, "a b": false, "ä": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		if IsName(name) != ok {
			t.Errorf("%q may be a name: %v, want %v", name, !ok, ok)
		}
	}
}
