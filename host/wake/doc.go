// Package wake submits held events to the pipeline again, because an event has come for which a
// module has had them wait.
//
// A policy may hold an event until another one matches a filter ([host.Ruling].Wake). Package
// purgatory keeps such events and their filters. This package has the filters in memory. It looks up
// each event that is stored or held, and submits those that wait for it. The policies decide about
// them with the facts as they are then.
//
// Invariants:
//
//  1. No wake is lost: after a start, a new term and a gap, each filter is compared with what is
//     stored and held. So is the filter of an event that has just been held.
//  2. All waiting events are submitted again after the policies or their settings have changed, since
//     what they wait for may not be needed any more.
//  3. One event is submitted at a time. One that is woken often is submitted after a pause, which
//     doubles up to [maxPause]. So a filter that matches every event costs little.
//  4. Waiting events are submitted in the order in which they came.
//
// One node of several does this. It keeps nothing of its own over a restart.
//
// Files: waker.go (which events are due, and what becomes of them), index.go (filters by the values of
// one condition).
package wake
