package plugin

import (
	"talon/host"
	"talon/host/plugin/guest"
)

// setKnown is the name of the set of known people, which the host keeps for every plugin. A set of
// that name in a side-car takes its place.
const setKnown = "known"

// setAllowed is the name of the set of all that the operator allows in the moderation log.
const setAllowed = "allowed"

// hostSets are the sets of a plugin's side-car, and those that the host keeps.
type hostSets struct {
	sidecar guest.Sets // nil if it has none
	known   func(host.PubKey) bool
	allowed func(member []byte) bool
}

// Contains reports whether a set has a member, and whether there is such a set.
func (s hostSets) Contains(name, member []byte) (yes, exists bool) {
	if s.sidecar != nil {
		if yes, exists = s.sidecar.Contains(name, member); exists {
			return yes, true
		}
	}
	if s.allowed != nil && string(name) == setAllowed {
		return s.allowed(member), true
	}
	if s.known == nil || string(name) != setKnown {
		return false, false
	}
	var key host.PubKey
	return len(member) == len(key) && s.known(host.PubKey(member)), true
}
