package audience

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"talon/host"
)

// Modules are the modules that decide.
type Modules interface {
	// Audience returns the strictest answer of the modules, nil for everybody.
	Audience(ctx context.Context, e *host.Event, facts *host.FactReader, now int64) (*host.Audience, error)

	// Audiences returns a text that changes with the modules and their settings, empty for none.
	Audiences() string

	// AudienceVersion is another number for another text.
	AudienceVersion() uint64

	// Complete is false while a module that should run does not: nothing is asked again then.
	Complete() bool

	// AudienceKinds returns the kinds about which modules are asked, and whether they are asked
	// about events of other kinds too.
	AudienceKinds() (kinds []host.Kind, more bool)
}

// Config has what Audiences need. All fields are required.
type Config struct {
	Modules Modules
	Store   Store
	Log     *slog.Logger
	Now     func() time.Time
}

// Audiences says who receives events. Its methods may be called by many goroutines.
type Audiences struct {
	cfg   Config
	repos *repositories

	settled atomic.Uint64 // version for which stored events were, or are, asked about
	other   atomic.Bool   // a decision was made by another version
	reload  atomic.Bool   // repositories may have changed unseen
}

// New returns Audiences that know of no repository before Load.
func New(cfg Config) *Audiences {
	a := &Audiences{cfg: cfg, repos: newRepositories()}
	a.repos.seen = newFilter()
	a.settled.Store(cfg.Modules.AudienceVersion())
	return a
}

// Audience returns who may receive an event, nil for everybody. If facts is nil, it reads the
// database.
func (a *Audiences) Audience(ctx context.Context, e *host.Event, facts *host.FactReader, now int64) (*host.Audience, error) {
	own, err := a.own(ctx, e, facts, now)
	if err != nil {
		return nil, err
	}
	if a.cfg.Modules.AudienceVersion() != a.settled.Load() && !a.other.Load() {
		a.other.Store(true)
	}
	repository, err := a.repository(ctx, e, facts)
	if err != nil {
		return nil, err
	}
	return inherited(own, repository), nil
}

// repository returns the strictest audience of the repositories that an event belongs to, nil if all
// are for everybody.
func (a *Audiences) repository(ctx context.Context, e *host.Event, facts *host.FactReader) (*host.Audience, error) {
	named, ids := a.repos.of(e)
	if len(ids) == 0 {
		return named, nil
	}
	var from host.AudienceFacts = a.cfg.Store
	if facts != nil {
		from = facts
	}
	stored, err := from.RepositoryAudience(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the audience of what an event names: %w", err)
	}
	return host.StrictestAudience(named, stored), nil
}

// own returns the answer of the modules. The answer about an announcement is for its repository.
func (a *Audiences) own(ctx context.Context, e *host.Event, facts *host.FactReader, now int64) (*host.Audience, error) {
	own, err := a.cfg.Modules.Audience(ctx, e, facts, now)
	if err == nil && own != nil && e.Kind == host.KindAnnouncement {
		repository := *own
		repository.Repository = true
		own = &repository
	}
	return own, err
}

// inherited returns the audience of an event by its own answer, and that of its repositories.
func inherited(own, repository *host.Audience) *host.Audience {
	if repository == nil {
		return own
	}
	out := *host.StrictestAudience(own, repository)
	out.Repository = true
	return &out
}

// With returns the audience of an event that may also belong to the repositories of pending
// events: they are in the same transaction, and Committed does not know them yet.
func (a *Audiences) With(e *host.Event, own *host.Audience, pending []*host.Event) *host.Audience {
	more := newRepositories()
	for _, p := range pending {
		if p.Audience != nil && p.Audience.Repository {
			more.add(p)
		}
	}
	repository, ids := more.of(e)
	for _, p := range pending {
		if slices.Contains(ids, p.ID) {
			repository = repository.StricterRepository(p.Audience)
		}
	}
	return inherited(own, repository)
}

// Version changes when other modules answer.
func (a *Audiences) Version() uint64 { return a.cfg.Modules.AudienceVersion() }

// Committed follows commits, before a decision can rest on them.
func (a *Audiences) Committed(published []host.Published, held []host.HeldChange) {
	for i := range held {
		if c := &held[i]; c.Status == host.StatusHeld {
			a.repos.add(c.Event)
		}
	}
	for i := range published {
		if published[i].Seq != 0 {
			a.repos.add(published[i].Event)
		}
	}
}

// Unsettle has Run ask again about all stored events: some have come back with an old answer.
func (a *Audiences) Unsettle() { a.other.Store(true) }

// Missed says that commits of other nodes are not known.
func (a *Audiences) Missed() {
	a.repos.missed()
	a.reload.Store(true)
}

// Repository returns who may see a repository, by the address of its announcement: nil for
// everybody.
func (a *Audiences) Repository(address host.Address) *host.Audience {
	return a.repos.repository(address)
}

// AnyRepository reports whether a reader may see a repository that is not for everybody.
func (a *Audiences) AnyRepository(reader *host.Reader) bool { return a.repos.anyFor(reader) }
