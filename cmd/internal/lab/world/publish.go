package world

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"talon/host"
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
	pulls   stream
	said    stream        // of [World.Say]
	git     *gitPublisher // nil: there are no git servers

	err error

	often, oftenBefore weighted // numbers of copies, less one; of before the run; empty: they are even
	texts              string
}

// publish draws all events of a world.
func (w *World) publish() error {
	s := w.Scenario
	p := &publisher{
		World: w, content: newStream(w.Seed, "content"), copies: newStream(w.Seed, "copies"),
		pulls: newStream(w.Seed, "pulls"), said: newStream(w.Seed, "said"), git: w.newGitPublisher(),
	}
	w.publisher = p
	keys := newStream(w.Seed, "keys")
	for range s.Repositories.Owners {
		p.owners = append(p.owners, p.newKey(keys))
	}
	for range max(10, s.Repositories.Count) {
		p.users = append(p.users, p.newKey(keys))
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
	return p.err
}

// newKey draws the key of somebody.
func (p *publisher) newKey(s stream) host.PubKey {
	var random [32]byte
	for i := 0; i < len(random); i += 8 {
		n := s.Uint64()
		for k := range 8 {
			random[i+k] = byte(n >> (8 * k))
		}
	}
	if p.real == nil {
		return random
	}
	key, err := p.real.Key(random)
	p.err = errors.Join(p.err, err)
	return key
}

// history draws what was said before the begin.
func (p *publisher) history() {
	r, s := &p.Scenario.Repositories, newStream(p.Seed, "history")
	long := max(1, r.History.Milliseconds())
	for range r.Count {
		p.newRepo(s, -long+int64(s.Float64()*float64(long)/10))
	}
	if r.Elsewhere > 0 {
		other := newStream(p.Seed, "elsewhere")
		for range r.Elsewhere {
			p.newRepoAt(other, -long+int64(other.Float64()*float64(long)/10), nil)
		}
	}
	for range r.Roots {
		repo := p.Repos[p.busy.draw(s)]
		from := repo.lists[0].from
		at := from + int64(s.Float64()*float64(-from))
		root := p.root(repo, at)
		// As many comments as a coin falls on the same side.
		for s.chance(r.Comments / (1 + r.Comments)) {
			at += int64(s.Float64() * float64(-at))
			if r.Statuses > 0 && p.pulls.chance(r.Statuses) {
				p.status(repo, root, at)
				continue
			}
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

// everywhere sends an event to all listed relays, and all listed Talons it concerns.
func (p *publisher) everywhere(e *Event) {
	for _, r := range e.Repo.relaysAt(e.At) {
		p.copyTo(e, r)
	}
	p.direct(e)
	p.add(e)
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
	p.err = errors.Join(p.err, p.sign(e.Event))
	p.Events = append(p.Events, e)
}
