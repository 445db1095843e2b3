//go:build bundled

package bundle

import _ "embed"

//go:embed code_arm64.pack
var embeddedCode []byte
