package relaymodel

import (
	"bytes"
	"fmt"
	"reflect"

	"talon/internal/tomlschema"
)

// Reference writes the page about profiles.
func Reference() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Reference: profiles of relays

This page has every key of a profile. A profile is a TOML file that describes the behaviour of a relay of
` + "`talon devnet`" + ` and of the tests. An absent key has its value from the column *default*: a relay without limits that
follows the NIPs. An unknown key, a wrong type or a value out of its range is an error that names the line and the
key. This page is generated from the code (` + "`go test ./host/relaymodel -rewrite`" + `).

These profiles are built in; their limits and texts are those of the relays' sources:

| name | what it is |
|---|---|
`)
	list := func(dir string, names []string) error {
		for _, name := range names {
			p, err := Builtin(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "| [`%s`](../host/relaymodel/%s/%s.toml) | %s |\n", name, dir, name, p.Description)
		}
		return nil
	}
	if err := list("profiles", Names()); err != nil {
		return nil, err
	}
	b.WriteString("\nThese profiles of relays with a fault are built in, too:\n\n| name | what it does |\n|---|---|\n")
	if err := list("faults", Faults()); err != nil {
		return nil, err
	}
	b.WriteString("\nA refusal is a table: `by` is " + tomlschema.Alternatives(ways) + ", `text` the message, `code` the code of a close frame.\n" +
		"A text may have placeholders: `{id}` is the subscription's id, `{size}` the actual value, `{max}` the limit.\n")
	p := reflect.ValueOf(Default()).Elem()
	for i := range p.NumField() {
		f := p.Type().Field(i)
		if f.Type.Kind() == reflect.String {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", f.Tag.Get("key"), f.Tag.Get("doc"))
			continue
		}
		table, value, brackets := f.Type, p.Field(i), "[%s]"
		if table.Kind() == reflect.Slice {
			table, brackets = table.Elem(), "[[%s]]"
			value = reflect.Zero(table)
		}
		fmt.Fprintf(&b, "\n## "+brackets+"\n\n%s\n\n| key | default | |\n|---|---|---|\n", f.Tag.Get("key"), f.Tag.Get("doc"))
		tomlschema.Rows(&b, "", value, shown)
	}
	return b.Bytes(), nil
}

// shown writes the defaults that only profiles have.
func shown(value any) (string, bool) {
	switch v := value.(type) {
	case Answer:
		if v == (Answer{}) {
			return "none", true
		}
		text := "by `" + v.By + "`"
		if v.Text != "" {
			text += ": " + v.Text
		}
		if v.Code != 0 {
			text += fmt.Sprintf(" (%d)", v.Code)
		}
		return text, true
	case map[string]any:
		return "none", true
	}
	return "", false
}
