package main

import (
	"fmt"
	"strings"

	"talon/internal/abigen/schema"
)

// receiver is the name of a message that is a parameter.
func receiver(t *schema.Type) string {
	switch {
	case strings.HasSuffix(t.Name, "Request"):
		return "q"
	case strings.HasSuffix(t.Name, "Answer"):
		return "a"
	case strings.HasPrefix(t.Name, "Config"):
		return "c"
	}
	return "m"
}

// appendMessage writes the function that appends a message which is sent by itself.
func (g *golang) appendMessage(t *schema.Type) {
	declared, used := g.params(t)
	name := receiver(t)
	after := "."
	for _, f := range t.Fields {
		if f.Marks.Has("go", "apart") {
			after = ", but for its " + f.Name + ", which are to be there already."
		}
	}
	g.p("// Append%s appends %s%s", t.Name, name, after)
	g.p("func Append%s%s(b []byte, %s *%s%s) []byte {", t.Name, declared, name, t.Name, used)
	g.append(t, name)
	g.p("return b\n}\n")
}

// appendNested writes the function that appends a message as a field.
func (g *golang) appendNested(t *schema.Type) {
	declared, used := g.params(t)
	g.p("func append%s%s(b []byte, field byte, m *%s%s) []byte {\nb, at := open(b, field)", t.Name, declared, t.Name, used)
	g.append(t, "m")
	if t.Marks.Has("go", "omit") {
		g.p("return sealSome(b, at)\n}\n")
	} else {
		g.p("return seal(b, at)\n}\n")
	}
}

// append writes what appends the fields of a message.
func (g *golang) append(t *schema.Type, of string) {
	for _, f := range t.Fields {
		if !f.Marks.Has("go", "apart") {
			g.appendField(f, of+"."+goName(f.Name))
		}
	}
}

func (g *golang) appendField(f *schema.Field, v string) {
	n, m := f.Number, g.Message(f)
	typ := g.writeType(f)
	switch {
	case m != nil && f.Repeated && typ != "[]"+m.Name:
		g.p("for i := range %s {\nitem := %s(%s[i])\nb = append%s(b, %d, &item)\n}", v, m.Name, v, m.Name, n)
	case m != nil && f.Repeated:
		g.p("for i := range %s {\nb = append%s(b, %d, &%s[i])\n}", v, m.Name, n, v)
	case m != nil:
		g.p("b = append%s(b, %d, &%s)", m.Name, n, v)
	case f.Concatenated():
		g.p("if len(%s) > 0 {\nb = appendVarint(appendKey(b, %d, wireBytes), uint64(32*len(%s)))", v, n, v)
		g.p("for i := range %s {\nb = append(b, %s[i][:]...)\n}\n}", v, v)
	case f.Repeated && f.Type == "bytes":
		g.p("b = appendKeys(b, %d, %s)", n, v)
	case f.Repeated && f.Type == "string":
		g.p("b = appendTexts(b, %d, %s)", n, v)
	case f.Repeated:
		g.appendPacked(f, v)
	case typ == "[32]byte" && strings.Contains(f.Note, "empty:"):
		g.p("if %s != ([32]byte{}) {\nb = appendField(b, %d, %s[:])\n}", v, n, v)
	case typ == "[32]byte":
		g.p("b = appendField(b, %d, %s[:])", n, v)
	case f.Type == "string" || f.Type == "bytes":
		g.p("b = appendNonEmpty(b, %d, %s)", n, v)
	case f.Type == "bool":
		g.p("b = appendBool(b, %d, %s)", n, v)
	case f.Type == "double":
		g.p("b = appendDouble(b, %d, %s)", n, v)
	default:
		g.p("b = appendUint(b, %d, uint64(%s))", n, v)
	}
}

// appendPacked writes what appends a list of numbers.
func (g *golang) appendPacked(f *schema.Field, v string) {
	item := "b = appendVarint(b, uint64(v))"
	switch f.Type {
	case "bool":
		item = "b = append(b, bit(v))"
	case "double":
		item = "b = appendFixed(b, v)"
	}
	g.p("if len(%s) > 0 {\nvar at int\nb, at = open(b, %d)\nfor _, v := range %s {\n%s\n}\nb = seal(b, at)\n}", v, f.Number, v, item)
}

