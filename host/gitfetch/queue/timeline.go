package queue

// timeline is a heap (container/heap) of what is due at a time.
type timeline[T interface {
	due() int64
	setPlace(int)
}] []T

func (l timeline[T]) Len() int           { return len(l) }
func (l timeline[T]) Less(i, j int) bool { return l[i].due() < l[j].due() }

func (l timeline[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].setPlace(i)
	l[j].setPlace(j)
}

func (l *timeline[T]) Push(x any) {
	item := x.(T)
	item.setPlace(len(*l))
	*l = append(*l, item)
}

func (l *timeline[T]) Pop() any {
	old := *l
	last := old[len(old)-1]
	var none T
	old[len(old)-1] = none
	*l = old[:len(old)-1]
	last.setPlace(-1)
	return last
}
