package abi

// ConnectRequest is the message ConnectRequest as it is written.
type ConnectRequest[K ~[32]byte] struct {
	Client      Client[K]
	Open        uint32 // connections of the relay, this one included
	FromAddress uint32 // of them from the client's address, or its IPv6 /64
	Now         int64
}

// AppendConnectRequest appends q.
func AppendConnectRequest[K ~[32]byte](b []byte, q *ConnectRequest[K]) []byte {
	b = appendClient(b, 1, &q.Client)
	b = appendUint(b, 2, uint64(q.Open))
	b = appendUint(b, 3, uint64(q.FromAddress))
	return appendUint(b, 4, uint64(q.Now))
}

// ConnectRequestView reads a ConnectRequest in place.
type ConnectRequestView struct {
	Client      ClientView
	Open        uint32
	FromAddress uint32
	Now         int64
}

// Decode makes v a view of b. The client is looked into only when it is read.
func (v *ConnectRequestView) Decode(b []byte) error {
	*v = ConnectRequestView{}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			v.Client.b = r.data
		case 2<<3 | wireVarint:
			v.Open = uint32(min(r.num, 1<<32-1))
		case 3<<3 | wireVarint:
			v.FromAddress = uint32(min(r.num, 1<<32-1))
		case 4<<3 | wireVarint:
			v.Now = int64(r.num)
		}
	}
	return r.err()
}
