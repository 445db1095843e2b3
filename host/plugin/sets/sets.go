package sets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/plugin/sidecar"
)

// Options tune sets. The zero value means the defaults.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
}

func (o *Options) setDefaults() {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Sets are the lists of one plugin. Its methods may be called by many goroutines.
type Sets struct {
	log   *slog.Logger
	now   func() time.Time
	facts host.Facts // nil: lists are known from Published only

	// These do not change after Open.
	sets    []*set
	byName  map[string]*set
	lists   map[host.Address]*list
	kinds   map[host.Kind]bool
	authors map[host.PubKey][]*list

	refreshing sync.Mutex // held by Refresh; taken before mu

	mu sync.Mutex // guards lists, problems, and who may store members
}

type set struct {
	spec    sidecar.Set
	path    string // of the file, "" for a list
	members atomic.Pointer[members]
	problem string
	stamp   stamp // guarded by Sets.refreshing
	list    *list // nil for a file
}

// Open reads all sets. An error is one sentence, that names the set: a spec that
// is wrong, a file that cannot be read or has a line that is wrong, too many
// members, or a host that cannot read its lists.
func Open(ctx context.Context, dir string, specs []sidecar.Set, facts host.Facts, o Options) (*Sets, error) {
	o.setDefaults()
	s := &Sets{
		log: o.Log, now: o.Now, facts: facts,
		byName: map[string]*set{}, lists: map[host.Address]*list{}, kinds: map[host.Kind]bool{}, authors: map[host.PubKey][]*list{},
	}
	if len(specs) > maxSets {
		return nil, fmt.Errorf("a plugin may have %d sets, not %d", maxSets, len(specs))
	}
	for _, spec := range specs {
		if err := s.add(spec, dir); err != nil {
			return nil, err
		}
	}
	for _, set := range s.sets {
		if set.list == nil {
			s.readFile(set)
		}
	}
	for _, l := range s.lists {
		if err := s.readList(ctx, l); err != nil {
			return nil, fmt.Errorf("set %s: %w", l.sets[0].spec.Name, err)
		}
		l.stale = facts != nil // what is stored before the first Published comes in no call
	}
	for _, set := range s.sets {
		if set.problem != "" {
			return nil, fmt.Errorf("set %s: %s", set.spec.Name, set.problem)
		}
	}
	return s, nil
}

func (s *Sets) add(spec sidecar.Set, dir string) error {
	if err := check(&spec); err != nil {
		return err
	}
	if s.byName[spec.Name] != nil {
		return fmt.Errorf("set %s is there twice", spec.Name)
	}
	set := &set{spec: spec}
	set.members.Store(none)
	s.sets = append(s.sets, set)
	s.byName[spec.Name] = set
	if spec.File != "" {
		set.path = spec.File
		if !filepath.IsAbs(set.path) {
			set.path = filepath.Join(dir, set.path)
		}
		return nil
	}
	a, err := addressOf(&spec)
	if err != nil {
		return err
	}
	l := s.lists[a]
	if l == nil {
		l = &list{address: a}
		s.lists[a] = l
		s.kinds[a.Kind] = true
		s.authors[a.PubKey] = append(s.authors[a.PubKey], l)
	}
	l.sets = append(l.sets, set)
	set.list = l
	return nil
}

// Contains reports whether the set has the member, and whether there is such
// a set.
func (s *Sets) Contains(name, member []byte) (yes, known bool) {
	set := s.byName[string(name)]
	if set == nil {
		return false, false
	}
	return set.members.Load().contains(member), true
}

// Keys returns how many members of a set are keys, and calls yield for them if they are at most limit.
func (s *Sets) Keys(name string, limit int, yield func(key [32]byte)) int {
	set := s.byName[name]
	if set == nil {
		return 0
	}
	m := set.members.Load()
	if len(m.keys) <= limit {
		for key := range m.keys {
			yield(key)
		}
	}
	return len(m.keys)
}

// Status is what an operator sees of one set.
type Status struct {
	Name    string
	From    string // where it comes from
	Members int
	Problem string // why the members are not what they should be; "" if they are
}

// Status describes the sets in the order of their specs.
func (s *Sets) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, set := range s.sets {
		st := Status{Name: set.spec.Name, From: origin(&set.spec), Members: set.members.Load().len(), Problem: set.problem}
		if st.Problem == "" && set.list != nil && set.list.version == nil {
			st.Problem = "the list is not stored here"
		}
		all = append(all, st)
	}
	return all
}

