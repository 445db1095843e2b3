package host

import (
	"context"
	"net/netip"
	"strings"
	"time"
)

// Origin says how an item came in.
type Origin uint8

const (
	FromClient Origin = iota // an EVENT message on our own relay
	FromImport               // talon import
	FromSync                 // another relay
)

func (o Origin) String() string {
	return [...]string{"client", "import", "sync"}[o]
}

// Source says where an item comes from. Items with the same *Source take effect in the order in
// which they were submitted. Each is decided with all earlier ones visible. Items of other sources
// do not wait for them.
type Source struct {
	Origin Origin
	Addr   netip.Addr // the client's address; zero where there is none
	Relay  string     // the remote relay's URL, for FromSync
}

// Item is one event on its way through the pipeline.
type Item struct {
	Event  *Event
	Source *Source
	Authed []PubKey // keys that the client has proven on this connection (NIP-42)

	// Woken says that the event is held until another one comes, and that this may have happened. If
	// it is refused now, it is not held any more.
	Woken bool

	// Done is called once, after the commit, from the pipeline's own goroutine:
	// it must not block. A non-nil error means that the host failed and the
	// event was not stored. Items of one Source are answered in order.
	Done func(Verdict, error)
}

// Outcome has the effects of writing one event. It is final only when its transaction has been
// committed.
type Outcome struct {
	Code    Code         // Stored, Held, Duplicate or Rejected (deleted by its author)
	Reason  string       // with prefix; empty for Stored
	Seq     int64        // position in the order of commits; 0 unless Stored
	Removed []*Event     // events that this one replaced or deleted
	Held    []HeldChange // what it did in purgatory

	// Released are events that were held because they depend on this one, and are stored with it.
	Released []Released
}

// Published is an event for those who listen now.
type Published struct {
	Event *Event
	Seq   int64 // as in Outcome; 0 for an ephemeral event

	// Changed says that the event was stored before, for another audience.
	Changed bool
}

// AudienceChange is a change of who may receive a stored event. It is a removal and a
// publication.
type AudienceChange struct {
	Before, After *Event
	Seq           int64 // of After, as in Outcome
}

// Selection is the answer to a query by reference: the matching events in the order in which to
// send them. The text is fetched piece by piece, so that a long answer is never whole in memory.
type Selection struct {
	Rows []int64 // the Seqs of the events: newest first, ties by lowest id, each once
	Seq  int64   // every event with a Seq up to this was visible to the query
}

// Code is the outcome of an item in the pipeline.
type Code uint8

const (
	Stored         Code = iota // committed to the database
	Relayed                    // ephemeral: sent to those who listen
	Duplicate                  // already here
	Held                       // accepted into purgatory, not served yet
	Rejected                   // refused; the reason says why
	ShadowRejected             // refused, but answered as if stored
	AuthRequired               // refused until the client authenticates (NIP-42)
	Busy                       // not decided; the client may try again
	Replaced                   // older than what is here at its address; not kept
)

// Codes is the number of codes: every Code is below it.
const Codes = int(Replaced) + 1

func (c Code) String() string {
	return [Codes]string{
		"stored", "relayed", "duplicate", "held", "rejected", "shadow-rejected", "auth-required", "busy", "replaced",
	}[c]
}

// Verdict answers an item. If there is also a Go error, the host failed, and the event was not
// refused.
type Verdict struct {
	Code   Code
	Reason string // as sent in the OK message; starts with a standard prefix, or is empty

	// Retry is, for Rejected, for how long the event may be submitted again once another
	// of its author has been accepted.
	Retry time.Duration

	End bool // the client's connection is to end after the answer
}

// OK returns the third element of the OK message (NIP-01).
func (v Verdict) OK() bool {
	switch v.Code {
	case Stored, Relayed, Duplicate, Held, ShadowRejected:
		return true
	}
	return false
}

// ForNow reports whether the same event may be accepted a little later.
func (v Verdict) ForNow() bool {
	return v.Code == Busy || v.Code == Rejected && (strings.HasPrefix(v.Reason, "rate-limited:") || strings.HasPrefix(v.Reason, "error:"))
}

// Action is a policy's answer to an event.
type Action uint8

const (
	Pass         Action = iota // no opinion: the next policy of the chain decides
	Accept                     // store it
	Reject                     // refuse it, with a reason
	ShadowReject               // answer OK true, do not store
	Hold                       // keep it in purgatory
	RequireAuth                // refuse it until the client authenticates
	Restrict                   // only its audience receives it
)

func (a Action) String() string {
	return [...]string{"pass", "accept", "reject", "shadow-reject", "hold", "auth-required", "restrict"}[a]
}

// Ruling is a policy's decision about one event.
type Ruling struct {
	Action Action
	Rule   string // stable code of the rule that decided, for metrics and operators
	Reason string // for the client, with its prefix; empty for Pass and Accept
	Module string // the module that decided

	Retry time.Duration // as in Verdict

	Parent string // as in HoldOptions
	Wake   string // likewise; empty: the event waits for no other event
	Wait   int64  // likewise

	Audience *Audience // for Restrict

	Limits UsageLimits // for Pass, Accept and Hold: what the author and the repository may take
	End    bool        // the connection is to end after the answer
}

// ReasonHeld answers an event that is held, where its policy gives no other reason
// (GRASP-01).
const ReasonHeld = "purgatory: won't be served until git data arrives"

