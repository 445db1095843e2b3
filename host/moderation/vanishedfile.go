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

// maxSuperseded is how far the copy may grow above twice its size before the older requests of
// authors leave it.
const maxSuperseded = 1 << 20

// VanishedFile is a copy of the requests to vanish outside the database: a line for each, as it was
// signed. A restored database does not know requests that are newer than its backup.
//
// Only the newest request of an author counts. Authors can send newer ones as often as they like, so a
// file that has doubled is written again without the others.
type VanishedFile struct {
	lines // its mu guards the fields below

	size  int64 // bytes of the file
	clean int64 // the same when it was opened, or written again
}

// OpenVanishedFile reads the copy at a path, and returns its requests. Lines that are no events, or
// that verify refuses, are counted and left alone.
func OpenVanishedFile(path string, verify func(*host.Event) error) (f *VanishedFile, list []host.VanishRequest, damaged int, err error) {
	f = &VanishedFile{lines: lines{path: path, keys: make(map[string]struct{})}}
	err = f.read(func(r io.Reader) error {
		return eachLine(r, func(line []byte) {
			f.size += int64(len(line) + 1)
			e, ok := parseVanished(line)
			if !ok || verify(e) != nil {
				damaged++
				return
			}
			f.keys[e.ID.String()] = struct{}{}
			list = append(list, host.VanishRequest{ID: e.ID, PubKey: e.PubKey, Until: e.CreatedAt, JSON: e.JSON})
		})
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read the copy of the requests to vanish %s: %w", path, err)
	}
	f.clean = f.size
	return f, list, damaged, nil
}

// parseVanished reads a request to vanish.
func parseVanished(line []byte) (*host.Event, bool) {
	e, err := wire.ParseEvent(line)
	return e, err == nil && e.Kind == host.KindVanish
}

// Append adds the requests that the file does not have, without those of which nothing was here. They
// are durable when it returns nil.
func (f *VanishedFile) Append(list []host.VanishRequest) error {
	var keys []string
	var texts [][]byte
	for i := range list {
		// The database may have a later date of an author than the text says.
		if e, ok := parseVanished(list[i].JSON); ok {
			keys, texts = append(keys, e.ID.String()), append(texts, append(e.JSON, '\n'))
		}
	}
	written, err := f.append(keys, texts)
	if err != nil {
		return fmt.Errorf("append to the copy of the requests to vanish: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size += int64(written); f.size <= 2*f.clean+maxSuperseded {
		return nil
	}
	if err := f.compact(); err != nil {
		return fmt.Errorf("write the copy of the requests to vanish again: %w", err)
	}
	return nil
}

// compact writes the file again with the newest request of each author, and the lines that are no
// requests. REQUIRES: f.mu.
func (f *VanishedFile) compact() error {
	newest := make(map[host.PubKey]*host.Event)
	err := f.read(func(r io.Reader) error {
		return eachLine(r, func(line []byte) {
			e, ok := parseVanished(line)
			if !ok {
				return
			}
			// A line that was not signed is in the file, but not among the keys.
			_, signed := f.keys[e.ID.String()]
			if have := newest[e.PubKey]; signed && (have == nil || e.CreatedAt > have.CreatedAt) {
				newest[e.PubKey] = &host.Event{ID: e.ID, CreatedAt: e.CreatedAt}
			}
		})
	})
	if err != nil {
		return err
	}
	keys, size := make(map[string]struct{}), int64(0)
	err = f.read(func(r io.Reader) error {
		return durable.WriteFrom(f.path, 0o600, func(w io.Writer) (err error) {
			failed := eachLine(r, func(line []byte) {
				if e, ok := parseVanished(line); ok {
					key := e.ID.String()
					_, signed := f.keys[key]
					if _, twice := keys[key]; signed && (twice || newest[e.PubKey].ID != e.ID) {
						return
					}
					if signed {
						keys[key] = struct{}{}
					}
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
		f.keys, f.size, f.clean = keys, size, size
	}
	return err
}
