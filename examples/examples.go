// Package examples holds the smallest useful module of each world, from which
// talon plugin new begins, and larger ones. docs/README.md lists them.
//
// Its tests are for the examples in other languages than Go: the same policy in each
// must pass the same vectors, and decide alike whatever it is asked. They skip, and say
// so, where a compiler is missing. They hold the documentation as well: what the guides
// say is done to the letter, links lead somewhere, tables are those of the schema.
package examples

import "embed"

// Files are the examples with which talon plugin new begins, each in its folder.
//
//go:embed hello-policy/*.go hello-policy/*.json hello-policy/*.jsonl
//go:embed hello-strategy/*.go hello-strategy/*.json
//go:embed hello-throttle/*.go hello-throttle/*.json
//go:embed hello-policy-c/Makefile hello-policy-c/*.c hello-policy-c/*.json
//go:embed hello-policy-rust/Cargo.toml hello-policy-rust/*.json hello-policy-rust/src
//go:embed hello-strategy-rust/Cargo.toml hello-strategy-rust/*.json hello-strategy-rust/src
//go:embed hello-throttle-rust/Cargo.toml hello-throttle-rust/*.json hello-throttle-rust/src
//go:embed hello-policy-assemblyscript/*.json hello-policy-assemblyscript/assembly
var Files embed.FS
