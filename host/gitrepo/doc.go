// Package gitrepo keeps bare git repositories on disk and works on them with the
// git program (2.39 or later). It is the only package of the host that runs git.
//
// A [Root] holds repositories by owner and identifier, as GRASP-01 serves them:
//
//	ROOT/<npub>/<name>.git            refs, HEAD, configuration, new packs
//	ROOT/.shared/<format>/<name>.git  the objects of all repositories of that identifier
//	ROOT/.trash/                      what is being made or removed, by each node in a folder of its own
//
// The name is the identifier with every byte outside A-Z a-z 0-9 . _ - as %XX. One
// that would be too long for a file is cut, and ends in ~ and the SHA-256 of the
// identifier, which then stands in the file talon-identifier of the repository.
// A [Folder] is any folder of bare repositories, for talon git serve. With the git of
// [Git.Plain], which does pushes itself, they may have a work tree.
//
// Every repository of a Root borrows from the shared store of its identifier
// (objects/info/alternates, a relative path, so that the root can be moved).
// [Repo.Share] moves packs there, from where all repositories of the identifier
// see them: a second maintainer's copy costs refs only.
//
// A push ([Repo.Receive]) comes into a quarantine, which needs no lock, however long that
// takes: git index-pack, and then a walk from what the refs are to be ([Incoming.Check]).
// Under the lock its packs move to the shared store, and its refs change ([Incoming.ApplyRefs]).
//
// Refs, and whether objects are there, are read from files without a process, where
// the files are as Talon makes them; git is asked about all else.
//
// Invariants:
//
//  1. No path that a Root or Folder returns leads out of it, through names or links.
//  2. Git runs without a shell, without the configuration of the machine or the user,
//     without hooks, with a fixed environment, and never asks anybody. A plain git has a
//     few variables of ours as well.
//  3. Only object ids that [IsID] allows and names that [IsRef] allows reach git.
//  4. The end of a context ends git and all that it started: SIGTERM, on which git
//     removes its lock files, then SIGKILL. A push that does not end well leaves
//     nothing, and has bounded memory. What the death of the server leaves is removed
//     when a Root is opened, and in a Folder by a later push.
//     A pack that stands for more than it may ([PackLimits]) is refused before git has
//     all of it; for the depth of deltas that name their bases by id, once git has
//     indexed it.
//  5. A repository is whole or absent: it is made beside its place and renamed.
//  6. Objects leave a shared store only in [Root.Collect], under the locks of all
//     repositories that borrow from it, and only if none of their refs reaches them
//     and they are older than the grace time. A repository itself never drops one. A
//     push that was checked before is checked again before it lands.
//  7. Whoever holds the lock of one repository never waits for that of another;
//     [Root.LockAll] takes several in one order. The lock of an identifier comes last.
//  8. Several nodes may have one Root open ([Nodes]). A lock is then one of all nodes, and
//     refs, HEAD and folders do not change for a node that has lost the lock without
//     knowing it, however late it goes on. What may come late is objects, which harm nobody.
//     Reads need no lock on any node.
//
// The package knows no events and no rules: what a ref may be is for its callers.
package gitrepo
