package githttp

import (
	"errors"
	"runtime"
	"time"
)

// minProgress is how many bytes a client must move in Limits.Stall.
const minProgress = 64 << 10

// Limits bound what clients can have of a server. All but CPU must be positive.
type Limits struct {
	Stall time.Duration // in which a client must send or take 64 KiB
	Whole time.Duration // of one request

	// Settle is how long git may work on when all of a push is there; each MiB of it
	// adds a second. It ends packs that are small and take for ever. It also bounds the
	// change of refs.
	Settle time.Duration

	// CPU is the processor time that git may work in an hour for pushes of one network;
	// 0 for no bound. A push begins as long as something is left of it.
	CPU time.Duration

	FetchBytes   int64 // of the body of a fetch, inflated
	PushBytes    int64 // of the body of a push, inflated
	Commands     int   // of one push
	CommandBytes int   // of all commands of one push

	Fetches    int // that git works on at once, of all repositories
	FetchQueue int // more of them that wait for their turn
	Pushes     int
	PushQueue  int // that wait, or send slowly
	QueueTime  time.Duration
	LockTime   time.Duration // that a push which is all here waits for its repository

	// DrainBytes and DrainTime bound what is still read of a push that was refused:
	// most clients send all of it before they look at the answer.
	DrainBytes int64
	DrainTime  time.Duration
}

// DefaultLimits are the limits of a server that is told nothing else.
var DefaultLimits = Limits{
	Stall: time.Minute,
	Whole: time.Hour,

	Settle: time.Minute,

	CPU: 10 * time.Minute,

	FetchBytes:   16 << 20,
	PushBytes:    2<<30 + 8<<20,
	Commands:     20_000,
	CommandBytes: 4 << 20,

	Fetches:    max(4, 2*runtime.NumCPU()),
	FetchQueue: 512,
	Pushes:     max(4, runtime.NumCPU()),
	PushQueue:  64,
	QueueTime:  time.Minute,
	LockTime:   time.Minute,

	DrainBytes: 1 << 30,
	DrainTime:  time.Minute,
}

func (l *Limits) check() error {
	for _, n := range []int64{
		int64(l.Stall), int64(l.Whole), int64(l.Settle), l.FetchBytes, l.PushBytes, int64(l.Commands), int64(l.CommandBytes),
		int64(l.Fetches), int64(l.FetchQueue), int64(l.Pushes), int64(l.PushQueue), int64(l.QueueTime),
		int64(l.LockTime), l.DrainBytes, int64(l.DrainTime),
	} {
		if n <= 0 {
			return errors.New("set up git over HTTP: every limit must be positive")
		}
	}
	return nil
}
