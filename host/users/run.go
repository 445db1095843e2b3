package users

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"talon/host"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// About is the name under which the store keeps the set.
const About = "users"

// Store keeps the rows of the set, and reads announcements. Rows are texts by name, under About;
// a nil text deletes one.
type Store interface {
	maintainers.Facts
	Relays(ctx context.Context, about string) (map[string][]byte, error)
	SaveRelays(ctx context.Context, about string, rows map[string][]byte) error
}

// Config configures a set. All fields are required unless it says otherwise.
type Config struct {
	Store Store
	Here  func(ctx context.Context, a host.Address) (bool, error) // the repository of an announcement is here
	Named []host.PubKey                                           // by the operator; may be nil
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	saveEvery = 10 * time.Second

	// readEvery is how often all announcements are read again: repositories become seven days
	// old, and other nodes note networks.
	readEvery = time.Hour
)

// Run reads the set from the store, and keeps both in line until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	var read time.Time
	for {
		if now := s.cfg.Now(); now.Sub(read) >= readEvery {
			s.report(ctx, s.Load(ctx))
			read = now
		}
		s.report(ctx, s.update(ctx))
		s.report(ctx, s.save(ctx))
		select {
		case <-ctx.Done():
			return s.save(context.WithoutCancel(ctx))
		case <-tick.C:
		}
	}
}

func (s *Set) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("keep the set of known people", "err", err)
	}
}

// Names of rows:
//
//	network HEX-KEY PREFIX   until when the network is the key's
//	served ADDRESS           since when the repository has been served
//	complete                 all repositories have had a row once
const (
	rowNetwork  = "network "
	rowServed   = "served "
	rowComplete = "complete"
)

func networkRow(key host.PubKey, network netip.Prefix) string {
	return rowNetwork + key.String() + " " + network.String()
}

func servedRow(a host.Address) string { return rowServed + a.String() }

// encode writes a time as JSON.
func encode(at time.Time) []byte { return strconv.AppendInt(nil, at.Unix(), 10) }

