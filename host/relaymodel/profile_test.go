package relaymodel

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every embedded profile is read, is not the default, and advertises limits that are
// numbers of NIP-11.
func TestBuiltin(t *testing.T) {
	want := []string{"khatru", "ngit-grasp", "ngit-relay", "nostr-rs-relay", "nostream", "paid", "strfry"}
	if got := Names(); !slices.Equal(got, want) {
		t.Fatalf("the profiles are %v, want %v", got, want)
	}
	for _, name := range slices.Concat(Names(), Faults()) {
		p, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		if honest := !slices.Contains([]string{"dead", "dropping", "lying", "silent"}, name); p.Honest() != honest {
			t.Errorf("%s is honest: %v", name, !honest)
		}
		if p.Description == "" || reflect.DeepEqual(p, Default()) {
			t.Errorf("%s is nothing of its own", name)
		}
		if !p.Info.Served {
			continue
		}
		var info struct {
			Name       string
			NIPs       []int `json:"supported_nips"`
			Limitation map[string]any
		}
		if err := json.Unmarshal(New(p, 1, 0).InfoDocument(), &info); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if slices.Contains(info.NIPs, 77) != p.Negentropy.Supported {
			t.Errorf("%s says %v of NIP-77, which holds: %v", name, info.NIPs, p.Negentropy.Supported)
		}
		for key, value := range info.Limitation {
			held := map[string]int{"max_subscriptions": p.Limits.Subscriptions, "max_filters": p.Limits.Filters, "max_limit": p.Limits.Limit, "max_message_length": p.Limits.MessageBytes}
			if n, ok := held[key]; ok && value != float64(n) {
				t.Errorf("%s advertises %s = %v, and holds %d", name, key, value, n)
			}
		}
	}
	if _, err := Builtin("x"); err == nil || !strings.Contains(err.Error(), "strfry") {
		t.Errorf("a profile that is not there: %v", err)
	}
}

// TestParseWrong checks that an error of a profile names line and key.
func TestParseWrong(t *testing.T) {
	for text, want := range map[string]string{
		"x = 1":                                      "line 1: x: want one of the keys info, limits,",
		"\n[limits]\nsubscription = 3":               "line 3: limits.subscription: want one of the keys subscriptions,",
		"[limits]\nsubscriptions = -1":               "line 2: limits.subscriptions: want a whole number, 0 to 1000000",
		"[limits]\nsubscriptions = 1.5":              "line 2: limits.subscriptions: want a whole number",
		"[limits]\nsubscriptions = \"3\"":            "line 2: limits.subscriptions: want a whole number",
		"[limits]\nover-limit = \"wrap\"":            "line 2: limits.over-limit: want one of clamp, quarter, refuse",
		"[answer]\nduplicates = 1.1":                 "line 2: answer.duplicates: want a number, 0 to 1",
		"[answer]\nduplicates = nan":                 "line 2: answer.duplicates: want a number, 0 to 1",
		"[answer]\nrepeats = 1":                      "line 2: answer.repeats: want true or false",
		"limits = 5":                                 "line 1: limits: want a table",
		"\nlimits.x.y = 5":                           "line 2: limits.x: want one of the keys",
		"refuse.filter = \"no\"":                     "line 1: refuse.filter: want a table such as",
		"refuse.filter = { by = \"mail\" }":          "line 1: refuse.filter.by: want one of closed, notice",
		"refuse.filter = { why = \"\" }":             "line 1: refuse.filter.why: want one of the keys by, code, text",
		"[info]\nlimitation = { max_limits = 5 }":    "line 2: info.limitation.max_limits: want one of the keys max_message_length",
		"[info]\nlimitation = { max_limit = \"5\" }": "line 2: info.limitation.max_limit: want a whole number, or true or false",
		"[info]\nnips = [70000]":                     "line 2: info.nips: want a list of whole numbers",
		"outage = 1":                                 "line 1: outage: want tables, each written [[outage]]",
		"[[outage]]\nfor-s = \"x\"":                  "line 2: outage[1].for-s: want a number",
		"[[outage]]\nfor-s = 2\nevery-s = 1":         "outage[1]: want for-s above 0, and every-s above for-s",
		"[arrival]\nlate = 0.5":                      "arrival.late needs arrival.late-s",
		"[negentropy]\nframe-bytes = 100":            "negentropy.frame-bytes = 100: want 0, or 4096 and more",
		"limits = {":                                 "line 1: ",
		strings.Repeat("#", maxText+1):               "more than 65536 bytes",
	} {
		if p, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || p != nil {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"profiles/*.toml", "faults/*.toml"} {
		paths, err := fs.Glob(files, dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			text, err := files.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if (p == nil) == (err == nil) {
			t.Fatalf("profile %v with error %v", p, err)
		}
	})
}

const referencePage = "../../docs/reference-relay-profiles.md"

// The page about profiles is made from the fields and the files.
func TestReferencePage(t *testing.T) {
	want, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(referencePage)
	if *rewrite {
		if err := os.WriteFile(referencePage, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the fields say (go test -rewrite): %v", referencePage, err)
	}
	// Each key of each table has a line that says what it is.
	for i := range reflect.TypeFor[Profile]().NumField() {
		table := reflect.TypeFor[Profile]().Field(i)
		if table.Tag.Get("key") == "" || table.Tag.Get("doc") == "" {
			t.Errorf("%s has no key or no documentation", table.Name)
		}
	}
}
