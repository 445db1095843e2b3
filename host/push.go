package host

// RefUpdate is one command of a push. Old and New are object names as hex
// digits; all zeros stand for "does not exist".
type RefUpdate struct {
	Ref      string // in full, such as refs/heads/main
	Old, New string
}

// Push asks a policy about ref updates. What GRASP's own rules refuse stays refused, with
// the policy's reason if it refuses too.
type Push struct {
	Client      *Client
	Repo        Address  // of the announcement, kind 30617
	PRs         bool     // the repository is the one under /prs/ (GRASP-06), not that of the announcement
	Maintainers []PubKey // whose state counts for the repository
	Updates     []RefUpdate
	Bytes       int64 // of the pack, as far as it is known; 0 if it is not
	Stored      int64 // bytes that the repository takes on disk
}
