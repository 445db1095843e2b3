// Package repos reconciles the git repositories of a GRASP service with its events, and
// its events with the git data that comes: it says which repository a path names, decides
// on pushes, moves refs, and releases what waited.
//
// All of that is one job for each repository, which compares what is stored, what
// waits in purgatory and what git has, and does what is missing. A push that
// landed, an event that was held, stored or removed, a start after a crash: all
// that they do is ask for the job. So there is no order of steps that a crash could
// leave half done, and no second way to do anything.
//
// A repository is here for each announcement that a policy has held (GRASP-01), from
// then until the announcement goes. Beside them are the repositories under /prs/,
// which exist as long as they have a ref (GRASP-06).
//
// Invariants:
//
//  1. Refs land first, the commit that releases their events second. A job that runs
//     again after a crash finds refs that are in line, and releases.
//  2. A repository changes only under its lock, and a job holds no lock while it
//     waits for a commit or for another repository.
//  3. No job rolls a repository back: heads and tags are those of the newest state in
//     effect (grasp.Latest), which is stored, or held with all its data here, but for
//     those that were pushed of a newer one that waits for the rest.
//  4. An announcement is released by a state of its own maintainers whose data is in
//     its own repository, and never because somebody else's repository got data.
//  5. A request for a repository waits for the job that makes it.
//  6. What is removed for good is what an event said: an announcement deleted, expired
//     or never filled. A repository that no event explains is left alone.
//
// DESIGN.md in this folder tells the whole story.
package repos
