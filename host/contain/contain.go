// Package contain turns a panic of one connection, decision or request into an error. The
// process goes on.
//
// A goroutine that handles input from outside runs it in a [Guard]. The guard logs the stack and
// counts the panic in talon_panics_total. The caller gets the error, answers the sender, and cleans
// up:
//
//   - A lock that the code below the guard takes is released by defer, or the panic leaves it
//     locked.
//   - State that the code below the guard changes is still whole, or it is made again from the
//     database. Where neither is possible, the error ends the process in order.
//
// The runtime ends a process without a panic when a stack overflows, two goroutines write a
// map, or memory runs out. No guard helps against these.
package contain

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is a part of the program; it is the label "where" of the metric.
type Place string

// The places. The label has no other values.
const (
	Admin    Place = "admin"    // a request of an operator
	Daemon   Place = "daemon"   // a part of the server outside of all other places: the server ends in order
	Decision Place = "decision" // the verification of an event, and the policy's decision
	Git      Place = "git"      // a fetch or a push
	HTTP     Place = "http"     // any other request, and the handshake of a websocket
	Hunt     Place = "hunt"     // git data from other servers
	Notify   Place = "notify"   // a part that learns of a commit
	Plugins  Place = "plugins"  // a change of modules, and a process of a module
	Relay    Place = "relay"    // a websocket
	Repos    Place = "repos"    // a job of a repository
	Store    Place = "store"    // a transaction of the database
	Sync     Place = "sync"     // a connection to another relay, and the loop that directs them
	Writer   Place = "writer"   // an event that takes effect
)

// logEvery is how often a guard logs a stack. One that can be provoked would fill the log.
const logEvery = time.Second

// Guard contains the panics of one place. Several goroutines may use it together. A nil Guard contains
// panics without a trace, for tools and tests.
type Guard struct {
	where  Place
	log    *slog.Logger
	total  prometheus.Counter
	logged atomic.Int64 // when it last logged a stack, in unix nanoseconds
}

// New returns a guard. Its place registers the collector.
func New(where Place, log *slog.Logger) *Guard {
	return &Guard{where: where, log: log, total: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "talon_panics_total", Help: "Panics that became errors, by the part of the program in which they happened.",
		ConstLabels: prometheus.Labels{"where": string(where)},
	})}
}

// Collector returns the metric.
func (g *Guard) Collector() prometheus.Collector { return g.total }

// Error is a panic that a guard has contained.
type Error struct {
	Where Place
	Value any // of the panic
}

func (e *Error) Error() string { return fmt.Sprintf("panic in %s: %v", e.Where, e.Value) }

// Panicked reports whether an error is, or wraps, a panic that a guard has contained.
func Panicked(err error) bool { return errors.As(err, new(*Error)) }

// Recover turns a panic of the function that defers it into *err, and leaves *err alone if there
// was none. It is deferred itself, not called by a deferred function.
func (g *Guard) Recover(err *error) {
	if p := recover(); p != nil {
		*err = g.Record(p)
	}
}

// Run runs f and returns its error. A panic of f becomes an [Error].
func (g *Guard) Run(f func() error) (err error) {
	defer g.Recover(&err)
	return f()
}

// Record counts and logs a panic that its caller has recovered, and returns it as an error. It is
// called by the deferred function that has recovered, so that the stack is that of the panic.
func (g *Guard) Record(p any) error {
	if g == nil {
		return &Error{"", p}
	}
	g.total.Inc()
	now, last := time.Now().UnixNano(), g.logged.Load()
	if now-last >= int64(logEvery) && g.logged.CompareAndSwap(last, now) {
		g.log.Error("panic", "where", string(g.where), "err", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
	return &Error{g.where, p}
}
