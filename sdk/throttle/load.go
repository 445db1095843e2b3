package throttle

// Load is how busy this server is, from 0 to 1: its processors, its memory, or the
// queue of events, whichever is closest to its limit.
func Load(t *Telemetry) float64 {
	load := t.CPU
	if t.QueueLimit > 0 {
		load = max(load, float64(t.Queue)/float64(t.QueueLimit))
	}
	if t.MemoryLimit > 0 {
		load = max(load, float64(t.Memory)/float64(t.MemoryLimit))
	}
	if !(load > 0) { // NaN as well
		return 0
	}
	return min(load, 1)
}

// Ease lowers what clients may do while this server is busy. Up to a load of from
// the limits are the operator's most; above it they go down to the operator's least
// at full load. What has no most begins at that of busy, and is without a limit
// again when there is little to do. A limit that is 0 in busy and in most stays off.
func Ease(in TickInput, from float64, busy ClientLimits) TickAnswer {
	load := Load(&in.Telemetry)
	share := 0.0
	if load > from {
		share = (load - from) / (1 - from)
	}
	// In steps, so that clients see few changes.
	const steps = 10
	part := int64(share * steps)
	if share > 0 && part == 0 {
		part = 1
	}
	limit := func(most, least, busy int64) int64 {
		top := most
		if top == 0 {
			if part == 0 {
				return 0
			}
			top = busy
		}
		if top == 0 {
			return 0
		}
		if least == 0 {
			least = max(top/20, 1)
		}
		least = min(least, top)
		return top - int64(float64(top-least)*float64(part)/steps)
	}
	small := func(most, least, busy uint32) uint32 { return uint32(limit(int64(most), int64(least), int64(busy))) }
	most, least, current := &in.Most, &in.Least, in.Current
	limits := current
	limits.Subscriptions = small(most.Subscriptions, least.Subscriptions, busy.Subscriptions)
	limits.Events = small(most.Events, least.Events, busy.Events)
	limits.Queries = small(most.Queries, least.Queries, busy.Queries)
	limits.BytesIn = limit(most.BytesIn, least.BytesIn, busy.BytesIn)
	limits.BytesOut = limit(most.BytesOut, least.BytesOut, busy.BytesOut)
	if limits == current {
		return Keep()
	}
	return Limit(limits)
}
