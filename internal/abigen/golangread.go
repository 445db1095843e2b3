package main

import (
	"fmt"
	"strings"

	"talon/internal/abigen/schema"
)

// wire is the wire type of a field's value.
func (g *golang) wire(f *schema.Field) string {
	switch {
	case f.Type == "double":
		return "wireFixed64"
	case g.Message(f) != nil || f.Type == "string" || f.Type == "bytes":
		return "wireBytes"
	}
	return "wireVarint"
}

// number is the value of a field of numbers that a reader is at.
func (g *golang) number(f *schema.Field, r string) string {
	switch {
	case f.Type == "bool":
		return r + ".num != 0"
	case f.Type == "int64":
		return "int64(" + r + ".num)"
	case f.Type == "double":
		g.math = true
		return "math.Float64frombits(" + r + ".num)"
	case g.scalar(f) == "uint32":
		return "uint32(min(" + r + ".num, 1<<32-1))"
	}
	return fmt.Sprintf("%s(known(%s.num, uint32(%s)))", f.Type, r, valueName(g.Enum(f), g.Enum(f).Fields[len(g.Enum(f).Fields)-1]))
}

// keeps reports whether a view keeps the bytes of its message, to read lists from them.
func (g *golang) keeps(t *schema.Type) bool {
	for _, f := range t.Fields {
		if f.Repeated {
			return true
		}
	}
	return false
}

// view writes the struct that a message is read by.
func (g *golang) view(t *schema.Type) {
	texts := ""
	if t.Marks.Has("go", "bytes") {
		texts = " Its texts are valid UTF-8."
	}
	g.p("// %sView reads %s in place.%s", t.Name, article(t.Name), texts)
	if t.Marks.Has("go", "lazy") {
		g.p("type %sView struct{ b []byte }\n", t.Name)
		return
	}
	g.p("type %sView struct {", t.Name)
	private := ""
	if g.keeps(t) {
		private = "b []byte\n"
	}
	for _, f := range t.Fields {
		name := goName(f.Name)
		switch m := g.Message(f); {
		case f.Concatenated():
			private += f.Name + " []byte\n"
		case f.Marks.Has("go", "indexed"):
			private += f.Name + " []byte // packed\nrare bool // they are written in another way than that\n"
		case f.Repeated:
		case m != nil:
			g.p("%s %s%s", name, g.readName(m), note(f))
		case f.Type == "bytes" || f.Type == "string" && t.Marks.Has("go", "bytes"):
			g.p("%s []byte%s", name, note(f))
		default:
			g.p("%s %s%s", name, g.scalar(f), note(f))
		}
	}
	if private != "" {
		g.p("\n%s", private)
	}
	g.p("}\n")
}

func article(name string) string {
	if strings.ContainsAny(name[:1], "AEIO") {
		return "an " + name
	}
	return "a " + name
}

// decode writes the method that makes a view of bytes.
func (g *golang) decode(t *schema.Type, method string) {
	if method == "Decode" {
		g.p("// Decode reads b. What has a method is looked into only when that is called.")
	}
	empty := g.readName(t) + "{}"
	if g.keeps(t) {
		empty = g.readName(t) + "{b: b}"
	}
	name := "v"
	if !g.isView(t) {
		name = receiver(t)
	}
	g.p("func (%s *%s) %s(b []byte) error {\n*%s = %s\nr := reader{rest: b}\nfor r.next() {", name, g.readName(t), method, name, empty)
	g.cases(t, name, true)
	g.p("}")
	if t.Marks.Has("go", "bytes") {
		g.utf8 = true
		bad := "r.bad"
		for _, f := range t.Fields {
			if f.Type == "string" {
				bad += " || !utf8.Valid(v." + goName(f.Name) + ")"
			}
		}
		g.p("if %s {\nreturn ErrMalformed\n}\nreturn nil\n}\n", bad)
		return
	}
	g.p("return r.err()\n}\n")
}

