package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/wire"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// migrationSource is a set of events to bring over.
type migrationSource interface {
	name() string
	items(ctx context.Context, f host.Filter, progress func(n int)) (all map[host.ID]int64, cut int, _ error)
	fetch(ctx context.Context, ids []host.ID, yield func(*host.Event)) error
	close() error

	// each yields all events of some kinds.
	each(ctx context.Context, kinds []host.Kind, yield func(*host.Event)) error

	// answers yields, for each filter, the ids of the newest events that match, within its limit.
	answers(ctx context.Context, filters []host.Filter, yield func(n int, ids []host.ID) error) error
}

// open adds a source.
func (m *migration) open(ctx context.Context, name string) error {
	if strings.HasPrefix(name, "ws://") || strings.HasPrefix(name, "wss://") {
		if err := relayclient.CheckURL(name); err != nil {
			return err
		}
		s := &relaySource{m.relay(name)}
		m.sources = append(m.sources, s)
		return m.findServed(ctx, s)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return m.findFolders(name)
	}
	s, err := readFile(name)
	if err == nil {
		m.sources = append(m.sources, s)
	}
	return err
}

// relaySource is a relay that runs.
type relaySource struct{ *relaySide }

func (s *relaySource) each(ctx context.Context, kinds []host.Kind, yield func(*host.Event)) error {
	items, _, err := s.items(ctx, host.Filter{Kinds: kinds, Limit: -1}, func(int) {})
	ids := make([]host.ID, 0, len(items))
	for id := range items {
		ids = append(ids, id)
	}
	for part := range slices.Chunk(ids, copyAtOnce) {
		if err == nil {
			err = s.fetch(ctx, part, yield)
		}
	}
	return err
}

