// Package examples holds the smallest useful module of each world, from which
// talon plugin new begins, and larger ones. docs/README.md lists them.
//
// Its tests cover the examples in languages other than Go: the same policy in each language must
// pass the same vectors, and give the same answers to any request. A test without its compiler
// skips, and says so. Other tests check the documentation: they follow the guides to the letter,
// look up the links, and compare tables with the schema.
package examples

import "embed"

// Files are the examples with which talon plugin new begins, each in its folder.
//
//go:embed hello-policy/*.go hello-policy/*.json hello-policy/*.jsonl
//go:embed hello-strategy/*.go hello-strategy/*.json testdata/hello-strategy/*.txt
//go:embed hello-throttle/*.go hello-throttle/*.json
//go:embed hello-policy-c/Makefile hello-policy-c/*.c hello-policy-c/*.json
//go:embed hello-policy-rust/Cargo.toml hello-policy-rust/*.json hello-policy-rust/src
//go:embed hello-strategy-rust/Cargo.toml hello-strategy-rust/*.json hello-strategy-rust/src
//go:embed hello-throttle-rust/Cargo.toml hello-throttle-rust/*.json hello-throttle-rust/src
//go:embed hello-policy-assemblyscript/*.json hello-policy-assemblyscript/assembly
var Files embed.FS