// read writes the body of a function that returns what can be read, from a reader and
// from bytes.
func (g *golang) read(t *schema.Type, from, bytes string) {
	if g.keeps(t) {
		g.p("m := %s{b: %s}", g.readName(t), bytes)
		if from == "(reader{rest: "+bytes+"})" {
			from = "(reader{rest: m.b})"
		}
	} else {
		g.p("var m %s", g.readName(t))
	}
	if from == "" {
		g.p("for r.next() {")
	} else {
		g.p("for r := %s; r.next(); {", from)
	}
	g.cases(t, "m", false)
	g.p("}\nreturn m")
}

// cases writes the switch that takes each field of a message. Where the function
// returns an error, a message within that is malformed is one.
func (g *golang) cases(t *schema.Type, of string, fails bool) {
	g.p("switch r.key {")
	for _, f := range t.Fields {
		v := of + "." + goName(f.Name)
		m := g.Message(f)
		if f.Marks.Has("go", "indexed") {
			g.p("case %s:\n%s.rare = true", key(f, "wireVarint"), of)
			g.p("case %s:\n%s.rare = %s.rare || %s.%s != nil\n%s.%s = r.data", key(f, "wireBytes"), of, of, of, f.Name, of, f.Name)
		}
		if f.Repeated {
			continue
		}
		g.p("case %s:", key(f, g.wire(f)))
		switch {
		case m != nil && m.Marks.Has("go", "lazy"):
			g.p("%s.b = r.data", v)
		case m != nil && !g.isView(m):
			g.p("%s = read%s(reader{rest: r.data})", v, m.Name)
		case m != nil && fails:
			g.p("if err := %s.%s(r.data); err != nil {\nreturn err\n}", v, g.decodeName(m))
		case m != nil:
			g.p("if %s.%s(r.data) != nil {\n%s = %s{}\n}", v, g.decodeName(m), v, g.readName(m))
		case f.Concatenated():
			g.p("%s.%s = r.data", of, f.Name)
		case f.Type == "bytes" || f.Type == "string" && t.Marks.Has("go", "bytes"):
			g.p("%s = r.data", v)
		case f.Type == "string":
			g.p("%s = text(r.data)", v)
		default:
			g.p("%s = %s", v, g.number(f, "r"))
		}
	}
	g.p("}")
}

// decodeName is the method that a view of a message is made by.
func (g *golang) decodeName(t *schema.Type) string {
	if t.Marks.Has("go", "hand") {
		return "Decode"
	}
	return "decode"
}

// lists writes the methods of a view that look into the message.
func (g *golang) lists(t *schema.Type) {
	pointer, lazy := "*", t.Marks.Has("go", "lazy")
	if lazy {
		pointer = ""
	}
	for _, f := range t.Fields {
		name := goName(f.Name)
		method := fmt.Sprintf("func (v %s%sView) %s()", pointer, t.Name, name)
		note := strings.TrimSuffix(f.Note, ".")
		switch {
		case f.Concatenated():
		case f.Repeated && note == "":
			g.p("// %s iterates over the %s.", name, f.Name)
		case f.Repeated:
			g.p("// %s iterates over the %s: %s.", name, f.Name, note)
		case lazy:
			g.p("// %s: %s.", name, note)
		}
		switch {
		case f.Concatenated():
			g.p("// Num%s is the number of %s.\nfunc (v *%sView) Num%s() int { return len(v.%s) / 32 }\n", name, f.Name, t.Name, name, f.Name)
			g.p("// %s returns the one at index i.\nfunc (v *%sView) %s(i int) [32]byte { return [32]byte(v.%s[32*i:]) }\n", single(name), t.Name, single(name), f.Name)
		case f.Repeated && g.Message(f) != nil:
			g.p("%s %sIter { return %sIter{it: fields(v.b, %d)} }\n", method, f.Type, f.Type, f.Number)
		case f.Repeated && g.wire(f) == "wireVarint":
			g.p("%s %sIter { return %sIter{r: reader{rest: v.b}} }\n", method, single(name), single(name))
			g.numbers(f)
		case f.Repeated:
			g.p("%s BytesIter { return fields(v.b, %d) }\n", method, f.Number)
		case lazy:
			g.p("%s string { return text(lastField(v.b, %d)) }\n", method, f.Number)
		}
	}
}

