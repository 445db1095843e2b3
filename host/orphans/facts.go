package orphans

import (
	"context"

	"talon/host"
	"talon/host/wire"
)

// without are facts in which some events are not stored.
type without struct {
	host.Facts
	hidden map[host.ID]struct{}
}

// Get implements [host.Facts].
func (w without) Get(ctx context.Context, id host.ID) ([]byte, error) {
	if _, hidden := w.hidden[id]; hidden {
		return nil, nil
	}
	return w.Facts.Get(ctx, id)
}

// Query implements [host.Facts].
func (w without) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	limit := f.Limit
	for more := 32; ; more *= 4 {
		if limit > 0 {
			f.Limit = limit + more
		}
		found, err := w.Facts.Query(ctx, f)
		if err != nil {
			return nil, err
		}
		asked := len(found)
		left := found[:0]
		for _, text := range found {
			e, err := wire.ParseEvent(text)
			if err != nil {
				return nil, err
			}
			if _, hidden := w.hidden[e.ID]; !hidden {
				left = append(left, text)
			}
		}
		// Hidden ones may have taken the places of others.
		if limit > 0 && len(left) < limit && asked == f.Limit {
			continue
		}
		if limit > 0 {
			left = left[:min(len(left), limit)]
		}
		return left, nil
	}
}

// Referenced implements [host.Facts].
func (w without) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	return host.FindReference(ctx, w.Query, idOrAddress)
}

// with are facts in which one more event is stored.
type with struct {
	host.Facts
	event *host.Event
}

// Get implements [host.Facts].
func (w with) Get(ctx context.Context, id host.ID) ([]byte, error) {
	if id == w.event.ID {
		return w.event.JSON, nil
	}
	return w.Facts.Get(ctx, id)
}

// Query implements [host.Facts]. The event comes first, whatever its date.
func (w with) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	found, err := w.Facts.Query(ctx, f)
	if err != nil || !f.Matches(w.event) {
		return found, err
	}
	text := w.event.JSON
	if f.Header {
		text = w.event.Header().JSON
	}
	found = append([][]byte{text}, found...)
	if f.Limit > 0 {
		found = found[:min(len(found), f.Limit)]
	}
	return found, nil
}

// Referenced implements [host.Facts].
func (w with) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	if w.event.Names(idOrAddress) {
		return true, nil
	}
	return w.Facts.Referenced(ctx, idOrAddress)
}
