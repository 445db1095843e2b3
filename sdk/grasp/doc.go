// Package grasp has the rules of NIP-34 and GRASP as values: repository
// announcements and states, pull requests, maintainer sets, what a push must
// match, what a service accepts. The host and the policy modules use the same
// code, so that what a module says of an event and what the host does to a
// repository cannot drift apart.
//
// It lives in the sdk because a module must not import the host. It is small
// enough for a guest: it has its own reading of URLs, since net/url makes a
// module 0.9 MB larger (1.9 MB to 2.8 MB), and no map where a sorted list will do.
//
// Invariants:
//
//  1. Everything is a function of its arguments. There is no clock, no I/O, no
//     goroutine and no state that outlives a call.
//  2. No input makes a function panic. Time and memory are linear in the input,
//     but for sorting.
//  3. Every object name that is given out is 40 or 64 lower-case hex digits and
//     not all zeros, and every ref name is one that git takes ([CheckRef]). What
//     is neither is kept apart as a [Fault], and never reaches git.
//  4. The error of a Parse function is the reason for the client, with a prefix of
//     NIP-01. Reasons of a push have no prefix: git prints them.
//  5. Names of hosts are compared whole, after parsing, never by substring.
//
// Signatures and ids are not checked here. URLs are given out as they were
// written: who connects to one checks where it leads.
package grasp
