package ingest

import (
	"context"
	"fmt"

	"talon/host"
)

// authorQuota is what an event adds to the bytes of its author, and the most that a policy allows
// the author. The zero value is no limit.
type authorQuota struct {
	limit int64
	more  int64 // bytes that the event adds
}

// nearQuota is how far below the limit an author must be for the writer not to look again. It is
// more than events of one author take that are decided and not written.
const nearQuota = 64 << 20

// withinLimits refuses an event with which its author would have more bytes of events and git
// data than a policy allows. An event that is not longer than the one that it replaces is always
// within the limits. The usage is that of what is committed: the writer checks again, unless the
// author is far from the limit.
func (p *Pipeline) withinLimits(ctx context.Context, e *entry, ruling *host.Ruling, facts *host.FactReader) (*host.Verdict, error) {
	limit := ruling.Limits.Author
	event := e.item.Event
	switch {
	case limit == 0, event.Kind.Class() == host.Ephemeral, ruling.Action != host.Accept && ruling.Action != host.Hold:
		return nil, nil
	case event.Kind == host.KindDeletion:
		limit += limit / 8 // at the limit, an author can still delete
	}
	more := int64(len(event.JSON))
	if a, ok := event.Address(); ok {
		old, err := facts.Query(ctx, host.Filter{Tags: []host.TagFilter{{Name: host.AddressOf, Values: []string{a.String()}}}, Limit: 1})
		if err != nil {
			return nil, err
		}
		for _, text := range old {
			more -= int64(len(text))
		}
	}
	if more <= 0 {
		return nil, nil
	}
	used, err := facts.Usage(ctx, host.UsageOfAuthor(event.PubKey))
	if err != nil {
		return nil, fmt.Errorf("read the usage of an author: %w", err)
	}
	if used[0].Total()+more > limit {
		return overQuota(used[0], limit), nil
	}
	if used[0].Total()+more > limit-nearQuota {
		e.quota = authorQuota{limit, more}
	}
	return nil, nil
}

// overQuota refuses an event of an author who has used up the limit.
func overQuota(used host.Usage, limit int64) *host.Verdict {
	return &host.Verdict{Code: host.Rejected, Reason: "blocked: " + host.QuotaText("your events and git data take", used.Total(), limit) + ", and this event adds more than is left"}
}

// overQuota checks an event against the limit of its author, with all that the batch has written.
func (b *batch) overQuota(e *entry) *host.Verdict {
	if e.quota.limit == 0 || e.hold != nil || !b.open() {
		return nil
	}
	author := host.UsageOfAuthor(e.item.Event.PubKey)
	used, known := b.used[author]
	if !known {
		if used, b.err = b.tx.AuthorUsage(e.item.Event.PubKey); b.err != nil {
			return nil
		}
		if b.used == nil {
			b.used = make(map[host.UsageKey]host.Usage)
		}
		b.used[author] = used
	}
	if used.Total()+e.quota.more > e.quota.limit {
		return overQuota(used, e.quota.limit)
	}
	return nil
}

// use counts an outcome for the authors whose usage the batch knows.
func (b *batch) use(e *host.Event, out *host.Outcome) {
	if b.used == nil {
		return
	}
	change := func(e *host.Event, events int64) {
		author := host.UsageOfAuthor(e.PubKey)
		if u, known := b.used[author]; known {
			u.Add(host.Usage{Events: events, Bytes: events * int64(len(e.JSON))})
			b.used[author] = u
		}
	}
	if out.Code == host.Stored {
		change(e, 1)
	}
	for _, gone := range out.Removed {
		change(gone, -1)
	}
	for _, r := range out.Released {
		if r.Status == host.StatusReleased {
			change(r.Event, 1)
		}
	}
}
