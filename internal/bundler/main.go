// Command bundler makes the files that a build with the tag "bundled" embeds:
//
//	go run ./internal/bundler -default NAMES FOLDER MODULE.wasm...
//
// FOLDER is host/bundle. The command writes modules.pack, with all modules, and code_ARCH.pack,
// with the compiled code of those that run by default. The code is for processors like that of
// this machine: releases for arm64 are made under qemu-user. Files that are still right stay.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"talon/host/bundle"
	"talon/host/plugin/guest"
	"talon/internal/durable"
)

func main() {
	defaults := flag.String("default", "", "`names` of the modules that run by default, with commas between them")
	flag.Parse()
	err := errors.New("want -default NAMES FOLDER and the files of modules")
	if flag.NArg() > 1 {
		err = run(context.Background(), flag.Arg(0), flag.Args()[1:], strings.Split(*defaults, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundler: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string, files, defaults []string) error {
	var sources []bundle.Source
	for _, file := range files {
		wasm, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		sources = append(sources, bundle.Source{Name: name, Wasm: wasm, Default: slices.Contains(defaults, name)})
	}
	modules, err := writeModules(filepath.Join(folder, "modules.pack"), sources)
	if err != nil {
		return err
	}
	return writeCode(ctx, filepath.Join(folder, "code_"+runtime.GOARCH+".pack"), modules, sources)
}

// writeModules returns the content of the file of modules.
func writeModules(file string, sources []bundle.Source) ([]byte, error) {
	there, err := os.ReadFile(file)
	if err == nil && holds(there, sources) {
		return there, nil
	}
	var made bytes.Buffer
	if err := bundle.Write(&made, sources); err != nil {
		return nil, err
	}
	return made.Bytes(), durable.Write(file, made.Bytes(), 0o644)
}

// holds reports whether a file of modules has exactly these, in this order.
func holds(file []byte, sources []bundle.Source) bool {
	b, err := bundle.Open(file, nil)
	if err != nil {
		return false
	}
	return slices.EqualFunc(b.Modules(), sources, func(m bundle.Module, s bundle.Source) bool {
		return m.Name == s.Name && m.Default == s.Default && m.SHA256 == fmt.Sprintf("%x", sha256.Sum256(s.Wasm))
	})
}

// writeCode writes the compiled code of the modules that run by default.
func writeCode(ctx context.Context, file string, modules []byte, sources []bundle.Source) error {
	sources = slices.DeleteFunc(slices.Clone(sources), func(s bundle.Source) bool { return !s.Default })
	if there, err := os.ReadFile(file); err == nil {
		if fits, err := fit(ctx, modules, there, sources); err != nil || fits {
			return err
		}
	}
	var codes []bundle.Code
	for _, s := range sources {
		data, err := guest.Prepare(ctx, s.Name, s.Wasm)
		if err != nil {
			return err
		}
		codes = append(codes, bundle.Code{Module: sha256.Sum256(s.Wasm), Data: data})
	}
	var made bytes.Buffer
	if err := bundle.WriteCode(&made, codes); err != nil {
		return err
	}
	return durable.Write(file, made.Bytes(), 0o644)
}

// fit reports whether a file of compiled code is what would be made now.
func fit(ctx context.Context, modules, code []byte, sources []bundle.Source) (bool, error) {
	b, err := bundle.Open(modules, code)
	if err != nil {
		return false, nil // it is made again
	}
	for _, s := range sources {
		fits, err := guest.Fits(ctx, s.Name, s.Wasm, b)
		if err != nil || !fits {
			return false, err
		}
	}
	return true, nil
}
