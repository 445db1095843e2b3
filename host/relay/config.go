package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/negentropy"
	"talon/host/wire"
)

// Ingest submits items to the pipeline.
type Ingest interface {
	// Submit queues an item, and blocks while the pipeline is full. After nil,
	// Item.Done is called once, from another goroutine, in the order of Submit;
	// after an error it is not called.
	Submit(ctx context.Context, it *host.Item) error
}

// Store answers queries of stored events. now is in unix seconds: events that expired by
// then (NIP-40) are not there. A filter's Limit is never negative in Select, and says
// nothing elsewhere.
type Store interface {
	// Select returns what matches any of the filters, each event once.
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)

	// Fetch calls yield with the JSON of each row that still exists, in the given
	// order; the text is valid until yield returns. An error of yield ends it and
	// is returned as it is.
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error

	// Count returns how many events match any of the filters.
	Count(ctx context.Context, filters []host.Filter, now int64) (int64, error)

	// Authors calls yield with the author of each event that matches.
	Authors(ctx context.Context, filters []host.Filter, now int64, yield func(host.PubKey)) error

	// RemovedTotal returns the number of events that have left the store since it was opened:
	// replaced, deleted, or removed after they had expired. It has risen when the commit
	// that removes them is reported. It does not touch the disk.
	RemovedTotal() int64

	// NextExpiry is the earliest time at which a stored event expires, past or to
	// come, and false if none does. It does not touch the disk.
	NextExpiry() (at int64, ok bool)

	// Scan calls yield for each event that matches, for at most max of them, and
	// returns their number. Every event with a sequence number up to seq was visible to
	// it.
	Scan(ctx context.Context, f host.Filter, max int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error)
}

// Deps are the parts of Talon that a relay needs.
type Deps struct {
	Ingest Ingest
	Store  Store
	Policy Policy // nil allows everything

	// Audiences says what readers receive of the events that are not for everybody; nil: nobody
	// receives any.
	Audiences Audiences

	// Verify checks an event's id and signature, for AUTH.
	Verify func(*host.Event) error

	// Holder maps an address and the keys that its client has proven to a holder in the shared
	// limits. Nil knows nobody.
	Holder func(addr netip.Addr, proven []host.PubKey) bound.Holder
}

// Audiences says who receives events that are not for everybody. It must not block.
type Audiences interface {
	// Reader returns who reads with keys that a client has proven, nil without keys.
	Reader(keys []host.PubKey) *host.Reader

	// InAudienceSet reports whether a key is a member of the set of an audience.
	InAudienceSet(set string, key host.PubKey) bool

	// AudienceSet returns how many keys are members of the set, and calls yield for them if they are
	// at most limit.
	AudienceSet(set string, limit int, yield func(key host.PubKey)) int
}

// Config configures a relay.
type Config struct {
	Info   Info
	Limits Limits

	// Clients returns the current limits of each client, within Limits. Many goroutines call
	// it for each message and for each piece that they read or write, so it must be cheap.
	// Nil: only Limits hold.
	Clients func() host.ClientLimits

	// About returns the policy's description of itself now, for NIP-11. It is asked for
	// each document. Nil: nothing.
	About func() []host.Description

	// Domains are the host[:port] under which clients know this relay. The relay tag of an
	// AUTH event must name one of them. If there are none, it must name the Host of the
	// client's own request, which a relay in the middle can choose.
	Domains []string

	// ChallengeOnConnect sends every client a challenge (NIP-42) as soon as it has
	// connected. Otherwise it comes right before the first answer "auth-required".
	ChallengeOnConnect bool

	// Proxies are the reverse proxies whose X-Forwarded-For is believed. The
	// client's address is the rightmost that is none of them.
	Proxies []netip.Prefix

	// Banned returns why the operator does not let an address in, with the prefix of NIP-01;
	// empty if it may come in. It is asked for each request. Nil: nobody is banned.
	Banned func(netip.Addr) string

	// Next serves what is neither a websocket nor a request for NIP-11. Nil
	// answers 404.
	Next http.Handler

	// CORS sets the headers that let any web page read an answer, preflights included.
	// Nil sets none.
	CORS func(http.Header)

	Log *slog.Logger
	Now func() time.Time // nil means time.Now
}

// Info is the relay's information document (NIP-11). Empty fields are left out.
type Info struct {
	Name        string
	Description string
	PubKey      string // hex
	Contact     string
	Icon        string
	Software    string
	Version     string
	NIPs        []int // that the server supports beside those of the relay and of its policies

	// Limitation are further members of "limitation", such as max_event_tags,
	// whose limits the policy keeps. Extra are further members of the document.
	Limitation map[string]any
	Extra      map[string]any
}

func (c *Config) setDefaults() {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clients == nil {
		c.Clients = noLimits
	}
	if c.Banned == nil {
		c.Banned = func(netip.Addr) string { return "" }
	}
	if c.CORS == nil {
		c.CORS = func(http.Header) {}
	}
	if c.Next == nil {
		c.Next = http.NotFoundHandler()
	}
}

var errDeps = errors.New("relay needs Ingest, Store and Verify")

func (d *Deps) check() error {
	if d.Ingest == nil || d.Store == nil || d.Verify == nil {
		return errDeps
	}
	return nil
}

