package devnet

import (
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/sdk/grasp"
)

// Repository is the expected final state of a repository of Talon.
type Repository struct {
	Owner, Identifier string // the owner in hex

	Path string            // npub/identifier.git
	Refs map[string]string // by name: branches, tags, and refs/nostr of pull requests
}

// Repositories returns the repositories that list Talon.
func (n *Net) Repositories() (list []Repository) {
	n.mu.Lock()
	defer n.mu.Unlock()
	refs := map[*world.Repo]map[string]string{}
	for _, p := range n.posts {
		if !n.expects(p) {
			continue
		}
		of := refs[p.of.Repo]
		if of == nil {
			of = map[string]string{}
			refs[p.of.Repo] = of
		}
		switch p.of.Kind {
		case grasp.KindState:
			for _, t := range p.of.Tags {
				if len(t) > 1 && strings.HasPrefix(t[0], "refs/") {
					of[t[0]] = t[1]
				}
			}
		case grasp.KindPullRequest:
			if t := p.event.Tags.Find("c"); t != nil {
				of["refs/nostr/"+p.event.ID] = t[1]
			}
		}
	}
	for _, r := range n.world.Repos {
		if of := refs[r]; of != nil {
			list = append(list, Repository{
				Owner: n.world.OwnerKey(r).String(), Identifier: r.D, Path: strings.TrimPrefix(n.world.Place(r), "/"), Refs: of,
			})
		}
	}
	return list
}

// expects reports whether Talon should have an event. REQUIRES: mu.
func (n *Net) expects(p *post) bool {
	return n.world.Wants(0, p.of) && (p.of.Ended == 0 || p.of.Ended > n.now())
}

// Expected returns the events that Talon must have in the end, with their times.
func (n *Net) Expected() map[host.ID]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	set := make(map[host.ID]int64, len(n.posts))
	for id, p := range n.posts {
		if n.expects(p) {
			set[id] = p.of.CreatedAt
		}
	}
	return set
}

// Event returns an event that Talon must have, and the relays that have it; nil if it is
// not one of these.
func (n *Net) Event(id host.ID) (e *nostr.Event, relays []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.posts[id]; p != nil && n.expects(p) {
		return p.event, p.relays
	}
	return nil, nil
}