// numbers writes the iterator over a list of numbers, packed or not.
func (g *golang) numbers(f *schema.Field) {
	name, typ := single(goName(f.Name)), g.scalar(f)
	value := strings.ReplaceAll(g.number(f, "it.r"), "it.r.num", "v")
	g.p("// %sIter walks the %s of a message.\ntype %[1]sIter struct {\nr reader\npacked []byte\nitem %[3]s\n}\n", name, f.Name, typ)
	g.p("// Next moves to the next one, and reports whether there is one.\nfunc (it *%sIter) Next() bool {", name)
	g.p("for len(it.packed) == 0 {\nif !it.r.next() {\nreturn false\n}\nswitch it.r.key {")
	g.p("case %s:\nit.item = %s\nreturn true", key(f, "wireVarint"), g.number(f, "it.r"))
	g.p("case %s:\nit.packed = it.r.data\n}\n}", key(f, "wireBytes"))
	g.p("v, n := readVarint(it.packed)\nif n == 0 {\n*it = %sIter{}\nreturn false\n}", name)
	g.p("it.item, it.packed = %s, it.packed[n:]\nreturn true\n}\n", value)
	g.p("// %s returns the one that Next moved to.\nfunc (it *%[1]sIter) %[1]s() %[2]s { return it.item }\n", name, typ)
}

