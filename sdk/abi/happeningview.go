package abi

// LocalEvent returns the input of kind InputLocalEvent.
func (v *StepView) LocalEvent() LocalEventView {
	m := LocalEventView{b: v.as(InputLocalEvent).rest}
	for r := v.as(InputLocalEvent); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = r.data
		case 2<<3 | wireBytes:
			m.PubKey = r.data
		case 3<<3 | wireVarint:
			m.Kind = r.uint32()
		case 4<<3 | wireVarint:
			m.CreatedAt = int64(r.num)
		case 7<<3 | wireVarint:
			m.Level = r.uint32()
		case 8<<3 | wireVarint:
			m.Origin = r.uint32()
		case 9<<3 | wireBytes:
			m.Relay = text(r.data)
		}
	}
	return m
}

// LocalEventView reads a LocalEvent in place.
type LocalEventView struct {
	ID        []byte
	PubKey    []byte
	Kind      uint32
	CreatedAt int64 // unix seconds
	Level     uint32
	Origin    uint32
	Relay     string

	b []byte
}

// Repositories returns an iterator over the repositories that the event
// announces or tags.
func (v *LocalEventView) Repositories() BytesIter { return fields(v.b, 5) }

// Relays returns an iterator over the relays that the event lists.
func (v *LocalEventView) Relays() BytesIter { return fields(v.b, 6) }

// RepoGone returns the input of kind InputRepoGone.
func (v *StepView) RepoGone() RepoGone {
	return RepoGone{text(lastField(v.as(InputRepoGone).rest, 1))}
}

// RelayConnected returns the input of kind InputRelayConnected.
func (v *StepView) RelayConnected() RelayConnected {
	var m RelayConnected
	for r := v.as(InputRelayConnected); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.Capabilities = readCapabilities(r.data)
		case 3<<3 | wireVarint:
			m.LastConnected = int64(r.num)
		case 4<<3 | wireVarint:
			m.DisconnectedAt = int64(r.num)
		}
	}
	return m
}

// RelayDisconnected returns the input of kind InputRelayDisconnected.
func (v *StepView) RelayDisconnected() RelayDisconnected {
	var m RelayDisconnected
	for r := v.as(InputRelayDisconnected); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireVarint:
			m.Class = r.uint32()
		case 3<<3 | wireBytes:
			m.Reason = text(r.data)
		case 4<<3 | wireVarint:
			m.Connected = r.num != 0
		case 5<<3 | wireVarint:
			m.Failures = r.uint32()
		case 6<<3 | wireVarint:
			m.RetryAt = int64(r.num)
		}
	}
	return m
}

// Eose returns the input of kind InputEose.
func (v *StepView) Eose() Eose {
	var m Eose
	for r := v.as(InputEose); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Events = r.uint32()
		case 4<<3 | wireVarint:
			m.New = r.uint32()
		case 5<<3 | wireVarint:
			m.MinCreatedAt = int64(r.num)
		}
	}
	return m
}

// Closed returns the input of kind InputClosed.
func (v *StepView) Closed() Closed {
	var m Closed
	for r := v.as(InputClosed); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Class = r.uint32()
		case 4<<3 | wireBytes:
			m.Reason = text(r.data)
		}
	}
	return m
}

// HistoricDone returns the input of kind InputHistoricDone.
func (v *StepView) HistoricDone() HistoricDone {
	var m HistoricDone
	for r := v.as(InputHistoricDone); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireBytes:
			m.ID = text(r.data)
		case 3<<3 | wireVarint:
			m.Method = r.uint32()
		case 4<<3 | wireVarint:
			m.Complete = r.num != 0
		case 5<<3 | wireVarint:
			m.Class = r.uint32()
		case 6<<3 | wireBytes:
			m.Reason = text(r.data)
		case 7<<3 | wireVarint:
			m.Have = r.uint32()
		case 8<<3 | wireVarint:
			m.Need = r.uint32()
		case 9<<3 | wireVarint:
			m.New = r.uint32()
		case 10<<3 | wireVarint:
			m.Bytes = int64(r.num)
		case 11<<3 | wireVarint:
			m.Rounds = r.uint32()
		case 12<<3 | wireVarint:
			m.MinCreatedAt = int64(r.num)
		}
	}
	return m
}

// Notice returns the input of kind InputNotice.
func (v *StepView) Notice() Notice {
	var m Notice
	for r := v.as(InputNotice); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.Relay = text(r.data)
		case 2<<3 | wireVarint:
			m.Class = r.uint32()
		case 3<<3 | wireBytes:
			m.Text = text(r.data)
		}
	}
	return m
}

// TimerFired returns the input of kind InputTimerFired.
func (v *StepView) TimerFired() TimerFired {
	var m TimerFired
	for r := v.as(InputTimerFired); r.next(); {
		switch r.key {
		case 1<<3 | wireBytes:
			m.ID = text(r.data)
		case 2<<3 | wireVarint:
			m.At = int64(r.num)
		}
	}
	return m
}
