package host

import "slices"

// Service is how a relay is reached from outside.
type Service struct {
	Domain   string   // host, with a port where it is not the usual one: relay.example.com or localhost:7334
	PRs      bool     // /prs/ takes pull requests for repositories elsewhere (GRASP-06)
	Operator [32]byte // the operator's public key; zeros: none is named
}

// Description is what a plugin says about the relay, for NIP-11 and for people. It
// changes with the plugin and its settings.
type Description struct {
	Grasps   []string // what it implements, such as GRASP-01; sorted, each once
	Criteria string   // which repositories are accepted here, on one line; empty if it says nothing
	Curation string   // by what rule the operator chooses among them, on one line; empty if there is no choice
	Writes   Writes   // whose events are accepted, as far as the plugin is asked
}

// GRASP01 is what a policy says that makes repositories for announcements.
const GRASP01 = "GRASP-01"

// Hosts reports whether the plugin makes repositories for announcements.
func (d *Description) Hosts() bool { return slices.Contains(d.Grasps, GRASP01) }

// Writes says whether a client must know the rules before it writes here.
type Writes uint8

const (
	WritesUnsaid     Writes = iota
	WritesOpen              // every valid event is accepted, but for spam and excess
	WritesRestricted        // only events of some authors, some kinds, about something
)
