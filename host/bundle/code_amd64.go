//go:build bundled

package bundle

import _ "embed"

//go:embed code_amd64.pack
var embeddedCode []byte
