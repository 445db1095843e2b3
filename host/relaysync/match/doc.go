// Package match tells whether an event matches a filter, for filters of which there are
// many: it keeps 32 bits of each value in place of its text. Of 100 relays with 70
// subscriptions of 100 values each the texts alone would be 50 MB.
//
// That two values have the same hash is as likely as once in 40 million events, and
// nobody who does not know the key of the [Hash] can make one.
package match
