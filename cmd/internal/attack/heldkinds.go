package attack

import (
	"context"
	"crypto/rand"

	"talon/host"
)

// heldKinds store events of any kind through an announcement that is never pushed.
func heldKinds() []Attack {
	return []Attack{{
		Name: "held-kinds", Text: "an announcement that is never pushed, and events of any kind that name it, from one address",
		Count: 2000, Unit: "events of 50 KB", Max: map[string]int64{"accepted": 1}, Prepare: prepareHeldKinds,
	}}
}

func prepareHeldKinds(_ context.Context, t *Target, count int) (Run, error) {
	p := newPerson("held")
	messages := [][]byte{eventMessage(p.announce(t, "held", 60))}
	// The server may accept the announcement: none of these kinds belongs to a repository.
	kinds := []host.Kind{1, 4, 1059, 30023, 1063, 9802}
	text := make([]byte, 25_000)
	for i := range count {
		_, _ = rand.Read(text)
		e := p.sign(kinds[i%len(kinds)], int64(i%3600), hexOf(text), host.Tag{"a", p.address("held")}, host.Tag{"d", hexOf(text[:8])})
		messages = append(messages, eventMessage(e))
	}
	return func(ctx context.Context) Outcome {
		accepted, refused, said := t.flood(ctx, attacker(0), messages)
		<-ctx.Done()
		return Outcome{Figures{"accepted": accepted, "refused": refused}, said}
	}, nil
}
