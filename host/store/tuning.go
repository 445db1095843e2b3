package store

import "sync/atomic"

// tuning says how much is read at a time. Answers do not depend on it, so tests
// take the smallest numbers and meet every border.
type tuning struct {
	// probes are how far candidates are counted to choose between several keys:
	// further only if there are more of all of them.
	probes [2]int

	// For more than collectSpans it is tried first whether all candidates are few: a page or
	// two, and collectSpan for each span, or collectFull where whole events are read.
	collectSpans, collectSpan, collectFull int

	// wholeKey is how many sort keys of a key are read without regard to kinds, before
	// they are looked for kind by kind; wholeKeyFull where whole events are read.
	wholeKey, wholeKeyFull int

	// Places that one statement reads: fullChunk at most where whole events are
	// read for them. Between chunks the context is looked at.
	minChunk, maxChunk, fullChunk int

	// mergeFrom is how many events have their rows in memory before these are merged into the
	// table. mergeBytes is how much memory the rows take at most, since an event may have
	// thousands of tags; 0 bytes is no bound.
	mergeFrom  int
	mergeBytes int64

	// usageFrom is how many events are counted in memory before table usage counts them.
	usageFrom int64

	// Pages of the log, 4 KiB each. From startWAL on, a goroutine copies it next to the
	// writer while more than finishWAL are left, which is a large commit or two.
	// Once it is longer than maxWAL the writer waits for readers that need it.
	startWAL, finishWAL, maxWAL int64
}

// density is how many sort keys the spans of filters of one kind had lately: those of a tag,
// or of authors, with kinds or without. It saves trying whether candidates are few where
// they have been many. Answers do not depend on it.
type density struct {
	perSpan atomic.Int64 // sort keys for 16 spans
	asked   atomic.Int64
}

// many reports whether that number of spans probably has more than most sort keys. Every
// 16th question is answered no, so that it is tried again.
func (d *density) many(spans, limit int) bool {
	return d.perSpan.Load()*int64(spans)/16 > 2*int64(limit) && d.asked.Add(1)%16 != 0
}

// met notes how many sort keys, at least, some spans had.
func (d *density) met(places, spans int) { d.perSpan.Store(int64(16 * places / max(spans, 1))) }

var defaultTuning = tuning{
	probes:       [2]int{1000, 20_000},
	collectSpans: 8,
	collectSpan:  4,
	collectFull:  200,
	wholeKey:     96,
	wholeKeyFull: 8,
	minChunk:     4,
	maxChunk:     4096,
	fullChunk:    128,
	mergeFrom:    16_384,
	mergeBytes:   32 << 20,
	usageFrom:    32_768,
	startWAL:     8_000,
	finishWAL:    4_000,
	maxWAL:       64_000,
}
