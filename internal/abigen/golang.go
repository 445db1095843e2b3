package main

import (
	"fmt"
	"go/format"
	"strings"

	"talon/internal/abigen/schema"
)

// golang writes package abi: a file for each mark file of the schema.
//
// A message whose fields are all numbers and texts is one struct, which is written and
// read; texts of what was read are views. Of any other there is a struct to write and a
// view to read. Marks say where that is not so:
//
//	hand           there is nothing to write: the code is by hand
//	[K ~[32]byte]  type parameters of the struct to write
//	reader         only the view
//	lazy           a view that looks into the message when it is asked
//	bytes          a view whose texts are bytes, which are checked to be UTF-8
//	copied         one struct, read as a copy, within limits
//	checked        of an answer: Decode is by hand, and calls decode
//	omit           as a field it is left out where it is empty
//	inline         it is read in one loop without calls, since a guest pays for each
//	inputs         its fields are the inputs of a strategy
//	actions …      its fields are the actions of a strategy; the order of StepAction
//	typed          an enum with a type
//	apart          of a field: written by other means
//	indexed        of a list of numbers: its bytes are found when the view is made
//	[]T            of a field: the type to write
type golang struct {
	*schema.File
	strings.Builder
	math, utf8 bool
}

func goFiles(f *schema.File, files map[string]string) error {
	const maxNumber = 15 // the key of a field takes one byte
	groups := map[string]*golang{}
	for _, t := range f.Types {
		g := groups[t.Group]
		if g == nil {
			g = &golang{File: f}
			groups[t.Group] = g
		}
		for _, field := range t.Fields {
			if !t.Enum && field.Number > maxNumber {
				return fmt.Errorf("%s.%s = %d: package abi writes keys of one byte, which go up to %d", t.Name, field.Name, field.Number, maxNumber)
			}
		}
		switch {
		case t.Enum:
			g.enum(t)
		case t.Marks.Has("go", "hand"):
		case t.Marks.Has("go", "inputs"):
			g.inputs(t)
		case g.actions(t) != "":
			if err := g.action(t); err != nil {
				return err
			}
		case g.within(t, "actions"): // StepAction has their fields
		default:
			for _, field := range t.Fields {
				if strings.HasSuffix(t.Name, "Answer") && field.Type == "string" && field.Max() == 0 {
					return unlimited(t, field)
				}
			}
			g.message(t)
		}
	}
	for name, g := range groups {
		g.limits(name)
		text := "// Code generated from talon.proto by internal/abigen. DO NOT EDIT.\n\npackage abi\n\n"
		var imports string
		if g.math {
			imports = "\"math\"\n"
		}
		if g.utf8 {
			imports += "\"unicode/utf8\"\n"
		}
		if imports != "" {
			text += "import (\n" + imports + ")\n"
		}
		source, err := format.Source([]byte(text + g.String()))
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, g)
		}
		files["sdk/abi/"+name+"_gen.go"] = string(source)
	}
	return nil
}

func (g *golang) p(form string, args ...any) { fmt.Fprintf(g, form+"\n", args...) }

// actions is the order of the fields of StepAction.
func (g *golang) actions(t *schema.Type) string {
	order, _ := t.Marks.Get("go", "actions")
	return order
}

// within reports whether a message is a field of the one with this label.
func (g *golang) within(t *schema.Type, label string) bool {
	for _, other := range g.Types {
		if !other.Marks.Has("go", label) && (label != "actions" || g.actions(other) == "") {
			continue
		}
		for _, f := range other.Fields {
			if f.Type == t.Name {
				return true
			}
		}
	}
	return false
}

// initials are words that Go writes in capitals.
var initials = map[string]string{
	"id": "ID", "url": "URL", "urls": "URLs", "pubkey": "PubKey", "cpu": "CPU", "prs": "PRs", "ok": "OK", "dns": "DNS", "tls": "TLS",
}

