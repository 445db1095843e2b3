// Package recent is a map that forgets its oldest entries.
package recent

// Map holds two generations of entries: when the younger is full, the older is forgotten. The
// zero value with a Size is empty and ready. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	Size int // of a generation

	young, old map[K]V
	used       int // of the younger
}

// Get returns the value of a key. aging is true if it is in the older generation only: added
// again, it stays.
func (m *Map[K, V]) Get(key K) (value V, aging, ok bool) {
	if value, ok = m.young[key]; ok {
		return value, false, true
	}
	value, ok = m.old[key]
	return value, ok, ok
}

// Has reports whether the key is remembered.
func (m *Map[K, V]) Has(key K) bool {
	_, _, ok := m.Get(key)
	return ok
}

// Add remembers a value, which takes cost of the size.
func (m *Map[K, V]) Add(key K, value V, cost int) {
	if m.young == nil || m.used+cost > m.Size {
		m.old, m.young, m.used = m.young, make(map[K]V), 0
	}
	if _, ok := m.young[key]; !ok {
		m.used += cost
	}
	m.young[key] = value
}

// Remove forgets a key. Its cost stays until its generation goes.
func (m *Map[K, V]) Remove(key K) {
	delete(m.young, key)
	delete(m.old, key)
}

// Clear forgets everything.
func (m *Map[K, V]) Clear() { m.young, m.old, m.used = nil, nil, 0 }
