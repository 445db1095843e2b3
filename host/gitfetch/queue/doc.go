// Package queue decides what the hunt for git data does next. Its inputs are events that
// were held and results of requests; its output is which repository to look at and which
// URL to ask. It has no clock, no goroutine and no I/O: its user hands in the time and
// does the work.
//
// Repositories are searched for by identifier: many events, one search. There are
// two paths, which do not wait for each other.
//
// The main path begins a round for each repository whose time has come. It looks up
// what is missing and where it may be, and asks one URL after the other, but only
// of domains that have room. URLs of other domains it leaves to them, and the
// repository's next round comes after a backoff.
//
// Each domain has a queue of repositories that wait for it. Whenever it may have room
// (a request ended, a window moved, somebody came), the next repository in turn gets
// one request. Nothing is polled.
//
// When an event waits no more, its search is checked, and ends if nothing is missing.
//
// How long, how many and who is next is a [Throttle]'s to say, within [Clamps].
//
// Invariants:
//
//  1. Whatever the throttle says, no domain has more requests at the same time, or in any
//     minute, than the clamps allow, and all together have no more than Clamps.All.
//  2. A round or a domain's queue asks a URL once. The paths remember that apart
//     from each other.
//  3. A repository is in at most one round, and at most once in each domain's queue.
//  4. While a domain has a queue, the main path does not ask it: nobody overtakes.
//  5. A search ends when nothing is missing, when its time is up, when the throttle
//     gives it up, or when its user forgets it.
//  6. Nobody keeps others from their turn by being slow: see Clamps.Patience.
//  7. What is known of domains can outlive the process: see [Queue.Changed].
//  8. A new event makes a search fresh: its attempts count from zero, and the sooner
//     of two planned times counts.
//
// Points in time are unix milliseconds, lengths of time milliseconds.
package queue
