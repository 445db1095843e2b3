package githttp

import (
	"errors"
	"fmt"
	"time"

	"talon/host/bound"
)

// minProgress is how many bytes a client must move in Limits.Stall.
const minProgress = 64 << 10

// Limits bound what clients can use of a server. All but CPU must be positive.
type Limits struct {
	Stall time.Duration // in which a client must send or take 64 KiB
	Whole time.Duration // of one request

	// GitTime is how long git may work on when all of a push is there; each MiB of it
	// adds a second. It ends packs that are small and take for ever. It also bounds the
	// change of refs.
	GitTime time.Duration

	// CPU is the processor time that git may work in an hour for pushes of one network;
	// 0 for no bound. A push begins as long as something is left of it.
	CPU time.Duration

	FetchBytes   int64 // of the body of a fetch, inflated
	FetchBodies  int64 // bytes of the bodies of all fetches that git has not read yet
	PushBytes    int64 // of the body of a push, inflated
	Commands     int   // of one push
	CommandBytes int   // of all commands of one push

	// Opening is the number of pushes whose commands are still coming, or are not
	// authorised yet. OpeningTime is how long the commands may take: a second more for
	// each 32 KiB. It is also how long a fetch may take for each 64 KiB of its body.
	Opening     int
	OpeningTime time.Duration

	LockTime time.Duration // that a push which is all here waits for its repository

	// DrainBytes and DrainTime bound what is still read of a push that was refused:
	// most clients send all of it before they look at the answer.
	DrainBytes int64
	DrainTime  time.Duration
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Stall: time.Minute,
	Whole: time.Hour,

	GitTime: time.Minute,

	CPU: 10 * time.Minute,

	FetchBytes:   8 << 20,
	FetchBodies:  64 << 20,
	PushBytes:    2<<30 + 8<<20,
	Commands:     20_000,
	CommandBytes: 4 << 20,

	Opening:     128,
	OpeningTime: 10 * time.Second,

	LockTime: time.Minute,

	DrainBytes: 1 << 30,
	DrainTime:  time.Minute,
}

func (l *Limits) check() error {
	for _, n := range []int64{
		int64(l.Stall), int64(l.Whole), int64(l.GitTime), l.FetchBytes, l.FetchBodies, l.PushBytes, int64(l.Commands), int64(l.CommandBytes),
		int64(l.Opening), int64(l.OpeningTime), int64(l.LockTime), l.DrainBytes, int64(l.DrainTime),
	} {
		if n <= 0 {
			return errors.New("set up git over HTTP: every limit must be positive")
		}
	}
	if share := bound.Share(l.FetchBodies); l.FetchBytes > share {
		return fmt.Errorf("set up git over HTTP: the body of a fetch may have %d bytes, and those of a network %d: lower the first", l.FetchBytes, share)
	}
	return nil
}
