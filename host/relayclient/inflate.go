package relayclient

import (
	"errors"
	"fmt"

	"talon/host/inflate"
)

// inflate decompresses a message. What it grows to is bounded, whatever it claims.
func (s *Socket) inflate(packed []byte) ([]byte, error) {
	msg, err := inflate.Append(make([]byte, 0, min(4*len(packed)+64, s.most+1)), packed, s.most)
	switch {
	case errors.Is(err, inflate.ErrTooLong):
		return nil, s.tooLong()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrWebsocket, err)
	}
	return msg, nil
}
