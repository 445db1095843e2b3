package host

// Kind is an event's kind, 0 to 65535.
type Kind uint16

// Kinds that the host itself acts on.
const (
	KindDeletion Kind = 5     // NIP-09
	KindAuth     Kind = 22242 // NIP-42

	KindAnnouncement Kind = 30617 // of a repository (NIP-34)
)

// Class says how events of a kind are kept (NIP-01).
type Class uint8

const (
	Regular     Class = iota // each event is kept
	Replaceable              // the newest for an author and kind is kept
	Addressable              // the newest for an author, kind and d is kept
	Ephemeral                // sent to those who listen, not kept
)

func (c Class) String() string {
	return [...]string{"regular", "replaceable", "addressable", "ephemeral"}[c]
}

// Class returns how events of kind k are kept. Kinds from 40000 are regular.
func (k Kind) Class() Class {
	switch {
	case k == 0, k == 3, k >= 10000 && k < 20000:
		return Replaceable
	case k >= 20000 && k < 30000:
		return Ephemeral
	case k >= 30000 && k < 40000:
		return Addressable
	}
	return Regular
}