func decode(text []byte) (time.Time, bool) {
	seconds, err := strconv.ParseInt(string(text), 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// Load reads the rows and all announcements.
//
// When the first Talon with such rows starts, it has served every repository since the date of
// its announcement.
func (s *Set) Load(ctx context.Context) error {
	rows, err := s.cfg.Store.Relays(ctx, About)
	if err != nil {
		return fmt.Errorf("read known people: %w", err)
	}
	_, complete := rows[rowComplete]
	served := s.loadRows(rows)
	byIdentifier := make(map[string][]*grasp.Announcement)
	n := 0
	for until := (*int64)(nil); n < maxRepositories; {
		page := 0
		last := int64(0)
		filter := host.Filter{Kinds: []host.Kind{host.KindAnnouncement}, Until: until, Limit: pageSize}
		err := maintainers.Read(ctx, s.cfg.Store.Query, filter, func(e *host.Event) {
			page++
			last = e.CreatedAt
			if a, err := e.Announcement(); err == nil {
				n++
				byIdentifier[a.Identifier] = append(byIdentifier[a.Identifier], a)
			}
		})
		if err != nil {
			return fmt.Errorf("read announcements: %w", err)
		}
		if page < pageSize {
			break
		}
		if until != nil && last == *until {
			last-- // a second with more announcements than a page: the rest of it is left out
		}
		until = &last
	}
	for identifier, list := range byIdentifier {
		if err := s.read(ctx, identifier, list, served, complete); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range served {
		if s.served[a] == nil {
			s.unsaved[servedRow(a)] = nil // its announcement has gone
		}
	}
	if !complete {
		s.unsaved[rowComplete] = []byte("true")
	}
	s.count()
	return nil
}

// pageSize is how many announcements are read at a time.
const pageSize = 1000

// loadRows takes the networks from rows, and returns since when repositories were served.
func (s *Set) loadRows(rows map[string][]byte) map[host.Address]time.Time {
	served := make(map[host.Address]time.Time)
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, text := range rows {
		at, ok := decode(text)
		if rest, is := strings.CutPrefix(name, rowServed); is && ok {
			if a, ok := host.ParseAddress(rest); ok {
				served[a] = at
			}
			continue
		}
		rest, is := strings.CutPrefix(name, rowNetwork)
		if !is {
			continue
		}
		hexKey, prefix, _ := strings.Cut(rest, " ")
		var key host.PubKey
		network, err := netip.ParsePrefix(prefix)
		if raw, failed := hex.DecodeString(hexKey); failed == nil && len(raw) == len(key) {
			copy(key[:], raw)
		} else {
			ok = false
		}
		switch {
		case !ok || err != nil || !now.Before(at):
			if _, ours := s.unsaved[name]; !ours {
				s.unsaved[name] = nil
			}
		case at.After(s.networks[key][network]):
			s.setNetwork(key, network, at)
		}
	}
	for key, networks := range s.networks {
		for network, until := range networks {
			if !now.Before(until) {
				s.dropNetwork(key, network)
			}
		}
	}
	return served
}

// update reads the repositories again whose announcements have changed.
func (s *Set) update(ctx context.Context) error {
	s.mu.Lock()
	stale := s.stale
	s.stale = make(map[string]struct{})
	s.mu.Unlock()
	for identifier := range stale {
		var list []*grasp.Announcement
		filter := host.Filter{
			Kinds: []host.Kind{host.KindAnnouncement}, Tags: []host.TagFilter{{Name: 'd', Values: []string{identifier}}}, Limit: pageSize,
		}
		err := maintainers.Read(ctx, s.cfg.Store.Query, filter, func(e *host.Event) {
			if a, err := e.Announcement(); err == nil && a.Identifier == identifier {
				list = append(list, a)
			}
		})
		if err == nil {
			err = s.read(ctx, identifier, list, nil, true)
		}
		if err != nil {
			s.mu.Lock()
			maps.Copy(s.stale, stale)
			s.mu.Unlock()
			return fmt.Errorf("read announcements of %.100q: %w", identifier, err)
		}
	}
	if len(stale) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count()
	}
	return nil
}

// read makes the repositories of an identifier those of its announcements. Served has rows of
// the store. Of a repository without a row, and not complete, the announcement says since when.
func (s *Set) read(ctx context.Context, identifier string, list []*grasp.Announcement, served map[host.Address]time.Time, complete bool) error {
	g := grasp.NewGraph(list)
	now := s.cfg.Now().Truncate(time.Second)
	there := make(map[host.Address]*repository)
	for _, a := range list {
		address := host.Address{Kind: host.KindAnnouncement, PubKey: host.PubKey(a.PubKey), D: identifier}
		s.mu.RLock()
		r := s.served[address]
		s.mu.RUnlock()
		since, saved := served[address]
		switch {
		case r != nil:
			since, saved = r.since, true
		case saved:
		case complete:
			since = now
		default:
			since = time.Unix(min(a.CreatedAt, now.Unix()), 0)
		}
		r = &repository{since: since}
		if now.Sub(since) >= ServedFor {
			here, err := s.cfg.Here(ctx, address)
			if err != nil {
				return fmt.Errorf("look for a repository: %w", err)
			}
			if here {
				keys := host.PubKeys(g.Maintainers(a.PubKey))
				r.keys = keys[:min(len(keys), maxKeys)]
			}
		}
		there[address] = r
		if !saved {
			s.mu.Lock()
			s.unsaved[servedRow(address)] = encode(since)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for address := range s.served {
		if address.D == identifier && there[address] == nil {
			delete(s.served, address)
			s.unsaved[servedRow(address)] = nil
		}
	}
	for address, r := range there {
		if s.served[address] != nil || len(s.served) < maxRepositories {
			s.served[address] = r
		}
	}
	return nil
}

// count makes the known keys those of the repositories. REQUIRES: mu.
func (s *Set) count() {
	keys := make(map[host.PubKey]struct{})
	ofOwner := make(map[host.PubKey]int)
	// The oldest repositories of an owner count first.
	list := slices.SortedFunc(maps.Keys(s.served), func(a, b host.Address) int {
		if by := s.served[a].since.Compare(s.served[b].since); by != 0 {
			return by
		}
		return bytes.Compare([]byte(a.String()), []byte(b.String()))
	})
	for _, a := range list {
		for _, key := range s.served[a].keys {
			if _, ok := keys[key]; ok || ofOwner[a.PubKey] >= maxOfOwner {
				continue
			}
			ofOwner[a.PubKey]++
			keys[key] = struct{}{}
		}
	}
	s.keys = keys
	for key := range s.networks {
		if s.knows(key) {
			continue
		}
		for network := range maps.Clone(s.networks[key]) {
			s.dropNetwork(key, network)
		}
	}
}

// maxSaved is how many rows one transaction writes: events wait for it.
const maxSaved = 500

// save writes the rows that have changed.
func (s *Set) save(ctx context.Context) error {
	for {
		s.mu.Lock()
		part := make(map[string][]byte)
		for name, text := range s.unsaved {
			if len(part) == maxSaved {
				break
			}
			part[name] = text
		}
		s.mu.Unlock()
		if len(part) == 0 {
			return nil
		}
		if err := s.cfg.Store.SaveRelays(ctx, About, part); err != nil {
			return fmt.Errorf("write known people: %w", err)
		}
		s.mu.Lock()
		for name, text := range part {
			if now, ok := s.unsaved[name]; ok && bytes.Equal(now, text) && (now == nil) == (text == nil) {
				delete(s.unsaved, name)
			}
		}
		s.mu.Unlock()
	}
}
