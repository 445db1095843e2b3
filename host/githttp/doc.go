// Package githttp serves repositories over git's smart HTTP protocol, versions 0, 1
// and 2: fetches by git upload-pack, and pushes by its own receive-pack, with git
// index-pack. It knows neither how a path becomes a repository ([Repositories]) nor what
// may be pushed ([Pushes]).
//
// Invariants:
//
//  1. Bodies are streamed both ways: memory does not depend on a pack's size.
//  2. The commands of a push are parsed, bounded and checked before git sees a byte.
//     A push of no commands is no push.
//  3. Nobody holds the lock of a repository while a client sends or takes something. A
//     push is authorised, comes into a quarantine and is checked without the lock; under
//     it, it is confirmed, moved and its refs change, and then nobody is waited for.
//  4. The refs of a push change all or not at all, and not if one of them is no longer
//     what the client says that it was, unless it is what the push makes of it.
//  5. Nothing waits for a client for ever: it must move 64 KiB in [Limits].Stall, and
//     end in Limits.Whole. Waiting lines are bounded, and a push that waits for its
//     client has no turn meanwhile. Git may work on for Limits.GitTime.
//  6. A client that goes away ends the git process that worked for it, and nothing stays
//     of its push, unless all of that is here: then it is finished.
//  7. What is refused is said in git's protocol with HTTP status 200, for git shows
//     its user nothing else: of a push in its report, with a line for each ref, in the
//     side band that the client reads.
//  8. Each answer, whatever it is, lets any web page read it (CORS).
//  9. A path is split first, and then percent-decoded, once. A part that then has a
//     slash, is empty, or is . or .. is found nowhere.
//
// Pushes of shallow clones are taken if nothing is missing here. Push options, push
// certificates and version 2 of reports are not offered.
//
// With [Config].Plain, git receive-pack answers pushes: 2, 3, 4 and 6 are then as git has
// them, and of 7 what git says.
//
// The package never writes to a repository but through [gitrepo.Incoming], and then
// through git.
package githttp
