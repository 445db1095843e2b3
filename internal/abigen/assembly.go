package main

import (
	"fmt"
	"slices"
	"strings"

	"talon/internal/abigen/schema"
)

// assemblyFile writes what the policy world has in AssemblyScript, but for events: enums
// and classes. There is one object of each class, which is used again.
func assemblyFile(f *schema.File) string {
	var b strings.Builder
	b.WriteString(`// Generated from talon.proto by internal/abigen. There is one object of each class, which
// is used again.

import { Bytes } from "./bytes";
import { Filters } from "./filter";
import { Updates } from "./request";
import { Reader, Values, dataKey, numberKey } from "./wire";
`)
	for _, t := range f.Types {
		switch {
		case slices.Contains(t.Marks["as"], "enum"):
			b.WriteByte('\n')
			assemblyComment(&b, "", said(t))
			fmt.Fprintf(&b, "export enum %s {\n", t.Name)
			for _, v := range t.Fields {
				fmt.Fprintf(&b, "  %s = %d,%s\n", rustValue(t, v), v.Number, trailing(v.Note))
			}
			b.WriteString("}\n")
		case slices.Contains(t.Marks["as"], "message"):
			assemblyClass(&b, f, t)
		}
	}
	return b.String()
}

func assemblyComment(b *strings.Builder, indent, text string) {
	for _, line := range wrap(sentence(text), 86-len(indent)) {
		fmt.Fprintf(b, "%s// %s\n", indent, line)
	}
}

func trailing(note string) string {
	if note == "" {
		return ""
	}
	return " // " + note
}

// assemblyName is the name of a field: fromAddress.
func assemblyName(f *schema.Field) string { return lower(camel(f.Name)) }

func assemblyClass(b *strings.Builder, f *schema.File, t *schema.Type) {
	var fields, private, reset, cases, methods strings.Builder
	keeps := false
	for _, field := range t.Fields {
		name := assemblyName(field)
		m, e := f.Message(field), f.Enum(field)
		if field.Repeated {
			keeps = true
			list, number := "Values", fmt.Sprintf(", %d", field.Number)
			if m != nil {
				list, number = map[string]string{"Filter": "Filters", "RefUpdate": "Updates"}[m.Name], ""
			}
			fmt.Fprintf(&private, "  private %sList: %s = new %s();\n", name, list, list)
			methods.WriteByte('\n')
			if field.Note != "" {
				assemblyComment(&methods, "  ", field.Note)
			}
			fmt.Fprintf(&methods, "  %s(): %s {\n    return this.%sList.start(this.message.ptr, this.message.length%s);\n  }\n", name, list, name, number)
			continue
		}
		typ := map[string]string{"int64": "i64", "uint32": "u32", "bool": "bool"}[field.Type]
		key, zero, value := "numberKey", "0", "<i64>r.num"
		switch {
		case m != nil:
			fmt.Fprintf(&fields, "  readonly %s: %s = new %s();%s\n", name, m.Name, m.Name, trailing(field.Note))
			fmt.Fprintf(&reset, "    this.%s.read(0, 0);\n", name)
			fmt.Fprintf(&cases, "        case dataKey(%d): this.%s.read(r.ptr, r.length); break;\n", field.Number, name)
			continue
		case field.Type == "string":
			fmt.Fprintf(&fields, "  readonly %s: Bytes = new Bytes();%s\n", name, trailing(field.Note))
			fmt.Fprintf(&reset, "    this.%s.set(0, 0);\n", name)
			fmt.Fprintf(&cases, "        case dataKey(%d): this.%s.set(r.ptr, r.length); break;\n", field.Number, name)
			continue
		case e != nil:
			typ = e.Name
			zero = e.Name + "." + rustValue(e, e.Fields[0])
			value = fmt.Sprintf("r.num > %d ? %s : <%s>r.num", e.Fields[len(e.Fields)-1].Number, zero, e.Name)
		case typ == "u32":
			value = "<u32>min(r.num, u32.MAX_VALUE)"
		case typ == "bool":
			zero, value = "false", "r.num != 0"
		}
		fmt.Fprintf(&fields, "  %s: %s = %s;%s\n", name, typ, zero, trailing(field.Note))
		fmt.Fprintf(&reset, "    this.%s = %s;\n", name, zero)
		fmt.Fprintf(&cases, "        case %s(%d): this.%s = %s; break;\n", key, field.Number, name, value)
	}
	b.WriteByte('\n')
	assemblyComment(b, "", said(t))
	fmt.Fprintf(b, "export class %s {\n%s", strings.TrimSuffix(t.Name, "Request"), &fields)
	if keeps {
		b.WriteString("  private message: Bytes = new Bytes();\n")
	}
	fmt.Fprintf(b, "%s  private reader: Reader = new Reader();\n\n  read(ptr: usize, length: i32): this {\n", &private)
	if keeps {
		b.WriteString("    this.message.set(ptr, length);\n")
	}
	fmt.Fprintf(b, "%s    const r = this.reader.start(ptr, length);\n    while (r.next()) {\n      switch (r.key) {\n%s      }\n    }\n    return this;\n  }\n%s}\n",
		&reset, &cases, &methods)
}
