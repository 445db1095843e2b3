// Command abigen writes what sdk/abi/talon.proto says: the messages in Go and in the
// SDKs of other languages, their JSON in vectors, and docs/reference-messages.md. It is
// run by go generate; package abi says how to add a field.
package main

//go:generate go run .

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

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
