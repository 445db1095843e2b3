package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"

	"talon/internal/abigen/schema"
)

// jsonFile writes how vectors name what package abi has: the values of enums, and the
// requests and answers of a throttle. A mark "json name X" of a value replaces the name
// that it has in the schema; "json hand" of an answer says that its code is by hand.
func jsonFile(f *schema.File, files map[string]string) error {
	j := &golang{File: f}
	j.p("// Code generated from talon.proto by internal/abigen. DO NOT EDIT.\n\npackage manifest\n\nimport \"talon/sdk/abi\"\n")
	asked := map[string]bool{}
	for _, t := range f.Types {
		if t.Group == "throttle" && strings.HasSuffix(t.Name, "Request") {
			j.reach(t, asked)
		}
		if t.Group == "throttle" && strings.HasSuffix(t.Name, "Answer") && !t.Marks.Has("json", "hand") {
			j.reach(t, asked)
		}
	}
	for _, t := range f.Types {
		switch {
		case t.Enum && (asked[t.Name] || slices.Contains(t.Marks["json"], "names")):
			j.names(t, asked[t.Name])
		case asked[t.Name]:
			j.form(t)
		}
	}
	source, err := format.Source([]byte(j.String()))
	if err != nil {
		return fmt.Errorf("JSON: %w\n%s", err, j)
	}
	files["sdk/abi/manifest/forms_gen.go"] = string(source)
	return nil
}

// reach notes a type and those of its fields.
func (g *golang) reach(t *schema.Type, seen map[string]bool) {
	if t == nil || seen[t.Name] {
		return
	}
	seen[t.Name] = true
	for _, f := range t.Fields {
		g.reach(g.Type(f.Type), seen)
	}
}

// lower is a name that is not exported.
func lower(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// names writes the names of an enum's values, and the type of a field that has one.
func (g *golang) names(t *schema.Type, field bool) {
	g.p("// %sNames are the names of %s, the index.", lower(t.Name), t.Name)
	g.p("var %sNames = []string{", lower(t.Name))
	for _, v := range t.Fields {
		name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(v.Name, prefixOf(t))), "_", "-")
		if other, ok := v.Marks.Get("json", "name"); ok {
			name = other
		} else if name == "unspecified" {
			name = ""
		}
		g.p("abi.%s: %q,", valueName(t, v), name)
	}
	g.p("}\n")
	if field {
		g.p("type %sForm uint32\n", lower(t.Name))
		g.p("func (v *%sForm) UnmarshalText(text []byte) error { return named((*uint32)(v), %[1]sNames, text) }\n", lower(t.Name))
		g.p("func (v %sForm) MarshalText() ([]byte, error) { return []byte(%[1]sNames[v]), nil }\n", lower(t.Name))
	}
}

// form writes the JSON of a message, without now, which is that of the vector.
func (g *golang) form(t *schema.Type) {
	for _, f := range t.Fields {
		if f.Repeated && f.Max() > 0 {
			g.p("// %sList are as many as a host tells of.\ntype %[1]sList []%s\n", f.Name, g.formItem(f))
			g.p("func (l *%sList) UnmarshalJSON(b []byte) error { return checkMax(abi.Max%s, %q, b, (*[]%s)(l)) }\n", f.Name, goName(f.Name), f.Name, g.formItem(f))
		}
	}
	name := lower(t.Name) + "Form"
	g.p("// %s is the message %s.\ntype %[1]s struct {", name, t.Name)
	for _, f := range t.Fields {
		if f.Name != "now" {
			g.p("%s %s `json:%q`%s", goName(f.Name), g.formType(f), f.Name, note(f))
		}
	}
	g.p("}\n")

	if strings.HasSuffix(t.Name, "Request") {
		g.p("func (m *%s) append(b []byte, now int64) []byte {", name)
		g.p("return abi.Append%s(b, filled(&abi.%[1]s{Now: now}, m))\n}\n", t.Name)
		if other := strings.TrimSuffix(t.Name, "Request") + "Answer"; !g.Type(other).Marks.Has("json", "hand") {
			g.p("func (*%s) answer() throttleWanted { return new(%sForm) }\n", name, lower(other))
		}
	}
	if strings.HasSuffix(t.Name, "Answer") {
		g.p("func (m *%s) read(answer []byte) error {\na, err := abi.Decode%s(answer)\nfilled(m, &a)\nreturn err\n}\n", name, t.Name)
		g.p("func (m *%s) append(b []byte) []byte {\nreturn abi.Append%s(b, filled(new(abi.%[2]s), m))\n}\n", name, t.Name)
	}
}

// formItem is the type of a field's value in JSON, formType that of the field.
func (g *golang) formItem(f *schema.Field) string {
	if g.Type(f.Type) != nil {
		return lower(f.Type) + "Form"
	}
	return g.scalar(f)
}

func (g *golang) formType(f *schema.Field) string {
	switch {
	case f.Repeated && f.Max() > 0:
		return f.Name + "List"
	case f.Repeated:
		return "[]" + g.formItem(f)
	}
	return g.formItem(f)
}
