// Package sdk holds the sources of the packages below it, which plugin authors
// import: talon plugin new gives a copy to each new module, so that it builds
// without a network.
package sdk

import (
	"embed"
	"strings"
)

// Files are the SDKs of all languages with the license, the Go packages with their
// tests.
//
//go:embed LICENSE VERSION go.mod
//go:embed abi caseless grasp internal module nip19 policy strategy throttle
//go:embed c/talon.h c/talon.mk
//go:embed rust/Cargo.toml rust/src
//go:embed assemblyscript/package.json assemblyscript/index.ts assemblyscript/manifest.mjs assemblyscript/assembly
var Files embed.FS

//go:embed go.mod
var goMod string

// Path returns the path of the Go module of the SDK, which requirements and imports name.
func Path() string {
	line, _, _ := strings.Cut(goMod, "\n")
	return strings.TrimPrefix(line, "module ")
}

//go:embed VERSION
var version string

// Version returns the version of the SDK, in all languages. Each module carries the one
// that it was built with.
func Version() string { return strings.TrimSpace(version) }
