// Package examples holds the smallest useful module of each world, from which
// talon plugin new begins, and larger ones. docs/README.md lists them.
//
// Its tests are for the examples in other languages than Go: the same policy in each
// must pass the same vectors, and decide alike whatever it is asked. They skip, and say
// so, where a compiler is missing. They hold the documentation as well: what the guides
// say is done to the letter, links lead somewhere, tables are those of the schema.
package examples
