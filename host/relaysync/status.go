package relaysync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// Snapshot is the status of sync, for an operator. Texts in it that relays have said are
// hostile.
type Snapshot struct {
	Connections    int `json:"connections"`     // that are up
	MaxConnections int `json:"max_connections"` // at the same time
	Tracked        int `json:"tracked"`         // relays that are wanted
	Complete       int `json:"complete"`        // of these, relays at which nothing is open
	Repositories   int `json:"repositories"`

	Relays []RelaySnapshot `json:"relays"`

	// Coverage is that of repositories: all that list the relay that was asked about, or
	// those that are covered worst.
	Coverage []RepositorySnapshot `json:"coverage"`
}

// Relay states.
const (
	StateConnected  = "connected"
	StateConnecting = "connecting"
	StateResting    = "resting" // not before Next
	StateWaiting    = "waiting" // for a connection that another relay has
	StateUnwanted   = "unwanted"
)

// RelaySnapshot is the status of sync with one relay.
type RelaySnapshot struct {
	Relay     string `json:"relay"`
	State     string `json:"state"`
	Bootstrap bool   `json:"bootstrap,omitempty"`
	Why       string `json:"why,omitempty"` // the strategy wants it, or not

	Health   string    `json:"health"` // unknown, healthy, degraded, dead or barred
	Failures int       `json:"failures,omitempty"`
	Reason   string    `json:"reason,omitempty"` // how the latest attempt or connection ended
	Next     time.Time `json:"next,omitzero"`    // not before that it is connected to

	Limits Learnt `json:"limits"`

	Subscriptions int `json:"subscriptions"` // open
	Filters       int `json:"filters"`       // of these
	Pending       int `json:"pending"`       // subscriptions and historics whose past is not all here

	Uncovered *Uncovered `json:"uncovered,omitempty"`

	Connected    time.Time `json:"connected,omitzero"`    // begin of the latest connection
	Disconnected time.Time `json:"disconnected,omitzero"` // end of the latest connection that ended
	Complete     time.Time `json:"complete,omitzero"`     // since when nothing has been open
	Open         []Open    `json:"open,omitempty"`        // why it is connected and not complete
	NextCheck    time.Time `json:"next_check,omitzero"`   // when the strategy compares everything again
	Partial      bool      `json:"partial,omitempty"`     // a fetch of this connection did not bring all; the strategy may have asked again
	Bytes        int64     `json:"bytes"`                 // received since the server started
	Repositories int       `json:"repositories"`          // that list it
}

// Open is a reason why a relay is not complete.
type Open struct {
	What  string    `json:"what"`           // of the names of [loop.Incomplete]
	Count int       `json:"count"`          // 1 for what is not counted
	Since time.Time `json:"since"`          // when it began
	Until time.Time `json:"until,omitzero"` // of a rest
}

// Uncovered is what has no subscription at a relay, because the relay has no room for it. It is
// fetched from time to time.
type Uncovered struct {
	Repositories uint32    `json:"repositories"`
	Roots        uint32    `json:"roots"`             // issues, pull requests and patches
	Authors      uint32    `json:"authors,omitempty"` // of comments, whose deletions are wanted
	Since        time.Time `json:"since"`
}

// Learnt has the capabilities that a relay advertises or has shown. 0 is unknown.
type Learnt struct {
	Negentropy    string `json:"negentropy"` // yes, no or unknown
	Subscriptions uint32 `json:"subscriptions,omitempty"`
	Filters       uint32 `json:"filters,omitempty"`
	Values        uint32 `json:"values,omitempty"`  // of all filters of all subscriptions together
	Limit         uint32 `json:"limit,omitempty"`   // events of an answer
	Message       uint32 `json:"message,omitempty"` // bytes
	Pace          uint32 `json:"pace,omitempty"`    // messages in a minute, as learnt from its complaints
	Auth          bool   `json:"auth,omitempty"`    // it wants us to authenticate
}

