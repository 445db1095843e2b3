package ingest

import (
	"context"
	"fmt"

	"talon/host"
)

// Remove removes the stored events among these ids, and returns how many there were. Followers
// and decisions learn of it as of an event that expires. A copy that comes later is decided as
// any other event.
func (p *Pipeline) Remove(ctx context.Context, ids []host.ID) (n int, err error) {
	o := &operation{do: func(b *batch) error {
		removed, err := b.tx.Remove(ids)
		if err != nil {
			return err
		}
		n = len(removed)
		b.changed(removed)
		return nil
	}}
	if err := p.perform(ctx, o); err != nil {
		return 0, fmt.Errorf("remove events: %w", err)
	}
	return n, nil
}