// goName writes words with underscores as Go does.
func goName(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.ToLower(name), "_") {
		if other := initials[word]; other != "" {
			b.WriteString(other)
		} else {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// valueName is the name of an enum's value in Go.
func valueName(t *schema.Type, v *schema.Field) string {
	if name, ok := v.Marks.Get("go", "name"); ok {
		return name
	}
	prefix := prefixOf(t)
	return goName(strings.TrimSuffix(prefix, "_")) + goName(strings.TrimPrefix(v.Name, prefix))
}

// prefixOf is what all values of an enum begin with.
func prefixOf(t *schema.Type) string {
	prefix := t.Fields[0].Name
	for _, v := range t.Fields {
		for !strings.HasPrefix(v.Name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix[:strings.LastIndexByte(prefix, '_')+1]
}

// doc writes what the schema says of a type.
func (g *golang) doc(t *schema.Type, name string) {
	if len(t.Doc) == 0 || !strings.HasPrefix(t.Doc[0], name) {
		g.p("// %s is the message %s.", name, t.Name)
	}
	for _, line := range t.Doc {
		g.p("// %s", line)
	}
}

// note is what is said of a field, where that fits behind it.
func note(f *schema.Field) string {
	if f.Note == "" || len(f.Note) > 90 {
		return ""
	}
	return " // " + f.Note
}

// limits writes how many items the lists of a view have at most, where the schema says.
func (g *golang) limits(group string) {
	var limits string
	for _, t := range g.Types {
		for _, f := range t.Fields {
			if t.Group == group && f.Repeated && f.Max() > 0 && !t.Marks.Has("go", "copied") {
				limits += fmt.Sprintf("Max%s = %d // of %s\n", goName(f.Name), f.Max(), article(t.Name))
			}
		}
	}
	if limits != "" {
		g.p("// Most that a request holds: the host leaves out what is beyond.\nconst (\n%s)\n", limits)
	}
}

func (g *golang) enum(t *schema.Type) {
	typed := t.Marks.Has("go", "typed")
	for _, line := range t.Doc {
		g.p("// %s", line)
	}
	if typed {
		g.p("type %s uint32\n", t.Name)
	}
	g.p("const (")
	for i, v := range t.Fields {
		switch {
		case typed && i == 0:
			g.p("%s %s = iota%s", valueName(t, v), t.Name, note(v))
		case typed:
			g.p("%s%s", valueName(t, v), note(v))
		default:
			g.p("%s = %d%s", valueName(t, v), v.Number, note(v))
		}
	}
	g.p(")\n")
}

// inputs writes the constants of the inputs of a strategy, and how a StepView reads
// each.
func (g *golang) inputs(t *schema.Type) {
	var last string
	g.p("// Kinds of inputs: their fields in a %s.", t.Name)
	g.p("const (\nInputNone = 0 // of a kind that this package does not know")
	for _, f := range t.Fields {
		if g.Message(f) != nil {
			last = "Input" + goName(f.Name)
			g.p("%s = %d", last, f.Number)
		}
	}
	g.p(")\n\nconst lastInput = %s\n", last)
	for _, f := range t.Fields {
		m := g.Message(f)
		if m == nil {
			continue
		}
		kind := "Input" + goName(f.Name)
		g.p("func (m *%s) appendInput(b []byte) []byte {\nb, at := open(b, %s)", m.Name, kind)
		g.append(m, "m")
		g.p("return seal(b, at)\n}\n")
		g.p("// %s returns the input of kind %s; of another kind, an empty one. Its texts are views.", goName(f.Name), kind)
		g.p("func (v *StepView) %s() %s {", goName(f.Name), g.readName(m))
		g.read(m, fmt.Sprintf("v.as(%s)", kind), fmt.Sprintf("v.as(%s).rest", kind))
		g.p("}\n")
	}
}

// message writes the structs of a message and all that writes and reads them.
func (g *golang) message(t *schema.Type) {
	copied, request, answer := t.Marks.Has("go", "copied"), strings.HasSuffix(t.Name, "Request"), strings.HasSuffix(t.Name, "Answer")
	params, _ := g.params(t)
	if !t.Marks.Has("go", "reader") {
		g.doc(t, t.Name)
		g.structOf(t, params)
		if request || answer || copied && !g.nested(t) {
			g.appendMessage(t)
		}
		if g.nested(t) {
			g.appendNested(t)
		}
	}
	switch {
	case copied || answer:
		g.decoder(t, answer)
		return
	case g.isView(t):
		g.view(t)
	}
	switch {
	case request || t.Marks.Has("go", "bytes"):
		g.decode(t, "Decode")
	case g.nestedOnce(t) && g.isView(t) && !t.Marks.Has("go", "lazy"):
		g.decode(t, "decode")
	case g.nestedOnce(t) && !g.isView(t):
		g.p("func read%s(r reader) %s {", t.Name, t.Name)
		g.read(t, "", "")
		g.p("}\n")
	}
	if g.isView(t) {
		g.lists(t)
	}
	if g.repeated(t) {
		g.iter(t)
	}
}

// structOf writes the struct of a message; one of a single field on one line.
func (g *golang) structOf(t *schema.Type, params string) {
	if f := t.Fields[0]; len(t.Fields) == 1 {
		g.p("type %s%s struct{ %s %s }\n", t.Name, params, goName(f.Name), g.writeType(f))
		return
	}
	g.p("type %s%s struct {", t.Name, params)
	for _, f := range t.Fields {
		if !f.Marks.Has("go", "apart") {
			g.p("%s %s%s", goName(f.Name), g.writeType(f), note(f))
		}
	}
	g.p("}\n")
}

// params are the type parameters of the struct to write, declared and in use.
func (g *golang) params(t *schema.Type) (declared, used string) {
	for _, mark := range t.Marks["go"] {
		if !strings.HasPrefix(mark, "[") {
			continue
		}
		var names []string
		for param := range strings.SplitSeq(mark[1:], "~") {
			words := strings.Fields(strings.TrimSuffix(param, "]"))
			if len(words) > 0 && len(names) < strings.Count(mark, "~") {
				names = append(names, words[len(words)-1])
			}
		}
		return mark, "[" + strings.Join(names, ", ") + "]"
	}
	return "", ""
}

// writeType is the type of a field in the struct to write.
func (g *golang) writeType(f *schema.Field) string {
	for _, mark := range f.Marks["go"] {
		if strings.HasPrefix(mark, "[]") {
			return mark
		}
	}
	typ := g.scalar(f)
	if m := g.Message(f); m != nil {
		_, used := g.params(m)
		typ = m.Name + used
	}
	if f.Repeated || f.Concatenated() {
		return "[]" + typ
	}
	return typ
}

// scalar is the type of a field's value.
func (g *golang) scalar(f *schema.Field) string {
	switch {
	case g.Enum(f) != nil && g.Enum(f).Marks.Has("go", "typed"):
		return f.Type
	case g.Enum(f) != nil:
		return "uint32"
	case f.Type == "double":
		return "float64"
	case f.Type == "bytes" && f.Size() == 32:
		return "[32]byte"
	case f.Type == "bytes":
		return "[]byte"
	}
	return f.Type
}

// isView reports whether a message has a view to be read by.
func (g *golang) isView(t *schema.Type) bool {
	if t.Marks.Has("go", "lazy") || t.Marks.Has("go", "bytes") {
		return true
	}
	if t.Marks.Has("go", "copied") {
		return false
	}
	for _, f := range t.Fields {
		if f.Repeated || f.Type == "bytes" || g.Message(f) != nil && g.isView(g.Message(f)) {
			return true
		}
	}
	return false
}

// readName is the type that a message is read as.
func (g *golang) readName(t *schema.Type) string {
	if g.isView(t) {
		return t.Name + "View"
	}
	return t.Name
}

func (g *golang) uses(t *schema.Type, is func(in *schema.Type, f *schema.Field) bool) bool {
	for _, other := range g.Types {
		for _, f := range other.Fields {
			if f.Type == t.Name && !other.Marks.Has("go", "inputs") && !other.Marks.Has("go", "hand") && is(other, f) {
				return true
			}
		}
	}
	return false
}

// nested reports whether a message is written as a field of another, nestedOnce whether
// it is read as one that is there once, repeated whether it is an item of a list.
func (g *golang) nested(t *schema.Type) bool {
	return g.uses(t, func(_ *schema.Type, f *schema.Field) bool { return !f.Marks.Has("go", "apart") })
}

func (g *golang) nestedOnce(t *schema.Type) bool {
	return g.uses(t, func(_ *schema.Type, f *schema.Field) bool { return !f.Repeated })
}

func (g *golang) repeated(t *schema.Type) bool {
	return g.uses(t, func(_ *schema.Type, f *schema.Field) bool { return f.Repeated })
}
