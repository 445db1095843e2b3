package storetest

import (
	"bytes"
	"cmp"
	"slices"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
)

// reference returns the first held event that a reference names, nil for none.
func (m *heldModel) reference(parent string) *modelHeld {
	for _, h := range m.held {
		if parent != "" && (h.ID.String() == parent || reference(h.Event) == parent) {
			return h
		}
	}
	return nil
}

// parentOf returns the first held event that a reference names and that depends on nothing.
func (m *heldModel) parentOf(name string) *modelHeld {
	for _, h := range m.held {
		if name != "" && h.parent == "" && reference(h.Event) == name {
			return h
		}
	}
	return nil
}

func waits(p *modelHeld, now int64) bool { return !p.dormant && p.phase(now) == purgatory.Waiting }

// depend makes a row depend on what a reference names, or on what that depends on.
func (m *heldModel) depend(row *modelHeld, parent string, now int64) bool {
	p := m.reference(parent)
	if p == nil {
		return false
	}
	row.parent = cmp.Or(p.parent, reference(p.Event))
	p = m.parentOf(row.parent)
	return p != nil && waits(p, now)
}

func (m *heldModel) dependents(parent string) (list []*modelHeld) {
	for _, h := range m.held {
		if h.parent == parent {
			list = append(list, h)
		}
	}
	return list
}

// dropDependents drops what depends on an event that has gone, or has become dormant.
func (m *heldModel) dropDependents(fates *[]string, parent *modelHeld) {
	name := reference(parent.Event)
	if other := m.parentOf(name); other != nil && other.ID != parent.ID {
		return
	}
	list := m.dependents(name)
	m.drop(fates, host.StatusExpired, func(h *modelHeld) bool { return slices.Contains(list, h) })
}

// releaseDependents stores what depends on a stored event, oldest first.
func (m *heldModel) releaseDependents(parent *host.Event, now int64) (events, fates []string) {
	list := m.dependents(reference(parent))
	slices.SortFunc(list, func(a, b *modelHeld) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	for _, h := range list {
		if slices.Contains(m.held, h) {
			more, also := m.releaseRow(h, now)
			events, fates = append(events, more...), append(fates, also...)
		}
	}
	return events, fates
}

// releaseRow stores a held event, and then what depends on it.
func (m *heldModel) releaseRow(h *modelHeld, now int64) (events, fates []string) {
	m.held = slices.DeleteFunc(m.held, func(x *modelHeld) bool { return x == h })
	m.released = nil
	out, more := m.put(h.Event, now)
	status := host.StatusReleased
	switch {
	case out.Code == host.Stored:
	case out.Reason == semantics.ReasonExpired:
		status = host.StatusExpired
	default:
		panic("the model held what it would not store: " + out.Reason)
	}
	note(&events, h.Event, status)
	events = append(events, m.released...)
	note(&fates, h.Event, status)
	fates = append(fates, more...)
	if status == host.StatusExpired {
		m.dropDependents(&fates, h)
	} else {
		list, more := m.releaseDependents(h.Event, now)
		events, fates = append(events, list...), append(fates, more...)
	}
	return events, fates
}
