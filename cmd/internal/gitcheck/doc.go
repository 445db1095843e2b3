// Package gitcheck compares the repositories of a GRASP service with its events. It
// is what talon check does beside package store.
//
// Of each repository on disk it asks whether an announcement explains it, whether
// HEAD, heads and tags are those of the newest state of the maintainers, whether
// each ref under refs/nostr/ is the commit of its event or waits for that, and
// whether what the refs reach is there. It also finds announcements whose repository
// is absent, and what a killed process left.
//
// Invariants:
//
//  1. It changes nothing and takes no lock, so that a server may run meanwhile. It
//     never opens a folder with gitrepo.Open, which throws away what a server is
//     making at that moment.
//  2. A problem is reported if it is there at two looks, some time apart: what a push
//     or a release does in between is none. What a slow push may still explain is
//     marked so ([Problem.InFlight]).
//  3. Damage to one repository is a problem and never ends the check of others.
//  4. No path leads out of the folder, through names or links.
//
// It does not verify events, and runs git only through package gitrepo and the
// function it is given.
package gitcheck
