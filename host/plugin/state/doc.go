// Package state holds the state of plugins: keys with values, counters and token
// buckets. It answers from memory, and writes changes to a [Disk] about once a
// second.
//
// State belongs to a plugin's name. All its instances share it, and its next
// generation finds it.
//
// Invariants:
//
//  1. A change is seen immediately, by every later call of any goroutine. A crash
//     loses the changes since the last save, never older ones.
//  2. A value that was handed out never changes.
//  3. A caller never sees data that has expired by its now, swept or not.
//  4. A plugin's keys never take more than three quarters of its quota, and all
//     that it has never more than the whole, unless the quota was lowered or
//     more was loaded. Keys that were deleted count until the disk knows.
//  5. A save that failed leaves everything to the next one.
//  6. Processes that share a disk ([SharedDisk]) come to remember the same, and give no
//     more out of a bucket together than one alone, as long as it holds enough to divide.
//
// # Room
//
// Senders of events often choose the keys of buckets: an address, an author. With enough
// keys, a sender could use up the quota. Then a relay that refuses would be closed to all
// new senders, and a relay that accepts would have no limits. So a bucket is never refused
// for want of room:
//
//   - A bucket that is full again says nothing. It expires by itself.
//   - A quarter of the quota is for buckets alone. They may borrow what keys do not
//     use, and give it back when a key needs it.
//   - When there is no room for a bucket, the one that will be full again soonest is
//     forgotten, which loses the least. A sender that emptied a bucket must empty a
//     whole quota of others even more before it is forgotten.
//
// A bucket finds no room at all only if the keys already exceed the quota. Then a take
// succeeds as from a full bucket, and leaves no record.
package state
