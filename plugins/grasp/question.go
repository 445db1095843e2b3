package main

import (
	"unicode/utf8"

	"talon/sdk/policy"
)

// question is one decision: what it asks of the relay, within bounds.
//
// The bounds are what strangers could make it do: a decision that spends all its
// fuel, or reads more than it may, is none, and a policy that cannot decide five
// times in a row decides about nobody's events.
type question struct {
	*service
	in    policy.Facts
	reads int // that it may have used up
}

const (
	// maxReads is below the 64 that a relay allows. A query may count twice, since it
	// is repeated where the answer needs more room.
	maxReads = 60

	maxIdentifier = 1 << 10 // bytes: longer ones are nobody's repository
)

func (s *service) ask(in policy.Facts) *question { return &question{service: s, in: in} }

// may reports whether n more reads are allowed.
func (q *question) may(n int) bool { return q.reads+n <= maxReads }

// stored asks for stored events, and held for those in purgatory. A read beyond
// the limit finds nothing.
func (q *question) stored(f policy.Filter) policy.Events {
	if !q.may(2) {
		return policy.Events{}
	}
	q.reads += 2
	return q.in.Query(f)
}

func (q *question) held(f policy.Filter) policy.Events {
	if !q.may(2) {
		return policy.Events{}
	}
	q.reads += 2
	return q.in.QueryHeld(f)
}

// everywhere is both. What is found is valid until the next is asked.
func (q *question) everywhere() [2]func(policy.Filter) policy.Events {
	return [2]func(policy.Filter) policy.Events{q.stored, q.held}
}

// exists reports whether an event that matches is stored or held.
func (q *question) exists(f policy.Filter) bool {
	return q.finds(q.stored, f) || q.finds(q.held, f)
}

// finds reports whether there is an event that matches among what is asked for.
func (q *question) finds(ask func(policy.Filter) policy.Events, f policy.Filter) bool {
	f.Limit, f.Header = 1, true
	found := ask(f)
	return found.Next()
}

// has reports whether the repository with this address is here and has the object;
// "" asks for the repository alone.
func (q *question) has(address, object string) bool {
	if !q.may(1) {
		return false
	}
	q.reads++
	return q.in.GitHas(address, object)
}

// hasCommit is has for an object that must be a commit.
func (q *question) hasCommit(address, object string) bool {
	if !q.may(1) {
		return false
	}
	q.reads++
	return q.in.GitHasCommit(address, object)
}

// referenced reports whether a stored event names the id or address.
func (q *question) referenced(idOrAddress string) bool {
	if !q.may(1) {
		return false
	}
	q.reads++
	return q.in.Referenced(idOrAddress)
}

// at returns a filter for what is at an address.
func at(address string) policy.Filter {
	return policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress, Values: []string{address}}}}
}

// askable reports whether a filter can ask for the identifier.
func askable(identifier string) bool {
	return len(identifier) <= maxIdentifier && utf8.ValidString(identifier)
}
