package main

import (
	"slices"
	"strings"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

// maxRefs is how many refs a state may have for its objects to be looked for. A
// larger one is held: the relay looks at once, and it needs fewer steps for it.
const maxRefs = 40

func (q *question) state(event policy.Event) policy.Verdict {
	d, _ := event.Tag("d")
	s := &grasp.State{Stamp: stamp(event), Identifier: d}
	switch err := grasp.CheckIdentifier(d); {
	case err != nil:
		return reject("invalid: "+err.Error()+" (d tag)", "state-invalid")
	case !askable(d):
		return identifierLong
	case q.rules.Deny.Has(grasp.Repo{PubKey: s.PubKey, Identifier: d}):
		return denied
	}
	owners := q.owners(d, s.PubKey, maxStateRounds)
	switch {
	case len(owners) > 0:
	case q.isAnnounced(d):
		return notMaintainer
	default:
		return noAnnouncement
	}
	// The author's own repository is the likeliest to be here.
	if i := slices.Index(owners, s.PubKey); i > 0 {
		owners[0], owners[i] = owners[i], owners[0]
	}
	repos := make([]grasp.Repo, len(owners))
	for i, owner := range owners {
		repos[i] = grasp.Repo{PubKey: owner, Identifier: d}
	}
	if !q.mayHost(repos) {
		return noRepository
	}
	tags, fits := stateTags(event, d)
	if !fits {
		return stateLarge
	}
	s, err := grasp.ParseState(&grasp.Event{Stamp: s.Stamp, Kind: grasp.KindState, Tags: tags})
	switch {
	case err != nil:
		return reject(err.Error(), "state-invalid")
	case !s.Tracks():
		return stateUntracked
	case len(s.Faults) > 0:
		return stateFaulty
	}
	objects := objectsOf(s)
	for _, repo := range repos[:min(len(repos), maxLooked)] {
		if !q.may(len(objects)) {
			break
		}
		if q.hasAll(repo, objects) {
			return stateComplete
		}
	}
	return stateWaits
}

// stateTags returns the tags that say what refs there are. It reports false for
// more than maxRefs of them.
func stateTags(event policy.Event, d string) (tags [][]string, fits bool) {
	tags = [][]string{{"d", d}}
	for it := walk(event); it.next(); {
		name := it.Name()
		if name != "HEAD" && !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, "^{}") {
			continue
		}
		if len(tags) > maxRefs+1 {
			return nil, false
		}
		tags = append(tags, []string{name, it.Value()})
	}
	return tags, true
}

// wanted is an object of a state.
type wanted struct {
	object string
	commit bool // a branch names it
}

// objectsOf returns the objects of a state, each once. That of HEAD is first, since
// it is the likeliest to be new, then those of the other branches.
func objectsOf(s *grasp.State) (objects []wanted) {
	add := func(object string, commit bool) {
		if object != "" && !slices.ContainsFunc(objects, func(w wanted) bool { return w.object == object }) {
			objects = append(objects, wanted{object, commit})
		}
	}
	add(s.Object(s.Head), true)
	for _, ref := range s.Refs { // by name: heads before tags
		add(ref.Object, strings.HasPrefix(ref.Name, "refs/heads/"))
	}
	return objects
}

func (q *question) hasAll(repo grasp.Repo, objects []wanted) bool {
	address := repo.Address()
	for _, w := range objects {
		if w.commit && !q.hasCommit(address, w.object) || !w.commit && !q.has(address, w.object) {
			return false
		}
	}
	return true
}
