//go:build bundled

package bundle

import _ "embed"

//go:embed modules.pack
var embeddedModules []byte
