// Package module has what the worlds of a module share: its configuration, and
// the weights of log lines. Packages strategy and throttle name these types as
// their own; authors need not import this one.
package module
