package world

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
)

// day in milliseconds.
const day = 24 * 3600 * 1000

// publisher draws what is published.
type publisher struct {
	*World
	owners  []host.PubKey
	users   []host.PubKey
	listed  weighted // relays that repositories list
	places  []int    // by index in listed
	busy    weighted // repositories, by how much happens in them
	content stream
	copies  stream
	threads stream
	git     *gitPublisher // nil: there are no git servers

	often, oftenBefore weighted // numbers of copies, less one; of before the run; empty: they are even
	texts              string
}

// publish draws all events of a world.
func (w *World) publish() {
	s := w.Scenario
	p := &publisher{World: w, content: newStream(w.Seed, "content"), copies: newStream(w.Seed, "copies"), threads: newStream(w.Seed, "threads"), git: w.newGitPublisher()}
	keys := newStream(w.Seed, "keys")
	for range s.Repositories.Owners {
		p.owners = append(p.owners, newKey(keys))
	}
	for range max(10, s.Repositories.Count) {
		p.users = append(p.users, newKey(keys))
	}
	for _, r := range w.Relays {
		if c := s.Relays[r.Class]; c.Listed && c.Weight > 0 {
			p.listed.add(c.Weight)
			p.places = append(p.places, r.Number)
		}
	}
	for _, n := range s.Publishers.Copies {
		p.often.add(float64(n))
	}
	for _, n := range s.Repositories.Copies {
		p.oftenBefore.add(float64(n))
	}
	letters := newStream(w.Seed, "texts")
	var b strings.Builder
	for range 4096 {
		b.WriteByte("etaoin shrdlu cmfwyp "[letters.IntN(21)])
	}
	p.texts = b.String()
	p.history()
	p.present()
	slices.SortStableFunc(w.Events, func(a, b *Event) int { return cmp.Compare(a.At, b.At) })
	p.endVersions()
	p.endDeparted()
	for i, e := range w.Events {
		e.Number = uint32(i)
		w.ByID[e.ID] = e
	}
}

func newKey(s stream) (key host.PubKey) {
	for i := 0; i < len(key); i += 8 {
		n := s.Uint64()
		for k := range 8 {
			key[i+k] = byte(n >> (8 * k))
		}
	}
	return key
}

// history draws what was said before the begin.
func (p *publisher) history() {
	r, s := &p.Scenario.Repositories, newStream(p.Seed, "history")
	long := max(1, r.History.Milliseconds())
	for range r.Count {
		p.newRepo(s, -long+int64(s.Float64()*float64(long)/10))
	}
	for range r.Roots {
		repo := p.Repos[p.busy.draw(s)]
		from := repo.lists[0].from
		at := from + int64(s.Float64()*float64(-from))
		root := p.root(repo, at)
		// As many comments as a coin falls on the same side.
		for s.chance(r.Comments / (1 + r.Comments)) {
			at += int64(s.Float64() * float64(-at))
			p.comment(repo, root, at)
		}
	}
}

// present draws what is said during the run.
func (p *publisher) present() {
	s := &p.Scenario.Publishers
	each := func(what string, perDay float64, say func(r stream, at int64)) {
		r := newStream(p.Seed, what)
		for _, at := range p.arrivals(r, perDay) {
			say(r, at)
		}
	}
	each("new repositories", s.New, func(r stream, at int64) { p.newRepo(r, at) })
	each("departures", s.Departures, p.depart)
	p.publishDepartures()
	each("moves", s.Moves, func(r stream, at int64) {
		repo := p.repo(r, at)
		repo.lists = append(repo.lists, list{at, p.drawList(r)})
		slices.SortStableFunc(repo.lists, func(a, b list) int { return cmp.Compare(a.from, b.from) })
		p.announce(repo, at)
	})
	each("edits", s.Edits, func(r stream, at int64) { p.announce(p.repo(r, at), at) })
	each("states", s.States, func(r stream, at int64) { p.state(p.repo(r, at), at) })
	each("roots", s.Roots, func(r stream, at int64) { p.root(p.repo(r, at), at) })
	each("comments", s.Comments, func(r stream, at int64) {
		repo := p.repo(r, at)
		if on := p.message(r, repo, at); on != nil {
			p.comment(repo, on, at)
		}
	})
	each("deletions", s.Deletions, func(r stream, at int64) {
		repo := p.repo(r, at)
		if on := p.message(r, repo, at); on != nil && on.Thread != nil && on.Ended == 0 && !on.Refused {
			p.delete(repo, on, at)
		}
	})
	each("noise", s.Noise, func(r stream, at int64) {
		e := &host.Event{PubKey: p.users[r.IntN(len(p.users))], Kind: 1, CreatedAt: p.seconds(at), Content: p.text()}
		p.add(&Event{Event: e, At: at, Copies: []Copy{{Place(p.places[p.listed.draw(r)]), at}}})
	})
}

// arrivals draws when something happens that does so often in a day: more by day than by
// night, nothing in the quiet time.
func (p *publisher) arrivals(r stream, perDay float64) (times []int64) {
	if perDay <= 0 {
		return nil
	}
	end := p.End - p.Scenario.Quiet.Milliseconds()
	high := 1 + p.Scenario.Publishers.Diurnal
	for at := 0.0; ; {
		at += r.exponential(day / (perDay * high))
		if int64(at) >= end {
			return times
		}
		// A triangle with its top at noon, UTC.
		hour := float64((p.Start+int64(at))%day) / day
		height := 1 - 2*max(hour-0.5, 0.5-hour)*2
		if r.chance((1 + float64(p.Scenario.Publishers.Diurnal*height)) / high) {
			times = append(times, int64(at))
		}
	}
}

