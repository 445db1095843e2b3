package store

import (
	"bytes"
	"cmp"

	"talon/host"
	"talon/host/store/semantics"
)

// posting is a row of table posting.
type posting struct {
	key     []byte
	kind    int64
	sortKey []byte
}

func (p posting) compare(q posting) int {
	return cmp.Or(bytes.Compare(p.key, q.key), cmp.Compare(p.kind, q.kind), bytes.Compare(p.sortKey, q.sortKey))
}

// postings appends the rows that an event has, each once: time, kind, author and the first
// value of each single-letter tag (NIP-01). A repository announcement also has a row for each
// maintainer that it lists, a withheld event one for each key and set of its audience, and what a
// search finds one for each of its words.
func (k *keyring) postings(rows []posting, e *host.Event, seq int64) []posting {
	return k.wordPostings(k.plainPostings(rows, e, seq), e, seq)
}

// plainPostings appends the rows that an event has but for those of its words.
func (k *keyring) plainPostings(rows []posting, e *host.Event, seq int64) []posting {
	kind := indexKind(e, int64(e.Kind))
	both := appendSortKey(make([]byte, 0, longSortKey+shortSortKey), e.CreatedAt, e.ID[:], seq)
	long := both[:longSortKey]
	short := appendSortKey(both, e.CreatedAt, e.ID[:8], seq)[longSortKey:]
	rows = append(rows, posting{keyTime, indexKind(e, 0), long}, posting{keyKind, kind, long}, posting{k.author(e.PubKey), kind, long})
	semantics.Tags(e, func(name byte, value string) {
		rows = append(rows, posting{k.key(name, value), kind, short})
	})
	e.Audience.Each(func(value string) {
		rows = append(rows, posting{k.key(host.AudienceOf, value), kind, short})
	})
	return k.maintainerPostings(rows, e, seq)
}

// maintainerPostings appends a row for each maintainer that an announcement lists.
func (k *keyring) maintainerPostings(rows []posting, e *host.Event, seq int64) []posting {
	if e.Kind != host.KindAnnouncement {
		return rows
	}
	short := appendSortKey(make([]byte, 0, shortSortKey), e.CreatedAt, e.ID[:8], seq)
	semantics.Maintained(e, func(value string) {
		rows = append(rows, posting{k.key(host.MaintainerOf, value), indexKind(e, int64(e.Kind)), short})
	})
	return rows
}

// wordPostings appends a row for each word under which a search finds the event.
func (k *keyring) wordPostings(rows []posting, e *host.Event, seq int64) []posting {
	words := e.Words()
	if len(words) == 0 {
		return rows
	}
	short := appendSortKey(make([]byte, 0, shortSortKey), e.CreatedAt, e.ID[:8], seq)
	for _, word := range words {
		rows = append(rows, posting{k.key(host.WordOf, word), indexKind(e, int64(e.Kind)), short})
	}
	return rows
}
