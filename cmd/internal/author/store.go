package author

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi/manifest"
)

// Store holds a relay's stored events and its purgatory for a module to query.
type Store struct {
	stored, held []*host.Event // newest first
	byID         map[host.ID]*host.Event
	usage        map[string]manifest.VectorUsage // that a question says
}

// with returns a store that also has what a question says.
func (s *Store) with(v *manifest.Vector) *Store {
	if len(v.Stored) == 0 && len(v.Held) == 0 && len(v.Usage) == 0 {
		return s
	}
	all := &Store{byID: map[host.ID]*host.Event{}, usage: v.Usage}
	for i := range v.Stored {
		all.stored = append(all.stored, eventOf(&v.Stored[i]))
	}
	if s != nil {
		all.stored = append(all.stored, s.stored...)
	}
	for _, e := range all.stored {
		if all.byID[e.ID] == nil {
			all.byID[e.ID] = e
		}
	}
	for i := range v.Held {
		all.held = append(all.held, eventOf(&v.Held[i]))
	}
	slices.SortStableFunc(all.stored, order)
	slices.SortStableFunc(all.held, order)
	return all
}

func (s *Store) Get(_ context.Context, id host.ID) ([]byte, error) {
	if e := s.byID[id]; e != nil {
		return e.JSON, nil
	}
	return nil, nil
}

func (s *Store) Query(_ context.Context, f host.Filter) ([][]byte, error) {
	return query(s.stored, &f), nil
}

// Usage returns what the question says, else what the stored events take.
func (s *Store) Usage(_ context.Context, keys ...host.UsageKey) ([]host.Usage, error) {
	list := make([]host.Usage, len(keys))
	for i, key := range keys {
		if u, ok := s.usage[key.Name()]; ok {
			list[i] = host.Usage(u)
			continue
		}
		for _, e := range s.stored {
			of, _ := host.UsageOfEvent(e)
			if of == key || host.UsageOfAuthor(e.PubKey) == key {
				list[i].Add(host.Usage{Events: 1, Bytes: int64(len(e.JSON))})
			}
		}
	}
	return list, nil
}

func (s *Store) Referenced(_ context.Context, idOrAddress string) (bool, error) {
	return slices.ContainsFunc(s.stored, func(e *host.Event) bool {
		return slices.ContainsFunc(e.Tags, func(tag host.Tag) bool {
			return len(tag) > 1 && len(tag[0]) == 1 && strings.Contains(host.ReferenceTags, tag[0]) && tag[1] == idOrAddress
		})
	}), nil
}

func (s *Store) Held(_ context.Context, id host.ID) ([]byte, error) {
	for _, e := range s.held {
		if e.ID == id {
			return e.JSON, nil
		}
	}
	return nil, nil
}

func (s *Store) HeldBy(_ context.Context, f host.Filter) ([][]byte, error) {
	return query(s.held, &f), nil
}

// ReadEvents reads the events of a store, one a line, as talon export writes them.
func ReadEvents(name string, r io.Reader) (*Store, error) {
	s := &Store{byID: map[host.ID]*host.Event{}}
	err := eachLine(name, r, func(where string, line []byte) error {
		e, err := wire.ParseEvent(line)
		if err != nil {
			return fmt.Errorf("%s: this is no event: %w", where, err)
		}
		if s.byID[e.ID] == nil {
			s.stored = append(s.stored, e)
			s.byID[e.ID] = e
		}
		return nil
	})
	slices.SortStableFunc(s.stored, order)
	return s, err
}

func order(a, b *host.Event) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
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

func eventOf(v *manifest.VectorEvent) *host.Event {
	e := &host.Event{
		ID: host.ID(v.ID), PubKey: host.PubKey(v.PubKey), CreatedAt: v.CreatedAt, Kind: host.Kind(v.Kind),
		Tags: v.Tags, Content: v.Content, Sig: host.Sig(v.Sig),
	}
	e.JSON = e.AppendJSON(nil)
	return e
}

// maxLine bounds one line of a file.
const maxLine = 16 << 20
