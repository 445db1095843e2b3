package host

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Client describes the peer of a connection, as far as it is known.
type Client struct {
	Addr      netip.Addr // zero where there is none
	Authed    []PubKey   // keys that it has proven (NIP-42)
	UserAgent string     // what it says of itself
	Origin    string     // the page that a browser was on
	Path      string     // of the request, "/" for most
}

// NetworkOf returns the network by which clients are counted: an IPv4 address, or
// the /64 that an IPv6 host is usually given. Loopback is not counted, nor is a
// client without an address: for them it is the zero prefix.
func NetworkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() {
		return netip.Prefix{}
	}
	size := a.BitLen()
	if a.Is6() {
		size = 64
	}
	p, err := a.Prefix(size)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Connection asks a policy about a client that has just connected.
type Connection struct {
	Client   Client
	Open     int // connections of this relay, this one included
	FromAddr int // of them from the client's address, or its IPv6 /64; 0 for loopback
}

// QueryVerb is the message in which a client sends filters.
type QueryVerb uint8

const (
	QueryReq   QueryVerb = iota // REQ: stored and live events
	QueryCount                  // COUNT (NIP-45)
	QueryNeg                    // NEG-OPEN (NIP-77)
)

func (v QueryVerb) String() string {
	return [...]string{"req", "count", "neg"}[v]
}

// Query asks a policy about the filters of one message.
type Query struct {
	Client  *Client
	Verb    QueryVerb
	Filters []Filter
}

// ClientLimits has the current limits of one client, in addition to the configured ones. 0: no
// further limit.
type ClientLimits struct {
	Connections   int64 // from one address
	Subscriptions int64 // open on one connection
	Filters       int64 // of one REQ or COUNT
	Events        int64 // EVENTs of one connection in a minute
	Queries       int64 // REQs, COUNTs and NEG-OPENs of one connection in a minute
	BytesIn       int64 // of one connection in a second
	BytesOut      int64 // of one connection in a second
}

// Within returns the limits brought between least and most. Where there is a most, no
// limit is that one; 0 in least or most clamps nothing. Where the two contradict each
// other, most holds.
func (l ClientLimits) Within(low, limit ClientLimits) ClientLimits {
	clamp := func(n, low, limit int64) int64 {
		if n <= 0 {
			return limit
		}
		n = max(n, low)
		if limit > 0 {
			n = min(n, limit)
		}
		return n
	}
	return ClientLimits{
		Connections:   clamp(l.Connections, low.Connections, limit.Connections),
		Subscriptions: clamp(l.Subscriptions, low.Subscriptions, limit.Subscriptions),
		Filters:       clamp(l.Filters, low.Filters, limit.Filters),
		Events:        clamp(l.Events, low.Events, limit.Events),
		Queries:       clamp(l.Queries, low.Queries, limit.Queries),
		BytesIn:       clamp(l.BytesIn, low.BytesIn, limit.BytesIn),
		BytesOut:      clamp(l.BytesOut, low.BytesOut, limit.BytesOut),
	}
}

// Share is the account of a client who reads the store: clients whose reads wait for
// each other get equal parts of the time. The zero value has read nothing.
type Share struct {
	// Account belongs to the store.
	Account any
}

type shareKey struct{}

// WithShare returns a context whose reads of the store are on the account.
func WithShare(ctx context.Context, s *Share) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// ShareOf returns the account that reads with this context are on, nil if they are
// on none.
func ShareOf(ctx context.Context) *Share {
	s, _ := ctx.Value(shareKey{}).(*Share)
	return s
}

// RefUpdate is one command of a push. Old and New are object names as hex digits. All zeros mean
// "does not exist".
type RefUpdate struct {
	Ref      string // in full, such as refs/heads/main
	Old, New string
}

// Push asks a policy about ref updates. An update that GRASP's own rules refuse stays refused, with
// the policy's reason if the policy refuses it too.
type Push struct {
	Client      *Client
	Repo        Address  // of the announcement, kind 30617
	PRs         bool     // the repository is the one under /prs/ (GRASP-06), not that of the announcement
	Maintainers []PubKey // whose state counts for the repository
	Updates     []RefUpdate
	Bytes       int64 // of the pack, as far as it is known; 0 if it is not
	Stored      int64 // bytes that the repository takes on disk

	// Fetch says that nobody pushes: git data is about to be fetched from another server. Only the
	// limits of the ruling count.
	Fetch bool
}

// Service is how a relay is reached from outside.
type Service struct {
	Domain   string   // host, with a port where it is not the usual one: relay.example.com or localhost:7334
	PRs      bool     // /prs/ takes pull requests for repositories elsewhere (GRASP-06)
	Operator [32]byte // the operator's public key; zeros: none is named
}

// Description is a plugin's description of the relay, for NIP-11 and for people. It changes with
// the plugin and its settings.
type Description struct {
	Grasps   []string // what it implements, such as GRASP-01; sorted, each once
	Criteria string   // which repositories are accepted here, on one line; empty if it says nothing
	Curation string   // by what rule the operator chooses among them, on one line; empty if there is no choice
	Writes   Writes   // whose events are accepted, as far as the plugin is asked
	Limits   Limitation
}

