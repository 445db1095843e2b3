package scenario

import (
	"bytes"
	"fmt"
	"reflect"

	"talon/internal/tomlschema"
)

// Reference writes the page about scenarios.
func Reference() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Reference: scenarios of the lab

This page has every key of a scenario. A scenario is a TOML file that describes the network in which ` + "`talon lab run`" + `
tries strategies and throttles. An absent key has its value from the column *default*. An unknown key, a wrong type or
a value out of its range is an error that names the line and the key. A length of time is a string such as "90s",
"5m", "6h", "2d" or "1d12h". ` + "`--set KEY=VALUE`" + ` changes a key for one command, as in ` + "`--set relays.strfry.rate=50`" + `.
This page is generated from the code (` + "`go test ./cmd/internal/lab/scenario -rewrite`" + `).

The lab draws all random values from the seed before a run begins: the publications, the outages of relays, and the
delays of lines. Each of these has a random stream of its own. So all modules that you try with a seed have the same
weather. Equal files, seeds and modules make equal results, to the byte.

These scenarios are built in. You start one with ` + "`talon lab run NAME`" + `:

| name | level | what it is |
|---|---|---|
`)
	for _, name := range Names() {
		s, _, err := Builtin(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "| [`%s`](../cmd/internal/lab/scenario/builtin/%s.toml) | %s | %s |\n", name, name, s.Level, s.Description)
	}
	b.WriteString(`
## Levels

At the level **wire**, relays are the state machines of [their profiles](reference-relay-profiles.md). The production
session exchanges frames with them over a simulated line. So messages, negentropy, limits, rates, refusals and outages
are simulated.

At the level **model**, a relay answers from the cost of messages. A run is several times as fast, for large networks.
These are the differences from the wire:

- The limits of a relay are known from the first connection on.
- The special behaviour of a relay, its lies and its authentication are left out.
- Duplicates that only arise from the order of messages are left out.

In ` + "`small`" + `, the bytes of the model are those of the wire, except for two strategies that compare. These have 4 and 16
% more (` + "`go test ./cmd/internal/lab/engine -run TestLevels -v`" + `). If a strategy fetches all of a large network at once,
the model has a third more, because events that it requests from two relays at the same time count twice. Completeness
is the same.

The wire was compared with a server as a process, with sockets. The bytes that relays send differ by 5 % at most
(` + "`TALON_TEST_DEVNET=1 go test ./cmd/talon -run TestDevnetLab -v`" + `).

Signatures of simulated events are cheap placeholders, and compression of frames is not simulated.
`)
	s := reflect.ValueOf(Default()).Elem()
	section := func(name, doc string, value reflect.Value) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | default | |\n|---|---|---|\n", name, doc)
		tomlschema.Rows(&b, "", value, nil)
	}
	fmt.Fprintf(&b, "\n## Keys at the top\n\n| key | default | |\n|---|---|---|\n")
	tomlschema.Rows(&b, "", reflect.ValueOf(top(s)), nil)
	for i := range s.NumField() {
		f := s.Type().Field(i)
		key, doc := f.Tag.Get("key"), f.Tag.Get("doc")
		switch f.Type.Kind() {
		case reflect.Struct:
			section("["+key+"]", doc, s.Field(i))
		case reflect.Map:
			section("["+key+".NAME]", doc, defaults(f.Type.Elem()))
		case reflect.Slice:
			section("[["+key+"]]", doc, defaults(f.Type.Elem()))
		}
	}
	return b.Bytes(), nil
}

// defaults returns an entry of a map or a list as it begins.
func defaults(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	v.Interface().(tomlschema.Defaults).SetDefaults()
	return v.Elem()
}

// top returns the keys of a scenario that are no tables.
func top(s reflect.Value) any {
	var fields []reflect.StructField
	var values []reflect.Value
	for i := range s.NumField() {
		switch s.Field(i).Kind() {
		case reflect.Struct, reflect.Map, reflect.Slice:
		default:
			fields = append(fields, s.Type().Field(i))
			values = append(values, s.Field(i))
		}
	}
	out := reflect.New(reflect.StructOf(fields)).Elem()
	for i, v := range values {
		out.Field(i).Set(v)
	}
	return out.Interface()
}