// Limits bounds what clients may use. Every number must be positive; start from
// [DefaultLimits].
type Limits struct {
	Wire wire.Limits

	Connections        int // in all
	ConnectionsPerAddr int // for an IPv4 address or an IPv6 /64; loopback is exempt

	MessageBytes      int     // of one message, also after decompression
	PartialBytes      int     // of long messages that are not complete, of all connections
	MessagesPerSecond float64 // of one connection; reading pauses above it. A query counts for several
	MessageBurst      int     // how many may come in one burst
	BadMessages       int     // in a row that were not understood, until cut-off
	QueueBytes        int     // waiting to be sent to one connection
	EventsInFlight    int     // of one connection, submitted and not answered
	EventBytes        int     // of their messages

	Subscriptions      int // of one connection
	SubscriptionsTotal int
	EqualSubscriptions int   // of one connection, with equal filters
	LiveBytes          int64 // of live events that one network gets in a second
	Values             int   // of all filters of one connection's subscriptions
	ValuesTotal        int   // of all connections; see ValueBytes
	DefaultLimit       int   // of a filter that gives none
	MaxLimit           int   // larger ones are clamped

	AuthedKeys int // of one connection

	NegSessions      int // of one connection
	NegSessionsTotal int
	NegRecords       int // events of one session
	NegRecordsTotal  int // of all snapshots in memory
	NegFrameBytes    int // of our messages, before hex
	NegIdle          time.Duration

	QueryTime    time.Duration // of one read of the store
	MessageTime  time.Duration // from a message's first byte to its last
	WriteTime    time.Duration // in which a client must take 64 KiB
	PingInterval time.Duration // without a byte in one direction, before a ping
	PongTime     time.Duration // after the ping, until cut-off
	DrainTime    time.Duration // of shutdown

	// CompressFrom is the size of a message from which it is compressed; 0 is
	// never. Without a window that is kept between messages, an event below 4 KiB
	// shrinks by a fifth and costs ten times as much to send (BenchmarkDeflate).
	CompressFrom int
}

// ValueBytes is about what a value of a subscription takes in memory (TestValueBytes).
const ValueBytes = 167

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Wire: wire.DefaultLimits,

	Connections:        10_000,
	ConnectionsPerAddr: 100,

	MessageBytes:      3 << 20,
	PartialBytes:      64 << 20,
	MessagesPerSecond: 10_000,
	MessageBurst:      20_000,
	BadMessages:       64,
	QueueBytes:        12 << 20,
	EventsInFlight:    256,
	EventBytes:        6 << 20,

	Subscriptions:      64,
	SubscriptionsTotal: 200_000,
	EqualSubscriptions: 4,
	LiveBytes:          16 << 20,
	Values:             200_000, // 1,000 repositories with 50 root events each, at three values, and some room
	ValuesTotal:        1_600_000,
	DefaultLimit:       500,
	MaxLimit:           5_000,

	AuthedKeys: 16,

	NegSessions:      4,
	NegSessionsTotal: 256,
	NegRecords:       1_000_000,
	NegRecordsTotal:  4_000_000,
	NegFrameBytes:    64 << 10,
	NegIdle:          time.Minute,

	QueryTime:    10 * time.Second,
	MessageTime:  30 * time.Second,
	WriteTime:    20 * time.Second,
	PingInterval: 30 * time.Second,
	PongTime:     30 * time.Second,
	DrainTime:    5 * time.Second,

	CompressFrom: 4 << 10,
}

var errLimits = errors.New("every limit must be positive")

func (l *Limits) check() error {
	counts := []int{
		l.Wire.SubID, l.Wire.Filters, l.Wire.Values,
		l.Connections, l.ConnectionsPerAddr, l.MessageBytes, l.PartialBytes, l.MessageBurst, l.BadMessages, l.QueueBytes,
		l.EventsInFlight, l.EventBytes, l.Subscriptions, l.SubscriptionsTotal, l.Values, l.ValuesTotal, l.DefaultLimit, l.MaxLimit,
		l.AuthedKeys, l.NegSessions, l.NegSessionsTotal, l.NegRecords, l.NegRecordsTotal, l.NegFrameBytes,
		l.EqualSubscriptions, int(l.LiveBytes),
	}
	times := []time.Duration{
		l.NegIdle, l.QueryTime, l.MessageTime, l.WriteTime, l.PingInterval, l.PongTime, l.DrainTime,
	}
	for _, n := range counts {
		if n <= 0 {
			return errLimits
		}
	}
	for _, d := range times {
		if d <= 0 {
			return errLimits
		}
	}
	if l.MessagesPerSecond <= 0 || l.CompressFrom < 0 {
		return errLimits
	}
	if low := queueAhead + fetchBytes + 3*l.MessageBytes; l.QueueBytes < low {
		return fmt.Errorf("the queue must hold at least %d bytes: a part of a stored answer, and three messages", low)
	}
	if l.PartialBytes < 4*l.MessageBytes {
		return errors.New("four messages of the largest size must be able to come at once")
	}
	if l.NegFrameBytes < negentropy.MinFrame || l.NegFrameBytes > negentropy.MaxFrame {
		return errors.New("the negentropy frame limit must be from 4096 bytes to 4 MiB")
	}
	return nil
}

const (
	// queryCost is how many messages a query counts for: it is answered by the
	// store. One with more filters counts for as many messages as it has filters.
	queryCost = 8

	// recordsPerMessage is how many records, read for an answer, count as one
	// message more.
	recordsPerMessage = 256
)

// cost is what a message takes of the allowance: one for each 4 KiB begun, more for
// a query, or for a signature that is checked here.
func cost(m *wire.Message, size int) int {
	n := 1 + size>>12
	switch m.Verb {
	case wire.Req, wire.Count, wire.NegOpen, wire.Auth:
		n += max(queryCost, len(m.Filters)) - 1
	}
	return n
}
