package loop

import "container/heap"

// timers are those of the strategy, the next one first. The loop owns them.
type timers struct {
	byID map[string]*timer
	heap timerHeap
}

type timer struct {
	id    string
	at    int64 // unix milliseconds
	index int
}

func newTimers() *timers { return &timers{byID: make(map[string]*timer)} }

func (t *timers) len() int { return len(t.heap) }

// set sets a timer, in place of one with the same id. At 0 there is none afterwards.
func (t *timers) set(id string, at int64) {
	old := t.byID[id]
	switch {
	case old != nil && at == 0:
		heap.Remove(&t.heap, old.index)
		delete(t.byID, id)
	case old != nil:
		old.at = at
		heap.Fix(&t.heap, old.index)
	case at != 0:
		n := &timer{id: id, at: at}
		t.byID[id] = n
		heap.Push(&t.heap, n)
	}
}

// due removes and returns the next timer whose time has come, nil if none has.
func (t *timers) due(now int64) *timer {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return nil
	}
	n := heap.Pop(&t.heap).(*timer)
	delete(t.byID, n.id)
	return n
}

// next returns when the next timer is due, and false if there is none.
func (t *timers) next() (int64, bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].id < h[j].id
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	n := x.(*timer)
	n.index = len(*h)
	*h = append(*h, n)
}

func (h *timerHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return n
}
