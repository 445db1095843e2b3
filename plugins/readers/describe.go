package main

import "talon/sdk/policy"

// Describe says that nothing can be read without authentication, if that is so, and that some
// repositories are not for everybody: GRASP-01 demands that everybody can read.
func (r *rules) Describe() (d policy.Description) {
	d.Limits.AuthRequired = (r.needAuth || r.readersOnly) && r.used&open == 0
	if len(r.repositories) > 0 {
		d.Curation = "Some repositories are for their readers only, which GRASP-01 does not have: git and browsers reach them below /auth/."
	}
	return d
}