// single is the name of one of many.
func single(name string) string {
	if stem, ok := strings.CutSuffix(name, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
}

// iter writes the iterator over messages that are items of a list.
func (g *golang) iter(t *schema.Type) {
	var item string
	g.uses(t, func(_ *schema.Type, f *schema.Field) bool {
		item = single(goName(f.Name))
		return f.Repeated
	})
	g.p("// %sIter walks a list.\ntype %sIter struct{ it BytesIter }\n", t.Name, t.Name)
	g.p("// Next moves to the next item, and reports whether there is one.")
	g.p("func (it *%sIter) Next() bool { return it.it.Next() }\n", t.Name)
	g.p("// %s returns the item that Next moved to. Its texts are views.", item)
	inline := t.Marks.Has("go", "inline")
	if inline {
		g.p("//\n// It is one loop without calls, as EventView.Decode is; what that loop does not\n// know it leaves to read%s.", t.Name)
	}
	g.p("func (it *%sIter) %s() %s {", t.Name, item, g.readName(t))
	if inline {
		g.inline(t)
		g.p("}\n\n// read%s reads messages of any shape: as much as can be read.", t.Name)
		g.p("func read%s(b []byte) %s {", t.Name, g.readName(t))
		g.read(t, "(reader{rest: b})", "b")
	} else {
		g.read(t, "(reader{rest: it.it.Bytes()})", "it.it.Bytes()")
	}
	g.p("}\n")
}

// inline writes the loop without calls, for a message of one text and of numbers.
func (g *golang) inline(t *schema.Type) {
	g.p(`var m %[1]s
	b := it.it.Bytes()
	for pos := 0; pos < len(b); {
		k := b[pos]
		if k < 1<<3 || k >= 0x80 || k&^wireBytes&7 != 0 {
			return read%[1]s(b)
		}
		var n uint64
		var shift uint
		for pos++; ; pos++ {
			if pos == len(b) || shift > 56 {
				return read%[1]s(b)
			}
			c := b[pos]
			n |= uint64(c&0x7f) << shift
			if c < 0x80 {
				pos++
				break
			}
			shift += 7
		}
		if k&7 == wireBytes {
			if n > uint64(len(b)-pos) {
				return read%[1]s(b)
			}`, t.Name)
	for _, f := range t.Fields {
		if f.Type == "string" {
			g.p("if k == %d<<3|wireBytes {\nm.%s = text(b[pos : pos+int(n)])\n}", f.Number, goName(f.Name))
		}
	}
	g.p("pos += int(n)\ncontinue\n}\nswitch k {")
	for _, f := range t.Fields {
		switch f.Type {
		case "int64":
			g.p("case %s:\nm.%s = int64(n)", key(f, "wireVarint"), goName(f.Name))
		case "uint32":
			g.p("case %s:\nm.%s = uint32(min(n, 1<<32-1))", key(f, "wireVarint"), goName(f.Name))
		}
	}
	g.p("}\n}\nreturn m")
}

// decoder writes the methods that copy a message: configuration, and answers of a
// throttle, whose values are checked.
func (g *golang) decoder(t *schema.Type, answer bool) {
	name := receiver(t)
	if !g.nested(t) && !t.Marks.Has("go", "checked") {
		what := "The strings are copies."
		if answer {
			what = "An error is an *AnswerError or\n// ErrMalformed."
		}
		g.p("// Decode%s reads %s. %s", t.Name, article(t.Name), what)
		g.p("func Decode%s(b []byte) (%s, error) {\nvar %s %s\nif err := %s.decode(b); err != nil {\nreturn %s{}, err\n}\nreturn %s, nil\n}\n",
			t.Name, t.Name, name, t.Name, name, t.Name, name)
	}
	g.p("func (%s *%s) decode(b []byte) error {\nr := reader{rest: b}\nfor r.next() {\nswitch r.key {", name, t.Name)
	for _, f := range t.Fields {
		v := name + "." + goName(f.Name)
		m := g.Message(f)
		g.p("case %s:", key(f, g.wire(f)))
		if f.Type == "string" {
			g.utf8 = true
			bad := "!utf8.Valid(r.data)"
			if f.Repeated && f.Max() > 0 {
				bad += fmt.Sprintf(" || len(%s) == %d", v, f.Max())
			}
			g.p("if %s {\nreturn ErrMalformed\n}", bad)
		}
		switch {
		case m != nil && f.Repeated:
			g.p("var item %s\nif err := item.decode(r.data); err != nil {\nreturn err\n}\n%s = append(%s, item)", m.Name, v, v)
		case m != nil:
			g.p("if err := %s.decode(r.data); err != nil {\nreturn err\n}", v)
		case f.Type == "string" && f.Repeated:
			g.p("%s = append(%s, string(r.data))", v, v)
		case f.Type == "string":
			g.p("%s = string(r.data)", v)
		case f.Type == "bytes":
			g.p("if %s = [32]byte{}; len(r.data) == len(%s) {\n%s = [32]byte(r.data)\n}", v, v, v)
		case f.Repeated:
			g.packed(f, v)
		default:
			g.p("%s = %s", v, g.number(f, "r"))
		}
	}
	g.p("}\n}")
	if !answer {
		g.p("return r.err()\n}\n")
		return
	}
	g.p("if r.bad {\nreturn ErrMalformed\n}")
	for _, f := range t.Fields {
		v := name + "." + goName(f.Name)
		check := ""
		switch e := g.Enum(f); {
		case f.Type == "int64":
			check = fmt.Sprintf("checkTime(%q, %s)", f.Name, v)
		case e != nil:
			check = fmt.Sprintf("checkKnown(%q, %s, %s)", f.Name, v, valueName(e, e.Fields[len(e.Fields)-1]))
		case f.Type == "string":
			check = fmt.Sprintf("checkText(%q, %s, %d)", f.Name, v, f.Max())
		default:
			continue
		}
		g.p("if err := %s; err != nil {\nreturn err\n}", check)
	}
	g.p("return nil\n}\n")
}

// packed writes what reads a list of numbers, in both ways of writing it.
func (g *golang) packed(f *schema.Field, v string) {
	g.p("%s = append(%s, %s)", v, v, g.number(f, "r"))
	each, of, item := "eachVarint", "uint64", strings.ReplaceAll(g.number(f, "n"), "n.num", "v")
	if f.Type == "double" {
		each, of, item = "eachFixed", "float64", "v"
	}
	g.p("case %s:\nif !%s(r.data, func(v %s) { %s = append(%s, %s) }) {\nreturn ErrMalformed\n}", key(f, "wireBytes"), each, of, v, v, item)
}
