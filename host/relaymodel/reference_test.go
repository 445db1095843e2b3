package relaymodel

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Reference writes the page about profiles.
func Reference() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Reference: profiles of relays

A profile says how a relay of ` + "`talon devnet`" + ` and of the tests behaves: a TOML file whose keys are below. What a file does not say is
as in the column *default*: a relay without limits that does what the NIPs ask for. An unknown key, a wrong type or a value out of its range
is an error that names the line and the key. This page is made from the code (` + "`go test ./host/relaymodel -rewrite`" + `).

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
	b.WriteString("\nAnd these of relays with a fault:\n\n| name | what it does |\n|---|---|\n")
	if err := list("faults", Faults()); err != nil {
		return nil, err
	}
	b.WriteString("\nA refusal is a table: `by` is " + alternatives(ways) + ", `text` what is said, `code` that of a close frame.\n" +
		"In a text, `{id}` stands for the subscription's id, `{size}` for what there was, `{max}` for what is allowed.\n")
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
		rows(&b, "", table, value)
	}
	return b.Bytes(), nil
}

// rows writes the keys of a table, those of tables in it with a dot.
func rows(b *bytes.Buffer, path string, table reflect.Type, value reflect.Value) {
	for i := range table.NumField() {
		f := table.Field(i)
		key, doc := path+f.Tag.Get("key"), f.Tag.Get("doc")
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Answer]() {
			fmt.Fprintf(b, "| **%s** | | %s |\n", key, doc)
			rows(b, key+".", f.Type, value.Field(i))
			continue
		}
		if one := f.Tag.Get("one"); one != "" {
			doc += " (" + alternatives(one) + ")"
		} else if most := f.Tag.Get("max"); most != "" {
			doc += " (0 to " + most + ")"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", key, shown(value.Field(i).Interface()), doc)
	}
}

func alternatives(one string) string { return "`" + strings.ReplaceAll(one, "|", "`, `") + "`" }

// shown writes a default.
func shown(value any) string {
	switch v := value.(type) {
	case Answer:
		if v == (Answer{}) {
			return "none"
		}
		text := "by `" + v.By + "`"
		if v.Text != "" {
			text += ": " + v.Text
		}
		if v.Code != 0 {
			text += fmt.Sprintf(" (%d)", v.Code)
		}
		return text
	case string:
		if v == "" {
			return "none"
		}
		return v
	case map[string]any:
		return "none"
	}
	return fmt.Sprint(value)
}
