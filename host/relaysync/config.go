package relaysync

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"talon/host"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	rules "talon/sdk/grasp"
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
}

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

	// Ours reports whether the repository of a stored announcement is kept here: it
	// lists this service, or this service archives it (GRASP-05). One whose announcement
	// is held is always kept.
	Ours func(a *rules.Announcement) (bool, error)

	// Verify checks an id and a signature, of events that were refused.
	Verify func(*host.Event) error

	// Sign fills in author, id and signature of our AUTH events; nil: nothing is
	// proven.
	Sign func(*host.Event) error
}

// Limits bounds the work that strategies and relays can cause. Every number must be
// positive; start from [DefaultLimits].
type Limits struct {
	// What a strategy may ask for.
	Connections   int // concurrent connections to relays
	Relays        int // relays that are wanted or known
	Subscriptions int // open on one relay
	Filters       int // of one subscription
	Values        int // of one filter
	AllValues     int // of all filters of one answer
	Historics     int // running on one relay
	Waiting       int // historics that wait for their turn, on one relay
	Timers        int
	Actions       int // of one answer
	AnswerBytes   int // of one answer
	Answers       int // of the host in a second, to actions that it does not carry out, and timers

	// What a relay may do.
	MessageBytes int // of one message
	QueueBytes   int // that it has not taken
	InFlight     int // events of one relay, submitted and not answered
	EventBytes   int // of their texts
	Violations   int // breaches of the rules; one is forgiven each second
	Notices      int // passed to the strategy in a minute
	PageEvents   int // of one answer to a REQ that asks for past events
	Rounds       int // pages, or messages, of one historic
	Need         int // ids that are fetched before the comparison begins again
	Records      int // local events of one comparison
	Holdings     int // events that one relay is believed to hold, 6 bytes each
	Push         int // events that one historic sends
	InfoBytes    int // of the NIP-11 document
	RelayLabels  int // relays with metrics of their own

	// How we press on relays.
	Page     int     // events of one page
	Chunk    int     // ids of one REQ
	Chunks   int     // concurrent REQs of this kind
	Requests float64 // subscriptions and historics that begin in a second on one relay, after a burst
	Burst    int
	Dials    int // concurrent attempts
	Scans    int // concurrent comparisons that read the store

	ConnectTime time.Duration // of one attempt
	AnswerTime  time.Duration // of silence about something that was asked
	PageTime    time.Duration // of one answer, however much comes
	PingAfter   time.Duration // of silence
	PongTime    time.Duration
	FailTime    time.Duration // after a failure of the strategy, doubled up to a minute
	SaveEvery   time.Duration // of what Memory and Holdings keep

	Refused    int   // events that are remembered as refused
	RefusedAge int64 // seconds
	Retry      retry.Limits
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Connections:   200,
	Relays:        10_000,
	Subscriptions: 70,
	Filters:       10,
	Values:        500,
	AllValues:     200_000,
	Historics:     4,
	Waiting:       2000,
	Timers:        2000,
	Actions:       5000,
	AnswerBytes:   8 << 20,
	Answers:       500,

	MessageBytes: 3<<20 + 64<<10,
	QueueBytes:   4 << 20,
	InFlight:     512,
	EventBytes:   4 << 20,
	Violations:   100,
	Notices:      20,
	PageEvents:   50_000,
	Rounds:       5000,
	Need:         100_000,
	Records:      1_000_000,
	Holdings:     500_000,
	Push:         10_000,
	InfoBytes:    128 << 10,
	RelayLabels:  500,

	Page:     500,
	Chunk:    250,
	Chunks:   4,
	Requests: 20,
	Burst:    200,
	Dials:    16,
	Scans:    2,

	ConnectTime: 20 * time.Second,
	AnswerTime:  time.Minute,
	PageTime:    10 * time.Minute,
	PingAfter:   30 * time.Second,
	PongTime:    20 * time.Second,
	FailTime:    time.Second,
	SaveEvery:   20 * time.Second,

	Refused:    50_000,
	RefusedAge: 12 * 3600,
	Retry:      retry.DefaultLimits,
}

var (
	errLimits = errors.New("every limit of sync must be positive")
	errDeps   = errors.New("sync lacks a part that it needs")
)

func (l *Limits) check() error {
	for _, n := range []int{
		l.Connections, l.Relays, l.Subscriptions, l.Filters, l.Values, l.AllValues, l.Historics, l.Waiting, l.Timers, l.Actions,
		l.AnswerBytes, l.Answers, l.MessageBytes, l.QueueBytes, l.InFlight, l.EventBytes, l.Violations, l.Notices, l.PageEvents, l.Rounds,
		l.Need, l.Records, l.Holdings, l.Push, l.InfoBytes, l.RelayLabels, l.Page, l.Chunk, l.Chunks, l.Burst, l.Dials, l.Scans, l.Refused,
		int(l.RefusedAge), l.Retry.Events, l.Retry.Bytes, int(l.Retry.Age), l.Retry.Tries, int(l.Retry.Ahead),
	} {
		if n <= 0 {
			return errLimits
		}
	}
	for _, d := range []time.Duration{l.ConnectTime, l.AnswerTime, l.PageTime, l.PingAfter, l.PongTime, l.FailTime, l.SaveEvery} {
		if d <= 0 {
			return errLimits
		}
	}
	if l.Requests <= 0 {
		return errLimits
	}
	return nil
}

func (d *Deps) check() error {
	if d.Strategy == nil || d.Ingest == nil || d.Facts == nil || d.Local == nil || d.Health == nil || d.Ours == nil || d.Verify == nil {
		return errDeps
	}
	return nil
}

// Loop returns what a loop needs of the limits.
func (l *Limits) Loop() loop.Limits {
	return loop.Limits{
		Connections: l.Connections, Dials: l.Dials, Relays: l.Relays, Subscriptions: l.Subscriptions, Filters: l.Filters, Values: l.Values,
		AllValues: l.AllValues, Historics: l.Historics, Waiting: l.Waiting, Timers: l.Timers, Actions: l.Actions, AnswerBytes: l.AnswerBytes,
		Answers: l.Answers, FailTime: l.FailTime.Milliseconds(), SaveEvery: l.SaveEvery.Milliseconds(), Retry: l.Retry,
	}
}

// Session returns what a session needs of the limits.
func (l *Limits) Session() session.Limits {
	return session.Limits{
		Subscriptions: l.Subscriptions, Fetches: l.Historics, Waiting: l.Waiting, InFlight: l.InFlight, EventBytes: l.EventBytes,
		Violations: l.Violations, Notices: l.Notices, PageEvents: l.PageEvents, Rounds: l.Rounds, Need: l.Need, Push: l.Push,
		Page: l.Page, Chunk: l.Chunk, Chunks: l.Chunks, Requests: l.Requests, Burst: l.Burst,
		AnswerTime: l.AnswerTime.Milliseconds(), PageTime: l.PageTime.Milliseconds(),
		PingAfter: l.PingAfter.Milliseconds(), PongTime: l.PongTime.Milliseconds(),
	}
}
