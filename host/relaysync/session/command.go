package session

import "talon/host"

// Command is what the loop wants of a session.
type Command interface{ command() }

// Subscribe opens a subscription, in place of what has the same id.
type Subscribe struct {
	ID      string
	Serial  uint64 // comes back in reports: tells it from another with the same id
	Filters []host.Filter
	Live    bool // nothing stored is asked for
	Purpose uint32
}

// Fetch brings what the relay has stored for a filter and we have not, in place of what
// has the same id.
type Fetch struct {
	ID      string
	Serial  uint64
	Filter  host.Filter
	Method  uint32
	Purpose uint32
	Page    int  // events of one page; 0: the default
	Push    bool // send the relay what it lacks

	// Holdings compares with what the relay is believed to hold, once the filter was
	// compared with it to the end. Not with Push, which needs to know what it lacks.
	Holdings bool
}

// Unsubscribe ends a subscription or a fetch, silently.
type Unsubscribe struct{ ID string }

// CoolDown asks nothing new of the relay before a time, in unix milliseconds.
type CoolDown struct{ Until int64 }

func (*Subscribe) command()  {}
func (*Fetch) command()      {}
func (Unsubscribe) command() {}
func (CoolDown) command()    {}
