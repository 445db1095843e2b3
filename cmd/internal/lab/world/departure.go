package world

import (
	"talon/host"
	"talon/sdk/grasp"
)

// depart has the owner of a repository delete its announcement (NIP-09). Nobody writes about the
// repository from then on. The first repository stays: events need one.
func (p *publisher) depart(r stream, at int64) {
	if len(p.Repos) < 2 {
		return
	}
	repo := p.Repos[1+r.IntN(len(p.Repos)-1)]
	if repo.Gone > 0 || repo.lists[0].from >= at {
		return
	}
	repo.Gone = max(1, at)
}

// publishDepartures publishes the deletions of announcements, to all places that have one.
func (p *publisher) publishDepartures() {
	for _, repo := range p.Repos {
		if repo.Gone == 0 {
			continue
		}
		e := &Event{At: repo.Gone, Repo: repo, Event: &host.Event{
			PubKey: p.owners[repo.Owner], Kind: host.KindDeletion, CreatedAt: p.seconds(repo.Gone),
			Tags: host.Tags{{"a", repo.Address}, {"k", "30617"}},
		}}
		for _, relay := range p.Relays {
			if relay.Bootstrap {
				e.Copies = append(e.Copies, Copy{Place(relay.Number), repo.Gone})
			}
		}
		p.everywhere(e)
		repo.departure = e
	}
}

// endDeparted notes that nobody wants events of a repository after its departure.
func (p *publisher) endDeparted() {
	for _, e := range p.Events {
		if e.Repo == nil || e.Repo.Gone == 0 || e == e.Repo.departure {
			continue
		}
		if e.Ended == 0 || e.Ended > e.Repo.Gone {
			e.Ended = e.Repo.Gone
		}
	}
}

// Names returns the values by which subscriptions ask for a repository: its address, its name
// and the ids of its root events.
func (w *World) Names(repo *Repo) map[string]bool {
	names := map[string]bool{repo.Address: true, repo.D: true}
	for _, e := range repo.said {
		if e.Thread == nil && e.Kind != grasp.KindComment {
			names[e.ID.String()] = true
		}
	}
	return names
}
