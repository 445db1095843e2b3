// Package orphans removes stored events that only an announcement justified, after its author has
// deleted it or it has expired.
//
// A repository goes with its announcement. States, issues, patches and comments about it stay for
// [KeepFor], so that an author may announce the repository again. After that the package asks the
// policies once more. It removes an event if both hold:
//
//   - As things are, the policies reject it.
//   - They would take it, or hold it, if the announcement were here.
//
// So an event stays if another repository or another rule justifies it, and also if a policy
// refuses it for a reason of its own, such as a list that has changed since.
//
// Events may justify one another: a comment names an issue, and a policy takes an issue that a
// stored event names. So the package collects all events that lead to the announcement, and has
// none of them count as stored. Those that the policies take even so count again, until nothing
// changes. The remaining ones go together.
//
// Files: notes.go (announcements that are gone, and when), facts.go (the store without some events, or
// with one more), sweep.go (which events go).
package orphans
