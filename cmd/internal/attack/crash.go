package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"talon/host"
)

// crash publishes valid events that once ended the process. The cache of texts has 16 shards,
// each for 64 neighbouring rows in turn. In a shard short texts shared an open piece, and long
// ones had a piece each. The index of new events lowers the limit of the cache. When a short text
// fitted in the open piece, and the limit was below the size, eviction went past that piece.
//
// So every third event is short, and the long ones have many tags. One round of 1,024 rows puts
// 2.5 MB into each shard, and lowers its limit to 1.5 MB. In the next round, about a third of the
// shards get a short text first.
func crash() []Attack {
	return []Attack{{
		Name: "crash", Text: "valid events of one connection drive the cache of texts below its own open piece",
		Count: 98, Unit: "MB of events", Disk: 400 << 20, Prepare: prepareCrash,
	}}
}

const (
	longText = 34_000 // bytes of the content of a long event
	longTags = 1440   // its tags
	shortIn  = 3      // one event in this number is short
)

func prepareCrash(ctx context.Context, t *Target, count int) (Run, error) {
	p, _, err := ownRepository(ctx, t, "crash", nil)
	if err != nil {
		return nil, err
	}
	var messages [][]byte
	random := rand.New(rand.NewPCG(1, 1))
	address := p.address("crash")
	for size, i := 0, 0; size < count*1_000_000; i++ {
		e := p.issue(address, int64(i%3600), fmt.Sprint(i))
		if i%shortIn != 0 {
			tags := []host.Tag{{"a", address}}
			for range longTags {
				tags = append(tags, host.Tag{"t", fmt.Sprintf("%08x", random.Uint32())})
			}
			e = p.sign(1621, int64(i%3600), strings.Repeat("x", longText), tags...)
		}
		size += len(e.JSON)
		messages = append(messages, eventMessage(e))
	}
	return func(ctx context.Context) Outcome {
		accepted, refused, said := t.flood(ctx, attacker(0), messages)
		return Outcome{Figures{"accepted": accepted, "refused": refused}, said}
	}, nil
}

// ownRepository makes a repository of an attacker on the target, with a file of the given bytes.
func ownRepository(ctx context.Context, t *Target, name string, large []byte) (p *person, commit string, err error) {
	p = newPerson("attacker " + name)
	dir := t.Dir + "/" + name + ".git"
	commits, err := makeRepository(ctx, dir, 1, large)
	if err != nil {
		return nil, "", err
	}
	return p, commits[0], t.found(ctx, p, name, attacker(0), dir, commits[0])
}
