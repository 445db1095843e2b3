package moderation

import (
	"errors"
	"fmt"
	"io"

	"talon/host"
	"talon/host/wire"
	"talon/internal/durable"
)

// VanishedFileName is the name of the copy of the requests to vanish in a data folder.
const VanishedFileName = "vanished.jsonl"

// maxSuperseded is how many bytes of older requests the copy may have before it is written again,
// above the bytes of the newest ones.
const maxSuperseded = 1 << 20

// VanishedFile is a copy of the requests to vanish outside the database: a line for each, as it was
// signed. A restored database does not know requests that are newer than its backup.
//
// Only the newest request of an author counts. Authors can send newer ones as often as they like, so the
// file is written again without the others when they take most of it.
type VanishedFile struct {
	lines // its mu guards the fields below, and its keys are not used

	newest map[host.PubKey]vanishedLine
	size   int64 // bytes of the file
	live   int64 // of these, bytes of the newest requests and of lines that cannot be read
}

// vanishedLine is the newest request of an author.
type vanishedLine struct {
	id    host.ID
	until int64
	size  int64 // of its line
}

// OpenVanishedFile reads the copy at a path, and returns its requests. Lines that are no events, or
// that verify refuses, are counted and left alone.
func OpenVanishedFile(path string, verify func(*host.Event) error) (f *VanishedFile, list []host.VanishRequest, damaged int, err error) {
	f = &VanishedFile{lines: lines{path: path}, newest: make(map[host.PubKey]vanishedLine)}
	err = f.read(func(r io.Reader) error {
		return eachLine(r, func(line []byte) {
			size := int64(len(line) + 1)
			f.size += size
			e, ok := parseVanished(line)
			if !ok || verify(e) != nil {
				damaged++
				f.live += size
				return
			}
			f.add(e, size)
			list = append(list, host.VanishRequest{ID: e.ID, PubKey: e.PubKey, Until: e.CreatedAt, JSON: e.JSON})
		})
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read the copy of the requests to vanish %s: %w", path, err)
	}
	return f, list, damaged, nil
}

// parseVanished reads a request to vanish.
func parseVanished(line []byte) (*host.Event, bool) {
	e, err := wire.ParseEvent(line)
	return e, err == nil && e.Kind == host.KindVanish
}

// add notes a request, and reports whether it is the newest of its author. REQUIRES: f.mu, or nobody else
// has f.
func (f *VanishedFile) add(e *host.Event, size int64) bool {
	have, ok := f.newest[e.PubKey]
	if ok && e.CreatedAt <= have.until {
		return false
	}
	f.newest[e.PubKey] = vanishedLine{e.ID, e.CreatedAt, size}
	f.live += size - have.size
	return true
}

// Append adds the requests that are newer than those that the file has of their authors, without those
// of which nothing was here. They are durable when it returns nil.
func (f *VanishedFile) Append(list []host.VanishRequest) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text []byte
	before, live := make(map[host.PubKey]vanishedLine), f.live
	for i := range list {
		// The date is that of the text: the database may know a later one without a text.
		e, ok := parseVanished(list[i].JSON)
		if !ok {
			continue
		}
		have := f.newest[e.PubKey]
		if !f.add(e, int64(len(e.JSON)+1)) {
			continue
		}
		if _, noted := before[e.PubKey]; !noted {
			before[e.PubKey] = have
		}
		text = append(append(text, e.JSON...), '\n')
	}
	if len(text) == 0 {
		return nil
	}
	if err := f.write(text); err != nil {
		for author, have := range before {
			if f.newest[author] = have; have == (vanishedLine{}) {
				delete(f.newest, author)
			}
		}
		f.live = live
		return fmt.Errorf("append to the copy of the requests to vanish: %w", err)
	}
	f.size += int64(len(text))
	if f.size <= 2*f.live+maxSuperseded {
		return nil
	}
	if err := f.compact(); err != nil {
		return fmt.Errorf("write the copy of the requests to vanish again: %w", err)
	}
	return nil
}

// compact writes the file again with the newest request of each author, and the lines that cannot be
// read. REQUIRES: f.mu.
func (f *VanishedFile) compact() error {
	var size int64
	err := f.read(func(r io.Reader) error {
		return durable.WriteFrom(f.path, 0o600, func(w io.Writer) (err error) {
			written := make(map[host.ID]bool, len(f.newest))
			failed := eachLine(r, func(line []byte) {
				if e, ok := parseVanished(line); ok {
					have := f.newest[e.PubKey]
					if written[e.ID] || e.ID != have.id && e.CreatedAt <= have.until {
						return
					}
					written[e.ID] = true
				}
				if err == nil {
					_, err = w.Write(append(line, '\n'))
					size += int64(len(line) + 1)
				}
			})
			return errors.Join(err, failed)
		})
	})
	if err == nil {
		f.size, f.live = size, size
	}
	return err
}
