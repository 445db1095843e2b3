package abi

// StepView reads a StepRequest in place.
type StepView struct {
	Now  int64
	Kind uint32 // InputInit and so on: the input that Decode found

	body []byte
}

// Decode makes v a view of b. The input is looked into only when it is read.
func (v *StepView) Decode(b []byte) error {
	*v = StepView{}
	r := reader{rest: b}
	for r.next() {
		switch field := uint32(r.key >> 3); {
		case r.is(1, wireVarint):
			v.Now = int64(r.num)
		case r.is(field, wireBytes) && field >= InputInit && field <= InputTimerFired:
			v.Kind, v.body = field, r.data
		}
	}
	if r.bad {
		return ErrMalformed
	}
	inner := reader{rest: v.body}
	for inner.next() {
	}
	return inner.err()
}

// as returns the message of the input if it is of that kind, else an empty one.
func (v *StepView) as(kind uint32) reader {
	if v.Kind != kind {
		return reader{}
	}
	return reader{rest: v.body}
}

// Init returns the input of kind InputInit. The other methods do so for theirs:
// for another kind, the result is empty. Texts are views.
func (v *StepView) Init() StepInitView {
	m := StepInitView{b: v.as(InputInit).rest}
	for r := v.as(InputInit); r.next(); {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Part = r.uint32()
		case 2<<3 | wireVarint:
			m.More = r.num != 0
		case 3<<3 | wireVarint:
			m.Seed = int64(r.num)
		case 4<<3 | wireBytes:
			m.Limits = readStepLimits(r.data)
		}
	}
	return m
}

// StepInitView reads a StepInit in place.
type StepInitView struct {
	Part   uint32
	More   bool
	Seed   int64
	Limits StepLimits

	b []byte
}

// Own returns an iterator over our own addresses.
func (v *StepInitView) Own() BytesIter { return fields(v.b, 5) }

// Relays returns an iterator over the relays.
func (v *StepInitView) Relays() RelayStateIter { return RelayStateIter{fields(v.b, 6)} }

// Repositories returns an iterator over the repositories of this part.
func (v *StepInitView) Repositories() KnownRepositoryIter {
	return KnownRepositoryIter{fields(v.b, 7)}
}

func readStepLimits(b []byte) StepLimits {
	var m StepLimits
	for r := (reader{rest: b}); r.next(); {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Connections = r.uint32()
		case 2<<3 | wireVarint:
			m.Subscriptions = r.uint32()
		case 3<<3 | wireVarint:
			m.Filters = r.uint32()
		case 4<<3 | wireVarint:
			m.Values = r.uint32()
		case 5<<3 | wireVarint:
			m.Historics = r.uint32()
		case 6<<3 | wireVarint:
			m.Timers = r.uint32()
		case 7<<3 | wireVarint:
			m.Actions = r.uint32()
		case 8<<3 | wireVarint:
			m.Bytes = r.uint32()
		}
	}
	return m
}

func readCapabilities(b []byte) Capabilities {
	var m Capabilities
	for r := (reader{rest: b}); r.next(); {
		switch r.key {
		case 1<<3 | wireVarint:
			m.Negentropy = r.uint32()
		case 2<<3 | wireVarint:
			m.MaxSubscriptions = r.uint32()
		case 3<<3 | wireVarint:
			m.MaxFilters = r.uint32()
		case 4<<3 | wireVarint:
			m.MaxLimit = r.uint32()
		case 5<<3 | wireVarint:
			m.MaxMessage = r.uint32()
		case 6<<3 | wireVarint:
			m.AuthRequired = r.num != 0
		}
	}
	return m
}

// RelayStateIter walks the relays of a StepInit.
type RelayStateIter struct{ it BytesIter }

// Next moves to the next relay, and reports whether there is one.
func (it *RelayStateIter) Next() bool { return it.it.Next() }

