package nip19

import (
	"errors"
	"strings"
)

var (
	errEventShape    = errors.New("not a note, a nevent or 64 hex digits")
	errEventChecksum = errors.New("the checksum of the note or nevent is wrong")
)

// ParseEventID decodes a note, a nevent, or the 64 hex digits of an event id in
// either case. What a nevent says beside the id is not returned.
func ParseEventID(s string) (id [32]byte, err error) {
	if len(s) == 64 {
		if id, err = parseHex(s); err != nil {
			err = errEventShape
		}
		return id, err
	}
	if len(s) > 5 && strings.EqualFold(s[:5], "note1") {
		data, err := eventData("note", s)
		if err == nil && len(data) != len(id) {
			err = errEventShape
		}
		if err != nil {
			return id, err
		}
		return [32]byte(data), nil
	}
	data, err := eventData("nevent", s)
	if err != nil {
		return id, err
	}
	// Each part is a type, a length and so many bytes; the id is of type 0.
	for len(data) >= 2 {
		kind, n := data[0], int(data[1])
		if data = data[2:]; n > len(data) {
			break
		}
		if kind == fieldID && n == len(id) {
			return [32]byte(data[:n]), nil
		}
		data = data[n:]
	}
	return id, errEventShape
}

func eventData(prefix, s string) ([]byte, error) {
	data, err := decodeBech32(prefix, s)
	switch err {
	case nil:
		return data, nil
	case errNaddrChecksum:
		return nil, errEventChecksum
	}
	return nil, errEventShape
}
