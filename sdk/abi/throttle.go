package abi

// Age returns the age of the start at index i, newest first, in milliseconds, and
// whether there is one. It costs much less than to walk there.
func (v *SubjectView) Age(i int) (age uint32, ok bool) {
	if v.rare {
		for it := v.Ages(); it.Next(); i-- {
			if i == 0 {
				return it.Age(), true
			}
		}
		return 0, false
	}
	var n uint64
	var shift uint
	for _, c := range v.ages {
		if i == 0 && shift < 64 {
			n |= uint64(c&0x7f) << shift
		}
		if shift += 7; c >= 0x80 {
			continue
		}
		if i == 0 {
			return uint32(min(n, 1<<32-1)), true
		}
		i--
		shift = 0
	}
	return 0, false
}
