//go:build !bundled || !(amd64 || arm64)

package bundle

// There is compiled code for the processors that releases are made for.
var embeddedCode []byte
