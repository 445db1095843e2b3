package world

import (
	"fmt"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
)

// newRepo draws a repository that lists Talons, or belongs to the share that does not.
func (p *publisher) newRepo(r stream, at int64) {
	s := &p.Scenario.Repositories
	p.newRepoAt(r, at, func() (talons []int) {
		if !r.chance(s.Foreign) {
			talons = r.Perm(len(p.Talons))[:s.Talons]
			slices.Sort(talons)
		}
		return talons
	})
}

// newRepoAt draws a repository, and asks which Talons it lists; nil: none.
func (p *publisher) newRepoAt(r stream, at int64, talons func() []int) {
	s := &p.Scenario.Repositories
	repo := &Repo{Number: len(p.Repos), D: fmt.Sprintf("repo-%d", len(p.Repos)), Owner: r.IntN(len(p.owners))}
	repo.Address = fmt.Sprintf("30617:%s:%s", p.owners[repo.Owner], repo.D)
	if talons != nil {
		repo.Talons = talons()
	}
	repo.keeper = p.owners[repo.Owner]
	if s.Keepers > 0 && p.pulls.chance(s.Keepers) {
		repo.keeper = p.users[p.pulls.IntN(len(p.users))]
	}
	repo.lists = []list{{at, p.drawList(r)}}
	if p.git != nil {
		repo.Git = p.drawGitServers()
	}
	p.Repos = append(p.Repos, repo)
	p.busy.add(exp(-s.Zipf * ln(float64(repo.Number+1))))
	p.announce(repo, at)
	if s.States {
		p.state(repo, at+1000)
	}
}

// drawList draws relays that a repository lists, one that is honest among them.
func (p *publisher) drawList(r stream) (relays []int) {
	s := &p.Scenario.Repositories
	n := r.between(s.RelaysMin, s.RelaysMax)
	for tries := 0; len(relays) < n; tries++ {
		relay := p.places[p.listed.draw(r)]
		switch {
		case slices.Contains(relays, relay) && tries < 1000:
		case len(relays) == n-1 && tries < 1000 && !p.Relays[relay].Honest && !slices.ContainsFunc(relays, func(o int) bool { return p.Relays[o].Honest }):
		default:
			relays = append(relays, relay)
		}
	}
	return relays
}

func (p *publisher) announce(repo *Repo, at int64) {
	clone, relays := host.Tag{"clone"}, host.Tag{"relays"}
	path := p.path(p.owners[repo.Owner], repo.D)
	for _, t := range repo.Talons {
		clone = append(clone, p.Talons[t].Web+path)
		relays = append(relays, p.Talons[t].URL)
	}
	for _, r := range repo.relaysAt(at) {
		if p.git == nil && p.real == nil {
			clone = append(clone, "https"+strings.TrimPrefix(p.Relays[r].URL, "wss")+"/x/"+repo.D+".git")
		}
		relays = append(relays, p.Relays[r].URL)
	}
	for _, g := range repo.Git {
		clone = append(clone, p.Git[g].URL+path)
	}
	e := &Event{At: at, Repo: repo, Event: &host.Event{
		PubKey: p.owners[repo.Owner], Kind: grasp.KindAnnouncement, CreatedAt: p.seconds(at), Content: "",
		Tags: host.Tags{{"d", repo.D}, {"name", repo.D}, clone, relays},
	}}
	if repo.keeper != e.PubKey {
		e.Tags = append(e.Tags, host.Tag{"maintainers", repo.keeper.String()})
	}
	for _, r := range p.Relays {
		if r.Bootstrap {
			e.Copies = append(e.Copies, Copy{Place(r.Number), at})
		}
	}
	p.replace(e)
}

// replace publishes a new version of something.
func (p *publisher) replace(e *Event) {
	if r := &p.Scenario.Talon; p.content.chance(r.Held) {
		e.Held = max(1000, int64(p.content.logNormal(float64(r.HeldMedian.Milliseconds()), r.HeldSigma)))
		if e.Kind == grasp.KindAnnouncement {
			e.Held = min(e.Held, MaxHeld/2) // or all that is about the repository would not come
		}
	}
	p.everywhere(e)
}

// endVersions notes when each version of something was replaced.
func (p *publisher) endVersions() {
	type version struct {
		repo *Repo
		kind host.Kind
	}
	newest := map[version]*Event{} // of those published so far
	for _, e := range p.Events {
		if e.Repo == nil || e.Kind != grasp.KindAnnouncement && e.Kind != grasp.KindState {
			continue
		}
		v := version{e.Repo, e.Kind}
		switch old := newest[v]; {
		case old == nil:
			newest[v] = e
		case e.Before(old.Event):
			old.Ended = max(1, e.At)
			newest[v] = e
		default:
			e.Ended = max(1, e.At)
		}
	}
}

func (p *publisher) state(repo *Repo, at int64) {
	e := &Event{At: at, Repo: repo, Event: &host.Event{
		PubKey: repo.keeper, Kind: grasp.KindState, CreatedAt: p.seconds(at),
		Tags: host.Tags{{"d", repo.D}, {"refs/heads/main", p.commit(repo, Main, repo.states, p.content)}, {"HEAD", "ref: refs/heads/main"}},
	}}
	for i := range p.Scenario.Repositories.MoreRefs {
		name, branch, number := MoreRef(i)
		e.Tags = append(e.Tags, host.Tag{name, p.commit(repo, branch, number, p.pulls)})
	}
	if p.git != nil {
		e.Data = p.drawData(repo, at)
	}
	repo.states++
	p.replace(e)
}
