package semantics

import "talon/host"

// Tags calls yield for each tag under which an event is found, once: the first value of
// each single-letter tag (NIP-01).
func Tags(e *host.Event, yield func(name byte, value string)) {
	var seen tagSet
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && letter(tag[0][0]) && seen.add(tag[0][0], tag[1]) {
			yield(tag[0][0], tag[1])
		}
	}
}

// Maintained calls yield for each value of [host.MaintainerOf] under which a repository
// announcement is found.
func Maintained(e *host.Event, yield func(value string)) {
	maintainers := e.Maintainers()
	if len(maintainers) == 0 {
		return
	}
	identifier := e.D()
	for _, m := range maintainers {
		yield(host.Maintains(m, identifier))
	}
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// tagSet holds tags, most often few.
type tagSet struct {
	n    int
	few  [8]indexedTag
	many map[indexedTag]struct{} // nil while few will do
}

type indexedTag struct {
	name  byte
	value string
}

// add reports whether the tag was not in the set.
func (s *tagSet) add(name byte, value string) bool {
	t := indexedTag{name, value}
	if s.many == nil {
		for _, have := range s.few[:s.n] {
			if have == t {
				return false
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = t
			s.n++
			return true
		}
		s.many = make(map[indexedTag]struct{})
		for _, have := range s.few {
			s.many[have] = struct{}{}
		}
	}
	if _, ok := s.many[t]; ok {
		return false
	}
	s.many[t] = struct{}{}
	return true
}
