package main

import (
	"fmt"
	"strings"

	"talon/internal/abigen/schema"
)

// page is docs/reference-messages.md.
func page(f *schema.File) string {
	var index, body strings.Builder
	for _, t := range f.Types {
		fmt.Fprintf(&index, "[%s](#%s)\n", t.Name, strings.ToLower(t.Name))
		fmt.Fprintf(&body, "\n## %s\n\n%s\n\n", t.Name, strings.Join(t.Doc, "\n"))
		if t.Enum {
			body.WriteString("| | name | |\n|---|---|---|\n")
		} else {
			body.WriteString("| | field | type | |\n|---|---|---|---|\n")
		}
		for _, field := range t.Fields {
			note := strings.ReplaceAll(field.Note, "|", `\|`)
			if t.Enum {
				fmt.Fprintf(&body, "| %d | `%s` | %s |\n", field.Number, field.Name, note)
				continue
			}
			kind := field.Type
			if f.Type(kind) != nil {
				kind = fmt.Sprintf("[%s](#%s)", kind, strings.ToLower(kind))
			}
			switch {
			case field.Repeated:
				kind = "repeated " + kind
			case field.Optional:
				kind = "optional " + kind
			}
			fmt.Fprintf(&body, "| %d | `%s` | %s | %s |\n", field.Number, field.Name, kind, note)
		}
	}
	return "# Reference: the messages of the ABI\n\n" +
		"Every message that crosses the boundary between Talon and a module: protobuf (proto3), package `talon.v1`. What a module is, and when\n" +
		"which message is sent, is in [the ABI](reference-abi.md). This page is made from [talon.proto](../sdk/abi/talon.proto), by\n" +
		"`go generate ./internal/abigen`; a test holds the two against each other.\n\n" +
		"A field is never renumbered or given another type, a removed number is reserved. Skip fields that you do not know; expect that any field\n" +
		"is absent.\n\n" + index.String() + body.String()
}
