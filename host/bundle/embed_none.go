//go:build !bundled

package bundle

// The command internal/bundler makes the modules, and the tag "bundled" embeds them.
var embeddedModules []byte
