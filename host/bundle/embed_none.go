//go:build !bundled

package bundle

// embeddedModules is empty: the command internal/bundler makes the modules, and the tag "bundled"
// embeds them.
var embeddedModules []byte
