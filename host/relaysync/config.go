package relaysync

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/contain"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/grasp"
)

// Strategy decides which requests go to which relay. It is called by one goroutine. A
// plugin.Reducer of the strategy world is one, with guest.Step as the function and
// [Sync.Init] as its init.
type Strategy interface {
	// Call is that of [loop.Strategy].
	Call(ctx context.Context, request []byte, now int64) (answer []byte, fresh bool, err error)

	// Changed receives when the next call begins with Init.
	Changed() <-chan struct{}
}

// ErrNoStrategy is the error of a [Strategy] that is not there. It is no failure.
var ErrNoStrategy = loop.ErrNoStrategy

// Ingest submits events to the pipeline.
type Ingest interface {
	Submit(ctx context.Context, it *host.Item) error
}

// Local reads the local store for comparisons.
type Local interface {
	// Scan is that of the store: it calls yield for up to limit events that match.
	Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error)

	// Missing returns those of ids that are not stored.
	Missing(ctx context.Context, ids []host.ID) ([]host.ID, error)

	// HeldBy returns the held events that match and are for everybody.
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
}

// Memory stores the records of relays across restarts. Its methods are called one after
// the other; both may take their time.
type Memory interface {
	Load(ctx context.Context) (map[string][]byte, error)      // by URL
	Save(ctx context.Context, relays map[string][]byte) error // those that changed; nil: forgotten
}

// Config has the operator's options.
type Config struct {
	Own       []string         // names and URLs of this service; never contacted
	Listen    []netip.AddrPort // where it listens; never contacted
	Self      host.PubKey      // the relay's own key, which its NIP-11 document shows as "self"; zero: not known
	Bootstrap []string         // relays that are always connected to

	AllowPrivate bool // private and loopback addresses may be contacted
	AllowPush    bool // relays may be sent what they lack, if the strategy asks for it

	Limits Limits
	Prefix string // of metrics; empty: talon
	Agent  string // how we call ourselves to relays
	Seed   int64  // for a strategy's random numbers

	// Secret is a key that only this relay knows, and that stays the same: what Refused
	// keeps means something under it only. Zero: any, and nothing is kept.
	Secret [16]byte

	TLS *tls.Config // nil: the default
	Log *slog.Logger
	Now func() time.Time

	Panics *contain.Guard // around each connection and the loop; may be nil
}

func (c *Config) setDefaults() { c.Prefix = cmp.Or(c.Prefix, "talon") }

// Deps are the other parts of Talon that a Sync needs.
type Deps struct {
	Strategy Strategy
	Ingest   Ingest
	Facts    host.RepoFacts
	Local    Local
	Health   loop.Health
	Memory   Memory   // nil: nothing is kept
	Holdings Holdings // nil: nothing is kept, and every comparison is with all that is here
	Dialer   Dialer   // nil: the network

	// Refused stores the refused events, across restarts, for as long as Policies returns
	// the same; nil: nothing is kept.
	Refused  Memory
	Policies func() string

	// Hosted reports whether the repository of a stored announcement is kept here: it
	// lists this service, or this service archives it (GRASP-05). One whose announcement
	// is held is always kept.
	Hosted func(a *grasp.Announcement) (bool, error)

	// Private reports whether a repository is not for everybody: only relays that its announcement
	// names are asked about it. Nil: none is.
	Private func(a host.Address) bool

	// Namer says who sent a held announcement by an author. With nil, relays that only held
	// announcements name have no limits of their own.
	Namer func(announcement host.ID, author host.PubKey) bound.Namer

	// Verify checks an id and a signature, of events that were refused.
	Verify func(*host.Event) error

	// Sign fills in author, id and signature of our AUTH events; nil: nothing is
	// proven.
	Sign func(*host.Event) error
}

// Limits bounds the work that strategies and relays can cause. Every number must be
// positive; start from [DefaultLimits].
type Limits struct {
	loop.Limits

	MessageBytes int // of one message of a relay
	QueueBytes   int // that it has not taken
	Records      int // local events of one comparison
	Holdings     int // events that one relay is believed to hold, 6 bytes each
	InfoBytes    int // of the NIP-11 document
	RelayLabels  int // relays with metrics of their own
	Scans        int // concurrent comparisons that read the store

	ConnectTime time.Duration // of one attempt

	Refused    int   // events that are remembered as refused
	RefusedAge int64 // seconds
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Limits: loop.Limits{
		Limits: session.Limits{
			Subscriptions: 70,
			Fetches:       4,
			Waiting:       2000,

			InFlight:   512,
			EventBytes: 4 << 20,
			Violations: 100,
			Notices:    20,
			PageEvents: 50_000,
			Rounds:     5000,
			Need:       100_000,
			Push:       10_000,

			Page:     500,
			Chunk:    250,
			Chunks:   4,
			Requests: 20,
			Burst:    200,

			AnswerTime: 60_000,
			PageTime:   600_000,
			PingAfter:  30_000,
			PongTime:   20_000,
		},
		Connections: 200,
		Dials:       16,
		Relays:      10_000,
		Filters:     10,
		Values:      500,
		AllValues:   200_000,
		Timers:      2000,
		Actions:     5000,
		AnswerBytes: 8 << 20,
		Answers:     500,

		FailTime:  1000,
		SaveEvery: 20_000,

		Retry: retry.DefaultLimits,
	},
	MessageBytes: 3<<20 + 64<<10,
	QueueBytes:   4 << 20,
	Records:      1_000_000,
	Holdings:     500_000,
	InfoBytes:    128 << 10,
	RelayLabels:  500,
	Scans:        2,
	ConnectTime:  20 * time.Second,
	Refused:      50_000,
	RefusedAge:   12 * 3600,
}

var (
	errLimits = errors.New("every limit of sync must be positive")
	errDeps   = errors.New("sync lacks a part that it needs")
)

func (l *Limits) check() error {
	for _, n := range []int{
		l.Connections, l.Relays, l.Subscriptions, l.Filters, l.Values, l.AllValues, l.Fetches, l.Waiting, l.Timers, l.Actions,
		l.AnswerBytes, l.Answers, l.MessageBytes, l.QueueBytes, l.InFlight, l.EventBytes, l.Violations, l.Notices, l.PageEvents, l.Rounds,
		l.Need, l.Records, l.Holdings, l.Push, l.InfoBytes, l.RelayLabels, l.Page, l.Chunk, l.Chunks, l.Burst, l.Dials, l.Scans, l.Refused,
		int(l.RefusedAge), l.Retry.Events, l.Retry.Bytes, int(l.Retry.Age), l.Retry.Tries, int(l.Retry.Ahead),
		int(l.AnswerTime), int(l.PageTime), int(l.PingAfter), int(l.PongTime), int(l.FailTime), int(l.SaveEvery), int(l.ConnectTime),
	} {
		if n <= 0 {
			return errLimits
		}
	}
	if l.Requests <= 0 {
		return errLimits
	}
	return nil
}

func (d *Deps) check() error {
	if d.Strategy == nil || d.Ingest == nil || d.Facts == nil || d.Local == nil || d.Health == nil || d.Hosted == nil || d.Verify == nil {
		return errDeps
	}
	return nil
}

// Loop returns the limits of a loop.
func (l *Limits) Loop() loop.Limits { return l.Limits }

// Session returns the limits of a session.
func (l *Limits) Session() session.Limits { return l.Limits.Limits }