// action writes the actions of a strategy: one struct for all, and what writes and
// reads it.
func (g *golang) action(t *schema.Type) error {
	g.p("// Kinds of %s: their fields in the message.\nconst (", t.Name)
	for _, f := range t.Fields {
		g.p("Do%s = %d", f.Type, f.Number)
	}
	g.p(")\n\nvar doNames = [...]string{")
	for _, f := range t.Fields {
		g.p("Do%s: %q,", f.Type, f.Name)
	}
	g.p("}\n")

	// The fields of all, their limits, and which of the actions have one.
	types, users, limits := map[string]string{}, map[string][]string{}, map[string]int{}
	order := strings.Fields(g.actions(t))
	for _, f := range t.Fields {
		for _, field := range g.Message(f).Fields {
			name, typ := actionField(field), g.writeType(field)
			if !strings.Contains(" "+strings.Join(order, " ")+" ", " "+name+" ") {
				order = append(order, name)
			}
			if types[name] == "" || field.Repeated {
				types[name] = typ
			}
			users[name] = append(users[name], "Do"+f.Type)
			if limit := field.Max(); limit > 0 && limits[name] == 0 {
				limits[name] = limit
			}
			if field.Type == "string" && limits[name] == 0 {
				return unlimited(g.Message(f), field)
			}
		}
	}
	g.p("// %s is the message %s. Which of the fields count depends on Do.", t.Name, t.Name)
	g.p("type %s struct {\nDo uint32 // Do%s and so on", t.Name, t.Fields[0].Type)
	for _, name := range order {
		g.p("%s %s // %s", name, types[name], strings.Join(users[name], ", "))
	}
	g.p("}\n")

	g.p("// Limits of what an action says.\nconst (")
	for _, name := range order {
		if limits[name] > 0 {
			g.p("MaxAction%s = %d // bytes", name, limits[name])
		}
	}
	g.p(")\n")

	g.p("// AppendAction appends a as the next action of StepActions. It allocates nothing\n// else.")
	g.p("func AppendAction(b []byte, a *%s) []byte {\nb, at := open(b, 1)\nb, inner := open(b, byte(a.Do))\nswitch a.Do {", t.Name)
	for _, f := range t.Fields {
		g.p("case Do%s:\nb = append%s(b, a)", f.Type, f.Type)
	}
	g.p("}\nreturn seal(seal(b, inner), at)\n}\n")
	for _, f := range t.Fields {
		g.p("func append%s(b []byte, a *%s) []byte {", f.Type, t.Name)
		for _, field := range g.Message(f).Fields {
			if v := "a." + actionField(field); v == "a.Filters" {
				g.p("b = appendFilters(b, %d, %s)", field.Number, v)
			} else {
				g.appendField(field, v)
			}
		}
		g.p("return b\n}\n")
	}

	g.p("// body reads the fields of an action.")
	g.p("func (d *actionDecoder) body(a *%s, b []byte) string {\nr := reader{rest: b}\nfor r.next() {\nvar what string", t.Name)
	g.p("switch uint64(a.Do)<<32 | r.key {")
	for _, f := range t.Fields {
		for _, field := range g.Message(f).Fields {
			v := "a." + actionField(field)
			g.p("case Do%s<<32 | %s:", f.Type, key(field, g.wire(field)))
			switch {
			case v == "a.Filters" && field.Repeated:
				g.p("what = d.filter(a, r.data)")
			case v == "a.Filters":
				g.p("what = d.onlyFilter(a, r.data)")
			case field.Type == "string":
				g.p("what = copyText(&%s, %q, r.data, MaxAction%s)", v, field.Name, goName(field.Name))
			default:
				g.p("%s = %s", v, g.number(field, "r"))
			}
		}
	}
	g.p("}\nif what != \"\" {\nreturn what\n}\n}\nif r.bad {\nreturn malformed\n}\nreturn \"\"\n}\n")
	return nil
}

func unlimited(t *schema.Type, f *schema.Field) error {
	return fmt.Errorf("%s.%s is a text that modules write: its note is to say \"at most N bytes\"", t.Name, f.Name)
}

// actionField is the field of StepAction that holds one of an action.
func actionField(f *schema.Field) string {
	if f.Name == "filter" {
		return "Filters"
	}
	return goName(f.Name)
}

func key(f *schema.Field, wire string) string { return fmt.Sprintf("%d<<3 | %s", f.Number, wire) }
