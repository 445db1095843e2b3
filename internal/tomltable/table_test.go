package tomltable

import (
	"fmt"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table, err := Parse([]byte("a = 1\n\nlist = [\"x\"]\n[inner]\nb.c = true\nb.d = 2\n[[many]]\nn = 1\n[[many]]\nn = 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(table.Keys()); got != "[a inner list many]" {
		t.Error(got)
	}
	inner, ok := table["inner"].Table()
	if _, isTable := table["list"].Table(); !ok || isTable {
		t.Errorf("the table is one: %v, the list: %v", ok, isTable)
	}
	many, ok := table["many"].Tables()
	if _, areTables := table["a"].Tables(); !ok || len(many) != 2 || areTables {
		t.Errorf("%v, %v", many, areTables)
	}
	for _, tt := range []struct {
		value Value
		line  int
		want  string
	}{
		{table["a"], 1, "1"},
		{table["list"], 3, "[x]"},
		{inner["b"], 5, "map[c:true d:2]"}, // of dotted keys
		{many[1]["n"], 10, "2"},
		{table["none"], 0, "<nil>"},
	} {
		if got, err := tt.value.Any(); fmt.Sprint(got) != tt.want || (err != nil) != (tt.line == 0) || tt.value.Line() != tt.line {
			t.Errorf("%v in line %d, %v; want %s in line %d", got, tt.value.Line(), err, tt.want, tt.line)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb = ":  "line 2: ",
		"a = 1\na = 2": "line 2: Key 'a' has already been defined.",
		"x = \"a\nb\"": "line 1: strings cannot contain newlines",
		"\x00":         "line 1: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8",
	} {
		if _, err := Parse([]byte(text)); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"1": "1", `["a"]`: "[a]", "{a = 1}": "map[a:1]"} {
		if got, err := ParseValue(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1\ny = 2", "a b", "[table]"} {
		if got, err := ParseValue(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