func (s *relaySource) answers(ctx context.Context, filters []host.Filter, yield func(int, []host.ID) error) error {
	for n, f := range filters {
		ids, err := s.ids(ctx, f)
		if err == nil {
			err = yield(n, ids)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ids asks a relay for the ids of events that match.
func (r *relaySide) ids(ctx context.Context, f host.Filter) (ids []host.ID, err error) {
	err = r.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
		return c.Query(ctx, wire.AppendFilter(nil, &f), func(e *host.Event) bool {
			ids = append(ids, e.ID)
			return len(ids) < f.Limit
		})
	})
	return ids, err
}

// listed are events in a file, or in memory. The file is read again for their texts.
type listed struct {
	path   string
	file   *os.File // nil: all events are in memory
	events map[host.ID]*host.Event
	places map[host.ID]place
	order  []host.ID // newest first, those that a relay would serve
}

// place is where the text of an event is in a file, and what is needed without it.
type place struct {
	offset int64
	length int
	at     int64
}

// readFile reads a file of events, one a line. A line that is no event ends it: the file may be cut.
func readFile(name string) (*listed, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s := &listed{path: name, file: f, places: map[host.ID]place{}}
	current := newCurrent()
	lines := bufio.NewReaderSize(f, 1<<20)
	for offset, n := int64(0), 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > maxLine {
			return nil, errors.Join(fmt.Errorf("line %d has more than %d bytes", n, maxLine), f.Close())
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			e, bad := wire.ParseEvent([]byte(text))
			if bad != nil {
				return nil, errors.Join(fmt.Errorf("line %d is no event: %w", n, bad), f.Close())
			}
			s.places[e.ID] = place{offset, len(line), e.CreatedAt}
			current.add(e)
		}
		offset += int64(len(line))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	s.order = current.list()
	return s, nil
}

func (s *listed) name() string { return s.path }

func (s *listed) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// get returns an event, nil if it is not there.
func (s *listed) get(id host.ID) (*host.Event, error) {
	if s.file == nil {
		return s.events[id], nil
	}
	at, ok := s.places[id]
	if !ok {
		return nil, nil
	}
	text := make([]byte, at.length)
	if _, err := s.file.ReadAt(text, at.offset); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	return wire.ParseEvent([]byte(strings.TrimSpace(string(text))))
}

func (s *listed) items(ctx context.Context, _ host.Filter, progress func(int)) (map[host.ID]int64, int, error) {
	all := make(map[host.ID]int64, len(s.places)+len(s.events))
	for id, at := range s.places {
		all[id] = at.at
	}
	for id, e := range s.events {
		all[id] = e.CreatedAt
	}
	progress(len(all))
	return all, 0, ctx.Err()
}

func (s *listed) fetch(ctx context.Context, ids []host.ID, yield func(*host.Event)) error {
	for _, id := range ids {
		e, err := s.get(id)
		if err != nil {
			return err
		}
		if e != nil {
			yield(e)
		}
	}
	return ctx.Err()
}

func (s *listed) each(ctx context.Context, kinds []host.Kind, yield func(*host.Event)) error {
	all, _, err := s.items(ctx, host.Filter{}, func(int) {})
	for id := range all {
		if err != nil {
			return err
		}
		var e *host.Event
		if e, err = s.get(id); err == nil && e != nil && slices.Contains(kinds, e.Kind) {
			yield(e)
		}
	}
	return err
}

func (s *listed) answers(ctx context.Context, filters []host.Filter, yield func(int, []host.ID) error) error {
	found := make([][]host.ID, len(filters))
	for _, id := range s.order {
		e, err := s.get(id)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for n := range filters {
			if f := &filters[n]; len(found[n]) < f.Limit && f.Matches(e) {
				found[n] = append(found[n], id)
			}
		}
	}
	for n, ids := range found {
		if err := yield(n, ids); err != nil {
			return err
		}
	}
	return nil
}

// findServed adds the repositories that a running server serves.
func (m *migration) findServed(ctx context.Context, s *relaySource) error {
	web := "http" + strings.TrimSuffix(strings.TrimPrefix(s.address, "ws"), "/")
	return s.each(ctx, []host.Kind{host.KindAnnouncement}, func(e *host.Event) {
		a, err := e.Announcement()
		if err != nil {
			return
		}
		path := a.Repo().Path()
		if _, ok := m.repos[path]; ok {
			return // a folder has it
		}
		if servesGit(ctx, web+path) {
			m.repos[path] = gitOrigin{url: web + path}
		}
	})
}

// servesGit reports whether a server has a git repository at a URL. Some relays answer every path with
// a page, which git takes for an empty repository.
func servesGit(ctx context.Context, url string) bool {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/info/refs?service=git-upload-pack", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	// A repository that is taken down has a line with the reason.
	start, _ := io.ReadAll(io.LimitReader(answer.Body, 16))
	return answer.StatusCode == http.StatusOK && answer.Header.Get("Content-Type") == "application/x-git-upload-pack-advertisement" &&
		!bytes.Contains(start, []byte("ERR "))
}

// findFolders adds the repositories of a folder, and what waits in its purgatory.
func (m *migration) findFolders(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.HasSuffix(d.Name(), ".git") {
			return err
		}
		owner := filepath.Base(filepath.Dir(path))
		key, bad := nip19.DecodeNpub(owner)
		if bad != nil && !host.ParseHex(key[:], owner) {
			return fs.SkipDir
		}
		at := grasp.Repo{PubKey: key, Identifier: strings.TrimSuffix(d.Name(), ".git")}.Path()
		if filepath.Base(filepath.Dir(filepath.Dir(path))) == "prs" {
			at = "/prs" + at
		}
		if _, err := grasp.ParsePath(at); err == nil {
			m.repos[at] = gitOrigin{dir: path}
		}
		return fs.SkipDir
	})
	if err != nil {
		return err
	}
	events, err := readPurgatory(filepath.Join(dir, "purgatory-state.json"))
	if err == nil && len(events) > 0 {
		s := &listed{path: dir, events: map[host.ID]*host.Event{}}
		for _, e := range events {
			s.events[e.ID] = e
		}
		m.sources = append(m.sources, s)
	}
	return err
}

// readPurgatory reads what waits for git data, as ngit-grasp writes it. Without the file nothing
// waits.
func readPurgatory(name string) (events []*host.Event, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	type entry struct{ Event json.RawMessage }
	var file struct {
		Announcements map[string]entry   `json:"announcement_purgatory"`
		States        map[string][]entry `json:"state_events"`
		Pulls         map[string]entry   `json:"pr_events"`
	}
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	add := func(e entry) {
		if len(e.Event) == 0 || string(e.Event) == "null" || err != nil {
			return // a push that came before its event
		}
		var parsed *host.Event
		if parsed, err = wire.ParseEvent(e.Event); err == nil {
			events = append(events, parsed)
		}
	}
	for _, e := range file.Announcements {
		add(e)
	}
	for _, list := range file.States {
		for _, e := range list {
			add(e)
		}
	}
	for _, e := range file.Pulls {
		add(e)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return events, nil
}
