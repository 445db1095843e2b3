package plugin

import "sync"

// ruleNames are the rule codes that a module has used, over all its instances.
type ruleNames struct {
	mu   sync.Mutex // guards the field below
	seen map[string]struct{}
}

// admit returns the code, or otherRule if the module has used too many.
func (n *ruleNames) admit(code string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[code]; ok {
		return code
	}
	if len(n.seen) >= maxRules {
		return otherRule
	}
	if n.seen == nil {
		n.seen = make(map[string]struct{})
	}
	n.seen[code] = struct{}{}
	return code
}
