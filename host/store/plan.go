package store

import "talon/host"

// need is what a query must know of an event in addition to its sort key.
type need uint8

const (
	needSortKey need = iota // nothing
	needID                  // the id, which a long sort key has
	needMeta                // id and author
	needEvent               // the event itself
)

// plan is how one filter is answered: from which rows of table posting, and what
// is left to look at in the events found there. A filter with ids uses none.
type plan struct {
	filter   *host.Filter
	keys     [][]byte // each once
	kinds    []int64  // of index rows, each once; nil for any within low and high
	low      int64    // the first kind of index rows that the reader may see
	high     int64    // and the one behind the last
	byTag    bool     // the keys are those of a tag
	name     byte     // of the tag, or nameAuthor
	once     bool     // no event is found under two of the keys
	oldest   int64
	newest   int64
	residual need // conditions that keys and kinds do not cover
	author   map[host.PubKey]struct{}
}

// empty reports whether nothing can match: no event is older than the epoch.
func empty(f *host.Filter) bool { return f.Empty() || f.Until != nil && *f.Until < 0 }

// width is the length of the sort keys under the plan's keys.
func (p *plan) width() int {
	if p.byTag {
		return shortSortKey
	}
	return longSortKey
}
