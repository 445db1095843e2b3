package layers

// Timers holds any number of points in time and sets one timer of the host, to
// the first of them.
type Timers struct {
	at   map[uint64]int64
	heap []due // some are out of date: at has another time for their key, or none
	set  int64 // what the host's timer is set to; 0: it is not
}

type due struct {
	at  int64
	key uint64
}

func (d due) before(o due) bool { return d.at < o.at || d.at == o.at && d.key < o.key }

// reset forgets all, as the host does at an init.
func (t *Timers) reset() { *t = Timers{at: make(map[uint64]int64)} }

// Set sets a point in time, in place of the one before.
func (t *Timers) Set(key uint64, at int64) {
	if before, ok := t.at[key]; ok && before == at {
		return
	}
	t.at[key] = at
	t.push(due{at, key})
	if len(t.heap) > 64 && len(t.heap) > 4*len(t.at) {
		t.heap = t.heap[:0]
		for key, at := range t.at {
			t.push(due{at, key})
		}
	}
}

// Sooner is like Set, but keeps an earlier time.
func (t *Timers) Sooner(key uint64, at int64) {
	if before, ok := t.at[key]; !ok || at < before {
		t.Set(key, at)
	}
}

// has reports whether a point in time is set.
func (t *Timers) has(key uint64) bool {
	_, ok := t.at[key]
	return ok
}

// when returns a point in time, 0 if it is not set.
func (t *Timers) when(key uint64) int64 { return t.at[key] }

// Stop forgets a point in time.
func (t *Timers) Stop(key uint64) { delete(t.at, key) }

// Take removes the earliest point in time if it has come.
func (t *Timers) Take(now int64) (key uint64, ok bool) {
	first, ok := t.first()
	if !ok || first.at > now {
		return 0, false
	}
	delete(t.at, first.key)
	return first.key, true
}

// first returns the earliest point in time.
func (t *Timers) first() (due, bool) {
	for len(t.heap) > 0 {
		first := t.heap[0]
		if at, ok := t.at[first.key]; ok && at == first.at {
			return first, true
		}
		last := len(t.heap) - 1
		t.heap[0], t.heap = t.heap[last], t.heap[:last]
		t.sink()
	}
	return due{}, false
}

func (t *Timers) push(d due) {
	t.heap = append(t.heap, d)
	for i := len(t.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !t.heap[i].before(t.heap[parent]) {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *Timers) sink() {
	for i := 0; ; {
		low := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(t.heap) && t.heap[child].before(t.heap[low]) {
				low = child
			}
		}
		if low == i {
			return
		}
		t.heap[i], t.heap[low] = t.heap[low], t.heap[i]
		i = low
	}
}
