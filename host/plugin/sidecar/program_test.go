package sidecar

import (
	"reflect"
	"strings"
	"testing"
)

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
