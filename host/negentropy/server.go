package negentropy

import (
	"errors"
)

// Server answers the messages of a client that reconciles against a set. It
// keeps nothing between messages and may be used by several goroutines.
type Server struct {
	session session
}

// Reconcile returns the answer to a client's message. A message of another
// version of the protocol is answered with our version, which is not an error.
// Errors wrap [ErrMessage].
func (s *Server) Reconcile(msg []byte) ([]byte, error) {
	switch version, err := messageVersion(msg); {
	case err != nil:
		return nil, err
	case version != protocolVersion:
		return []byte{protocolVersion}, nil
	}
	return s.session.answer(msg[1:], nil)
}

// NewServer returns a server over the set. Its answers are at most frameLimit
// bytes long, [MinFrame] to [MaxFrame]; 0 is MaxFrame.
func NewServer(set *Set, frameLimit int) (*Server, error) {
	s, err := newSession(set, frameLimit)
	if err != nil {
		return nil, err
	}
	return &Server{session: s}, nil
}

// ErrMessage is wrapped by every error that the bytes of a message cause.
var ErrMessage = errors.New("bad negentropy message")
