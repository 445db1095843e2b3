package grasp

import (
	"slices"
	"strings"
)

// Push asks whether ref updates may be made.
type Push struct {
	Updates     []Update
	Refs        []Ref // all that the repository has now
	Maintainers []PubKey
	States      []Candidate // stored and held states of the identifier, in any order

	// Tip returns the commit of a pull request that is stored or held, and whether
	// the event is here. The commit of another event is "". A nil Tip knows none.
	Tip func(id ID) (commit string, known bool)
}

// Candidate is a state that may authorise a push.
type Candidate struct {
	*State
	Served bool // it is stored: it has taken effect
}

// Answer is the decision about a push. It is all or nothing.
type Answer struct {
	State   *State    // what the push brings the repository in line with; nil if it moves no head or tag
	Rest    []string  // heads and tags, by name, that are not as State says after the push: it is one of several
	Refused []Refusal // empty if the push may be made
}

// Refusal says why a ref must not be moved, to the person who pushes.
type Refusal struct {
	Ref    string // "" if the reason is one of the whole push
	Reason string
}

const (
	nostrRefs = "refs/nostr/"

	noNostrDeletion = "refs under refs/nostr/ are not deleted by a push"

	// maxRefusals bounds the refusals that a person reads, and so the answer to a hostile push.
	maxRefusals = 20
)

// OK reports whether the push may be made.
func (a *Answer) OK() bool { return len(a.Refused) == 0 }

// Text returns the reasons on one line each.
func (a *Answer) Text() string {
	var b strings.Builder
	for i, r := range a.Refused {
		if i > 0 {
			b.WriteByte('\n')
		}
		if r.Ref != "" {
			b.WriteString(show(r.Ref))
			b.WriteString(": ")
		}
		b.WriteString(r.Reason)
	}
	return b.String()
}

func (a *Answer) refuse(ref, reason string) {
	switch {
	case len(a.Refused) < maxRefusals:
		a.Refused = append(a.Refused, Refusal{ref, reason})
	case len(a.Refused) == maxRefusals:
		a.Refused = append(a.Refused, Refusal{"", "and more"})
	}
}

// Authorize decides about a push, and allows it under three conditions. Every ref under refs/nostr/
// is one that anybody may set. Each head and tag in it ends up as one state of a maintainer says.
// It touches no other ref. A push without commands is never authorised. A command that changes
// nothing is allowed, also if its old value is wrong.
//
// Any state that is not older than the newest one in effect will do: several may
// wait, and a push is matched against all of them. One that the push completes comes
// before one of which it is a part. One that is older authorises nothing any more, so
// that no push rolls a repository back.
func (p *Push) Authorize() (answer Answer) {
	if len(p.Updates) == 0 {
		answer.refuse("", "a push without commands is not authorised")
		return answer
	}
	updates := slices.Clone(p.Updates)
	slices.SortStableFunc(updates, func(a, b Update) int { return strings.Compare(a.Ref, b.Ref) })
	refs := sortedRefs(p.Refs)
	moves := false
	for i, at := 0, 0; i < len(updates); i++ {
		u := &updates[i]
		for at < len(refs) && refs[at].Name < u.Ref {
			at++
		}
		current := ""
		if at < len(refs) && refs[at].Name == u.Ref {
			current = refs[at].Object
		}
		reason := checkUpdate(u, current)
		if i > 0 && updates[i-1].Ref == u.Ref {
			reason = "the push moves the ref twice"
		}
		if reason == "" && strings.HasPrefix(u.Ref, nostrRefs) {
			reason = p.checkNostr(u, current)
		}
		if reason != "" {
			answer.refuse(u.Ref, reason)
		}
		moves = moves || tracked(u.Ref)
	}
	if answer.OK() && moves {
		p.match(&answer, refs, updates)
	}
	return answer
}

// checkUpdate refuses updates that no state could allow.
func checkUpdate(u *Update, current string) string {
	if !tracked(u.Ref) && !strings.HasPrefix(u.Ref, nostrRefs) {
		return "only refs under refs/heads/, refs/tags/ and refs/nostr/ can be pushed"
	}
	if err := CheckRef(u.Ref); err != nil {
		return err.Error()
	}
	if !isObject(u.Old) || !isObject(u.New) {
		return "an object name must be 40 or 64 lower-case hex digits"
	}
	switch {
	case inPlace(u, current):
		return ""
	case IsZero(u.Old) && current != "":
		return "the ref exists already, at " + short(current) + ": fetch first"
	case !IsZero(u.Old) && u.Old != current && current == "":
		return "the ref does not exist any more: fetch first"
	case !IsZero(u.Old) && u.Old != current:
		return "the ref is at " + short(current) + ", not at " + short(u.Old) + ": fetch first"
	}
	return ""
}

// inPlace reports whether a ref is already as an update wants it.
func inPlace(u *Update, current string) bool {
	return u.New == current || current == "" && IsZero(u.New)
}