// RepositorySnapshot is the status of a repository on its relays.
type RepositorySnapshot struct {
	Repository string `json:"repository"` // 30617:pubkey:d
	Held       bool   `json:"held,omitempty"`
	Relays     int    `json:"relays"`
	Connected  int    `json:"connected"`
	Complete   int    `json:"complete"`

	Listed []string `json:"listed,omitempty"` // the relays; only if the repository was asked about
}

// Query selects a part of the status.
type Query struct {
	Relay      string // only this one, and the repositories that list it
	Repository string // only this one, and its relays
	Limit      int    // of relays, and of repositories
}

var (
	// ErrUnknownRelay says that sync knows no such relay.
	ErrUnknownRelay = errors.New("sync knows no such relay")

	// ErrUnknownRepository says that no such repository is followed.
	ErrUnknownRepository = errors.New("no such repository is followed")

	errNotRunning = errors.New("sync does not run")
)

// ask has the loop's goroutine call do, and waits for it.
func (v *Sync) ask(ctx context.Context, do func()) error {
	done := make(chan struct{})
	select {
	case v.queries <- func() { defer close(done); do() }:
	case <-v.ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-done // the loop never waits long
	return nil
}

// Status returns the status of sync. It may be called by any goroutine while Run runs.
func (v *Sync) Status(ctx context.Context, q Query) (status Snapshot, err error) {
	if q.Relay != "" {
		u, ok := loop.Normalise(q.Relay)
		if !ok {
			return Snapshot{}, unknownRelay(q.Relay)
		}
		q.Relay = u
	}
	asked := v.ask(ctx, func() { status, err = v.status(q) })
	return status, errors.Join(asked, err)
}

// Now starts new comparisons with relays, whatever is known of them: those that are up
// are reconnected. An empty URL is all that are wanted. It returns how many.
func (v *Sync) Now(ctx context.Context, url string) (count int, err error) {
	asked := v.ask(ctx, func() {
		u, _ := loop.Normalise(url)
		known := url == ""
		if known || u != "" {
			count, known = v.loop.CompareAgain(v.now(), u)
		}
		switch {
		case !known:
			err = unknownRelay(url)
		case count == 0 && url != "":
			err = fmt.Errorf("nothing is wanted from %s", u)
		}
	})
	return count, errors.Join(asked, err)
}

// Unbar clears the failures of a relay, and connects to it immediately if it is wanted.
func (v *Sync) Unbar(ctx context.Context, url string) (err error) {
	asked := v.ask(ctx, func() {
		if u, ok := loop.Normalise(url); !ok || !v.loop.Unbar(v.now(), u) {
			err = unknownRelay(url)
		}
	})
	return errors.Join(asked, err)
}

func unknownRelay(url string) error { return fmt.Errorf("%w: %q", ErrUnknownRelay, session.Quote(url)) }

func (v *Sync) status(q Query) (Snapshot, error) {
	relays, repositories := v.loop.Status(), v.loop.Repositories()
	st := Snapshot{
		MaxConnections: v.cfg.Limits.Connections, Repositories: len(repositories), Relays: []RelaySnapshot{}, Coverage: []RepositorySnapshot{},
	}
	byURL := make(map[string]*loop.RelayStatus, len(relays))
	for i := range relays {
		byURL[relays[i].URL] = &relays[i]
	}
	if q.Relay != "" && byURL[q.Relay] == nil {
		return Snapshot{}, unknownRelay(q.Relay)
	}
	var only []string // relays of the repository that is asked about
	found := false
	listed := make(map[string]int)
	for _, repo := range repositories {
		c := RepositorySnapshot{Repository: repo.Address, Held: repo.Held, Relays: len(repo.Relays)}
		for _, u := range repo.Relays {
			listed[u]++
			if r := byURL[u]; r != nil && r.Up {
				c.Connected++
				if r.CompleteSince != 0 {
					c.Complete++
				}
			}
		}
		if q.Repository == repo.Address {
			found, only, c.Listed = true, repo.Relays, repo.Relays
		}
		if (q.Repository == "" || q.Repository == repo.Address) && (q.Relay == "" || slices.Contains(repo.Relays, q.Relay)) {
			st.Coverage = append(st.Coverage, c)
		}
	}
	if q.Repository != "" && !found {
		return Snapshot{}, fmt.Errorf("%w: %q", ErrUnknownRepository, session.Quote(q.Repository))
	}
	for i := range relays {
		r := &relays[i]
		if r.Kept {
			st.Tracked++
		}
		if r.Up {
			st.Connections++
			if r.CompleteSince != 0 {
				st.Complete++
			}
		}
		if (q.Relay == "" || q.Relay == r.URL) && (q.Repository == "" || slices.Contains(only, r.URL)) {
			one := v.relayStatus(r)
			one.Repositories = listed[r.URL]
			st.Relays = append(st.Relays, one)
		}
	}
	slices.SortFunc(st.Relays, func(a, b RelaySnapshot) int {
		return cmp.Or(loop.First(a.Bootstrap, b.Bootstrap), loop.First(a.State != StateUnwanted, b.State != StateUnwanted),
			cmp.Compare(b.Repositories, a.Repositories), cmp.Compare(a.Relay, b.Relay))
	})
	slices.SortFunc(st.Coverage, func(a, b RepositorySnapshot) int {
		return cmp.Or(cmp.Compare(a.Complete, b.Complete), cmp.Compare(a.Connected, b.Connected), cmp.Compare(a.Repository, b.Repository))
	})
	if q.Limit > 0 {
		st.Relays = st.Relays[:min(len(st.Relays), q.Limit)]
		st.Coverage = st.Coverage[:min(len(st.Coverage), q.Limit)]
	}
	return st, nil
}

func (v *Sync) relayStatus(r *loop.RelayStatus) RelaySnapshot {
	caps := &r.Capabilities
	st := RelaySnapshot{
		Relay: r.URL, Bootstrap: r.Bootstrap, Why: r.Why, State: StateUnwanted,
		Health: r.State.Status.String(), Failures: r.State.Failures, Reason: r.LastError,
		Connected: moment(r.LastConnected), Disconnected: moment(r.DisconnectedAt), Complete: moment(r.CompleteSince), Partial: r.Up && r.Partial,
		Bytes: r.Received, Subscriptions: r.Subscriptions, Filters: r.Filters, Pending: r.Pending,
		Limits: Learnt{
			Negentropy: supportNames[caps.Negentropy], Subscriptions: caps.MaxSubscriptions, Filters: caps.MaxFilters,
			Values: caps.MaxValues, Limit: caps.MaxLimit, Message: caps.MaxMessage, Pace: r.Pace, Auth: caps.AuthRequired,
		},
	}
	st.NextCheck = moment(r.NextCheck)
	for _, open := range r.Open {
		o := Open{What: open.Why.String(), Count: open.Count, Since: moment(open.Since)}
		if open.Why == loop.IncompleteRest {
			o.Until = moment(r.RestUntil)
		}
		st.Open = append(st.Open, o)
	}
	if r.UncoveredSince != 0 {
		st.Uncovered = &Uncovered{r.UncoveredRepositories, r.UncoveredRoots, r.UncoveredAuthors, moment(r.UncoveredSince)}
	}
	if r.State.Barred {
		st.Health = "barred"
	}
	if l := v.lines[r.Conn]; l != nil {
		st.Bytes += l.received.Load()
	}
	switch next := moment(r.NextAttempt); {
	case r.Up:
		st.State = StateConnected
	case r.Conn != 0:
		st.State = StateConnecting
	case !r.Kept:
	case next.After(v.cfg.Now()):
		st.State, st.Next = StateResting, next
	default:
		st.State = StateWaiting
	}
	return st
}

func moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

var supportNames = map[uint32]string{abi.SupportUnknown: "unknown", abi.SupportYes: "yes", abi.SupportNo: "no"}
