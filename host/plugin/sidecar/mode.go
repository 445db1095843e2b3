package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Mode says what a plugin's opinions do.
type Mode string

// UnmarshalText takes only the modes that exist.
func (m *Mode) UnmarshalText(text []byte) error {
	switch mode := Mode(text); mode {
	case Enforce, Shadow, Off:
		*m = mode
		return nil
	}
	return fmt.Errorf("mode %.40q: want enforce, shadow or off", text)
}

// SetMode changes the mode in the text of a side-car, or adds it at the top, and
// keeps everything else. It refuses a text that is still wrong then.
func SetMode(text []byte, mode Mode) ([]byte, error) {
	if err := new(Mode).UnmarshalText([]byte(mode)); err != nil {
		return nil, err
	}
	list, err := scan(text)
	if err != nil {
		return nil, err
	}
	value := fmt.Sprintf("%q", mode)
	var out []byte
	if st := findMode(list); st != nil {
		out = slices.Concat(text[:st.start], []byte(value), text[st.end:])
	} else {
		rest, marked := bytes.CutPrefix(text, bom)
		if marked {
			out = append(out, bom...)
		}
		out = append(out, "mode = "+value+newline(text)...)
		out = append(out, rest...)
	}
	f, err := Parse(out)
	if err != nil {
		return nil, err
	}
	if f.Mode != mode {
		return nil, errors.New("the mode stands in the side-car in a way that cannot be changed here: write mode = " + value + " by hand")
	}
	return out, nil
}

// findMode returns the statement with the mode. After the first header of a
// table, a key belongs to that table.
func findMode(list []statement) *statement {
	for i := range list {
		switch st := &list[i]; {
		case st.header:
			return nil
		case st.key == "mode", st.key == `"mode"`, st.key == "'mode'":
			return st
		}
	}
	return nil
}

// newline returns how the lines of text end.
func newline(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
