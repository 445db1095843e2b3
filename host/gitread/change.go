package gitread

// Change is the last commit that changed something.
type Change struct {
	ID      string
	Subject string
	When    int64 // of the committer
}

// Changes are the last changes of the entries of a folder, by their names.
type Changes map[string]Change

// LastChanges returns the last changes of the entries of a folder as a commit has it. It returns
// nil if they are not known yet.
func (r *Repository) LastChanges(commit string, folder []string) (Changes, error) { return nil, nil }
