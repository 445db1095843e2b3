// Package gitfetch hunts for git data: when an event was held before its data came,
// it asks every git server that the events name, until all objects are here or the
// time is over.
//
// Package queue decides whom to ask and when; how politely is a throttle module's to
// say. A [Hunter] does the work: it asks a [Forge] what is missing and where it may
// be, has git fetch it, and tells the forge what came.
//
// Git itself never reaches the network. It is given a URL of a [egressProxy] on the loopback
// interface, behind which this package speaks HTTP to the server: it looks up and
// checks every address that it connects to, follows redirects, counts bytes and
// objects, watches the time, and knows afterwards exactly what went wrong.
//
// Invariants:
//
//  1. What is connected to was checked in that very moment, by its address: a name
//     that changes its address between a check and its use gains nothing. Private
//     addresses are refused unless the operator allows them, and our own service is
//     never asked.
//  2. Only http and https, without user names, to port 80, 443 or one from 1024 on.
//  3. A redirect to another domain is no part of a request: it is a URL of that
//     domain, with that domain's limits.
//  4. A fetch brings objects and never a ref: what a repository's refs are, signed
//     events say.
//  5. All that comes is bounded in bytes, objects and time, and none of it is held in
//     memory. Packs are looked at as those of pushes are: one that stands for more than
//     it may is cut off before git has all of it.
//  6. Nothing is lost with the process: what waits is rebuilt from the events that
//     are held, and what is known of domains is kept. That a request begins is kept
//     before it does: no restart, and no crash, gives a domain more than its limits.
//  7. The throttle module is asked under the queue's lock, and is bounded by its
//     fuel; who tells of an event waits for neither. Where it fails, [queue.DefaultBackoff]
//     answers.
package gitfetch
