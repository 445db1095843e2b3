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

A scenario says in which network ` + "`talon lab run`" + ` tries strategies and throttles: a TOML file whose keys are below. What a file does not
say is as in the column *default*. An unknown key, a wrong type or a value out of its range is an error that names the line and the key. A
length of time is a string such as "90s", "5m", "6h", "2d" or "1d12h". ` + "`--set KEY=VALUE`" + ` changes a key for one command, as in
` + "`--set relays.strfry.rate=50`" + `. This page is made from the code (` + "`go test ./cmd/internal/lab/scenario -rewrite`" + `).

Everything random is drawn from the seed before a run begins: what is published when and where, which relays fail, how long lines take. Each of
these has a random stream of its own. So all modules that are tried with a seed have the same weather, and equal files, seeds and modules make
equal results, to the byte.

These scenarios are built in, and begin with ` + "`talon lab run NAME`" + `:

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

At the level **wire**, relays are the state machines of [their profiles](reference-relay-profiles.md), and the session of production talks to
them in frames over a simulated line: messages, negentropy, limits, rates, refusals, outages. At the level **model**, a relay answers from what
messages would cost: several times as fast, for large networks. There, the limits of a relay are known from the first connection on; its
manners, lies and authentication, and duplicates that only arise from the order of messages, are left out. In ` + "`small`" + ` the bytes of the
model are those of the wire, but for two strategies that compare: 4 and 16 % more (` + "`go test ./cmd/internal/lab/engine -run TestLevels -v`" + `), and a
third more where all of a large network is fetched at once: what two relays are asked for at the same time counts twice. Completeness is the
same. The wire stands beside the server as a process, with sockets: the bytes that relays send differ by 5 % at most
(` + "`TALON_TEST_DEVNET=1 go test ./cmd/talon -run TestDevnetLab -v`" + `).

Signatures of simulated events are cheap stand-ins, and compression of frames is not simulated.
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
