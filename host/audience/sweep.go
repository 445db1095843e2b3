package audience

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// Store has the stored events.
type Store interface {
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
	Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error)
	Withheld(ctx context.Context, yield func(id host.ID, a *host.Audience) error) error
	EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error
	HiddenAudiences(ctx context.Context, yield func(id host.ID, a *host.Audience)) error
	host.AudienceFacts

	// Relay and SaveRelays keep for which settings the stored answers are.
	Relay(ctx context.Context, about, url string) ([]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error
}

// Change is a new audience of a stored event.
type Change struct {
	ID       host.ID
	Audience *host.Audience // nil: everybody
}

// About is what the store keeps the settings under, and keySettings their name there.
const (
	About       = "audience"
	keySettings = "settings"

	// unsettled takes the place of settings while stored answers are for several.
	unsettled = "?"
)

const (
	// lookEvery is how often the settings are compared with those of the stored answers.
	lookEvery = time.Second

	// askRows is how many events are read at a time, and applyRows how many change their
	// audience in one transaction.
	askRows   = 200
	applyRows = 500
)

// Load reads which repositories are not for everybody. It must be called before the first event
// is decided.
func (a *Audiences) Load(ctx context.Context) error {
	var ids []host.ID // of events of restricted repositories, not read yet
	audiences := make(map[host.ID]*host.Audience)
	read := func() error {
		err := a.events(ctx, ids, func(e *host.Event) error {
			a.repos.add(e.For(audiences[e.ID]))
			return nil
		})
		ids = ids[:0]
		clear(audiences)
		return err
	}
	err := a.cfg.Store.Withheld(ctx, func(id host.ID, who *host.Audience) error {
		if !who.Repository {
			return nil
		}
		ids = append(ids, id)
		if audiences[id] = who; len(ids) < askRows {
			return nil
		}
		return read()
	})
	if err == nil {
		err = read()
	}
	if err != nil {
		return fmt.Errorf("read restricted repositories: %w", err)
	}
	err = a.cfg.Store.HiddenAudiences(ctx, func(id host.ID, who *host.Audience) {
		if who.Repository {
			a.repos.any.Store(true)
			a.repos.note(id)
		}
	})
	if err != nil {
		return fmt.Errorf("read hidden events of restricted repositories: %w", err)
	}
	return a.cfg.Store.EachHeld(ctx, func(h host.HeldEvent) error {
		if h.Audience == nil {
			return nil
		}
		e, err := wire.ParseEvent(slices.Clone(h.JSON))
		if err == nil {
			a.repos.add(e.For(h.Audience))
		}
		return nil // a damaged event is for `talon check`
	})
}

