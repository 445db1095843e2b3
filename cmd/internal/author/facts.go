package author

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/guest"
	"talon/host/wire"
	"talon/sdk/abi/manifest"
)

// ReadEvents reads the events of a store, one a line, as talon export writes them.
func ReadEvents(name string, r io.Reader) (*memfacts.Facts, error) {
	var stored []*host.Event
	err := eachLine(name, r, func(where string, line []byte) error {
		e, err := wire.ParseEvent(line)
		if err != nil {
			return fmt.Errorf("%s: this is no event: %w", where, err)
		}
		stored = append(stored, e)
		return nil
	})
	return memfacts.New(stored, nil), err
}

// factsOf returns facts that also have what a question says.
func factsOf(facts *memfacts.Facts, v *manifest.Vector) *memfacts.Facts {
	return facts.With(guest.VectorEvents(v.Stored), guest.VectorEvents(v.Held))
}

// eachLine calls f for the lines that are not empty, until one fails.
func eachLine(name string, r io.Reader, f func(where string, line []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			if err := f(fmt.Sprintf("%s:%d", name, n), line); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s:%d: %w", name, n, err)
	}
	return nil
}

// maxLine bounds one line of a file.
const maxLine = 16 << 20
