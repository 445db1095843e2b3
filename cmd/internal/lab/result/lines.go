package result

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxLine is the longest line that is read: the rows of 10,000 relays with their load
// are below it.
const maxLine = 64 << 20

// Writer writes runs, one a line.
type Writer struct{ w *bufio.Writer }

// Write writes a run, whole or with an error. It flushes each line, so that finished runs
// are kept when the program is killed.
func (w *Writer) Write(r *Run) error {
	line, err := json.Marshal(r.versioned())
	if err != nil {
		return fmt.Errorf("encode a run: %w", err)
	}
	w.w.Write(append(line, '\n')) // Flush returns its error
	return w.w.Flush()
}

func NewWriter(w io.Writer) *Writer { return &Writer{bufio.NewWriter(w)} }

func (r *Run) versioned() *Run {
	c := *r
	c.Version = Version
	return &c
}

// Read returns the runs of a file. An error is the last thing that it yields.
func Read(r io.Reader) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), maxLine)
		n := 0
		for lines.Scan() {
			n++
			if len(lines.Bytes()) == 0 {
				continue
			}
			run, err := parse(lines.Bytes())
			if err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(run, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
			}
			yield(nil, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

func parse(line []byte) (*Run, error) {
	var v struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("not a run of the lab: %w", err)
	}
	if v.Version != Version {
		if v.Version == "" {
			return nil, errors.New("not a run of the lab: it has no version")
		}
		return nil, fmt.Errorf("its version is %.40q, and this talon reads %s", v.Version, Version)
	}
	run := new(Run)
	if err := json.Unmarshal(line, run); err != nil {
		return nil, fmt.Errorf("not a run of the lab: %w", err)
	}
	return run, run.check()
}

// check refuses what no run of the lab has, so that what uses runs need not.
func (r *Run) check() error {
	if r.Strategy == nil && r.Throttle == nil {
		return errors.New("not a run of the lab: it names neither a strategy nor a throttle")
	}
	switch r.End.How {
	case Finished, CutShort, BrokenInvariant, ModuleFailed:
	default:
		return fmt.Errorf("not a run of the lab: it ended %.40q", string(r.End.How))
	}
	s := &r.Series
	if n := max(len(s.Completeness), len(s.BytesUp), len(s.BytesDown)); n > 0 && s.Every <= 0 {
		return errors.New("not a run of the lab: a series without a time between its values")
	}
	for i := range r.Relays {
		if len(r.Relays[i].Load) > 0 && r.LoadEvery <= 0 {
			return errors.New("not a run of the lab: the load of relays without a width of its buckets")
		}
	}
	return nil
}
