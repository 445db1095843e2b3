package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"talon/internal/abigen/schema"
)

// rust writes what the crate reads: enums and messages of each world. A message of the
// policy world is a struct with methods, one of the others a struct with public fields,
// and methods for its lists. Actions and answers, which a module writes, are by hand,
// and so are events and filters. Marks:
//
//	name X  another name
//	hand    it is by hand
//	plain   an enum that is not read; of the policy world, a struct with public fields
type rust struct {
	*schema.File
	strings.Builder
	group string
	uses  map[string]bool
}

func rustFiles(f *schema.File, files map[string]string) {
	byHand := map[string]bool{}
	for _, t := range f.Types {
		if _, actions := t.Marks.Get("go", "actions"); actions {
			for _, field := range t.Fields {
				byHand[field.Type] = true
			}
			byHand[t.Name] = true
		}
	}
	for group, module := range map[string]string{"policy": "request", "strategy": "strategy", "throttle": "throttle"} {
		r := &rust{File: f, group: group, uses: map[string]bool{}}
		for _, t := range f.Types {
			switch {
			case t.Group != group, byHand[t.Name], t.Marks.Has("rust", "hand"):
			case t.Enum && group == "policy":
				r.closed(t)
			case t.Enum:
				r.names(t)
			case strings.HasSuffix(t.Name, "Answer"):
			case t.Marks.Has("go", "inputs"):
				r.inputs(t)
			case group == "policy" && t.Marks.Has("rust", "plain"):
				r.plain(t)
			case group == "policy":
				r.request(t)
			default:
				r.message(t)
			}
		}
		if r.uses["wire::{self, Field}"] {
			delete(r.uses, "wire")
		}
		text := "//! Generated from talon.proto by internal/abigen.\n\n"
		for _, use := range slices.Sorted(maps.Keys(r.uses)) {
			text += "use crate::" + use + ";\n"
		}
		files["sdk/rust/src/"+module+"/messages.rs"] = text + r.String()
	}
}

func (r *rust) p(form string, args ...any) { fmt.Fprintf(r, form+"\n", args...) }

// rustName returns the name of a type or a field.
func rustName(m schema.Marks, name string) string {
	if other, ok := m.Get("rust", "name"); ok {
		return other
	}
	return name
}

// camel writes words with underscores with a capital each.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.ToLower(name), "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// rustValue is the name of an enum's value.
func rustValue(t *schema.Type, v *schema.Field) string {
	return rustName(v.Marks, camel(strings.TrimPrefix(v.Name, prefixOf(t))))
}

// said is what the schema says of a type, without its name at the beginning.
func said(t *schema.Type) string {
	text := strings.Join(t.Doc, " ")
	for _, start := range []string{t.Name + " is ", t.Name + " says ", t.Name + ": ", t.Name + " "} {
		if rest, ok := strings.CutPrefix(text, start); ok {
			return rest
		}
	}
	return text
}

