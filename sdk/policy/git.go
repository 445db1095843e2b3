package policy

import "talon/sdk/abi"

// GitHas reports whether the repository with this address (30617:pubkey:d) has the
// object, whose name is 40 or 64 hex digits; with "" for the object, whether the
// repository is here. It needs the capability "git.has".
// Where the host cannot answer, it reports false, and the host replaces the
// verdict as for [Facts.Get].
func (f Facts) GitHas(repo, object string) bool { return f.c.host.gitHas(repo, object) == 1 }

// GitHasCommit reports whether the repository has the object and that is a commit,
// which the branches of a repository must name. It needs the capability "git.has".
func (f Facts) GitHasCommit(repo, object string) bool {
	c := f.c
	c.object = append(append(c.object[:0], object...), abi.OfCommit...)
	return c.host.gitHas(repo, view(c.object)) == 1
}

// GitRef returns the object name that a ref (refs/heads/main) of the repository
// has, as hex digits, and whether there is one. It is valid until the next
// function that answers with data. It needs the capability "git.ref".
func (f Facts) GitRef(repo, ref string) (object string, ok bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.gitRef(repo, ref, out) })
	if n < 0 {
		return "", false
	}
	return view(c.answer[:n]), true
}
