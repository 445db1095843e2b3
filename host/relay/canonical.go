package relay

import (
	"encoding/binary"
	"math"

	"talon/host"
)

// canonical returns a key that is the same for filters that ask for the same.
func canonical(f *host.Filter) string {
	s := sorted(*f)
	b := []byte{}
	list := func(name byte, given bool, n int) {
		if given {
			b = append(b, name)
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	list('i', s.IDs != nil, len(s.IDs))
	for i := range s.IDs {
		b = append(b, s.IDs[i][:]...)
	}
	list('a', s.Authors != nil, len(s.Authors))
	for i := range s.Authors {
		b = append(b, s.Authors[i][:]...)
	}
	list('k', s.Kinds != nil, len(s.Kinds))
	for _, k := range s.Kinds {
		b = binary.AppendUvarint(b, uint64(k))
	}
	var seen [math.MaxUint8 + 1]*host.TagFilter
	for i := range s.Tags {
		seen[s.Tags[i].Name] = &s.Tags[i]
	}
	for name, t := range seen {
		if t == nil {
			continue
		}
		list('#', true, len(t.Values))
		b = append(b, byte(name))
		for _, v := range t.Values {
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	if s.Since != nil {
		b = binary.AppendUvarint(append(b, 's'), uint64(*s.Since))
	}
	if s.Until != nil {
		b = binary.AppendUvarint(append(b, 'u'), uint64(*s.Until))
	}
	return string(b)
}
