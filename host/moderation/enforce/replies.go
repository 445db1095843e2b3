package enforce

import (
	"bytes"
	"context"
	"math"
	"slices"

	"talon/host"
	"talon/host/moderation"
	"talon/host/wire"
)

// A takedown of a repository reaches replies that name only events of the repository, such as a
// comment on an issue with a tag e and no tag a. No row bars them by their own text.

const (
	// maxReplyDepth is how far a reply may be from an event that names the repository.
	maxReplyDepth = 8

	// parentsAtOnce is how many events one filter names.
	parentsAtOnce = 100
)

// referenced returns the ids that an event names in tags e and E, nil for an event that no takedown of
// what it names reaches: it names a repository itself, is a deletion, or is no regular event.
func referenced(event *host.Event) (ids []host.ID) {
	if event.Kind.Class() != host.Regular || event.Kind == host.KindDeletion {
		return nil
	}
	names := false
	moderation.EachRepository(event, func(host.Address) bool {
		names = true
		return false
	})
	if names {
		return nil
	}
	for _, tag := range event.Tags {
		var id host.ID
		if len(tag) > 1 && (tag[0] == "e" || tag[0] == "E") && host.ParseHex(id[:], tag[1]) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// eachReply calls take with the stored replies to events that a scope concerns, and with replies to
// these, a slice at a time.
func (e *Enforcer) eachReply(ctx context.Context, s *scope, parents []*host.Event, take func([]*host.Event) error) error {
	down := make(map[host.ID]bool, len(parents))
	next := make([]host.ID, len(parents))
	for i, event := range parents {
		next[i] = event.ID
		down[event.ID] = true
	}
	wanted := func(event *host.Event) bool { return !down[event.ID] && !s.concerns(event) && referenced(event) != nil }
	for depth := 0; depth < maxReplyDepth && len(next) > 0; depth++ {
		var found []host.ID
		takeReplies := func(list []*host.Event) error {
			replies, err := e.onlyReplies(ctx, s, list, down)
			if err != nil || len(replies) == 0 {
				return err
			}
			for _, event := range replies {
				down[event.ID] = true
				found = append(found, event.ID)
			}
			return take(replies)
		}
		for part := range slices.Chunk(next, parentsAtOnce) {
			values := make([]string, len(part))
			for i, id := range part {
				values[i] = id.String()
			}
			for _, name := range []byte{'e', 'E'} {
				f := host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}}
				if err := e.eachStored(ctx, f, wanted, takeReplies, true); err != nil {
					return err
				}
			}
		}
		next = found
	}
	return nil
}

// onlyReplies returns those of events that name nothing that stays: each stored event that they name
// is down, or the scope concerns it.
func (e *Enforcer) onlyReplies(ctx context.Context, s *scope, list []*host.Event, down map[host.ID]bool) ([]*host.Event, error) {
	var asked []host.ID
	for _, event := range list {
		for _, id := range referenced(event) {
			if !down[id] {
				asked = append(asked, id)
			}
		}
	}
	stays := make(map[host.ID]bool)
	for ids := range slices.Chunk(asked, slice) {
		found, err := e.cfg.Store.Select(ctx, []host.Filter{{IDs: ids, Limit: -1, Reader: host.Everything}}, math.MinInt64)
		if err != nil {
			return nil, err
		}
		err = e.cfg.Store.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
			event, err := wire.ParseEvent(bytes.Clone(json))
			if err == nil && !s.concerns(event) {
				stays[event.ID] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	// A reply may name another one of the list.
	for again := true; again; {
		again = false
		for _, event := range list {
			if stays[event.ID] && !slices.ContainsFunc(referenced(event), func(id host.ID) bool { return stays[id] }) {
				delete(stays, event.ID)
				again = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(event *host.Event) bool {
		return slices.ContainsFunc(referenced(event), func(id host.ID) bool { return stays[id] })
	}), nil
}

// repliesToHidden reports whether a hidden event is a reply to hidden events that a function selects,
// or to replies to these.
func (e *Enforcer) repliesToHidden(ctx context.Context, event *host.Event, selects func(*host.Event) bool, depth int) (bool, error) {
	ids := referenced(event)
	if ids == nil || depth == maxReplyDepth {
		return false, nil
	}
	texts, err := e.cfg.Store.HiddenBy(ctx, host.Filter{IDs: ids, Limit: -1})
	if err != nil {
		return false, err
	}
	for _, text := range texts {
		parent, err := wire.ParseEvent(text)
		if err != nil {
			continue // damage, which talon check reports
		}
		if selects(parent) {
			return true, nil
		}
		if yes, err := e.repliesToHidden(ctx, parent, selects, depth+1); err != nil || yes {
			return yes, err
		}
	}
	return false, nil
}
