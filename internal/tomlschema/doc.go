// Package tomlschema reads TOML into structs whose tags are a schema, strictly: an
// unknown key, a wrong type or a value out of its range is an error that names the line
// and the key. The same tags make reference pages ([Rows]).
//
//	key  the key of the field; fields of a struct without one are no keys
//	doc  what it means, for the page
//	max  the greatest number; the least is 0, or min
//	min  the least number
//	one  the strings that are allowed, with | between them
//
// Fields are structs, slices of structs, maps of structs by name, booleans, numbers,
// strings, lists of integers or strings, and [Duration]. What a text does not say stays as
// it is in the struct: read a second text to change the first.
package tomlschema
