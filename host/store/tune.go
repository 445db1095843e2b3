package store

// tuning says how much is read at a time. Answers do not depend on it, so tests
// take the smallest numbers and meet every border.
type tuning struct {
	// probes are how far candidates are counted to choose between several keys:
	// further only if there are more of all of them.
	probes [2]int

	// For more than gatherSpans it is tried first whether all candidates are few: a page or
	// two, and gatherSpan for each span, or gatherFull where whole events are read.
	gatherSpans, gatherSpan, gatherFull int

	// wholeKey is how many places of a key are read without regard to kinds, before
	// they are looked for kind by kind; wholeKeyFull where whole events are read.
	wholeKey, wholeKeyFull int

	// Places that one statement reads: chunkFull at most where whole events are
	// read for them. Between chunks the context is looked at.
	chunkLeast, chunkMost, chunkFull int

	// mergeFrom is how many events have their rows in memory before these are merged into
	// the table.
	mergeFrom int

	// Pages of the log, 4 KiB each. From walStart on it is copied, beside the
	// writer while more than walFinish are left, which is a large commit or two.
	// Once it is longer than walMost the writer waits for readers that need it.
	walStart, walFinish, walMost int64
}

var defaultTuning = tuning{
	probes:       [2]int{1000, 20_000},
	gatherSpans:  8,
	gatherSpan:   4,
	gatherFull:   200,
	wholeKey:     96,
	wholeKeyFull: 8,
	chunkLeast:   4,
	chunkMost:    4096,
	chunkFull:    128,
	mergeFrom:    16_384,
	walStart:     8_000,
	walFinish:    4_000,
	walMost:      64_000,
}
