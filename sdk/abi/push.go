package abi

// RefUpdate is the message RefUpdate.
type RefUpdate struct {
	Ref string // in full, such as refs/heads/main
	Old string // object names as hex digits; all zeros: does not exist
	New string
}

// PushRequest is the message PushRequest as it is written. K and U are the
// writer's types of a public key and of a ref update.
type PushRequest[K ~[32]byte, U ~struct{ Ref, Old, New string }] struct {
	Client      Client[K]
	Repo        string // address of the announcement, 30617:pubkey:d
	Maintainers []K
	Updates     []U
	Bytes       int64 // of the pack; 0 if it is not known
	Stored      int64 // bytes that the repository takes on disk
	Now         int64
	PRs         bool // to the repository under /prs/, not that of the announcement (GRASP-06)
}

// AppendPushRequest appends q.
func AppendPushRequest[K ~[32]byte, U ~struct{ Ref, Old, New string }](b []byte, q *PushRequest[K, U]) []byte {
	b = appendClient(b, 1, &q.Client)
	b = appendNonEmpty(b, 2, q.Repo)
	b = appendKeys(b, 3, q.Maintainers)
	for i := range q.Updates {
		u := RefUpdate(q.Updates[i])
		size := sizeNonEmpty(len(u.Ref)) + sizeNonEmpty(len(u.Old)) + sizeNonEmpty(len(u.New))
		b = appendVarint(appendKey(b, 4, wireBytes), uint64(size))
		b = appendNonEmpty(b, 1, u.Ref)
		b = appendNonEmpty(b, 2, u.Old)
		b = appendNonEmpty(b, 3, u.New)
	}
	b = appendUint(b, 5, uint64(q.Bytes))
	b = appendUint(b, 6, uint64(q.Stored))
	b = appendUint(b, 7, uint64(q.Now))
	return appendBool(b, 8, q.PRs)
}

// PushRequestView reads a PushRequest in place.
type PushRequestView struct {
	Client ClientView
	Repo   string
	Bytes  int64
	Stored int64
	Now    int64
	PRs    bool

	b []byte
}

// Decode makes v a view of b. Client, maintainers and updates are looked into
// only when they are read.
func (v *PushRequestView) Decode(b []byte) error {
	*v = PushRequestView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			v.Client.b = r.data
		case 2<<3 | wireBytes:
			v.Repo = text(r.data)
		case 5<<3 | wireVarint:
			v.Bytes = int64(r.num)
		case 6<<3 | wireVarint:
			v.Stored = int64(r.num)
		case 7<<3 | wireVarint:
			v.Now = int64(r.num)
		case 8<<3 | wireVarint:
			v.PRs = r.num != 0
		}
	}
	return r.err()
}

// Maintainers returns an iterator over the keys whose state counts.
func (v *PushRequestView) Maintainers() BytesIter { return fields(v.b, 3) }

// Updates returns an iterator over the ref updates:
//
//	for it := push.Updates(); it.Next(); {
//		update := it.Update()
//	}
func (v *PushRequestView) Updates() RefUpdateIter { return RefUpdateIter{fields(v.b, 4)} }

// RefUpdateIter walks the ref updates of a push.
type RefUpdateIter struct{ it BytesIter }

// Next moves to the next update, and reports whether there is one.
func (it *RefUpdateIter) Next() bool { return it.it.Next() }

// Update returns the update that Next moved to. Its texts are views.
func (it *RefUpdateIter) Update() RefUpdate {
	var u RefUpdate
	for r := (reader{rest: it.it.Bytes()}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			u.Ref = text(r.data)
		case 2<<3 | wireBytes:
			u.Old = text(r.data)
		case 3<<3 | wireBytes:
			u.New = text(r.data)
		}
	}
	return u
}