// Relay returns the relay that Next moved to.
func (it *RelayStateIter) Relay() RelayStateView {
	m := RelayStateView{b: it.it.Bytes()}
	for r := (reader{rest: m.b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.URL = text(r.data)
		case 2<<3 | wireVarint:
			m.Bootstrap = r.num != 0
		case 3<<3 | wireVarint:
			m.Wanted = r.num != 0
		case 4<<3 | wireVarint:
			m.Connected = r.num != 0
		case 5<<3 | wireBytes:
			m.Capabilities = readCapabilities(r.data)
		case 6<<3 | wireVarint:
			m.LastConnected = int64(r.num)
		case 7<<3 | wireVarint:
			m.DisconnectedAt = int64(r.num)
		}
	}
	return m
}

// RelayStateView reads a RelayState in place.
type RelayStateView struct {
	URL            string
	Bootstrap      bool
	Wanted         bool
	Connected      bool
	Capabilities   Capabilities
	LastConnected  int64
	DisconnectedAt int64

	b []byte
}

// Subscriptions returns an iterator over the open subscriptions.
func (v *RelayStateView) Subscriptions() OpenSubscriptionIter {
	return OpenSubscriptionIter{fields(v.b, 8)}
}

// Historics returns an iterator over the running historics.
func (v *RelayStateView) Historics() RunningHistoricIter {
	return RunningHistoricIter{fields(v.b, 9)}
}

// OpenSubscriptionIter walks the subscriptions of a relay.
type OpenSubscriptionIter struct{ it BytesIter }

// Next moves to the next subscription, and reports whether there is one.
func (it *OpenSubscriptionIter) Next() bool { return it.it.Next() }

// Subscription returns the subscription that Next moved to.
func (it *OpenSubscriptionIter) Subscription() OpenSubscriptionView {
	m := OpenSubscriptionView{b: it.it.Bytes()}
	for r := (reader{rest: m.b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Live = r.num != 0
		case 4<<3 | wireVarint:
			m.Eose = r.num != 0
		}
	}
	return m
}

// OpenSubscriptionView reads an OpenSubscription in place.
type OpenSubscriptionView struct {
	ID   string
	Live bool
	Eose bool

	b []byte
}

// Filters returns an iterator over the filters.
func (v *OpenSubscriptionView) Filters() FilterIter { return FilterIter{it: fields(v.b, 2)} }

// RunningHistoricIter walks the historics of a relay.
type RunningHistoricIter struct{ it BytesIter }

// Next moves to the next historic, and reports whether there is one.
func (it *RunningHistoricIter) Next() bool { return it.it.Next() }

// Historic returns the historic that Next moved to.
func (it *RunningHistoricIter) Historic() RunningHistoricView {
	var m RunningHistoricView
	for r := (reader{rest: it.it.Bytes()}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = text(r.data)
		case 2<<3 | wireBytes:
			if m.Filter.Decode(r.data) != nil {
				m.Filter = FilterView{}
			}
		case 3<<3 | wireVarint:
			m.Method = r.uint32()
		case 4<<3 | wireVarint:
			m.Purpose = r.uint32()
		}
	}
	return m
}

// RunningHistoricView reads a RunningHistoric in place.
type RunningHistoricView struct {
	ID      string
	Filter  FilterView
	Method  uint32
	Purpose uint32
}

// KnownRepositoryIter walks the repositories of a StepInit.
type KnownRepositoryIter struct{ it BytesIter }

// Next moves to the next repository, and reports whether there is one.
func (it *KnownRepositoryIter) Next() bool { return it.it.Next() }

// Repository returns the repository that Next moved to.
func (it *KnownRepositoryIter) Repository() KnownRepositoryView {
	m := KnownRepositoryView{b: it.it.Bytes()}
	for r := (reader{rest: m.b}); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Address = text(r.data)
		case 2<<3 | wireVarint:
			m.Level = r.uint32()
		case 4<<3 | wireBytes:
			m.roots = r.data
		}
	}
	return m
}

// KnownRepositoryView reads a KnownRepository in place.
type KnownRepositoryView struct {
	Address string
	Level   uint32

	b, roots []byte
}

// Relays returns an iterator over the relays that the repository names.
func (v *KnownRepositoryView) Relays() BytesIter { return fields(v.b, 3) }

// NumRoots is the number of root events.
func (v *KnownRepositoryView) NumRoots() int { return len(v.roots) / 32 }

// Root returns the id of the root event at index i.
func (v *KnownRepositoryView) Root(i int) [32]byte { return [32]byte(v.roots[32*i:]) }