// Refresh reads changed files. It also reads lists that may have changed without a
// Published: those that have expired, could not be read, or were read by Open. It logs each
// fault of a file or list once, and records it in Status. The error says that the host
// could not read a list; the next Refresh tries again.
func (s *Sets) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	for _, set := range s.sets {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if set.list == nil {
			s.readFile(set)
		}
	}
	var errs []error
	now := s.now().Unix()
	for _, l := range s.lists {
		s.mu.Lock()
		due := l.stale || l.version != nil && l.version.expires <= now
		s.mu.Unlock()
		if due {
			errs = append(errs, s.readList(ctx, l))
		}
	}
	return errors.Join(errs...)
}

// readFile reads the file of a set, if it is not the one that was read before.
// REQUIRES: s.refreshing, or that nobody else has s.
func (s *Sets) readFile(set *set) {
	info, err := stat(set.path)
	if err == nil && set.stamp.same(info) {
		return
	}
	// Taken before reading, so that a later change is read again.
	set.stamp = stamp{info, s.now()}
	var m *members
	if err == nil {
		m, err = readFile(set.path)
	}
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		set.stamp = stamp{} // a right that is given does not show in the stamp
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.install(set, m, err)
}

// readTries is how often readList reads a list that changes during the read. Events that
// came to Published are right anyway.
const readTries = 3

// readList reads a list from the store.
func (s *Sets) readList(ctx context.Context, l *list) error {
	for range readTries {
		s.mu.Lock()
		changes := l.changes
		s.mu.Unlock()
		var e *host.Event
		if s.facts != nil {
			var err error
			if e, err = fetch(ctx, s.facts, l.address); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				l.stale = true
				return err
			}
		}
		if s.listed(l, e, changes) {
			return nil
		}
	}
	return nil
}

// listed takes a version that was read, unless another came to Published since.
func (s *Sets) listed(l *list, e *host.Event, changes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.changes != changes {
		return false
	}
	l.stale = false
	s.update(l, e)
	return true
}

// Published follows the lists: call it with all that is committed, in that order.
// For events that are none of them it costs a look-up.
func (s *Sets) Published(ctx context.Context, events []host.Published) {
	if len(s.lists) == 0 {
		return
	}
	for i := range events {
		e := events[i].Event
		if e.Kind == host.KindDeletion {
			if lists := s.authors[e.PubKey]; lists != nil {
				s.deleted(lists, e)
			}
			continue
		}
		if !s.kinds[e.Kind] {
			continue
		}
		if a, ok := e.Address(); ok {
			if l := s.lists[a]; l != nil {
				s.published(l, e)
			}
		}
	}
}

func (s *Sets) published(l *list, e *host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.changes++
	if replaces(e, l.version) {
		s.update(l, e)
	}
}

func (s *Sets) deleted(lists []*list, deletion *host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lists {
		l.changes++
		if l.deletes(deletion) {
			s.update(l, nil)
		}
	}
}

// update makes e the version of the list; nil is none. REQUIRES: s.mu.
func (s *Sets) update(l *list, e *host.Event) {
	m, err := none, error(nil)
	switch {
	case e == nil && l.version == nil, e != nil && l.version != nil && e.ID == l.version.id:
		return
	case e == nil:
		l.version = nil
	default:
		l.version = versionOf(e)
		m, err = readMembers(e)
	}
	for _, set := range l.sets {
		s.install(set, m, err)
	}
}

// install makes m the members of a set, unless err says why not. REQUIRES: s.mu.
func (s *Sets) install(set *set, m *members, err error) {
	if err == nil {
		err = s.checkSize(set, m)
	}
	if err != nil {
		if problem := err.Error(); problem != set.problem {
			set.problem = problem
			s.log.Warn("a set keeps its members: what they come from is wrong", "set", set.spec.Name, "from", origin(&set.spec), "err", err)
		}
		return
	}
	level := slog.LevelDebug
	if set.problem != "" {
		level = slog.LevelInfo
	}
	set.members.Store(m)
	set.problem = ""
	s.log.Log(context.Background(), level, "set read", "set", set.spec.Name, "from", origin(&set.spec), "members", m.len())
}

// checkSize returns an error if all sets together would be too large. Sets of one list
// share its members, but count as if they did not. REQUIRES: s.mu.
func (s *Sets) checkSize(changed *set, m *members) error {
	count, bytes := m.len(), m.bytes
	for _, set := range s.sets {
		if set != changed {
			old := set.members.Load()
			count += old.len()
			bytes += old.bytes
		}
	}
	if count > maxAll || bytes > maxAllBytes {
		return errAll
	}
	return nil
}
