package guest

import "sync"

// names are the words of a plugin that become labels of metrics, over all its
// generations: the words are the module's choice, their number is not.
type names struct {
	most int

	mu   sync.Mutex // guards the field below
	seen map[string]struct{}
}

// admit reports whether the word may be a label: it was one before, or there is
// room for one more.
func (n *names) admit(word string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[word]; ok {
		return true
	}
	if len(n.seen) >= n.most {
		return false
	}
	if n.seen == nil {
		n.seen = make(map[string]struct{})
	}
	n.seen[word] = struct{}{}
	return true
}