// doc writes a comment of sentences, in lines of at most 90 columns.
func (r *rust) doc(indent, text string) {
	if text == "" {
		return
	}
	for _, t := range r.Types {
		for _, v := range t.Fields {
			if t.Enum {
				text = strings.ReplaceAll(text, v.Name, "`"+t.Name+"::"+rustValue(t, v)+"`")
			}
		}
	}
	for _, line := range wrap(sentence(text), 86-len(indent)) {
		r.p("%s/// %s", indent, line)
	}
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(text string) string {
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// wrap cuts a text between words.
func wrap(text string, width int) (lines []string) {
	var line string
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

func (r *rust) names(t *schema.Type) {
	r.uses["message::names"] = true
	r.p("\nnames! {")
	r.doc("    ", said(t))
	r.p("    %s {", t.Name)
	for _, v := range t.Fields {
		r.doc("        ", v.Note)
		r.p("        %s = %d,", rustValue(t, v), v.Number)
	}
	r.p("    }\n}")
}

// closed writes an enum of the policy world, which a policy may match in full.
func (r *rust) closed(t *schema.Type) {
	plain := t.Marks.Has("rust", "plain")
	r.p("")
	r.doc("", said(t))
	derived := ", Default"
	if plain {
		derived = ""
	}
	r.p("#[derive(Clone, Copy, Debug%s, PartialEq, Eq)]\npub enum %s {", derived, t.Name)
	for i, v := range t.Fields {
		r.doc("    ", v.Note)
		if i == 0 && !plain {
			r.doc("    ", "The host does not say, or says what this version does not know")
			r.p("    #[default]")
		}
		r.p("    %s = %d,", rustValue(t, v), v.Number)
	}
	r.p("}")
	if plain {
		return
	}
	r.p("\nimpl %s {\n    pub(crate) fn of(v: u64) -> Self {\n        match v {", t.Name)
	for _, v := range t.Fields[1:] {
		r.p("            %d => %s::%s,", v.Number, t.Name, rustValue(t, v))
	}
	r.p("            _ => %s::%s,\n        }\n    }\n}", t.Name, rustValue(t, t.Fields[0]))
}

// isView reports whether a message borrows from where it was read.
func (r *rust) isView(t *schema.Type) bool {
	for _, f := range t.Fields {
		m := r.Message(f)
		if f.Repeated || f.Type == "string" || f.Type == "bytes" || m != nil && (m.Marks.Has("rust", "hand") || r.isView(m)) {
			return true
		}
	}
	return false
}

// fieldType is the type of a field with one value, "" for one that has a method.
func (r *rust) fieldType(f *schema.Field) string {
	m := r.Message(f)
	switch {
	case f.Repeated, f.Type == "bytes", m != nil && m.Marks.Has("rust", "hand"):
		return ""
	case m != nil && r.isView(m):
		r.use(m)
		return rustName(m.Marks, m.Name) + "<'a>"
	case m != nil:
		r.use(m)
		return rustName(m.Marks, m.Name)
	case r.Enum(f) != nil:
		r.use(r.Enum(f))
		return f.Type
	}
	return map[string]string{"string": "&'a str", "uint32": "u32", "int64": "i64", "bool": "bool", "double": "f64"}[f.Type]
}

// use imports a type of another world.
func (r *rust) use(t *schema.Type) {
	if t.Group != r.group {
		r.uses[map[string]string{"policy": "request", "strategy": "strategy", "throttle": "throttle"}[t.Group]+"::"+rustName(t.Marks, t.Name)] = true
	}
}

func (r *rust) message(t *schema.Type) {
	r.uses["message::message"] = true
	name, life := rustName(t.Marks, t.Name), ""
	if r.isView(t) {
		life = "'a"
	}
	r.p("\nmessage! {")
	r.doc("    ", said(t))
	r.p("    %s [%s] {", name, life)
	methods := false
	for _, f := range t.Fields {
		if typ := r.fieldType(f); typ != "" {
			r.doc("        ", f.Note)
			r.p("        %s: %s = %d,", f.Name, typ, f.Number)
		} else {
			methods = true
		}
	}
	r.p("    }\n}")
	if !methods {
		return
	}
	r.p("\nimpl<'a> %s<'a> {", name)
	first := true
	for _, f := range t.Fields {
		if r.fieldType(f) == "" {
			if !first {
				r.p("")
			}
			first = false
			r.method(f, "raw")
		}
	}
	r.p("}")
}

// method writes what reads a field when it is called, from a message at self.of.
func (r *rust) method(f *schema.Field, of string) {
	r.uses["wire"] = true
	r.doc("    ", f.Note)
	typ, body := "", ""
	values := fmt.Sprintf("wire::values(self.%s, %d)", of, f.Number)
	data := fmt.Sprintf("wire::data(self.%s, %d)", of, f.Number)
	m := r.Message(f)
	switch {
	case f.Concatenated():
		r.uses["key::{view, Key}"] = true
		typ, body = "impl Iterator<Item = &'a Key>", data+".chunks_exact(32).map(view)"
	case f.Type == "bytes" && f.Repeated:
		r.uses["event::keys"], r.uses["key::Key"] = true, true
		typ, body = "impl Iterator<Item = &'a Key>", fmt.Sprintf("keys(self.%s, %d)", of, f.Number)
	case f.Type == "bytes":
		r.uses["key::{view, Key}"] = true
		typ, body = "&'a Key", "view("+data+")"
	case f.Type == "string" && f.Repeated:
		typ, body = "impl Iterator<Item = &'a str>", values+".map(wire::text)"
	case f.Type == "string":
		typ, body = "&'a str", "wire::text("+data+")"
	case f.Type == "uint32":
		typ, body = "impl Iterator<Item = u32> + 'a", fmt.Sprintf("wire::numbers(self.%s, %d).map(wire::uint)", of, f.Number)
	case f.Type == "Filter":
		r.uses["filter::Filter"] = true
		typ, body = "Filter<'a>", "Filter("+data+")"
		if f.Repeated {
			typ, body = "impl Iterator<Item = Filter<'a>>", values+".map(Filter)"
		}
	default:
		name := rustName(m.Marks, m.Name)
		typ, body = "impl Iterator<Item = "+name+"<'a>>", values+".map("+name+"::read)"
	}
	r.p("    pub fn %s(&self) -> %s {\n        %s\n    }", rustName(f.Marks, f.Name), typ, body)
}

// inputs writes the enum of a strategy's inputs, and its reader.
func (r *rust) inputs(t *schema.Type) {
	r.uses["wire"] = true
	r.p("\n/// An input of a strategy.\n#[non_exhaustive]\npub enum Input<'a> {")
	for _, f := range t.Fields {
		if m := r.Message(f); m != nil {
			r.p("    %s(%s<'a>),", camel(f.Name), rustName(m.Marks, m.Name))
		}
	}
	r.p("    /// An input that this version does not know.\n    Other,\n}")
	r.p("\nimpl<'a> Input<'a> {\n    pub(super) fn read(field: u32, data: &'a [u8]) -> Option<Self> {\n        Some(match field {")
	for _, f := range t.Fields {
		if m := r.Message(f); m != nil {
			r.p("            %d => Input::%s(%s::read(data)),", f.Number, camel(f.Name), rustName(m.Marks, m.Name))
		}
	}
	r.p("            _ => return None,\n        })\n    }\n}")
}

// plain writes a struct of texts, which are all looked for.
func (r *rust) plain(t *schema.Type) {
	r.uses["wire"] = true
	r.p("")
	r.doc("", said(t))
	r.p("pub struct %s<'a> {", t.Name)
	for _, f := range t.Fields {
		r.doc("    ", f.Note)
		r.p("    pub %s: &'a str,", rustName(f.Marks, f.Name))
	}
	r.p("}\n\nimpl<'a> %s<'a> {\n    fn read(message: &'a [u8]) -> Self {\n        %s {", t.Name, t.Name)
	for _, f := range t.Fields {
		r.p("            %s: wire::text(wire::data(message, %d)),", rustName(f.Marks, f.Name), f.Number)
	}
	r.p("        }\n    }\n}")
}

// request writes what a policy is asked about: numbers are read immediately, all other
// when its method is called.
func (r *rust) request(t *schema.Type) {
	name := rustName(t.Marks, strings.TrimSuffix(t.Name, "Request"))
	r.p("")
	r.doc("", said(t))
	var kept []*schema.Field
	for _, f := range t.Fields {
		if !f.Repeated && f.Type != "string" && f.Type != "bytes" {
			kept = append(kept, f)
		}
	}
	message := len(kept) < len(t.Fields) // methods read from it
	r.p("#[derive(Clone, Copy)]\npub struct %s<'a> {", name)
	if message {
		r.p("    message: &'a [u8],")
	}
	for _, f := range kept {
		r.p("    %s: %s,", f.Name, r.kept(f))
	}
	r.p("}\n\nimpl<'a> %s<'a> {\n    pub(crate) fn read(message: &'a [u8]) -> Self {", name)
	if len(kept) == 0 {
		r.p("        %s { message }\n    }", name)
	} else {
		r.uses["wire::{self, Field}"] = true
		r.p("        let mut m = %s {", name)
		if message {
			r.p("            message,")
		}
		for _, f := range kept {
			zero := map[string]string{"&'a [u8]": "&[]", "bool": "false"}[r.kept(f)]
			if r.Enum(f) != nil {
				zero = f.Type + "::default()"
			}
			if zero == "" {
				zero = "0"
			}
			r.p("            %s: %s,", f.Name, zero)
		}
		r.p("        };\n        for field in wire::fields(message) {\n            match field {")
		for _, f := range kept {
			kind, value := "Number", "v"
			switch {
			case r.Message(f) != nil:
				kind = "Data"
			case r.Enum(f) != nil:
				value = f.Type + "::of(v)"
			case f.Type == "bool":
				value = "v != 0"
			case f.Type == "int64":
				value = "v as i64"
			case f.Type == "uint32":
				value = "wire::uint(v)"
			}
			r.p("                Field::%s(%d, v) => m.%s = %s,", kind, f.Number, f.Name, value)
		}
		r.p("                _ => {}\n            }\n        }\n        m\n    }")
	}
	for _, f := range t.Fields {
		r.p("")
		switch {
		case !slices.Contains(kept, f):
			r.method(f, "message")
		case r.Message(f) != nil:
			r.doc("    ", f.Note)
			r.p("    pub fn %s(&self) -> %s<'a> {\n        %s::read(self.%s)\n    }", f.Name, f.Type, f.Type, f.Name)
		default:
			r.doc("    ", f.Note)
			r.p("    pub fn %s(&self) -> %s {\n        self.%s\n    }", f.Name, r.kept(f), f.Name)
		}
	}
	r.p("}")
}

// kept is the type of a field that a request keeps.
func (r *rust) kept(f *schema.Field) string {
	switch {
	case r.Message(f) != nil:
		return "&'a [u8]"
	case r.Enum(f) != nil:
		return f.Type
	}
	return map[string]string{"uint32": "u32", "int64": "i64", "bool": "bool"}[f.Type]
}