func isObject(s string) bool { return (len(s) == 40 || len(s) == 64) && isHex(s) }

// checkNostr refuses a ref under refs/nostr/ that is not for anybody to set.
func (p *Push) checkNostr(u *Update, current string) string {
	id, ok := ParseID(u.Ref[len(nostrRefs):])
	if !ok {
		return "a ref under refs/nostr/ is named for an event id, 64 lower-case hex digits"
	}
	if IsZero(u.New) {
		if current == "" {
			return ""
		}
		return noNostrDeletion
	}
	if p.Tip == nil {
		return ""
	}
	tip, known := p.Tip(id)
	return checkTip(tip, known, u.New)
}

func checkTip(tip string, known bool, pushed string) string {
	switch {
	case !known || tip == pushed:
		return ""
	case tip == "":
		return "the event with this id is not a pull request"
	}
	return "the event with this id has its tip at " + short(tip) + ", not at " + short(pushed)
}

// match looks for the state that the push brings the repository in line with.
func (p *Push) match(answer *Answer, refs []Ref, updates []Update) {
	var states []Candidate
	var served *State
	for _, c := range p.States {
		if c.State == nil || !c.Tracks() || !slices.Contains(p.Maintainers, c.PubKey) {
			continue
		}
		states = append(states, c)
		if c.Served && (served == nil || c.Newer(&served.Stamp)) {
			served = c.State
		}
	}
	if len(states) == 0 {
		answer.refuse("", "no state event of a maintainer says so: publish one (kind 30618), then push")
		return
	}
	slices.SortFunc(states, func(a, b Candidate) int {
		switch {
		case a.Newer(&b.Stamp):
			return -1
		case b.Newer(&a.Stamp):
			return 1
		}
		return 0
	})
	result := apply(refs, updates)
	old := false // one that authorises nothing any more says so
	var part *State
	for _, c := range states {
		switch {
		case len(c.Faults) > 0:
		case served != nil && served.Newer(&c.Stamp):
			old = old || slices.Equal(c.Refs, result)
		case slices.Equal(c.Refs, result):
			answer.State = c.State
			return
		case part == nil && agrees(c.State, updates):
			part = c.State
		}
	}
	switch {
	case part != nil:
		answer.State, answer.Rest = part, differences(part.Refs, result)
	case old:
		answer.refuse("", "the state event that says so is older than one that has taken effect: publish a new one (kind 30618), then push")
	default:
		explain(answer, states[0].State, updates)
	}
}

// agrees reports whether all heads and tags in a push get the values of a state.
func agrees(s *State, updates []Update) bool {
	for i := range updates {
		if u := &updates[i]; tracked(u.Ref) && !inPlace(u, s.Object(u.Ref)) {
			return false
		}
	}
	return true
}

// differences returns the names of the refs that are not the same in both lists, which
// are by name.
func differences(want, have []Ref) (names []string) {
	for len(want) > 0 || len(have) > 0 {
		order := 1
		switch {
		case len(have) == 0:
			order = -1
		case len(want) > 0:
			order = compareRefs(want[0], have[0])
		}
		switch {
		case order < 0:
			names = append(names, want[0].Name)
		case order > 0:
			names = append(names, have[0].Name)
		case want[0].Object != have[0].Object:
			names = append(names, want[0].Name)
		}
		if order <= 0 {
			want = want[1:]
		}
		if order >= 0 {
			have = have[1:]
		}
	}
	return names
}

// apply returns the heads and tags after the updates, by name. Both lists are in
// that order.
func apply(refs []Ref, updates []Update) []Ref {
	result := make([]Ref, 0, len(refs)+len(updates))
	for len(refs) > 0 || len(updates) > 0 {
		order := 1
		switch {
		case len(updates) == 0:
			order = -1
		case len(refs) > 0:
			order = strings.Compare(refs[0].Name, updates[0].Ref)
		}
		if order < 0 {
			if tracked(refs[0].Name) {
				result = append(result, refs[0])
			}
			refs = refs[1:]
			continue
		}
		if u := &updates[0]; tracked(u.Ref) && !IsZero(u.New) {
			result = append(result, Ref{u.Ref, u.New})
		}
		updates = updates[1:]
		if order == 0 {
			refs = refs[1:]
		}
	}
	return result
}

// explain says which of the refs that a push names are not as the newest state says.
func explain(answer *Answer, s *State, updates []Update) {
	for _, fault := range s.Faults {
		answer.refuse(fault.Ref, "the newest state event cannot be met: "+fault.Reason)
	}
	for i := range updates {
		u := &updates[i]
		want := s.Object(u.Ref)
		switch {
		case !tracked(u.Ref) || inPlace(u, want):
		case IsZero(u.New):
			answer.refuse(u.Ref, "the newest state event does not delete it, it has it at "+short(want))
		case want == "":
			answer.refuse(u.Ref, "the newest state event does not have it")
		default:
			answer.refuse(u.Ref, "the newest state event has it at "+short(want)+", not at "+short(u.New))
		}
	}
}
