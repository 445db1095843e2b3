package main

import (
	"fmt"
	"strings"

	"talon/internal/abigen/schema"
)

// The policy world in C and AssemblyScript: enums, and what a policy is asked about but
// for events, whose source is read with them. Marks for c:
//
//	enum PREFIX  an enum with names that begin so
//	name X       the function that walks a list
//	cast         of a number of 32 bits: what is above them is cut off
//
// and for as: enum, message.

const (
	cBegin = "/* What follows is generated from talon.proto by internal/abigen. */\n"
	cEnd   = "/* That was generated. */\n"
)

// cFile puts what is generated into talon.h, which is one file so that it can be
// copied as one: each part between two comments, after a comment that names it.
func cFile(f *schema.File, header string) (string, error) {
	parts := strings.Split(header, cBegin)
	for i := range parts[1:] {
		name, rest, ok := strings.Cut(parts[i+1], "\n")
		_, after, ended := strings.Cut(rest, cEnd)
		if !ok || !ended {
			return "", fmt.Errorf("talon.h: a part that is generated does not end with %q", cEnd)
		}
		var text strings.Builder
		for word := range strings.FieldsSeq(strings.Trim(name, "/* ")) {
			t := f.Type(word)
			if t == nil {
				return "", fmt.Errorf("talon.h: a part is generated from %q, which talon.proto does not have", word)
			}
			text.WriteByte('\n')
			if prefix, ok := t.Marks.Get("c", "enum"); ok {
				cEnum(&text, t, prefix)
			} else {
				cMessage(&text, f, t)
			}
		}
		parts[i+1] = name + "\n" + text.String() + "\n" + cEnd + after
	}
	return strings.Join(parts, cBegin), nil
}

func cComment(b *strings.Builder, text string) {
	lines := wrap(sentence(text), 84)
	fmt.Fprintf(b, "/* %s */\n", strings.Join(lines, "\n * "))
}

func cEnum(b *strings.Builder, t *schema.Type, prefix string) {
	cComment(b, said(t))
	b.WriteString("enum {\n")
	for _, v := range t.Fields {
		if v.Number > 0 || !strings.HasSuffix(v.Name, "_UNSPECIFIED") {
			fmt.Fprintf(b, "\t%s%s = %d,", prefix, strings.TrimPrefix(v.Name, prefixOf(t)), v.Number)
			if v.Note != "" {
				fmt.Fprintf(b, " /* %s */", v.Note)
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("};\n")
}

// cName is the name of a message's struct: talon_push of PushRequest.
func cName(t *schema.Type) string {
	return "talon_" + strings.ToLower(strings.TrimSuffix(t.Name, "Request"))
}

func cMessage(b *strings.Builder, f *schema.File, t *schema.Type) {
	name, request := cName(t), strings.HasSuffix(t.Name, "Request")
	keeps := false // its message, to read lists from it
	cComment(b, said(t))
	b.WriteString("typedef struct {\n")
	for _, field := range t.Fields {
		typ := map[string]string{"uint32": "uint32_t ", "int64": "int64_t ", "bool": "bool ", "string": "talon_text ", "bytes": "talon_text "}[field.Type]
		switch {
		case field.Repeated:
			keeps = true
			continue
		case f.Message(field) != nil:
			typ = cName(f.Message(field)) + " "
		case f.Enum(field) != nil:
			typ = "uint32_t "
		case field.Size() == 32:
			typ = "const uint8_t *"
		}
		fmt.Fprintf(b, "\t%s%s;", typ, field.Name)
		if field.Note != "" {
			fmt.Fprintf(b, " /* %s */", field.Note)
		}
		b.WriteByte('\n')
	}
	if keeps {
		b.WriteString("\ttalon_text message; /* all of it, as it is encoded */\n")
	}
	fmt.Fprintf(b, "} %s;\n\n", name)

	fmt.Fprintf(b, "static inline bool talon_read_%s(talon_text message, %s *to) {\n", strings.TrimPrefix(name, "talon_"), name)
	var cases, after strings.Builder
	result := "!r.bad"
	for _, field := range t.Fields {
		if field.Repeated {
			continue
		}
		key, value := "TALON_DATA", "to->"+field.Name+" = r.data"
		switch m := f.Message(field); {
		case m != nil:
			fmt.Fprintf(b, "\ttalon_text %s = {0};\n", field.Name)
			value = field.Name + " = r.data"
			result = fmt.Sprintf("talon_read_%s(%s, &to->%s) && %s", strings.TrimPrefix(cName(m), "talon_"), field.Name, field.Name, result)
		case field.Type == "bytes" && field.Size() == 32:
			fmt.Fprintf(b, "\ttalon_text %s = {0};\n", field.Name)
			value = field.Name + " = r.data"
			fmt.Fprintf(&after, "\tto->%s = talon_as_key(%s);\n", field.Name, field.Name)
		case field.Type == "string" || field.Type == "bytes":
		default:
			key = "TALON_NUMBER"
			value = "to->" + field.Name + " = " + map[string]string{"int64": "(int64_t)r.num", "bool": "r.num != 0"}[field.Type]
			switch {
			case field.Marks.Has("c", "cast"):
				value += "(uint32_t)r.num"
			case field.Type == "uint32" || f.Enum(field) != nil:
				value += "talon_at_most_32_bits(r.num)"
			}
		}
		fmt.Fprintf(&cases, "\t\tcase %s(%d): %s; break;\n", key, field.Number, value)
	}
	zero := "{0}"
	if keeps {
		zero = "{.message = message}"
	}
	fmt.Fprintf(b, "\ttalon_reader r = talon_read(message);\n\t*to = (%s)%s;\n\twhile (talon_next(&r))\n\t\tswitch (r.key) {\n%s\t\t}\n%s\treturn %s;\n}\n",
		name, zero, &cases, &after, result)

	for _, field := range t.Fields {
		if !field.Repeated {
			continue
		}
		function, ok := field.Marks.Get("c", "name")
		if !ok {
			function = name + "_" + field.Name
		}
		parameter, message := "const "+name+" *in", "in->message"
		if !request {
			parameter, message = name+" of", "of.message"
		}
		b.WriteByte('\n')
		if field.Note != "" {
			cComment(b, field.Note)
		}
		fmt.Fprintf(b, "static inline talon_values %s(%s) { return talon_values_of(%s, %d); }\n", function, parameter, message, field.Number)
	}
}
