// Package moderation has the rules of the moderation log: the operator's list of takedowns. The
// log is in the store, and all nodes share it.
//
//	row.go     a row of the log, and its form as a line of JSON
//	target.go  what a row is about: an event, author, repository, kind, filter, network, git object
//	add.go     how rows get their numbers; the rows that an engine of the store implements
//	log.go     the log in memory, and which rows are in force
//	match.go   what the rows in force say about an event, a repository, an address, an object
//	file.go    the copies of the log, and of requests to vanish, outside the database
//
// A row is never changed or removed. A later row about the same target ends an earlier one:
//
//	action   takes out of sight   removes   refuses                                     ended by
//	ban      yes                  no        everything that matches, later events too   unban
//	hide     yes                  no        what existed: events up to its time         unhide
//	purge    yes                  yes       events up to its time                       unban
//	allow    no                   no        nothing                                     unallow
//
// A hide of one event, repository or object also refuses it later, since it names the thing
// itself. The repositories of a hidden author stay hidden as a whole. A row ends by itself at
// its time until.
//
// # How a door asks
//
// [Log.Event] says whether an event is barred, [Log.Repository] whether a repository is hidden,
// [Log.Address] whether a client may connect, [Log.Objects] which git objects no pack brings and no answer shows.
// Each returns the row that decides, nil for none, and [Row.Refusal] is the text for the
// client. They read memory only, and may be called by many goroutines. An empty log costs one
// atomic read.
//
// Events that a ban, hide or purge concerns also leave the tables that answers are read from, in
// slices. So doors that serve stored events need not ask. Doors that serve something else do:
// git data, pages of repositories, objects, connections.
//
// # How rows come in
//
// The pipeline of package ingest adds rows (ingest.Pipeline.Moderate), so that a row has its
// place among commits. A decision that was made before a row is made again after it. With
// several nodes, each reads new rows when its next transaction begins, at the latest.
package moderation
