// Package reports makes the moderation queue: what people whom the operator trusts have reported
// (NIP-56), and no operator has decided yet.
//
// The queue has no state of its own. It follows from stored reports and from the moderation log: a
// report enters it by being stored, and leaves it by being deleted, by a decision about its target, or
// when its target is not here any more. Reports of other people are not read, so strangers cannot
// fill it.
package reports

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"talon/host"
	"talon/host/moderation"
	"talon/host/wire"
)

const (
	// maxReports is how many reports are read, the newest.
	maxReports = 2000

	// maxTargets is how many targets of one report count.
	maxTargets = 20

	// maxReason bounds the text of an item, in bytes.
	maxReason = 500
)

// Item is a target that waits for a decision.
type Item struct {
	Target  moderation.Target `json:"target"`
	Type    string            `json:"type,omitempty"`   // of the newest report, such as spam or illegal
	Reason  string            `json:"reason,omitempty"` // text of the newest report
	At      int64             `json:"at"`               // of the newest report
	Reports int               `json:"reports"`
	By      []string          `json:"by"` // keys that have reported it, the latest first
}

// Store is the database.
type Store interface {
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
}

// Queue returns the items that wait for a decision, those with the newest reports first, at most
// limit. It reads reports of the trusted keys only.
func Queue(ctx context.Context, db Store, log *moderation.Log, trusted []host.PubKey, now int64, limit int) ([]Item, error) {
	if len(trusted) == 0 {
		return nil, nil
	}
	reports, err := query(ctx, db, host.Filter{Kinds: []host.Kind{host.KindReport}, Authors: trusted, Limit: maxReports}, now)
	if err != nil {
		return nil, err
	}
	var list []*Item
	known := make(map[string]*Item)
	for _, e := range reports {
		for _, t := range targets(e) {
			name := t.target.String()
			it := known[name]
			if it == nil {
				it = &Item{Target: t.target, Type: t.kind, Reason: reason(e.Content), At: e.CreatedAt}
				known[name] = it
				list = append(list, it)
			}
			it.Reports++
			if by := e.PubKey.String(); !slices.Contains(it.By, by) {
				it.By = append(it.By, by)
			}
		}
	}
	list = slices.DeleteFunc(list, func(it *Item) bool { return log.Decided(&it.Target, it.At, now) })
	return waiting(ctx, db, list, now, limit)
}

// waiting returns the items whose targets are here.
func waiting(ctx context.Context, db Store, list []*Item, now int64, limit int) (items []Item, err error) {
	for _, it := range list {
		if len(items) == limit {
			break
		}
		var f host.Filter
		switch it.Target.Class() {
		case moderation.Event:
			f.IDs = []host.ID{it.Target.ID()}
		case moderation.Author:
			f.Authors = []host.PubKey{it.Target.PubKey()}
		case moderation.Repository:
			a := it.Target.Address()
			f = host.Filter{Kinds: []host.Kind{a.Kind}, Authors: []host.PubKey{a.PubKey}, Tags: []host.TagFilter{{Name: 'd', Values: []string{a.D}}}}
		}
		f.Limit, f.Reader = 1, host.Everything
		found, err := db.Select(ctx, []host.Filter{f}, now)
		if err != nil {
			return nil, err
		}
		if len(found.Rows) > 0 {
			items = append(items, *it)
		}
	}
	return items, nil
}

// reported is a target of a report, and the type that the report gives it.
type reported struct {
	target moderation.Target
	kind   string
}

// targets returns what a report is about: its events and repositories, or its authors if it names
// neither.
func targets(report *host.Event) (list []reported) {
	var authors []reported
	for _, tag := range report.Tags {
		if len(tag) < 2 || len(list) == maxTargets || len(authors) == maxTargets {
			continue
		}
		kind := ""
		if len(tag) > 2 {
			kind = reason(tag[2])
		}
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) {
				list = append(list, reported{moderation.EventTarget(id), kind})
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a.Kind == host.KindAnnouncement {
				if t, err := moderation.RepositoryTarget(a.PubKey, a.D); err == nil {
					list = append(list, reported{t, kind})
				}
			}
		case "p":
			var key host.PubKey
			if host.ParseHex(key[:], tag[1]) {
				authors = append(authors, reported{moderation.AuthorTarget(key), kind})
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	return authors
}

// reason makes the text of a report one line of a bounded length.
func reason(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	for len(text) > maxReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// query returns the events that match, newest first.
func query(ctx context.Context, db Store, f host.Filter, now int64) (list []*host.Event, err error) {
	f.Reader = host.Everything
	found, err := db.Select(ctx, []host.Filter{f}, now)
	if err != nil {
		return nil, err
	}
	err = db.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		e, err := wire.ParseEvent(bytes.Clone(json))
		if err == nil {
			list = append(list, e)
		}
		return nil
	})
	return list, err
}