// repo draws a repository that there is at a time.
func (p *publisher) repo(r stream, at int64) *Repo {
	for range 100 {
		if repo := p.Repos[p.busy.draw(r)]; repo.lists[0].from < at && (repo.Gone == 0 || at < repo.Gone) {
			return repo
		}
	}
	return p.Repos[0]
}

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

func (p *publisher) newRepo(r stream, at int64) {
	s := &p.Scenario.Repositories
	repo := &Repo{Number: len(p.Repos), D: fmt.Sprintf("repo-%d", len(p.Repos)), Owner: r.IntN(len(p.owners))}
	repo.Address = fmt.Sprintf("30617:%s:%s", p.owners[repo.Owner], repo.D)
	if !r.chance(s.Foreign) {
		repo.Talons = r.Perm(len(p.Talons))[:s.Talons]
		slices.Sort(repo.Talons)
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

func (p *publisher) seconds(at int64) int64 { return (p.Start + at) / 1000 }

// dated returns the created_at of something that is sent at a time.
func (p *publisher) dated(at int64) int64 {
	s := &p.Scenario.Publishers
	if at >= 0 && p.content.chance(s.BackDated) {
		at -= int64(p.content.Float64() * float64(s.BackBy.Milliseconds()))
	}
	return p.seconds(at)
}

func (p *publisher) text() string {
	r := &p.Scenario.Repositories
	n := min(int(p.content.logNormal(float64(r.Bytes), r.Sigma)), 60_000)
	at := p.content.IntN(len(p.texts))
	text := p.texts[at:min(len(p.texts), at+n)]
	for len(text) < n {
		text += p.texts[:min(len(p.texts), n-len(text))]
	}
	return text
}

func (p *publisher) announce(repo *Repo, at int64) {
	clone, relays := host.Tag{"clone"}, host.Tag{"relays"}
	for _, t := range repo.Talons {
		clone = append(clone, "https://"+p.Talons[t].Domain+"/x/"+repo.D+".git")
		relays = append(relays, p.Talons[t].URL)
	}
	for _, r := range repo.relaysAt(at) {
		if p.git == nil {
			clone = append(clone, "https"+strings.TrimPrefix(p.Relays[r].URL, "wss")+"/x/"+repo.D+".git")
		}
		relays = append(relays, p.Relays[r].URL)
	}
	for _, g := range repo.Git {
		clone = append(clone, "https://"+p.Git[g].Domain+"/x/"+repo.D+".git")
	}
	e := &Event{At: at, Repo: repo, Event: &host.Event{
		PubKey: p.owners[repo.Owner], Kind: grasp.KindAnnouncement, CreatedAt: p.seconds(at), Content: "",
		Tags: host.Tags{{"d", repo.D}, {"name", repo.D}, clone, relays},
	}}
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

// everywhere sends an event to all listed relays, and all listed Talons it concerns.
func (p *publisher) everywhere(e *Event) {
	for _, r := range e.Repo.relaysAt(e.At) {
		p.copyTo(e, r)
	}
	p.direct(e)
	p.add(e)
}

func (p *publisher) state(repo *Repo, at int64) {
	var commit [20]byte
	for i := range commit {
		commit[i] = byte(p.content.Uint32())
	}
	e := &Event{At: at, Repo: repo, Event: &host.Event{
		PubKey: p.owners[repo.Owner], Kind: grasp.KindState, CreatedAt: p.seconds(at),
		Tags: host.Tags{{"d", repo.D}, {"refs/heads/main", hex.EncodeToString(commit[:])}, {"HEAD", "ref: refs/heads/main"}},
	}}
	if p.git != nil {
		e.Data = p.drawData(repo, at)
	}
	p.replace(e)
}

func (p *publisher) root(repo *Repo, at int64) *Event {
	kind := host.Kind(grasp.KindIssue)
	switch p.content.IntN(10) {
	case 0, 1:
		kind = grasp.KindPatch
	case 2:
		kind = grasp.KindPullRequest
	}
	e := &Event{At: at, Repo: repo, Refused: p.content.chance(p.Scenario.Talon.Refused), Event: &host.Event{
		PubKey: p.users[p.content.IntN(len(p.users))], Kind: kind, CreatedAt: p.dated(at), Content: p.text(),
		Tags: host.Tags{{"a", repo.Address}, {"p", p.owners[repo.Owner].String()}, {"subject", "a subject"}},
	}}
	p.write(e)
	return e
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

// copyTo has an event reach a relay.
func (p *publisher) copyTo(e *Event, relay int) {
	if slices.ContainsFunc(e.Copies, func(c Copy) bool { return int(c.Place) == relay }) {
		return
	}
	s := &p.Scenario.Publishers
	at := e.At
	if at >= 0 {
		at += int64(p.copies.Float64() * s.SpreadS * 1000)
		if p.copies.chance(s.Late) {
			at += int64(p.copies.Float64() * float64(s.LateBy.Milliseconds()))
		}
	}
	e.Copies = append(e.Copies, Copy{Place(relay), at})
}

// direct sends some events to the Talons that are listed, too.
func (p *publisher) direct(e *Event) {
	if e.At < 0 || !p.copies.chance(p.Scenario.Publishers.Direct) {
		return
	}
	for _, t := range e.Repo.Talons {
		e.Copies = append(e.Copies, Copy{p.TalonPlace(t), e.At})
	}
	if e.Data != nil {
		e.Data.Direct = len(e.Data.Servers) > 0 // who sends the state there pushes there
	}
}

func (p *publisher) add(e *Event) {
	_ = Sign(e.Event)
	p.Events = append(p.Events, e)
}
