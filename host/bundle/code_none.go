//go:build !bundled || !(amd64 || arm64)

package bundle

// embeddedCode is empty: releases have compiled code for amd64 and arm64.
var embeddedCode []byte
