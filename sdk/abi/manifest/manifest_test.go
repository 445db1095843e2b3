package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
)

const sample = `{
  "talon_manifest": 1, "name": "sample", "version": "1.2.3", "worlds": ["policy"], "new in 2031": {"x": [1, 2]},
  "capabilities": ["log"],
  "config": [
    {"key": "name", "type": "string", "default": "x", "enum": ["x", "y"]},
    {"key": "count", "type": "int", "default": 3, "min": 1, "max": 10},
    {"key": "on", "type": "bool", "default": true},
    {"key": "rate", "type": "float", "default": 0.5, "min": 0},
    {"key": "words", "type": "strings", "default": ["a"]},
    {"key": "kinds", "type": "ints", "max": 65535}
  ],
  "budgets": {"fuel": 5}
}`

func parse(t testing.TB, text string) *Manifest {
	t.Helper()
	m, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefaultsAreFilledIn(t *testing.T) {
	got, err := parse(t, sample).Resolve(nil)
	want := []abi.Setting{
		{Key: "name", Strings: []string{"x"}}, {Key: "count", Ints: []int64{3}}, {Key: "on", Bools: []bool{true}},
		{Key: "rate", Floats: []float64{0.5}}, {Key: "words", Strings: []string{"a"}}, {Key: "kinds"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestValuesAsTOMLGivesThem(t *testing.T) {
	got, err := parse(t, sample).Resolve(map[string]any{
		"name": "y", "count": int64(10), "on": false, "rate": int64(2), "words": []any{"b", int64(7)}, "kinds": []any{int64(1), int64(2)},
	})
	want := []abi.Setting{
		{Key: "name", Strings: []string{"y"}}, {Key: "count", Ints: []int64{10}}, {Key: "on", Bools: []bool{false}},
		{Key: "rate", Floats: []float64{2}}, {Key: "words", Strings: []string{"b", "7"}}, {Key: "kinds", Ints: []int64{1, 2}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestWrongValuesAreNamed(t *testing.T) {
	for want, values := range map[string]map[string]any{
		`config name = "z": want one of "x", "y"`:                                   {"name": "z"},
		`config name = 1: want one of "x", "y"`:                                     {"name": int64(1)},
		`config count = 11: want a whole number from 1 to 10`:                       {"count": int64(11)},
		`config count = 0: want a whole number from 1 to 10`:                        {"count": int64(0)},
		`config count = 1.5: want a whole number from 1 to 10`:                      {"count": 1.5},
		`config on = "yes": want true or false`:                                     {"on": "yes"},
		`config rate = -0.5: want a number, at least 0`:                             {"rate": -0.5},
		`config words = "a": want a list of strings`:                                {"words": "a"},
		`config words = [true]: want a list of strings`:                             {"words": []any{true}},
		`config kinds = [65536]: want a list of whole numbers, at most 65535`:       {"kinds": []any{int64(65536)}},
		`config kind = 1: want one of the keys name, count, on, rate, words, kinds`: {"kind": int64(1)},
	} {
		if _, err := parse(t, sample).Resolve(values); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", values, err, want)
		}
	}
	_, err := parse(t, `{"talon_manifest": 1, "name": "x", "worlds": ["policy"]}`).Resolve(map[string]any{"a": strings.Repeat("é", 500)})
	if err == nil || !strings.Contains(err.Error(), "…: want nothing: the module has no settings") || len(err.Error()) > 200 {
		t.Errorf("%v", err)
	}
}

func TestWrongManifests(t *testing.T) {
	setting := func(s string) string {
		return `{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "config": [` + s + `]}`
	}
	for _, test := range []struct{ text, want string }{
		{`{"talon_manifest": 2, "name": "x", "worlds": ["policy"]}`, "talon_manifest is 2"},
		{`{"talon_manifest": 1, "name": "Größe", "worlds": ["policy"]}`, "name"},
		{`{"talon_manifest": 1, "name": "", "worlds": ["policy"]}`, "name"},
		{`{"talon_manifest": 1, "name": "x"}`, "worlds is empty"},
		{`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "version": "` + strings.Repeat("1", 33) + `"}`, "version"},
		{`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "budgets": {"fuel": -1}}`, "budget is negative"},
		{`{"talon_manifest": 1, "name": "x", "worlds": "policy"}`, "parse"},
		{`[]`, "parse"},
		{strings.Repeat("[", 100_000), "parse"},
		{`{"talon_manifest": 1, "x": "` + strings.Repeat("x", 300_000) + `"}`, "longer than"},
		{setting(`{"key": "A", "type": "int"}`), "key"},
		{setting(`{"key": "a", "type": "time"}`), `type "time"`},
		{setting(`{"key": "a", "type": "int", "default": "x"}`), "default: config a"},
		{setting(`{"key": "a", "type": "int", "default": 1e99}`), "default"},
		{setting(`{"key": "a", "type": "int", "min": 2, "max": 1}`), "min is greater"},
		{setting(`{"key": "a", "type": "int", "default": 5, "max": 1}`), "default"},
		{setting(`{"key": "a", "type": "int", "enum": ["x"]}`), "enum"},
		{setting(`{"key": "a", "type": "string", "min": 1}`), "min and max"},
		{setting(`{"key": "a", "type": "string", "enum": ["x"]}`), "needs a default"},
		{setting(`{"key": "a", "type": "int"}, {"key": "a", "type": "int"}`), "there twice"},
		{setting(strings.TrimSuffix(strings.Repeat(`{"key": "a", "type": "int"},`, 300), ",")), "more than 256"},
	} {
		if _, err := Parse([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.100s: %v, want %q in it", test.text, err, test.want)
		}
	}
}

// data writes a module of one data section.
func data(segments ...string) []byte {
	body := fmt.Sprintf("%c%s", len(segments), strings.Join(segments, ""))
	return fmt.Appendf(nil, "\x00asm\x01\x00\x00\x00\x0b%s%s", uleb(len(body)), body)
}

func uleb(n int) string {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n)))
}

func active(addr int, text string) string {
	at := []byte{0x41}
	for ; addr >= 0x40; addr >>= 7 {
		at = append(at, byte(addr)|0x80)
	}
	at = append(at, byte(addr), 0x0b)
	return "\x00" + string(at) + uleb(len(text)) + text
}

const small = `{"talon_manifest":1,"name":"small","worlds":["policy"]}`

func TestFromModule(t *testing.T) {
	for _, test := range []struct {
		name string
		wasm []byte
		want string // the name of the manifest, or in the error
	}{
		{"one segment", data(active(1000, "before"+small+"after")), "small"},
		{"white space", data(active(1000, "{\n\t\"talon_manifest\" : "+small[18:])), "small"},
		{"passive", data("\x01" + uleb(len(small)) + small), "small"},
		{"with a memory index", data("\x02\x00\x41\x08\x0b" + uleb(len(small)) + small), "small"},
		{"split and out of order", data(active(30, small[30:]), active(10, small[10:30]), active(0, small[:10])), "small"},
		{"other mentions", data(active(0, `json:"talon_manifest" `), active(1000, small), active(5000, `"talon_manifest": `)), "small"},
		{"not contiguous", data(active(0, small[:10]), active(11, small[10:])), "no manifest"},
		{"in another memory", data("\x02\x01\x41\x08\x0b" + uleb(len(small)) + small), "no manifest"},
		{"at an unknown address", data("\x00\x23\x00\x0b" + uleb(len(small)) + small), "no manifest"},
		{"two", data(active(0, small), active(1000, small)), "two manifests"},
		{"one good, one broken", data(active(0, small), active(1000, small[:20])), "parse the manifest"},
		{"none", data(), "no manifest"},
		{"no data section", []byte("\x00asm\x01\x00\x00\x00"), "no manifest"},
		{"not wasm", []byte("hello"), "not a WebAssembly module"},
		{"section longer than the file", []byte("\x00asm\x01\x00\x00\x00\x0b\x7f\x00"), "truncated"},
		{"endless length", []byte("\x00asm\x01\x00\x00\x00\x0b\xff\xff\xff\xff\xff\xff"), "truncated"},
		{"segment longer than the section", data("\x00\x41\x00\x0b\x7fabc"), "malformed"},
		{"unknown kind of segment", data("\x07"), "malformed"},
		{"more segments than bytes", []byte("\x00asm\x01\x00\x00\x00\x0b\x05\xff\xff\xff\xff\x0f"), "malformed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := FromModule(test.wasm)
			switch {
			case err == nil && m.Name != test.want:
				t.Errorf("found %q, want %q", m.Name, test.want)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestSDK(t *testing.T) {
	for want, wasm := range map[string][]byte{
		"go 1.0.0":   data(active(1000, "a talon-sdk/ b talon-sdk/go 1.0.0\x00 c")),
		"rust 2.10.": data(active(0, "talon-sdk/rust"), active(14, " 2.10.")),
		"":           data(active(0, "talon-sdk/go one\x00 talon-sdk/Go 1.0.0\x00 talon-sdk/go 1.0.0"+strings.Repeat("1", maxSDK))),
	} {
		if got := SDK(wasm); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := SDK([]byte("talon-sdk/go 1.0.0")); got != "" {
		t.Errorf("%q of what is no module", got)
	}
}

func FuzzFromModule(f *testing.F) {
	f.Add(data(active(1000, small)))
	f.Add(data(active(30, small[30:]), active(10, small[10:30]), active(0, small[:10])))
	f.Add(data("\x01" + uleb(len(small)) + small))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if m, err := FromModule(wasm); (m == nil) == (err == nil) {
			t.Errorf("manifest %v with error %v", m, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(small))
	f.Add([]byte(withVector(`{"name": "a", "function": "query", "filters": [{"ids": ["01"], "#t": ["x"], "limit": 1}], "want": {"action": "pass"}}`)))
	f.Add([]byte(withVector(`{"name": "a", "function": "admit", "event": {"id": "01", "tags": [["t"]]}, "sets": {"x": ["y"]}, "want": {"action": "hold"}}`)))
	f.Add([]byte(withThrottleVector(`{"name": "a", "function": "throttle_tick", "request": {"telemetry": {"cpu": 0.5}}, "want": {"limits": {"events": 5}}}`)))
	f.Add([]byte(withThrottleVector(`{"name": "a", "function": "throttle_pick", "request": {"waiting": [{"urls": 1}]}, "want": {"none": true}}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		if _, err := m.Resolve(nil); err != nil {
			t.Errorf("the defaults of an accepted manifest are refused: %v", err)
		}
		for i := range m.Vectors {
			if _, err := m.Vectors[i].Request(); err != nil {
				t.Errorf("a vector of an accepted manifest is refused: %v", err)
			}
			_ = m.Vectors[i].CheckAnswer(nil)
		}
	})
}

func TestEachFunctionHasOneWorldAndOneExport(t *testing.T) {
	seen := make(map[string]bool)
	for _, world := range []string{WorldPolicy, WorldStrategy, WorldThrottle} {
		functions := Functions(world)
		if len(functions) == 0 {
			t.Errorf("world %s has no functions", world)
		}
		for _, f := range functions {
			export, ok := Export(f)
			if !ok || export != "talon_"+f || !isName(f, 32) {
				t.Errorf("%s: %q is exported as %q, %v", world, f, export, ok)
			}
			if seen[f] {
				t.Errorf("two worlds have a function %q", f)
			}
			seen[f] = true
		}
	}
	if export, ok := Export("talon_admit"); ok {
		t.Errorf("an export's name is taken for a function's: %q", export)
	}
	if Functions("git") != nil {
		t.Error("a world that does not exist has functions")
	}
}

func TestFunctionsMayBeChangedByTheCaller(t *testing.T) {
	Functions(WorldPolicy)[0] = "changed"
	if !slices.Contains(Functions(WorldPolicy), "admit") {
		t.Error("a caller changed the table")
	}
}