// HoldOptions says how an event is put into purgatory.
type HoldOptions struct {
	Reason         string    // in the answer to the sender, also when the event comes again
	Synced         bool      // another relay sent it, not its author's client
	ExtendDeadline []Address // held announcements whose time it starts again

	// Parent is the id or the address of a held event on which this one depends: it is
	// held no longer than that, and is released with it. Empty: it waits for git data.
	Parent string

	// Wake is the canonical JSON of a filter: the event waits until another one matches it, and is
	// submitted again then. Nil: it waits for git data, or for Parent. Wait bounds that in seconds.
	Wake []byte
	Wait int64

	// Network is the key of the neighbourhood or the relay that the event came from, for the
	// shares of purgatory: see package purgatory. Empty: no share counts it.
	Network string

	Known bool // the event may use the part of purgatory that known people have
}

// HeldStatus is the outcome of an event in purgatory.
type HeldStatus uint8

const (
	StatusHeld     HeldStatus = iota // it came, and waits for its git data
	StatusRevived                    // it was dormant, and waits again: its repository is to be made again
	StatusDormant                    // it stays, an announcement, but its repository is to go
	StatusExpired                    // its time is up, or it had to give way: its repository is to go too
	StatusDeleted                    // its author deleted it (NIP-09)
	StatusReplaced                   // a newer version has come
	StatusReleased                   // it is stored now
	StatusStored                     // it was stored before; only in Released
	StatusAbsent                     // it is not here, for an unknown reason; only in Released
)

// HeldStatuses is the number of statuses: every HeldStatus is below it.
const HeldStatuses = int(StatusAbsent) + 1

func (f HeldStatus) String() string {
	return [HeldStatuses]string{
		"held", "revived", "dormant", "expired", "deleted", "replaced", "released", "stored", "absent",
	}[f]
}

// HeldChange is one change that a commit made in purgatory.
type HeldChange struct {
	Event  *Event
	Status HeldStatus
	Synced bool // another relay sent it; only with StatusHeld
	Awaits bool // a module holds it until another event comes; only with StatusHeld
}

// HeldEvent is an event in purgatory.
type HeldEvent struct {
	JSON    []byte
	Since   int64 // unix seconds: it came then, or its time was started again
	Due     int64 // unix seconds: its time is up then
	Dormant bool  // an announcement whose repository has gone

	// Dependent says that it waits for another held event, not for git data.
	Dependent bool

	// Synced says that another relay sent it, not its author's client.
	Synced bool

	// Wake is the filter for which a module holds it, as in HoldOptions. Nil: none does.
	Wake []byte

	Audience *Audience // as in Event
}

// Release has the changes to make because git data is complete.
type Release struct {
	IDs            []ID      // held events to store
	ExtendDeadline []Address // held announcements whose time starts again, for a push to them was authorised
	Refused        []ID      // held events that a module had wait for another, and that the policies refuse now
}

// Released is the outcome of one event of a [Release].
type Released struct {
	ID     ID
	Status HeldStatus // StatusReleased, or why not: StatusHeld for one that does not wait for git data
	Event  *Event     // nil unless it was held
	Seq    int64      // as in Outcome; 0 unless StatusReleased
}

// ReleaseOutcome has the effects of a release. It is final only when its transaction has been
// committed.
type ReleaseOutcome struct {
	Events  []Released // each id once, in the order in which they were stored: oldest first, and after each the events that depended on it
	Removed []*Event   // stored events that the released ones replaced or deleted
	Held    []HeldChange
}

// Add appends the effects of another release.
func (o *ReleaseOutcome) Add(more ReleaseOutcome) {
	o.Events = append(o.Events, more.Events...)
	o.Removed = append(o.Removed, more.Removed...)
	o.Held = append(o.Held, more.Held...)
}

// Takedown lists events that the operator takes out of sight, removes for good, or shows again.
// Dropped events go because nothing justifies them any more. Their ids are not noted, so that sync
// may bring them again.
type Takedown struct {
	Hide, Purge, Drop, Show []ID

	// Barred reports that an event of Show stays hidden, since a row that the caller did not know
	// of bars it. If it is nil, all of Show are shown.
	Barred func(e *Event) bool

	// Forget makes sync fetch removed events again.
	Forget bool
}

// TakedownOutcome has the effects of a takedown. It is final only when its transaction has been
// committed.
type TakedownOutcome struct {
	Published []Published // hidden events that are shown again
	Removed   []*Event    // stored events that are not any more, and hidden ones that were purged
	Held      []HeldChange
	Purged    int64 // events that were removed for good, hidden ones included
}

// ReleaseRequest reports that git data has come. It goes through the same pipeline as
// events.
type ReleaseRequest struct {
	// Plan returns the events to release. A worker calls it, and again at its turn if a fact that
	// it read has changed. So it sees every event that was answered as held before.
	Plan func(ctx context.Context, facts RepoFacts, now int64) (Release, error)

	// Done is called once, after the commit, from the pipeline's own goroutine: it
	// must not block. After an error nothing was released.
	Done func([]Released, error)
}

// ReleaseOf returns the plan of a release whose events are known.
func ReleaseOf(ids ...ID) func(context.Context, RepoFacts, int64) (Release, error) {
	return func(context.Context, RepoFacts, int64) (Release, error) { return Release{IDs: ids}, nil }
}

// Commit describes a transaction of another process that writes to the same database.
type Commit struct {
	Published []Published // stored events, in the order of their Seq, and ephemeral ones
	Removed   []*Event
	Held      []HeldChange
	Arrived   bool // git data has come

	// Gap says that earlier commits are not known in full. Every earlier read may be stale, and
	// purgatory must be read again.
	Gap bool

	// Moderation has new rows of the moderation log, each as a line of package moderation.
	Moderation [][]byte

	// Plugins is the number of the generation of plugins that decides from here on, if it is
	// another than before; else 0.
	Plugins int64
}

// PluginSet is a generation of the plugins of all nodes that share a database.
type PluginSet struct {
	Number  int64  // 0: there is none
	Node    string // that proposed it
	Records []byte // see package host/plugin
}
