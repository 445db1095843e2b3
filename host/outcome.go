package host

// Outcome is what writing one event did. It is final only when its transaction
// has been committed.
type Outcome struct {
	Code    Code         // Stored, Held, Duplicate or Rejected (deleted by its author)
	Reason  string       // with prefix; empty for Stored
	Seq     int64        // position in the order of commits; 0 unless Stored
	Removed []*Event     // events that this one replaced or deleted
	Held    []HeldChange // what it did in purgatory
}

// Published is an event for those who listen now.
type Published struct {
	Event *Event
	Seq   int64 // as in Outcome; 0 for an ephemeral event
}

// Selection is the answer to a query by reference: what matched, in the order
// in which it is to be sent. The text is fetched piece by piece, so that a long
// answer is never whole in memory.
type Selection struct {
	Rows []int64 // the Seqs of the events: newest first, ties by lowest id, each once
	Seq  int64   // every event with a Seq up to this was visible to the query
}
