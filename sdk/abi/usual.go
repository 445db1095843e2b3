package abi

// A guest pays for each call, and for each round of a loop by the size of the code in it. Hosts
// write the fields in the order of their numbers. So this form is read with no loops except for the
// tags, and with no calls if dates take five bytes (1978 to 3058). The general readers handle any
// other form.

// usual is Decode for an event as [AppendEvent] writes it. It reports false if it is not
// of that form, and has not changed v then.
func (v *EventView) usual(b []byte) bool {
	const (
		pubkeyAt  = 34
		createdAt = 68
		usualDate = 6
		sigSize   = 66
	)
	if len(b) < createdAt+sigSize || uint16At(b, 0) != 1<<3|wireBytes|32<<8 ||
		uint16At(b, pubkeyAt) != 2<<3|wireBytes|32<<8 {
		return false
	}
	at, kind, created := createdAt+usualDate, uint32(0), int64(0)
	switch {
	case b[createdAt] != 3<<3|wireVarint:
		at = createdAt
	case isDate(b[createdAt+1:]):
		created = date(b[createdAt+1:])
	default:
		n, size := readVarint(b[createdAt+1:])
		if size == 0 {
			return false
		}
		at, created = createdAt+1+size, int64(n)
	}
	if b[at] == 4<<3|wireVarint {
		kind = uint32(b[at+1])
		if at += 2; kind >= 0x80 {
			kind = kind&0x7f | uint32(b[at])<<7
			if at++; kind >= 1<<14 {
				kind = kind&(1<<14-1) | uint32(b[at])<<14
				if at++; kind >= 1<<21 {
					return false
				}
			}
		}
	}
	first := at
	for {
		at = pastTags(b, at)
		if len(b)-at < sigSize {
			return false
		}
		if b[at] != tagKey {
			break
		}
		n := int(b[at+1])&0x7f | int(b[at+2])<<7
		if at += 3; n >= 1<<14 {
			n = n&(1<<14-1) | int(b[at])<<14
			if at++; n >= 1<<21 {
				return false
			}
		}
		if n > len(b)-at-sigSize {
			return false
		}
		at += n
	}
	last := at
	var content []byte
	if b[at] == 6<<3|wireBytes {
		n := int(b[at+1])
		if at += 2; n >= 0x80 {
			n = n&0x7f | int(b[at])<<7
			if at++; n >= 1<<14 {
				n = n&(1<<14-1) | int(b[at])<<14
				if at++; n >= 1<<21 {
					return false
				}
			}
		}
		if n > len(b)-at-sigSize {
			return false
		}
		content = b[at : at+n]
		at += n
	}
	if len(b)-at != sigSize || uint16At(b, at) != 7<<3|wireBytes|64<<8 {
		return false
	}
	v.id, v.pubkey, v.sig, v.content, v.tags = b[2:pubkeyAt], b[pubkeyAt+2:createdAt], b[at+2:], content, nil
	if last > first {
		v.tags = b[first:last]
	}
	v.createdAt, v.kind = created, kind
	return true
}

// usual is Decode for a request as [AppendAdmitRequest] writes it. It reports false if it
// is not of that form; v.Event may have changed then.
func (v *AdmitRequestView) usual(b []byte) bool {
	const nowSize = 6
	if len(b) < 5 || b[0] != 1<<3|wireBytes {
		return false
	}
	n, at := int(b[1]), 2
	if n >= 0x80 {
		n = n&0x7f | int(b[2])<<7
		if at = 3; n >= 1<<14 {
			n = n&(1<<14-1) | int(b[3])<<14
			if at = 4; n >= 1<<21 {
				return false
			}
		}
	}
	if n > len(b)-at {
		return false
	}
	event := b[at : at+n]
	at += n
	if len(b)-at < 2+nowSize || b[at] != 2<<3|wireBytes || int(b[at+1]) != len(b)-at-2-nowSize || b[at+1] >= 0x80 {
		return false
	}
	source, now := b[at+2:len(b)-nowSize], b[len(b)-nowSize:]
	if now[0] != 3<<3|wireVarint || !isDate(now[1:]) || !v.Event.usual(event) {
		return false
	}
	v.Source.b, v.Now = source, date(now[1:])
	return true
}

// isDate reports whether b begins with a varint of five bytes.
func isDate(b []byte) bool {
	return len(b) >= 5 && uint32At(b, 0)&0x80808080 == 0x80808080 && b[4] < 0x80
}

// date is the value of a varint of five bytes.
func date(b []byte) int64 {
	low := int64(uint32At(b, 0))
	return low&0x7f | low>>1&(0x7f<<7) | low>>2&(0x7f<<14) | low>>3&(0x7f<<21) | int64(b[4])<<28
}

// Compilers turn each of these functions into one load.

func uint16At(b []byte, at int) uint16 {
	_ = b[at+1]
	return uint16(b[at]) | uint16(b[at+1])<<8
}

func uint32At(b []byte, at int) uint32 {
	_ = b[at+3]
	return uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16 | uint32(b[at+3])<<24
}