// Run asks again about the stored events whenever the modules or their settings have changed, and
// has the changes applied, until ctx ends. An answer about an event that was accepted in the last
// second before a crash may be for older settings.
func (a *Audiences) Run(ctx context.Context, apply func(ctx context.Context, list []Change) error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var before string // that the stored answers are for
	known, failed := false, ""
	for {
		if a.reload.Swap(false) {
			if err := a.Load(ctx); err != nil {
				a.reload.Store(true)
				a.cfg.Log.Error("read restricted repositories again", "err", err)
			}
		}
		settings, version := a.cfg.Modules.Audiences(), a.cfg.Modules.AudienceVersion()
		if !known {
			stored, err := a.cfg.Store.Relay(ctx, About, keySettings)
			if known = err == nil; known && stored != nil {
				_ = json.Unmarshal(stored, &before) // one that cannot be read is another
			}
		}
		if known && before != settings && before != unsettled {
			// From here on events have answers for other settings, whatever happens next.
			if a.save(ctx, unsettled) == nil {
				before = unsettled
			}
		}
		if known && before == settings && a.other.Load() {
			before = unsettled
		}
		if before != unsettled || !a.cfg.Modules.Complete() {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			continue
		}
		a.settled.Store(version)
		a.other.Store(false)
		began := a.cfg.Now()
		changed, err := a.sweep(ctx, settings, apply)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && err.Error() != failed:
			failed = err.Error()
			a.cfg.Log.Error("ask modules again who receives stored events", "err", err)
		case err == nil && changed >= 0:
			failed, before = "", settings
			a.cfg.Log.Info("asked modules again who receives stored events", "changed", changed, "time", a.cfg.Now().Sub(began).Round(time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sweep asks about all stored events, and applies the changes. Events that are accepted during a
// sweep have answers of the same modules already.
func (a *Audiences) sweep(ctx context.Context, settings string, apply func(ctx context.Context, list []Change) error) (changed int, err error) {
	s := &sweeper{a: a, repository: make(map[host.ID]*host.Audience)}
	err = s.repositories(ctx)
	if err == nil {
		err = s.withheld(ctx)
	}
	if err == nil {
		err = s.candidates(ctx)
	}
	if err != nil {
		return 0, err
	}
	s.decideOthers()
	if a.cfg.Modules.Audiences() != settings || !a.cfg.Modules.Complete() {
		return -1, nil // the next look begins again
	}
	// Changes that narrow an audience go first. If the process ends in between, nobody has received
	// an event that the new answers withhold.
	slices.SortStableFunc(s.changes, func(x, y Change) int { return cmp.Compare(width(x.Audience), width(y.Audience)) })
	for part := range slices.Chunk(s.changes, applyRows) {
		if err := apply(ctx, part); err != nil {
			return 0, err
		}
	}
	return len(s.changes), a.save(ctx, settings)
}

// save notes for which settings the stored answers are.
func (a *Audiences) save(ctx context.Context, settings string) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	return a.cfg.Store.SaveRelays(ctx, About, map[string][]byte{keySettings: text})
}

// width orders audiences: those that few receive come first.
func width(a *host.Audience) int {
	switch {
	case a == nil:
		return math.MaxInt
	case a.Set != "":
		return math.MaxInt - 1
	}
	return len(a.Keys)
}

// sweeper is one time of asking again.
type sweeper struct {
	a          *Audiences
	repository map[host.ID]*host.Audience // of events of restricted repositories that were not looked at yet
	changes    []Change
}

// decide notes the new audience of an event, if it is another than before.
func (s *sweeper) decide(id host.ID, own, before *host.Audience) {
	now := inherited(own, s.repository[id])
	if !now.Equal(before) {
		s.changes = append(s.changes, Change{id, now})
	}
	delete(s.repository, id)
}

// withheld asks about the events that are not for everybody now.
func (s *sweeper) withheld(ctx context.Context) error {
	var ids []host.ID
	before := make(map[host.ID]*host.Audience)
	ask := func() error {
		err := s.a.events(ctx, ids, func(e *host.Event) error {
			own, err := s.a.own(ctx, e, nil, s.a.cfg.Now().Unix())
			if err == nil {
				s.decide(e.ID, own, before[e.ID])
			}
			return err
		})
		ids = ids[:0]
		clear(before)
		return err
	}
	err := s.a.cfg.Store.Withheld(ctx, func(id host.ID, who *host.Audience) error {
		ids = append(ids, id)
		if before[id] = who; len(ids) < askRows {
			return nil
		}
		return ask()
	})
	if err != nil {
		return err
	}
	return ask()
}

// repositories finds the events that belong to restricted repositories: from their announcements
// on, whatever names something that was found.
func (s *sweeper) repositories(ctx context.Context) error {
	found := newRepositories()
	of := func(e *host.Event) *host.Audience {
		who, ids := found.of(e)
		for _, id := range ids {
			if r := s.repository[id]; r != nil {
				who = host.StrictestAudience(who, r)
			}
		}
		return who
	}
	next := make(map[string]bool) // ids and addresses
	identifiers := make(map[string]bool)
	note := func(e *host.Event, who *host.Audience) {
		s.repository[e.ID] = host.StrictestAudience(s.repository[e.ID], who)
		found.add(e.For(s.repository[e.ID]))
		next[e.ID.String()] = true
		if address, ok := e.Address(); ok {
			next[address.String()] = true
		}
	}
	announcements := host.Filter{Kinds: []host.Kind{host.KindAnnouncement}, Reader: host.Everything}
	err := s.each(ctx, announcements, func(e *host.Event) error {
		own, err := s.a.own(ctx, e, nil, s.a.cfg.Now().Unix())
		if err == nil && own != nil {
			note(e, own)
			identifiers[e.D()] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	for identifier := range identifiers {
		f := host.Filter{
			Kinds:  []host.Kind{host.KindAnnouncement, grasp.KindState},
			Tags:   []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
			Reader: host.Everything,
		}
		err := s.each(ctx, f, func(e *host.Event) error {
			if who := of(e); who != nil {
				note(e, who)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for len(next) > 0 {
		names := make([]string, 0, len(next))
		for name := range next {
			names = append(names, name)
		}
		clear(next)
		for part := range slices.Chunk(names, askRows) {
			for _, f := range host.ReferenceFilters(part...) {
				f.Reader = host.Everything
				err := s.each(ctx, f, func(e *host.Event) error {
					if who := of(e); who != nil && !host.StrictestAudience(s.repository[e.ID], who).Equal(s.repository[e.ID]) {
						note(e, who)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// candidates asks the modules about the other events that they are asked about.
func (s *sweeper) candidates(ctx context.Context) error {
	kinds, more := s.a.cfg.Modules.AudienceKinds()
	if len(kinds) == 0 && !more {
		return nil
	}
	f := host.Filter{Kinds: kinds}
	if more || len(kinds) > math.MaxUint16/2 {
		f.Kinds = nil
	}
	return s.each(ctx, f, func(e *host.Event) error {
		own, err := s.a.own(ctx, e, nil, s.a.cfg.Now().Unix())
		if err == nil {
			s.decide(e.ID, own, nil)
		}
		return err
	})
}

// decideOthers decides about the events of restricted repositories that are for everybody now, and
// about which no module is asked.
func (s *sweeper) decideOthers() {
	for id := range s.repository {
		s.decide(id, nil, nil)
	}
}

// each calls yield for each stored event that matches and that the filter's reader receives.
func (s *sweeper) each(ctx context.Context, f host.Filter, yield func(*host.Event) error) error {
	f.Limit = -1
	var ids []host.ID
	_, _, err := s.a.cfg.Store.Scan(ctx, f, math.MaxInt, s.a.cfg.Now().Unix(), func(_ int64, id host.ID) { ids = append(ids, id) })
	if err != nil {
		return err
	}
	return s.a.events(ctx, ids, yield)
}

// events calls yield for each of the stored events.
func (a *Audiences) events(ctx context.Context, ids []host.ID, yield func(*host.Event) error) error {
	for part := range slices.Chunk(ids, askRows) {
		f := host.Filter{IDs: part, Limit: len(part), Reader: host.Everything}
		sel, err := a.cfg.Store.Select(ctx, []host.Filter{f}, math.MinInt64)
		if err != nil {
			return err
		}
		err = a.cfg.Store.Fetch(ctx, sel.Rows, func(_ int64, text []byte) error {
			e, err := wire.ParseEvent(slices.Clone(text))
			if err != nil {
				return nil // a damaged event is for `talon check`
			}
			return yield(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
