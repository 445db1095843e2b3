// Command abigen writes what sdk/abi/talon.proto says: the messages in Go and in the
// SDKs of other languages, their JSON in vectors, and docs/reference-messages.md. It is
// run by go generate; package abi says how to add a field. MARKS.md explains the lines of the schema
// that begin with //@.
package main

//go:generate go run .

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/internal/abigen/schema"
)

func main() {
	files, err := generate("../..")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = os.WriteFile(filepath.Join("../..", name), []byte(files[name]), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "abigen:", err)
		os.Exit(1)
	}
}

// generate returns the texts of all files that come from the schema, by their names
// below the root of the repository.
func generate(root string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "sdk/abi/talon.proto"))
	if err != nil {
		return nil, err
	}
	return generateFrom(string(text), root)
}

// generateFrom is generate for another schema.
func generateFrom(text, root string) (map[string]string, error) {
	f, err := schema.Parse(text)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"docs/reference-messages.md": page(f)}
	if err := goFiles(f, files); err != nil {
		return nil, err
	}
	if err := jsonFile(f, files); err != nil {
		return nil, err
	}
	rustFiles(f, files)
	files["sdk/assemblyscript/assembly/messages.ts"] = assemblyFile(f)
	const header = "sdk/c/talon.h"
	was, err := os.ReadFile(filepath.Join(root, header))
	if err != nil {
		return nil, err
	}
	files[header], err = cFile(f, string(was))
	return files, err
}

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
		"Every message that crosses the boundary between Talon and a module: protobuf (proto3), package `talon.v1`. [The ABI](reference-abi.md) explains\n" +
		"modules, and when Talon sends which message. `go generate ./internal/abigen` makes this page from\n" +
		"[talon.proto](../sdk/abi/talon.proto). A test compares the two.\n\n" +
		"A field keeps its number and type. The number of a removed field stays reserved. Skip fields that you do not know.\n" +
		"Any field may be absent.\n\n" + index.String() + body.String()
}
