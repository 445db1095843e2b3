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
