package gitfetch

import (
	"context"

	"talon/host"
	"talon/host/gitrepo"
)

// Forge knows what is missing, and what to do when it has come.
type Forge interface {
	// Waiting calls yield for each event in purgatory that waits for git data: what the
	// hunt begins with after a start.
	Waiting(ctx context.Context, yield func(Event) error) error

	// Wanted returns what the repositories of an identifier lack, and where it may be.
	// It is empty if nothing that is held waits for git data.
	Wanted(ctx context.Context, identifier string) ([]Want, error)

	// Arrived says that objects have come that a repository lacked. It returns when that
	// was brought in line with the events, and others that follow it: Wanted then says
	// what is still missing. It is called for each repository that lacked them.
	Arrived(ctx context.Context, identifier string, into Repository) error
}

// Repository is where objects are fetched into: a *gitrepo.Repo. Two of the same
// repository need not be equal.
type Repository interface {
	// Dir tells repositories apart.
	Dir() string

	// Store tells apart where objects are kept: repositories with the same store share
	// them.
	Store() string

	// Format and ScanPack are those of [gitrepo.Repo].
	Format(ctx context.Context) (gitrepo.Format, error)
	ScanPack(format gitrepo.Format) *gitrepo.PackScan

	// Fetch is [gitrepo.Repo.Fetch].
	Fetch(ctx context.Context, url string, ids ...string) (found []string, err error)
}

// Want is what some events lack in one repository: one for each repository with its
// states and the URLs of its maintainers' announcements, one for each pull request
// with the URLs that it names and those of the repositories that it is for.
type Want struct {
	Into    Repository
	Objects []string // ids, as signed events name them
	URLs    []string // as the events write them; each is asked for these objects
}

// Event is an event in purgatory that waits for git data.
type Event struct {
	Repository host.Address // that it is about; its identifier names the search
	Kind       host.Kind
	Origin     Origin
}

// Origin says who brought an event.
type Origin uint8

const (
	FromUser Origin = iota // a client: a push is expected
	FromSync               // another relay, or it was held when the server started
)
