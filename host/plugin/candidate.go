package plugin

import "talon/host/plugin/folder"

// candidate is what one look at a name came to: something to run, or a reason why
// not.
type candidate struct {
	name       string
	seen       seen
	source     *source     // nil if the files could not be read
	generation *generation // nil if it was refused
	err        error       // why, as one sentence
	same       bool        // it runs already, or it was refused before
	last       bool        // it is the last good generation, in the place of what was refused

	record *folder.Record // that all nodes have agreed on; nil where this server is alone
}

// abandon closes what was loaded in vain.
func abandon(findings []*candidate) {
	for _, f := range findings {
		if f.generation != nil {
			_ = f.generation.close()
		}
	}
}
