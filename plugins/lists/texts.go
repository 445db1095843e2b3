package main

// texts is a set of strings. A few are compared one after the other: most differ
// in length already, and a hash costs a guest more than that.
type texts struct {
	few  []string
	many map[string]struct{} // instead of few, once there are more than fewTexts
}

const fewTexts = 8

func newTexts(first string) *texts { return &texts{few: []string{first}} }

func (t *texts) add(text string) {
	if t.has(text) {
		return
	}
	if t.many == nil && len(t.few) < fewTexts {
		t.few = append(t.few, text)
		return
	}
	if t.many == nil {
		t.many = make(map[string]struct{})
		for _, known := range t.few {
			t.many[known] = struct{}{}
		}
		t.few = nil
	}
	t.many[text] = struct{}{}
}

func (t *texts) has(text string) bool {
	if t.many != nil {
		_, ok := t.many[text]
		return ok
	}
	for _, known := range t.few {
		if known == text {
			return true
		}
	}
	return false
}
