package orphans

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"talon/host"
	"talon/host/contain"
	"talon/host/wire"
)

// About is the name under which the store keeps the notes.
const About = "orphans"

// KeepFor is how long events stay after the announcement that justified them is gone. It is also
// how long purgatory keeps an announcement that waited in vain.
const KeepFor = 24 * time.Hour

const (
	saveEvery  = 10 * time.Second
	sweepEvery = 5 * time.Minute

	// maxNotes and maxBytes bound the announcements that are noted, and the JSON of each. Events of
	// others stay.
	maxNotes = 2000
	maxBytes = 16 << 10
)

// Store reads events and keeps notes. Notes are texts by name, under About; a nil text deletes
// one.
type Store interface {
	host.RepoFacts
	Relays(ctx context.Context, about string) (map[string][]byte, error)
	SaveRelays(ctx context.Context, about string, rows map[string][]byte) error
}

// Policy decides about events. *plugin.Registry is one.
type Policy interface {
	Admit(ctx context.Context, it *host.Item, facts *host.FactReader, now int64) (host.Ruling, error)
}

// Config configures a sweeper. All fields are required.
type Config struct {
	Store  Store
	Policy Policy
	Remove func(ctx context.Context, ids []host.ID) (n int, err error) // of stored events
	Panics *contain.Guard
	Log    *slog.Logger
	Now    func() time.Time
}

// Sweeper notes announcements that are gone, and removes what only they justified.
type Sweeper struct {
	cfg Config

	mu      sync.Mutex               // guards the fields below
	deleted map[string]host.PubKey   // ids and addresses that the commit under way deletes, by whom
	unsaved map[string]*announcement // by id in hex digits
}

// announcement is one that is gone.
type announcement struct {
	Since int64           `json:"since"`
	Event json.RawMessage `json:"event"`
}

// New returns a sweeper. Run does its work.
func New(cfg Config) *Sweeper {
	return &Sweeper{cfg: cfg, unsaved: make(map[string]*announcement)}
}

// Publish notes the deletions among the events of a commit. Follow comes next.
func (s *Sweeper) Publish(events []host.Published) {
	deleted := make(map[string]host.PubKey)
	for _, p := range events {
		if p.Event.Kind != host.KindDeletion {
			continue
		}
		for _, tag := range p.Event.Tags {
			if len(tag) > 1 && (tag[0] == "e" || tag[0] == "a") {
				deleted[tag[1]] = p.Event.PubKey
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = deleted
}

// Follow notes the announcements that a commit has removed because they were deleted or have
// expired. One that was replaced has a successor, and what the operator hides may come back.
func (s *Sweeper) Follow(removed []*host.Event, _ []host.HeldChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now().Unix()
	for _, e := range removed {
		if e.Kind != host.KindAnnouncement || len(s.unsaved) >= maxNotes || len(e.JSON) > maxBytes {
			continue
		}
		address, _ := e.Address()
		until, expires := e.Expiration()
		if expires && until <= now || s.deleted[e.ID.String()] == e.PubKey || s.deleted[address.String()] == e.PubKey {
			s.unsaved[e.ID.String()] = &announcement{Since: now, Event: bytes.Clone(e.JSON)}
		}
	}
	s.deleted = nil
}

// Run keeps the notes and sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	var swept time.Time
	for {
		select {
		case <-ctx.Done():
			_, err := s.save(context.WithoutCancel(ctx))
			return err
		case <-tick.C:
		}
		work := s.saveNew
		if now := s.cfg.Now(); now.Sub(swept) >= sweepEvery {
			swept, work = now, s.Sweep
		}
		err := s.cfg.Panics.Run(func() error { return work(ctx) })
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("remove events of announcements that are gone", "err", err)
		}
	}
}

// saveNew writes the notes that are new, if there are any.
func (s *Sweeper) saveNew(ctx context.Context) error {
	s.mu.Lock()
	n := len(s.unsaved)
	s.mu.Unlock()
	if n == 0 {
		return nil
	}
	_, err := s.save(ctx)
	return err
}

// save writes the notes that are new, and returns all.
func (s *Sweeper) save(ctx context.Context) (all map[string][]byte, err error) {
	if all, err = s.cfg.Store.Relays(ctx, About); err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	s.mu.Lock()
	unsaved := s.unsaved
	s.unsaved = make(map[string]*announcement)
	s.mu.Unlock()
	rows := make(map[string][]byte, len(unsaved))
	for name, a := range unsaved {
		if len(all)+len(rows) >= maxNotes {
			s.cfg.Log.Warn("too many announcements are gone: events of the newest stay", "maximum", maxNotes)
			break
		}
		if rows[name], err = json.Marshal(a); err != nil {
			return nil, fmt.Errorf("encode a note: %w", err)
		}
	}
	if len(rows) == 0 {
		return all, nil
	}
	if err := s.cfg.Store.SaveRelays(ctx, About, rows); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.Copy(unsaved, s.unsaved)
		s.unsaved = unsaved
		return nil, fmt.Errorf("write notes: %w", err)
	}
	maps.Copy(all, rows)
	return all, nil
}

// forget deletes a note.
func (s *Sweeper) forget(ctx context.Context, name string) error {
	if err := s.cfg.Store.SaveRelays(ctx, About, map[string][]byte{name: nil}); err != nil {
		return fmt.Errorf("delete a note: %w", err)
	}
	return nil
}

// Sweep saves new notes, and removes what only announcements justified that are gone for long
// enough.
func (s *Sweeper) Sweep(ctx context.Context) error {
	rows, err := s.save(ctx)
	if err != nil {
		return err
	}
	due := s.cfg.Now().Add(-KeepFor).Unix()
	for name, text := range rows {
		var a announcement
		if err := json.Unmarshal(text, &a); err != nil {
			s.cfg.Log.Error("a note of an announcement that is gone does not parse", "id", name, "err", err)
			a = announcement{}
		} else if a.Since > due {
			continue
		}
		if e, err := wire.ParseEvent(a.Event); err == nil {
			if err := s.removeOrphans(ctx, e); err != nil {
				return err
			}
		}
		if err := s.forget(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
