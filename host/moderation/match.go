package moderation

import (
	"net/netip"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
)

// Event returns the row that bars an event from being stored, held and served, nil for none.
func (l *Log) Event(e *host.Event, now int64) *Row {
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, t := range []*rules{
		l.byTarget[key{class: Event, id: e.ID}],
		l.author(e.PubKey),
		l.byTarget[keyOf(&Target{class: Kind, kind: e.Kind})],
	} {
		if r := t.bars(e, now); r != nil {
			return r
		}
	}
	if r := l.aboutRepository(e, now); r != nil {
		return r
	}
	for _, t := range l.filters {
		if t.target.filter.Matches(e) && !t.target.spares(e) {
			if r := t.bars(e, now); r != nil {
				return r
			}
		}
	}
	return nil
}

// spares reports whether a filter of dates alone leaves an event out: what a repository rests on
// does not go because it is old.
func (t *Target) spares(e *host.Event) bool {
	f := t.filter
	return f.IDs == nil && f.Authors == nil && f.Kinds == nil && len(f.Tags) == 0 && (e.Kind == grasp.KindAnnouncement || e.Kind == grasp.KindState)
}

// bars returns the row about a target that bars an event of this target, nil for none.
func (t *rules) bars(e *host.Event, now int64) *Row {
	if t == nil {
		return nil
	}
	if r := t.row(Ban, now); r != nil {
		return r
	}
	if r := t.row(Hide, now); r != nil && (t.target.lasting(e) || e.CreatedAt <= r.At) {
		return r
	}
	if r := t.row(Purge, now); r != nil && (t.target.class == Event || e.CreatedAt <= r.At) {
		return r
	}
	return nil
}

// lasting reports whether a hide also bars an event that is newer than the hide.
func (t *Target) lasting(e *host.Event) bool {
	switch t.class {
	case Event, Repository, Object:
		return true
	case Author:
		return e.Kind == grasp.KindAnnouncement || e.Kind == grasp.KindState
	}
	return false
}

// ByRepository returns the row about a repository that bars an event, nil for none.
func (l *Log) ByRepository(e *host.Event, now int64) *Row {
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.aboutRepository(e, now)
}

// aboutRepository returns the row that bars an event because of its repository, nil for none:
// an announcement or a state of a barred repository, or a regular event that names only barred
// repositories. Lists of other people are no regular events, and stay. REQUIRES: l.mu.
func (l *Log) aboutRepository(e *host.Event, now int64) (barred *Row) {
	if e.Kind == grasp.KindAnnouncement || e.Kind == grasp.KindState {
		return l.repository(e.PubKey, e.D()).bars(e, now)
	}
	if e.Kind.Class() != host.Regular {
		return nil
	}
	EachRepository(e, func(a host.Address) bool {
		barred = l.repository(a.PubKey, a.D).bars(e, now)
		return barred != nil
	})
	return barred
}

// announcementPrefix begins the addresses of announcements.
const announcementPrefix = "30617:"

// EachRepository calls yield for each repository that an event names in a tag a or A, until
// yield returns false.
func EachRepository(e *host.Event, yield func(host.Address) bool) {
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "a" && tag[0] != "A" || !strings.HasPrefix(tag[1], announcementPrefix) {
			continue
		}
		if a, ok := host.ParseAddress(tag[1]); ok && !yield(a) {
			return
		}
	}
}

// Author returns the row that hides an author, nil for none.
func (l *Log) Author(key host.PubKey, now int64) *Row {
	t := AuthorTarget(key)
	if r := l.Find(&t, Ban, now); r != nil {
		return r
	}
	return l.Find(&t, Hide, now)
}

// Repository returns the row that hides a repository, nil for none: its folder stays, and
// nothing of it is served, pushed or hunted.
func (l *Log) Repository(owner host.PubKey, identifier string, now int64) *Row {
	return l.aboutTarget(owner, identifier, now, Ban, Hide)
}

// Removed returns the row that explains why a repository is not here, nil for none: it is
// hidden, or it was purged.
func (l *Log) Removed(owner host.PubKey, identifier string, now int64) *Row {
	return l.aboutTarget(owner, identifier, now, Ban, Hide, Purge)
}

// Purged returns the row that has removed a repository, nil for none.
func (l *Log) Purged(owner host.PubKey, identifier string, now int64) *Row {
	return l.aboutTarget(owner, identifier, now, Purge)
}

func (l *Log) aboutTarget(owner host.PubKey, identifier string, now int64, actions ...Action) *Row {
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, t := range []*rules{l.repository(owner, identifier), l.author(owner)} {
		for _, a := range actions {
			if r := t.row(a, now); r != nil {
				return r
			}
		}
	}
	return nil
}

// Address returns the row that bans an address, nil for none. Of several it is that of the
// smallest network.
func (l *Log) Address(addr netip.Addr, now int64) *Row {
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.network(addr.Unmap().WithZone(""), Ban, now)
}

// Object returns the row that bars a git object, nil for none. The id is in lower-case hex.
func (l *Log) Object(id string, now int64) *Row {
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	t := l.byTarget[key{class: Object, name: id}]
	for _, a := range []Action{Ban, Hide, Purge} {
		if r := t.row(a, now); r != nil {
			return r
		}
	}
	return nil
}

// Objects returns the git objects that are barred, in hex.
func (l *Log) Objects(now int64) (list []string) {
	if !l.any.Load() {
		return nil
	}
	for _, r := range l.InForce(now, Ban, Hide, Purge) {
		if r.Target.class == Object {
			list = append(list, r.Target.value)
		}
	}
	return list
}
