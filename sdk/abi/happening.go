package abi

// LocalEvent is the message LocalEvent as it is written.
type LocalEvent struct {
	ID           [32]byte
	PubKey       [32]byte
	Kind         uint32
	CreatedAt    int64 // unix seconds
	Repositories []string
	Relays       []string
	Level        uint32
	Origin       uint32
	Relay        string
}

func (m *LocalEvent) appendInput(b []byte) []byte {
	b, at := open(b, InputLocalEvent)
	b = appendField(b, 1, m.ID[:])
	b = appendField(b, 2, m.PubKey[:])
	b = appendUint(b, 3, uint64(m.Kind))
	b = appendUint(b, 4, uint64(m.CreatedAt))
	b = appendTexts(b, 5, m.Repositories)
	b = appendTexts(b, 6, m.Relays)
	b = appendUint(b, 7, uint64(m.Level))
	b = appendUint(b, 8, uint64(m.Origin))
	return seal(appendNonEmpty(b, 9, m.Relay), at)
}

// RepoGone is the message RepoGone.
type RepoGone struct{ Repository string }

func (m *RepoGone) appendInput(b []byte) []byte {
	b, at := open(b, InputRepoGone)
	return seal(appendNonEmpty(b, 1, m.Repository), at)
}

// RelayConnected is the message RelayConnected.
type RelayConnected struct {
	Relay          string
	Capabilities   Capabilities
	LastConnected  int64
	DisconnectedAt int64
}

func (m *RelayConnected) appendInput(b []byte) []byte {
	b, at := open(b, InputRelayConnected)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendCapabilities(b, 2, &m.Capabilities)
	b = appendUint(b, 3, uint64(m.LastConnected))
	return seal(appendUint(b, 4, uint64(m.DisconnectedAt)), at)
}

// RelayDisconnected is the message RelayDisconnected.
type RelayDisconnected struct {
	Relay     string
	Class     uint32
	Reason    string
	Connected bool
	Failures  uint32
	RetryAt   int64
}

func (m *RelayDisconnected) appendInput(b []byte) []byte {
	b, at := open(b, InputRelayDisconnected)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendUint(b, 2, uint64(m.Class))
	b = appendNonEmpty(b, 3, m.Reason)
	b = appendBool(b, 4, m.Connected)
	b = appendUint(b, 5, uint64(m.Failures))
	return seal(appendUint(b, 6, uint64(m.RetryAt)), at)
}

// Eose is the message Eose.
type Eose struct {
	Relay        string
	ID           string
	Events       uint32
	New          uint32
	MinCreatedAt int64 // unix seconds
}

func (m *Eose) appendInput(b []byte) []byte {
	b, at := open(b, InputEose)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendNonEmpty(b, 2, m.ID)
	b = appendUint(b, 3, uint64(m.Events))
	b = appendUint(b, 4, uint64(m.New))
	return seal(appendUint(b, 5, uint64(m.MinCreatedAt)), at)
}

// Closed is the message Closed.
type Closed struct {
	Relay  string
	ID     string
	Class  uint32
	Reason string
}

func (m *Closed) appendInput(b []byte) []byte {
	b, at := open(b, InputClosed)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendNonEmpty(b, 2, m.ID)
	b = appendUint(b, 3, uint64(m.Class))
	return seal(appendNonEmpty(b, 4, m.Reason), at)
}

// HistoricDone is the message HistoricDone.
type HistoricDone struct {
	Relay        string
	ID           string
	Method       uint32
	Complete     bool
	Class        uint32
	Reason       string
	Have         uint32
	Need         uint32
	New          uint32
	Bytes        int64
	Rounds       uint32
	MinCreatedAt int64 // unix seconds
}

func (m *HistoricDone) appendInput(b []byte) []byte {
	b, at := open(b, InputHistoricDone)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendNonEmpty(b, 2, m.ID)
	b = appendUint(b, 3, uint64(m.Method))
	b = appendBool(b, 4, m.Complete)
	b = appendUint(b, 5, uint64(m.Class))
	b = appendNonEmpty(b, 6, m.Reason)
	b = appendUint(b, 7, uint64(m.Have))
	b = appendUint(b, 8, uint64(m.Need))
	b = appendUint(b, 9, uint64(m.New))
	b = appendUint(b, 10, uint64(m.Bytes))
	b = appendUint(b, 11, uint64(m.Rounds))
	return seal(appendUint(b, 12, uint64(m.MinCreatedAt)), at)
}

// Notice is the message Notice.
type Notice struct {
	Relay string
	Class uint32
	Text  string
}

func (m *Notice) appendInput(b []byte) []byte {
	b, at := open(b, InputNotice)
	b = appendNonEmpty(b, 1, m.Relay)
	b = appendUint(b, 2, uint64(m.Class))
	return seal(appendNonEmpty(b, 3, m.Text), at)
}

// TimerFired is the message TimerFired.
type TimerFired struct {
	ID string
	At int64
}

func (m *TimerFired) appendInput(b []byte) []byte {
	b, at := open(b, InputTimerFired)
	b = appendNonEmpty(b, 1, m.ID)
	return seal(appendUint(b, 2, uint64(m.At)), at)
}
