package abi

import "math"

// ClientLimits is the message ClientLimits. 0: no limit.
type ClientLimits struct {
	Connections   uint32
	Subscriptions uint32
	Filters       uint32
	Events        uint32
	Queries       uint32
	BytesIn       int64
	BytesOut      int64
}

// Telemetry is the message Telemetry.
type Telemetry struct {
	Interval      int64
	CPU           float64
	Memory        int64
	MemoryLimit   int64
	Connections   uint32
	Subscriptions uint32
	Events        float64
	Queries       float64
	BytesIn       float64
	BytesOut      float64
	Queue         uint32
	QueueLimit    uint32
	AnswerTime    int64 // microseconds
	SlowClients   uint32
}

// TickRequest is the message TickRequest.
type TickRequest struct {
	Now       int64
	Telemetry Telemetry
	Current   ClientLimits
	Least     ClientLimits
	Most      ClientLimits
}

// AppendTickRequest appends q.
func AppendTickRequest(b []byte, q *TickRequest) []byte {
	b = appendUint(b, 1, uint64(q.Now))
	b = appendTelemetry(b, 2, &q.Telemetry)
	b = appendClientLimits(b, 3, &q.Current)
	b = appendClientLimits(b, 4, &q.Least)
	return appendClientLimits(b, 5, &q.Most)
}

func appendTelemetry(b []byte, field byte, m *Telemetry) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Interval))
	b = appendDouble(b, 2, m.CPU)
	b = appendUint(b, 3, uint64(m.Memory))
	b = appendUint(b, 4, uint64(m.MemoryLimit))
	b = appendUint(b, 5, uint64(m.Connections))
	b = appendUint(b, 6, uint64(m.Subscriptions))
	b = appendDouble(b, 7, m.Events)
	b = appendDouble(b, 8, m.Queries)
	b = appendDouble(b, 9, m.BytesIn)
	b = appendDouble(b, 10, m.BytesOut)
	b = appendUint(b, 11, uint64(m.Queue))
	b = appendUint(b, 12, uint64(m.QueueLimit))
	b = appendUint(b, 13, uint64(m.AnswerTime))
	return seal(appendUint(b, 14, uint64(m.SlowClients)), at)
}

func appendClientLimits(b []byte, field byte, m *ClientLimits) []byte {
	b, at := open(b, field)
	b = appendUint(b, 1, uint64(m.Connections))
	b = appendUint(b, 2, uint64(m.Subscriptions))
	b = appendUint(b, 3, uint64(m.Filters))
	b = appendUint(b, 4, uint64(m.Events))
	b = appendUint(b, 5, uint64(m.Queries))
	b = appendUint(b, 6, uint64(m.BytesIn))
	return seal(appendUint(b, 7, uint64(m.BytesOut)), at)
}

// appendDouble appends a double field, nothing for zero.
func appendDouble(b []byte, field byte, v float64) []byte {
	n := math.Float64bits(v)
	if n == 0 {
		return b
	}
	b = appendKey(b, field, wireFixed64)
	for range 8 {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}

// Decode reads b. Nothing in a TickRequest has to be read in place.
func (q *TickRequest) Decode(b []byte) error {
	*q = TickRequest{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			q.Now = int64(r.num)
		case 2<<3 | wireBytes:
			q.Telemetry = readTelemetry(r.data)
		case 3<<3 | wireBytes:
			q.Current = readClientLimits(reader{rest: r.data})
		case 4<<3 | wireBytes:
			q.Least = readClientLimits(reader{rest: r.data})
		case 5<<3 | wireBytes:
			q.Most = readClientLimits(reader{rest: r.data})
		}
	}
	return r.err()
}

func readTelemetry(b []byte) Telemetry {
	var m Telemetry
	for r := (reader{rest: b}); r.next(); {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Interval = int64(r.num)
		case 2<<3 | wireFixed64:
			m.CPU = math.Float64frombits(r.num)
		case 3<<3 | wireVarint:
			m.Memory = int64(r.num)
		case 4<<3 | wireVarint:
			m.MemoryLimit = int64(r.num)
		case 5<<3 | wireVarint:
			m.Connections = r.uint32()
		case 6<<3 | wireVarint:
			m.Subscriptions = r.uint32()
		case 7<<3 | wireFixed64:
			m.Events = math.Float64frombits(r.num)
		case 8<<3 | wireFixed64:
			m.Queries = math.Float64frombits(r.num)
		case 9<<3 | wireFixed64:
			m.BytesIn = math.Float64frombits(r.num)
		case 10<<3 | wireFixed64:
			m.BytesOut = math.Float64frombits(r.num)
		case 11<<3 | wireVarint:
			m.Queue = r.uint32()
		case 12<<3 | wireVarint:
			m.QueueLimit = r.uint32()
		case 13<<3 | wireVarint:
			m.AnswerTime = int64(r.num)
		case 14<<3 | wireVarint:
			m.SlowClients = r.uint32()
		}
	}
	return m
}

func readClientLimits(r reader) ClientLimits {
	var m ClientLimits
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Connections = r.uint32()
		case 2<<3 | wireVarint:
			m.Subscriptions = r.uint32()
		case 3<<3 | wireVarint:
			m.Filters = r.uint32()
		case 4<<3 | wireVarint:
			m.Events = r.uint32()
		case 5<<3 | wireVarint:
			m.Queries = r.uint32()
		case 6<<3 | wireVarint:
			m.BytesIn = int64(r.num)
		case 7<<3 | wireVarint:
			m.BytesOut = int64(r.num)
		}
	}
	return m
}
