package grasp

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	errIdentifierEmpty   = errors.New("the repository identifier is empty")
	errIdentifierDots    = errors.New("the repository identifier must not be one dot or two")
	errIdentifierSlash   = errors.New("the repository identifier must not contain / or \\")
	errIdentifierControl = errors.New("the repository identifier must not contain control characters")
	errIdentifierUTF8    = errors.New("the repository identifier must be valid UTF-8")
)

// CheckIdentifier says what is wrong with an identifier, the d tag of an
// announcement and the last part of its URL without .git. It has no largest
// length: where it becomes the name of a file, that name must be shortened.
func CheckIdentifier(s string) error {
	switch {
	case s == "":
		return errIdentifierEmpty
	case s == "." || s == "..":
		return errIdentifierDots
	case strings.ContainsAny(s, `/\`):
		return errIdentifierSlash
	case !utf8.ValidString(s):
		return errIdentifierUTF8
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return errIdentifierControl
		}
	}
	return nil
}
