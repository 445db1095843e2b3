package moderation

import (
	"net/netip"
	"strconv"
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

// NumberOf returns the number of the last row about a repository, its owner or a git object, also of
// one that is no longer in force. It is 0 if there is none.
func (l *Log) NumberOf(owner host.PubKey, identifier string) (number int64) {
	if !l.any.Load() {
		return 0
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	number = l.objectNumber.Load()
	for _, t := range []*rules{l.repository(owner, identifier), l.author(owner)} {
		if t == nil {
			continue
		}
		for _, r := range t.latest {
			number = max(number, r.Number)
		}
	}
	return number
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

// Allowed reports whether the operator excepts something from the rules of modules. A member is the
// 32 bytes of an author or an event, the text of an address, or kind:NUMBER.
func (l *Log) Allowed(member []byte, now int64) bool {
	if !l.any.Load() {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(member) == len(key{}.id) {
		id := [32]byte(member)
		return l.byTarget[key{class: Author, id: id}].row(Allow, now) != nil || l.byTarget[key{class: Event, id: id}].row(Allow, now) != nil
	}
	if number, ok := strings.CutPrefix(string(member), "kind:"); ok {
		n, err := strconv.ParseUint(number, 10, 16)
		t := KindTarget(host.Kind(n))
		return err == nil && l.byTarget[keyOf(&t)].row(Allow, now) != nil
	}
	addr, err := netip.ParseAddr(string(member))
	return err == nil && l.network(addr.Unmap().WithZone(""), Allow, now) != nil
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

// objectTexts are the git objects that are barred, with the text of their rows.
type objectTexts struct {
	number int64 // of the last row that counts
	end    int64 // when the first of the rows ends by itself, 0 for never
	texts  map[string]string
}

// Objects returns the git objects that are barred, by their ids in lower-case hex. Each has a text
// such as "banned by the operator: REASON". The map does not change, and is nil if there are none.
func (l *Log) Objects(now int64) map[string]string {
	number := l.objectNumber.Load()
	if number == 0 {
		return nil
	}
	if known := l.objectTexts.Load(); known != nil && known.number == number && (known.end == 0 || now < known.end) {
		return known.texts
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	made := &objectTexts{number: l.objectNumber.Load()}
	for _, t := range l.objects {
		for _, a := range []Action{Ban, Hide, Purge} {
			r := t.row(a, now)
			if r == nil {
				continue
			}
			if made.texts == nil {
				made.texts = make(map[string]string)
			}
			if made.texts[t.target.value] == "" {
				made.texts[t.target.value] = r.Text()
			}
			if r.Until > 0 && (made.end == 0 || r.Until < made.end) {
				made.end = r.Until
			}
		}
	}
	l.objectTexts.Store(made)
	return made.texts
}

// ObjectNumber returns the number of the last row about a git object, also of one that is no longer
// in force. It is 0 if there is none.
func (l *Log) ObjectNumber() int64 { return l.objectNumber.Load() }