// Limitation has figures that a plugin enforces, by their names in NIP-11. 0 is no limit.
type Limitation struct {
	MaxContentLength    int64 // bytes
	MaxEventTags        int64
	CreatedAtLowerLimit int64 // seconds in the past
	CreatedAtUpperLimit int64 // seconds in the future
	MinPowDifficulty    int64 // bits
	AuthRequired        bool  // nothing can be read without authentication
}

// Stricter returns the stricter of each figure of two plugins.
func (l Limitation) Stricter(m Limitation) Limitation {
	lower := func(a, b int64) int64 {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	}
	return Limitation{
		MaxContentLength:    lower(l.MaxContentLength, m.MaxContentLength),
		MaxEventTags:        lower(l.MaxEventTags, m.MaxEventTags),
		CreatedAtLowerLimit: lower(l.CreatedAtLowerLimit, m.CreatedAtLowerLimit),
		CreatedAtUpperLimit: lower(l.CreatedAtUpperLimit, m.CreatedAtUpperLimit),
		MinPowDifficulty:    max(l.MinPowDifficulty, m.MinPowDifficulty),
		AuthRequired:        l.AuthRequired || m.AuthRequired,
	}
}

// Says reports whether the plugin says anything.
func (d *Description) Says() bool {
	return len(d.Grasps) > 0 || d.Criteria != "" || d.Curation != "" || d.Writes != WritesUnsaid || d.Limits != Limitation{}
}

// GRASP01 is the specification that a policy names if it creates repositories for announcements.
const GRASP01 = "GRASP-01"

// Hosts reports whether the plugin makes repositories for announcements.
func (d *Description) Hosts() bool { return slices.Contains(d.Grasps, GRASP01) }

// Writes says whether a client must know the rules before it writes here.
type Writes uint8

const (
	WritesUnsaid     Writes = iota
	WritesOpen              // every valid event is accepted, but for spam and excess
	WritesRestricted        // only events of some authors, some kinds, about something
)

// ErrAway says that the database cannot be reached for now: the same may be tried again.
var ErrAway = errors.New("the database cannot be reached")

// ErrFull says that nothing is written because the disk is nearly full: the same may be tried
// again when there is room.
var ErrFull = errors.New("the server's disk is full")

// Facts are the reads of the relay that a policy may make during a decision. A [FactReader] notes
// each read, so that the decision can be made again if a fact changes before the commit.
type Facts interface {
	// Get returns the JSON of the stored event with this id, nil if there is none.
	Get(ctx context.Context, id ID) ([]byte, error)

	// Query returns the JSON of stored events that match, newest first.
	Query(ctx context.Context, f Filter) ([][]byte, error)

	// Referenced reports whether a stored event names the id or address in one
	// of its e, E, q, a or A tags.
	Referenced(ctx context.Context, idOrAddress string) (bool, error)
}

// HeldFacts are the reads of purgatory, noted in the same way. They include announcements whose
// repository was removed, while they can be revived.
type HeldFacts interface {
	// Held returns the JSON of the held event with this id, nil if there is none.
	Held(ctx context.Context, id ID) ([]byte, error)

	// HeldBy returns the JSON of held events that match, newest first, ties by lowest
	// id. A negative limit is none.
	HeldBy(ctx context.Context, f Filter) ([][]byte, error)
}

// UsageFacts is an optional interface of [Facts]: how much of the store authors and repositories
// take. A decision does not depend on it: else each write of an author would have the author's
// other decisions made again.
type UsageFacts interface {
	// Usage returns what the keys take, in their order.
	Usage(ctx context.Context, keys ...UsageKey) ([]Usage, error)
}

// AudienceFacts is an optional interface of [Facts]: who may receive events that are here.
type AudienceFacts interface {
	// RepositoryAudience returns the strictest audience among the stored, held and hidden events with
	// these ids that belong to repositories which are not for everybody. Nil: none does.
	RepositoryAudience(ctx context.Context, ids []ID) (*Audience, error)
}

// RepoFacts are the reads of repositories: stored and held events.
type RepoFacts interface {
	Facts
	HeldFacts
}

// Waiter is an optional interface of the facts of a decision: there are few workers.
type Waiter interface {
	// Asking names the module that is called from now on: each module has its own
	// limit of waits.
	Asking(module string)

	// Wait runs f, which may block for a disk or a process. Another worker decides during that
	// time.
	Wait(f func())
}

// QueueTimer is an optional interface of a [Waiter].
type QueueTimer interface {
	// QueueTime returns how long the decision has waited for a worker after its waits in
	// Wait had ended. That time counts against no budget.
	QueueTime() time.Duration
}

// StateEntry is one thing that a module remembers. Key and value are bytes of
// the module's own.
type StateEntry struct {
	Module  string
	Space   byte // what kind of memory it belongs to
	Key     string
	Value   []byte // nil: it is forgotten
	Expires int64  // unix seconds; 0 is never

	// Merged says that the value depends on the stored value, since other nodes store it as well.
	Merged bool
}
