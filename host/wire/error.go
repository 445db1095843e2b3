package wire

import "fmt"

// Error says why a message was not understood.
type Error struct {
	Reason string // for the client, with a prefix ("invalid: ", "unsupported: ", …)
}

func (e *Error) Error() string { return e.Reason }

func invalid(format string, args ...any) error {
	return &Error{Reason: "invalid: " + fmt.Sprintf(format, args...)}
}
