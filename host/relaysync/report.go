package relaysync

import (
	"time"

	"talon/host"
	"talon/sdk/abi"
)

// report is what a connection tells the loop. Exactly one of the pointers is set.
type report struct {
	conn *conn

	up      *upReport
	down    *downReport
	input   abi.Input      // for the strategy: Eose, Closed, HistoricDone or Notice
	refused *refusedReport // an event, for another try
	limited *Ending        // the relay said that we ask too much
	learnt  *abi.Capabilities

	serial uint64 // with Eose, Closed and HistoricDone: of what was asked for

	gaps  int      // with input: events that live sync had missed
	first host.ID  // of them
	lacks *absence // with HistoricDone: what the relay has not, and we have
}

// absence is what a relay has not of a historic's events.
type absence struct {
	repos []string // that the historic asked about by their addresses
	event host.ID  // one of them
}

// upReport: the connection can be used.
type upReport struct {
	caps abi.Capabilities
	info bool // the NIP-11 document was read
	took time.Duration
}

// downReport: the attempt failed, or the connection ended. It is the last report.
type downReport struct {
	wasUp  bool
	class  uint32
	ending Ending
}

type refusedReport struct {
	event *host.Event
	mark  uint64
}

// tell sends a report. It waits for the loop, and gives up when the connection ends.
func (c *conn) tell(r report) {
	r.conn = c
	select {
	case c.env.reports <- r:
	case <-c.ctx.Done():
	}
}
