package policy

import "talon/sdk/module"

// Config holds every setting of the manifest, the operator's value or the
// default. The host has checked types and limits.
type Config = module.Config

// Service is how the relay is reached from outside: [Config.Service] of a policy.
type Service = module.Service

// WrongValue is the error for a value that the manifest cannot describe as
// wrong: it names the key, the value and what is wanted.
func WrongValue(key, value, want string) error { return module.WrongValue(key, value, want) }
