// Package metrics owns the registry that /metrics shows. Each package of the host
// makes its own metrics and returns them as collectors; the daemon registers them
// here. Nothing is registered globally.
package metrics
