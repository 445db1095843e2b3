package engine

import "container/heap"

// queue is what is to happen.
type queue struct {
	list   []happening
	number uint64 // of what was queued so far
}

type happening struct {
	at     int64 // milliseconds from the begin
	number uint64
	do     func()
}

func (q *queue) Len() int { return len(q.list) }
func (q *queue) Less(i, j int) bool {
	a, b := &q.list[i], &q.list[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}
func (q *queue) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *queue) Push(x any)    { q.list = append(q.list, x.(happening)) }
func (q *queue) Pop() any {
	last := q.list[len(q.list)-1]
	q.list[len(q.list)-1] = happening{}
	q.list = q.list[:len(q.list)-1]
	return last
}

// at has something happen at a time.
func (q *queue) at(at int64, do func()) {
	q.number++
	heap.Push(q, happening{at, q.number, do})
}

// alarm is something that is to be done again and again, each time at the time that was
// asked for last, or before.
type alarm struct {
	e    *engine
	ring func()
	due  int64 // 0: nothing is set
}

const never = 1<<63 - 1

// set has it ring by a time.
func (a *alarm) set(at int64) {
	if at >= never/2 || a.due > a.e.now && a.due <= at {
		return
	}
	at = max(at, a.e.now)
	a.due = at
	a.e.queue.at(at, func() {
		if a.due == at {
			a.due = 0
			a.ring()
		}
	})
}
