package relay

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"talon/host"
)

// Ingest is the way into the pipeline.
type Ingest interface {
	// Submit queues an item, and blocks while the pipeline is full. After nil,
	// Item.Done is called once, from another goroutine, in the order of Submit;
	// after an error it is not called.
	Submit(ctx context.Context, it *host.Item) error
}

// Store answers questions about stored events. now is in unix seconds: events
// that expired by then (NIP-40) are not there. A filter's Limit is never negative
// in Select, and says nothing elsewhere.
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

	// Left counts the events that have left the store since it was opened: replaced,
	// deleted, or removed after they had expired. It has risen when the commit that
	// removes them is reported. It does not touch the disk.
	Left() int64

	// NextExpiry is the earliest time at which a stored event expires, past or to
	// come, and false if none does. It does not touch the disk.
	NextExpiry() (at int64, ok bool)

	// Scan calls yield for each event that matches, for at most max of them, and
	// returns how many it were. Every event with a sequence number up to seq was
	// visible to it.
	Scan(ctx context.Context, f host.Filter, max int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error)
}

// Deps are the parts of Talon that a relay works with.
type Deps struct {
	Ingest Ingest
	Store  Store
	Policy Policy // nil allows everything

	// Verify checks an event's id and signature, for AUTH.
	Verify func(*host.Event) error
}

// Config says how a relay serves.
type Config struct {
	Info   Info
	Limits Limits

	// Clients returns what each client may do now, within Limits. It is asked for each
	// message and each piece that is read or written, by many goroutines at once: it
	// must cost nothing. Nil: no limits but Limits.
	Clients func() host.ClientLimits

	// About returns what the policy says of itself now, for NIP-11. It is asked for
	// each document. Nil: nothing.
	About func() []host.Description

	// Domain is the host[:port] under which clients know this relay: what the
	// relay tag of an AUTH event must name. If it is empty, it is the Host of the
	// client's own request, which a relay in the middle can choose.
	Domain string

	// ChallengeOnConnect sends every client a challenge (NIP-42) as soon as it has
	// connected. Otherwise it comes right before the first answer "auth-required".
	ChallengeOnConnect bool

	// Proxies are the reverse proxies whose X-Forwarded-For is believed. The
	// client's address is the rightmost that is none of them.
	Proxies []netip.Prefix

	// Next serves what is neither a websocket nor a request for NIP-11. Nil
	// answers 404.
	Next http.Handler

	Log *slog.Logger
	Now func() time.Time // nil means time.Now
}

// Info is what the relay says of itself (NIP-11). Empty fields are left out.
type Info struct {
	Name        string
	Description string
	PubKey      string // hex
	Contact     string
	Icon        string
	Software    string
	Version     string

	// Limitation are further members of "limitation", such as max_event_tags,
	// whose limits the policy keeps. Extra are further members of the document.
	Limitation map[string]any
	Extra      map[string]any
}

func (c *Config) complete() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clients == nil {
		c.Clients = noLimits
	}
	if c.Next == nil {
		c.Next = http.NotFoundHandler()
	}
}

var errDeps = errors.New("relay needs Ingest, Store and Verify")
