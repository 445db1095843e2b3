// Package web serves pages for browsers: what this service is, a page for each
// repository, what is not here. They are made on the server, need no script, and load
// nothing from anywhere.
//
// It reads events and refs, and changes nothing. The rules that say who maintains a
// repository and what is open are those of package sdk/grasp.
//
// Invariants:
//
//  1. Every text of an event is hostile: it is escaped, bounded, and freed of what
//     changes the order or look of the text around it.
//  2. A text becomes a link only if it is an http, an https or a nostr URL.
//  3. What waits in purgatory is not shown. Of a repository that waits, the page says
//     only what its URL says. Held announcements count for who maintains a
//     repository, as they do for a push.
//  4. A page costs a bounded number of bounded reads, whatever is stored. Nobody's
//     events can push those of a maintainer out of what is read.
//  5. Few pages are made concurrently; further requests get status 503.
//  6. No answer says why the server failed: its log does.
package web
