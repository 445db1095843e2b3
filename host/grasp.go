package host

import (
	"encoding/hex"

	"talon/sdk/grasp"
)

// Grasp returns the fields that the rules of package grasp read. Tags are shared, not copied.
func (e *Event) Grasp() *grasp.Event {
	return &grasp.Event{
		Stamp: grasp.Stamp{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt},
		Kind:  int(e.Kind),
		Tags:  e.Tags,
	}
}

// Announcement parses a repository announcement ([grasp.ParseAnnouncement]).
func (e *Event) Announcement() (*grasp.Announcement, error) {
	return grasp.ParseAnnouncement(e.Grasp())
}

// State parses a repository state ([grasp.ParseState]).
func (e *Event) State() (*grasp.State, error) { return grasp.ParseState(e.Grasp()) }

// PullRequest parses a pull request, or an update of one ([grasp.ParsePullRequest]).
func (e *Event) PullRequest() (*grasp.PullRequest, error) {
	return grasp.ParsePullRequest(e.Grasp())
}

// PubKeys returns the keys as filters have them.
func PubKeys(keys []grasp.PubKey) []PubKey {
	list := make([]PubKey, len(keys))
	for i, key := range keys {
		list[i] = key
	}
	return list
}

// maxMaintainers bounds how many maintainers of one announcement count.
const maxMaintainers = 1000

// Maintainers returns the maintainers that a repository announcement lists (NIP-34), each once, the
// first thousand, as package grasp of the SDK reads them.
func (e *Event) Maintainers() (keys []PubKey) {
	if e.Kind != KindAnnouncement {
		return nil
	}
	seen := make(map[PubKey]struct{})
	for _, tag := range e.Tags {
		if len(tag) == 0 || tag[0] != "maintainers" {
			continue
		}
		for _, value := range tag[1:] {
			var key PubKey
			if len(value) != 2*len(key) {
				continue
			}
			if _, err := hex.Decode(key[:], []byte(value)); err != nil {
				continue
			}
			if _, ok := seen[key]; ok {
				continue
			}
			if len(keys) == maxMaintainers {
				return keys
			}
			seen[key] = struct{}{}
			keys = append(keys, key)
		}
	}
	return keys
}
