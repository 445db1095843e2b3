package plugin

import (
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
)

// breaker stops asking a plugin on behalf of those for whom it keeps failing. A failure
// counts against those who caused it: a connection, the author of the event, the network, a
// relay. It refuses a cause of too many failures for a while, and doubles this while each
// time. It does not affect others. The plugin rests for all only if it fails for many
// unrelated causes, and in more than half of the calls.
type breaker struct {
	now func() time.Time

	watched atomic.Bool   // somebody has caused a failure, or it rests
	asked   atomic.Uint64 // questions that the plugin was asked

	mu      sync.Mutex // guards the fields below
	culprit map[cause]*list.Element
	order   list.List // of *culprit, the one that failed last in front
	window  window
	retry   time.Time // when it is tried again; zero: it does not rest
}

// cause is whom a failure counts against: one of the fields after kind.
type cause struct {
	kind       causeKind
	connection any // pointer
	author     host.PubKey
	network    netip.Prefix
	relay      string
}

type causeKind uint8

const (
	byConnection causeKind = iota
	byAuthor
	byNetwork
	byRelay
	byAll // the plugin rests
)

var causeKinds = [...]string{"connection", "author", "network", "relay", "all"}

// causes are those of one question.
type causes struct {
	list [3]cause
	n    int
}

func (c *causes) add(one cause) {
	c.list[c.n] = one
	c.n++
}

// causesOf returns the causes of a failure of a plugin at an event. A relay or an import
// sends the events of many authors, so neither counts as a connection.
func causesOf(it *host.Item) (c causes) {
	c.add(cause{kind: byAuthor, author: it.Event.PubKey})
	switch s := it.Source; {
	case s == nil, s.Origin == host.FromImport:
	case s.Origin == host.FromSync:
		c.add(cause{kind: byRelay, relay: s.Relay})
	default:
		c.add(cause{kind: byConnection, connection: s})
		c.network(s.Addr)
	}
	return c
}

// causesOfClient returns the causes of a failure of a plugin at a client's request.
func causesOfClient(client *host.Client) (c causes) {
	if client != nil {
		c.add(cause{kind: byConnection, connection: client})
		c.network(client.Addr)
	}
	return c
}

func (c *causes) network(a netip.Addr) {
	if network := host.NetworkOf(a); network.IsValid() {
		c.add(cause{kind: byNetwork, network: network})
	}
}

// independent returns what tells the sources of failures apart: authors and connections
// cost nothing, so they do so only where there is nothing else.
func (c *causes) independent() cause {
	best := cause{}
	for _, one := range c.list[:c.n] {
		if best == (cause{}) || one.kind >= byNetwork || one.kind == byConnection && best.kind == byAuthor {
			best = one
		}
	}
	return best
}

// culprit is what is known of a cause.
type culprit struct {
	cause  cause
	points float64   // for failures, less those that time has forgiven
	at     time.Time // since when time forgives
	until  time.Time // it is refused
	level  int       // how often it has been
}

const (
	// A connection and an author are refused after one failure, a network and a relay,
	// which are many, after several within some seconds.
	ownPoints    = 1
	sharedPoints = 8

	decayTime  = 8 * time.Second // until all points are forgiven
	minRefuse  = time.Second     // doubles with each time
	maxRefuse  = 64 * time.Second
	forgetTime = 10 * time.Minute // without a failure

	maxCulprits = 4096 // the latest
)

// window are the failures of late.
type window struct {
	since    time.Time
	asked    uint64
	failures uint64
	sources  map[cause]struct{}
}

const (
	windowTime  = 10 * time.Second
	openSources = 8 // that must have failed, with more than half of all questions
	openTime    = time.Second
)

// admitsAll reports whether anybody may ask the plugin, since nobody has caused a failure. Then
// the caller need not look up the sender.
func (b *breaker) admitsAll() bool {
	if b.watched.Load() {
		return false
	}
	b.asked.Add(1)
	return true
}

// admits reports whether the plugin may be asked, and if not, for whose sake.
func (b *breaker) admits(c *causes) (causeKind, bool) {
	if b.admitsAll() {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for i := range c.list[:c.n] {
		if at := b.culprit[c.list[i]]; at != nil && now.Before(at.Value.(*culprit).until) {
			return c.list[i].kind, false
		}
	}
	if !b.retry.IsZero() {
		if now.Before(b.retry) {
			return byAll, false
		}
		b.retry = now.Add(openTime) // one tries
	}
	b.asked.Add(1)
	return 0, true
}

// worked ends a rest. It is called for every answer, and takes a lock only after a
// failure.
func (b *breaker) worked() {
	if !b.watched.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.retry.IsZero() {
		b.retry, b.window = time.Time{}, window{}
	}
	if last := b.order.Front(); last == nil || b.now().Sub(last.Value.(*culprit).at) > forgetTime {
		b.order.Init()
		clear(b.culprit)
		b.watched.Store(false)
	}
}

// failureKind is how much a failure says about who caused it.
type failureKind uint8

const (
	ofSource failureKind = iota // it comes from what was asked
	ofPlugin                    // the plugin cannot run at all
	ofNobody                    // there was no room, or the machine was busy
)

// failed counts a failure.
func (b *breaker) failed(c *causes, kind failureKind) {
	if kind == ofNobody {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched.Store(true)
	now := b.now()
	if kind == ofPlugin {
		b.retry = now.Add(openTime)
		return
	}
	for _, one := range c.list[:c.n] {
		b.blame(one, now)
	}
	w := &b.window
	if age := now.Sub(w.since); age < 0 || age > windowTime {
		*w = window{since: now, asked: b.asked.Load() - 1, sources: make(map[cause]struct{})}
	}
	w.failures++
	if len(w.sources) < openSources {
		w.sources[c.independent()] = struct{}{}
	}
	if len(w.sources) == openSources && 2*w.failures > b.asked.Load()-w.asked {
		b.retry = now.Add(openTime)
	}
}

// blame counts a failure against one cause. REQUIRES: mu.
func (b *breaker) blame(one cause, now time.Time) {
	if b.culprit == nil {
		b.culprit = make(map[cause]*list.Element)
	}
	at := b.culprit[one]
	if at == nil {
		if len(b.culprit) == maxCulprits {
			oldest := b.order.Back()
			delete(b.culprit, b.order.Remove(oldest).(*culprit).cause)
		}
		at = b.order.PushFront(&culprit{cause: one, at: now})
		b.culprit[one] = at
	}
	b.order.MoveToFront(at)
	x := at.Value.(*culprit)
	limit := float64(ownPoints)
	if one.kind >= byNetwork {
		limit = sharedPoints
	}
	since := max(now.Sub(x.at), 0)
	if since > forgetTime {
		x.level = 0
	}
	x.points = max(x.points-limit*since.Seconds()/decayTime.Seconds(), 0) + 1
	x.at = now
	if x.points >= limit {
		x.until = now.Add(min(minRefuse<<min(x.level, 16), maxRefuse))
		x.level++
		// The next one after that counts again, unless time forgives.
		x.points, x.at = limit-1, x.until
	}
}

// isOpen reports whether the plugin rests for all.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.retry.IsZero()
}

// refused returns how many are refused now.
func (b *breaker) refused() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, at := range b.culprit {
		if now.Before(at.Value.(*culprit).until) {
			n++
		}
	}
	return n
}
