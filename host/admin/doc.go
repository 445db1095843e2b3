// Package admin serves the operator's commands to a running relay: HTTP with JSON over a
// unix socket. [Serve] is the server's side, [Client] the other.
//
// Invariants:
//
//  1. Only the user that the server runs as, and root, can use it. The socket is
//     0600 in a folder of 0700 that belongs to the server's user, and the kernel
//     says who the peer is.
//  2. A socket on which a server listens is never taken away. One that a dead
//     server left is replaced.
//  3. A path may be as long as the file system allows: the socket is reached
//     through its opened folder, since its own address holds 108 bytes only.
//  4. Every request is bounded in bytes and in time, and one change runs at a time.
//
// The package changes nothing itself; [Plugins] and [Hunt] do.
package admin
