package grasp

// Reasons that clients are told, word for word, as existing clients know them.
const (
	// ReasonHeld goes with OK true: the event waits for its git data.
	ReasonHeld = "purgatory: won't be served until git data arrives"

	// ReasonNoAnnouncement refuses a state of an identifier that nobody announced.
	ReasonNoAnnouncement = "invalid: no announcement exists for this repository"

	// ReasonNotMaintainer refuses a state by an author in nobody's maintainer set.
	ReasonNotMaintainer = "invalid: author not authorized for this repository"

	// ReasonNotListed refuses an announcement that is for other services.
	ReasonNotListed = "invalid: the announcement must list this service in both its clone and its relays tags"

	// ReasonMisplaced refuses an announcement whose clone URLs lead to other places of
	// this service than that of its repository.
	ReasonMisplaced = "invalid: the clone tag must list this service with the path /<npub of the author>/<identifier>.git"

	// ReasonDenied refuses what the operator does not want.
	ReasonDenied = "blocked: this repository is not welcome here"

	// ReasonCurated refuses what the operator did not choose.
	ReasonCurated = "blocked: this service hosts chosen repositories only"

	// ReasonUnrelated refuses an event that has nothing to do with a repository here.
	ReasonUnrelated = "blocked: the event is not about a repository or an event that is accepted here"
)

// AdmitState returns the owners whose repositories a state may move: those in
// whose maintainer set its author is. If there are none, the reason says why the
// state is refused. The graph is that of the state's identifier, nil or empty if
// nobody announced it, stored or held.
func AdmitState(s *State, g *Graph) (owners []PubKey, reason string) {
	if g == nil || g.owners == 0 {
		return nil, ReasonNoAnnouncement
	}
	if owners = g.Owners(s.PubKey); len(owners) == 0 {
		return nil, ReasonNotMaintainer
	}
	return owners, ""
}
