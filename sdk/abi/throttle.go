package abi

// Most that a request holds: the host leaves out what is beyond.
const (
	MaxAges    = 256 // of a subject
	MaxWaiting = 16  // of a PickRequest
)

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

// AgeIter walks the ages of the latest starts, newest first:
//
//	for it := subject.Ages(); it.Next(); {
//		age := it.Age()
//	}
type AgeIter struct {
	r      reader
	packed []byte
	age    uint32
}

// Next moves to the next age, and reports whether there is one.
func (it *AgeIter) Next() bool {
	for len(it.packed) == 0 {
		if !it.r.next() {
			return false
		}
		switch it.r.key {
		case 4<<3 | wireVarint:
			it.age = it.r.uint32()
			return true
		case 4<<3 | wireBytes:
			it.packed = it.r.data
		}
	}
	age, n := readVarint(it.packed)
	if n == 0 {
		*it = AgeIter{}
		return false
	}
	it.age, it.packed = uint32(min(age, 1<<32-1)), it.packed[n:]
	return true
}

// Age returns the age that Next moved to, in milliseconds.
func (it *AgeIter) Age() uint32 { return it.age }
