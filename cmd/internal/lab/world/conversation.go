package world

import (
	"fmt"
	"slices"

	"talon/host"
	"talon/sdk/grasp"
)

// message draws something that was said in a repository before a time: threads grow by
// their size.
func (p *publisher) message(r stream, repo *Repo, at int64) *Event {
	for range 8 {
		if len(repo.said) == 0 {
			return nil
		}
		if e := repo.said[r.IntN(len(repo.said))]; e.At < at {
			return e
		}
	}
	return nil
}

func (p *publisher) root(repo *Repo, at int64) *Event {
	kind := host.Kind(grasp.KindIssue)
	switch p.content.IntN(10) {
	case 0, 1:
		kind = grasp.KindPatch
	case 2:
		kind = grasp.KindPullRequest
	}
	pulls := p.Scenario.Repositories.Pulls
	pull := pulls > 0 && p.pulls.chance(pulls)
	switch {
	case pull:
		kind = grasp.KindPullRequest
	case pulls > 0 && kind == grasp.KindPullRequest:
		kind = grasp.KindIssue
	}
	e := &Event{At: at, Repo: repo, Refused: p.content.chance(p.Scenario.Talon.Refused), Event: &host.Event{
		PubKey: p.users[p.content.IntN(len(p.users))], Kind: kind, CreatedAt: p.dated(at), Content: p.text(),
		Tags: host.Tags{{"a", repo.Address}, {"p", p.owners[repo.Owner].String()}, {"subject", "a subject"}},
	}}
	if pull {
		e.Tags = append(e.Tags, host.Tag{"c", p.commit(repo, Pull, repo.pulls, p.pulls)})
		if p.git != nil {
			e.Data = p.drawPull(repo, at)
			clone := host.Tag{"clone"}
			for _, g := range e.Data.Servers {
				clone = append(clone, p.Git[g].URL+p.path(e.PubKey, repo.D))
			}
			e.Tags = append(e.Tags, clone)
		}
		repo.pulls++
	}
	p.write(e)
	return e
}

// status has the owner say what became of a root.
func (p *publisher) status(repo *Repo, root *Event, at int64) {
	p.write(&Event{At: at, Repo: repo, Thread: root, Refused: root.Refused, Event: &host.Event{
		PubKey: p.owners[repo.Owner], Kind: grasp.KindOpen + host.Kind(p.pulls.IntN(4)), CreatedAt: p.seconds(at),
		Tags: host.Tags{{"e", root.ID.String(), "", "root"}, {"p", root.PubKey.String()}},
	}})
}

func (p *publisher) comment(repo *Repo, on *Event, at int64) {
	thread := on
	if on.Thread != nil {
		thread = on.Thread
	}
	e := &Event{At: at, Repo: repo, Thread: thread, Refused: thread.Refused, Event: &host.Event{
		PubKey: p.users[p.content.IntN(len(p.users))], Kind: grasp.KindComment, CreatedAt: p.dated(at), Content: p.text(),
		Tags: host.Tags{
			{"E", thread.ID.String()}, {"K", fmt.Sprint(thread.Kind)}, {"P", thread.PubKey.String()},
			{"e", on.ID.String()}, {"k", fmt.Sprint(on.Kind)}, {"p", on.PubKey.String()},
		},
	}}
	p.write(e)
}

// delete has an author delete a comment. The deletion names the thread too, so that
// subscriptions to the thread get it.
func (p *publisher) delete(repo *Repo, on *Event, at int64) {
	on.Ended = max(1, at)
	e := &Event{At: at, Repo: repo, Thread: on.Thread, Deletes: on, Event: &host.Event{
		PubKey: on.PubKey, Kind: host.KindDeletion, CreatedAt: p.seconds(at),
		Tags: host.Tags{{"e", on.ID.String()}, {"k", fmt.Sprint(on.Kind)}, {"E", on.Thread.ID.String()}},
	}}
	// Where the comment is, its deletion comes too.
	for _, c := range on.Copies {
		e.Copies = append(e.Copies, Copy{c.Place, max(at, c.At)})
	}
	p.everywhere(e)
}

// write sends something to some of the listed relays.
func (p *publisher) write(e *Event) {
	low, limit, often := p.Scenario.Publishers.CopiesMin, p.Scenario.Publishers.CopiesMax, &p.often
	if e.At < 0 {
		low, limit, often = p.Scenario.Repositories.CopiesMin, p.Scenario.Repositories.CopiesMax, &p.oftenBefore
	}
	listed := e.Repo.relaysAt(e.At)
	n := 0
	if len(often.sums) > 0 {
		n = 1 + often.draw(p.copies)
	} else {
		n = p.copies.between(low, limit)
	}
	if n < len(listed) {
		order := p.copies.Perm(len(listed))[:n]
		chosen := make([]int, n)
		for i, k := range order {
			chosen[i] = listed[k]
		}
		honest := func(r int) bool { return p.Relays[r].Honest }
		if !slices.ContainsFunc(chosen, honest) {
			if i := slices.IndexFunc(listed, honest); i >= 0 {
				chosen = append(chosen, listed[i])
			}
		}
		listed = chosen
	}
	for _, r := range listed {
		p.copyTo(e, r)
	}
	p.direct(e)
	p.add(e)
	e.Repo.said = append(e.Repo.said, e)
}
