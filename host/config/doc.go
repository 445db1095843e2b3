// Package config reads and checks the operator's options: defaults, then the file, then
// the environment, then flags, each overriding the one before.
//
// Invariants:
//
//  1. Every option stands in one list, [Config.options], with its name, default,
//     help and check. Help, file, environment and flags are read from that list.
//  2. A wrong value names the option, where it was set, the value, and what is
//     allowed.
//  3. A key that no option has is an error, never ignored.
//
// It knows nothing of what the values are for, and opens no file but its own.
package config
