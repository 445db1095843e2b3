package main

import "talon/sdk/policy"

// Describe says that nothing can be read without authentication, if that is so.
func (r *rules) Describe() (d policy.Description) {
	d.Limits.AuthRequired = (r.needAuth || r.readersOnly) && r.used&open == 0
	return d
}
