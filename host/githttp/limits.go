package githttp

import (
	"errors"
	"fmt"
	"time"

	"talon/host/bound"
	"talon/host/gitrepo"
)

// minProgress is how many bytes a client must move in Limits.Stall.
const minProgress = 64 << 10

// Limits bound what clients can use of a server. All but CPU, Walk, Disk and Thin must be positive.
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

	// Walk is the processor time that git may work in an hour to check what the fetches of one
	// network want, beyond the tips of refs; 0 for no bound.
	Walk time.Duration

	// Disk is the bytes that pushes of one network may add to the disk in an hour; 0 for no
	// bound. A push begins as long as something is left of it.
	Disk int64

	// Thin is the bytes that git may append in an hour to the thin packs of one author, and of
	// one network; 0 for no bound. Clients are asked for other packs when less than a quarter
	// is left. ThinEarly is what git may append to a pack whose refs no event here asks for.
	Thin      int64
	ThinEarly gitrepo.ThinLimit

	FetchBytes   int64 // of the body of a fetch, inflated
	BodyBytes    int64 // of all that is in memory: bodies of fetches, commands that are not authorised, lists of refs
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

	CPU:  10 * time.Minute,
	Walk: 10 * time.Minute,

	Disk:      8 << 30,
	Thin:      1 << 30,
	ThinEarly: gitrepo.ThinLimit{Free: 16 << 20, Times: 10},

	FetchBytes:   8 << 20,
	BodyBytes:    64 << 20,
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
		int64(l.Stall), int64(l.Whole), int64(l.GitTime), l.FetchBytes, l.BodyBytes, l.PushBytes, int64(l.Commands), int64(l.CommandBytes),
		int64(l.Opening), int64(l.OpeningTime), int64(l.LockTime), l.DrainBytes, int64(l.DrainTime), l.ThinEarly.Free, l.ThinEarly.Times,
	} {
		if n <= 0 {
			return errors.New("set up git over HTTP: every limit must be positive")
		}
	}
	if share := bound.Share(l.BodyBytes); max(l.FetchBytes, int64(l.CommandBytes)) > share {
		return fmt.Errorf("set up git over HTTP: a fetch may have %d bytes, the commands of a push %d, and all of a network %d: lower the first two", l.FetchBytes, l.CommandBytes, share)
	}
	return nil
}
