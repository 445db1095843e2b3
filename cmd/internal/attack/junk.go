package attack

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// junk fills purgatory.
func junk() []Attack {
	return []Attack{{
		Name: "junk-announcements", Text: "announcements of repositories that are never pushed, from sixteen networks",
		Count: 20_000, Unit: "announcements", Flags: []string{"--known", "{maintainer}"}, Prepare: prepareJunk,
	}}
}

const (
	junkAddresses = 16
	junkEach      = 20 // announcements of one author
)

func prepareJunk(_ context.Context, t *Target, count int) (Run, error) {
	messages := make([][][]byte, junkAddresses)
	var p *person
	for i := range count {
		if i%junkEach == 0 {
			p = newPerson(fmt.Sprint("junk ", i))
		}
		at := i / junkEach % junkAddresses
		messages[at] = append(messages[at], eventMessage(p.announce(t, fmt.Sprint("junk-", i), int64(i%3600))))
	}
	return func(ctx context.Context) Outcome {
		var accepted, refused atomic.Int64
		var said atomic.Value
		var wg sync.WaitGroup
		for i, list := range messages {
			wg.Go(func() {
				ok, no, why := t.flood(ctx, attacker(i), list)
				accepted.Add(ok)
				refused.Add(no)
				if why != "" {
					said.CompareAndSwap(nil, why)
				}
			})
		}
		wg.Wait()
		<-ctx.Done()
		why, _ := said.Load().(string)
		return Outcome{Figures{"accepted": accepted.Load(), "refused": refused.Load()}, why}
	}, nil
}
