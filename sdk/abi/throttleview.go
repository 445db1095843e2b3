package abi

// SubjectView reads a Subject in place.
type SubjectView struct {
	Kind         uint32
	Name         string
	InFlight     uint32
	Failures     uint32
	FailingSince int64
	LastSuccess  int64
	NotBefore    int64
	Health       uint32

	b    []byte
	ages []byte // packed
	rare bool   // the ages are written in another way than that
}

func (v *SubjectView) decode(b []byte) error {
	*v = SubjectView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Kind = r.uint32()
		case 2<<3 | wireBytes:
			v.Name = text(r.data)
		case 3<<3 | wireVarint:
			v.InFlight = r.uint32()
		case 4<<3 | wireVarint:
			v.rare = true
		case 4<<3 | wireBytes:
			v.rare = v.rare || v.ages != nil
			v.ages = r.data
		case 5<<3 | wireVarint:
			v.Failures = r.uint32()
		case 6<<3 | wireVarint:
			v.FailingSince = int64(r.num)
		case 7<<3 | wireVarint:
			v.LastSuccess = int64(r.num)
		case 8<<3 | wireVarint:
			v.NotBefore = int64(r.num)
		case 9<<3 | wireVarint:
			v.Health = r.uint32()
		}
	}
	return r.err()
}

// Ages returns an iterator over the ages of the latest starts.
func (v *SubjectView) Ages() AgeIter { return AgeIter{r: reader{rest: v.b}} }

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

// DelayRequestView reads a DelayRequest in place.
type DelayRequestView struct {
	Now       int64
	Subject   SubjectView
	Origin    uint32
	EventKind uint32
	Planned   int64
}

// Decode makes v a view of b.
func (v *DelayRequestView) Decode(b []byte) error {
	*v = DelayRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		case 3<<3 | wireVarint:
			v.Origin = r.uint32()
		case 4<<3 | wireVarint:
			v.EventKind = r.uint32()
		case 5<<3 | wireVarint:
			v.Planned = int64(r.num)
		}
	}
	return r.err()
}

// ThrottleAdmitRequestView reads a ThrottleAdmitRequest in place.
type ThrottleAdmitRequestView struct {
	Now         int64
	Subject     SubjectView
	Repository  string
	AllInFlight uint32
}

// Decode makes v a view of b.
func (v *ThrottleAdmitRequestView) Decode(b []byte) error {
	*v = ThrottleAdmitRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		case 3<<3 | wireBytes:
			v.Repository = text(r.data)
		case 4<<3 | wireVarint:
			v.AllInFlight = r.uint32()
		}
	}
	return r.err()
}

// AfterRequestView reads an AfterRequest in place.
type AfterRequestView struct {
	Now        int64
	Subject    SubjectView
	Outcome    uint32
	Repository string
	Status     uint32
	RetryAfter int64
	Took       int64
	Bytes      int64
	Found      uint32
	Missing    uint32
	Attempts   uint32
	Since      int64
	Reason     string
}

// Decode makes v a view of b.
func (v *AfterRequestView) Decode(b []byte) error {
	*v = AfterRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		case 3<<3 | wireVarint:
			v.Outcome = r.uint32()
		case 4<<3 | wireBytes:
			v.Repository = text(r.data)
		case 5<<3 | wireVarint:
			v.Status = r.uint32()
		case 6<<3 | wireVarint:
			v.RetryAfter = int64(r.num)
		case 7<<3 | wireVarint:
			v.Took = int64(r.num)
		case 8<<3 | wireVarint:
			v.Bytes = int64(r.num)
		case 9<<3 | wireVarint:
			v.Found = r.uint32()
		case 10<<3 | wireVarint:
			v.Missing = r.uint32()
		case 11<<3 | wireVarint:
			v.Attempts = r.uint32()
		case 12<<3 | wireVarint:
			v.Since = int64(r.num)
		case 13<<3 | wireBytes:
			v.Reason = text(r.data)
		}
	}
	return r.err()
}

// PickRequestView reads a PickRequest in place.
type PickRequestView struct {
	Now     int64
	Subject SubjectView

	b []byte
}

// Decode makes v a view of b. Who waits is looked into only when it is read.
func (v *PickRequestView) Decode(b []byte) error {
	*v = PickRequestView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			v.Now = int64(r.num)
		case 2<<3 | wireBytes:
			if err := v.Subject.decode(r.data); err != nil {
				return err
			}
		}
	}
	return r.err()
}

// Waiting returns an iterator over the repositories that wait. Their order is
// that of PickAnswer's index.
func (v *PickRequestView) Waiting() WaitingIter { return WaitingIter{fields(v.b, 3)} }

// WaitingIter walks the repositories of a PickRequest.
type WaitingIter struct{ it BytesIter }

// Next moves to the next repository, and reports whether there is one.
func (it *WaitingIter) Next() bool { return it.it.Next() }

// Waiting returns the repository that Next moved to. Its text is a view.
//
// It is one loop without calls, as EventView.Decode is; what that loop does not
// know it leaves to waitingOf.
func (it *WaitingIter) Waiting() Waiting {
	var m Waiting
	b := it.it.Bytes()
	for pos := 0; pos < len(b); {
		k := b[pos]
		if k < 1<<3 || k >= 0x80 || k&^wireBytes&7 != 0 {
			return waitingOf(b)
		}
		var n uint64
		var shift uint
		for pos++; ; pos++ {
			if pos == len(b) || shift > 56 {
				return waitingOf(b)
			}
			c := b[pos]
			n |= uint64(c&0x7f) << shift
			if c < 0x80 {
				pos++
				break
			}
			shift += 7
		}
		if k&7 == wireBytes {
			if n > uint64(len(b)-pos) {
				return waitingOf(b)
			}
			if k == 1<<3|wireBytes {
				m.Repository = text(b[pos : pos+int(n)])
			}
			pos += int(n)
			continue
		}
		switch k {
		case 2<<3 | wireVarint:
			m.Since = int64(n)
		case 3<<3 | wireVarint:
			m.LastTried = int64(n)
		case 4<<3 | wireVarint:
			m.Attempts = uint32(min(n, 1<<32-1))
		case 5<<3 | wireVarint:
			m.Missing = uint32(min(n, 1<<32-1))
		case 6<<3 | wireVarint:
			m.URLs = uint32(min(n, 1<<32-1))
		}
	}
	return m
}

// waitingOf is Waiting for messages of any shape: as much as can be read.
func waitingOf(b []byte) Waiting {
	var m Waiting
	for r := (reader{rest: b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Repository = text(r.data)
		case 2<<3 | wireVarint:
			m.Since = int64(r.num)
		case 3<<3 | wireVarint:
			m.LastTried = int64(r.num)
		case 4<<3 | wireVarint:
			m.Attempts = r.uint32()
		case 5<<3 | wireVarint:
			m.Missing = r.uint32()
		case 6<<3 | wireVarint:
			m.URLs = r.uint32()
		}
	}
	return m
}
