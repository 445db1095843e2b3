package layers

import (
	"cmp"
	"math"
	"slices"

	"talon/sdk/strategy"
)

// A deletion (kind 5) of a comment or a status tags only that, and it need not say its kind. The
// authors of comments are fewer than comments, and seldom change. So a relay that has deletions of
// other events is asked for those by these authors, where the flow wants that.

// AddAuthor says that somebody said something about a root event of a repository, in unix seconds.
// A repository has the latest MaxAuthorsOfRepo, or fewer if all have too many together. A quarter
// gives way at once: each change may open a subscription again.
func (x *Index) AddAuthor(repo uint32, key *[32]byte, at int64) {
	r, date := &x.repos[repo], uint32(min(max(at, 0), math.MaxUint32))
	n, free, known := x.authors.find(key)
	switch {
	case known && r.authors.Has(n):
		x.authors.dates[n] = max(x.authors.dates[n], date)
		return
	case r.authors.Len() >= MaxAuthorsOfRepo:
		x.dropAuthors(repo, MaxAuthorsOfRepo/4)
		n, free, known = x.authors.find(key)
	case !known && x.authors.used >= MaxAuthors && len(x.repos) <= x.search:
		x.search -= len(x.repos)
		largest := x.largestByAuthors(repo)
		x.dropAuthors(largest, (x.repos[largest].authors.Len()+3)/4)
		n, free, known = x.authors.find(key)
	}
	if !known && x.authors.used >= MaxAuthors {
		return
	}
	if known {
		x.authors.again(n)
	} else {
		n = x.authors.add(key, free)
	}
	x.authors.dates[n] = max(x.authors.dates[n], date)
	r.authors.Add(n)
	if !r.full {
		return
	}
	for _, relay := range r.relays {
		x.moreAuthors.Add(relay)
	}
}

// largestByAuthors returns the repository with the most authors, this one if no other has more. If there
// is no room, its authors give way: strangers with many keys comment on few repositories.
func (x *Index) largestByAuthors(largest uint32) uint32 {
	for n := range x.repos {
		if x.repos[n].authors.Len() > x.repos[largest].authors.Len() {
			largest = uint32(n)
		}
	}
	return largest
}

// dropAuthors forgets those authors of a repository who were silent for the longest time.
func (x *Index) dropAuthors(repo uint32, count int) {
	r := &x.repos[repo]
	_, gone := newest(x.authors.dates, r.authors, r.authors.Len()-count)
	if r.full {
		for _, relay := range r.relays {
			x.notify(relay, Items{Authors: x.onlyAuthors(repo, relay, gone)})
		}
	}
	r.authors.Remove(gone)
	var freed Set
	for n := range gone.All() {
		if x.authors.drop(n) {
			freed.Add(n)
		}
	}
	if x.freed != nil && !freed.Empty() {
		x.freed(Items{Authors: freed})
	}
}

// saidAbout notes that somebody said something about a root event.
func (x *Index) saidAbout(root *[32]byte, key *[32]byte, at int64) {
	n, _, known := x.roots.find(root)
	if !known {
		return
	}
	owner := x.owner[n]
	owns := x.repos[owner].roots.Has(n)
	if owns && x.roots.uses[n] == 1 || len(x.repos) > x.search {
		if owns {
			x.AddAuthor(owner, key, at)
		}
		return
	}
	x.search -= len(x.repos)
	for repo := range x.repos {
		if x.repos[repo].roots.Has(n) {
			x.AddAuthor(uint32(repo), key, at)
		}
	}
}

// maxSearched is how many repositories one input may have searched for root events that several of
// them have, or for the one with the most authors. After that, only one of the repositories gets the
// author, and none if there is no room.
const maxSearched = 1 << 16

// Author returns the key of an author.
func (x *Index) Author(n uint32) *[32]byte { return x.authors.id(n) }

// AskAuthors says whether the relay is asked for deletions by the authors of comments, and reports
// whether that is a change. The authors become wanted, or they are not wanted any more and
// subscriptions to them end.
func (p *Peer) AskAuthors(ask bool) (changed bool) {
	if p.byAuthors == ask {
		return false
	}
	p.byAuthors = ask
	if ask {
		p.dirty = p.started
		p.driver.ready(p)
		return true
	}
	all := Items{Authors: p.driver.Index.authorsOf(p.driver.Index.ReposOf(p.number))}
	for _, s := range p.subs {
		all.AddItems(Items{Authors: s.content.Items.Authors})
	}
	p.drop(all)
	p.leave(all)
	return true
}

// Wanted returns those of these items that are asked for at the relay.
func (p *Peer) Wanted(items Items) Items {
	if !p.byAuthors {
		items.Authors = Set{}
	}
	return items
}

const (
	maxLiveAuthors = 1500 // of subscriptions at one relay
	spareSubs      = 2    // that authors leave free
)

// liveAuthors is how many authors subscriptions to a relay may have: an eighth of its values.
func (p *Peer) liveAuthors() int {
	if limit := p.maxValues(); limit > 0 {
		return min(maxLiveAuthors, limit/8)
	}
	return maxLiveAuthors
}

// recentDays is from how many days deletions by an author are fetched again when all of them were
// fetched once. Most are about nothing here, and the host does not remember them for long.
const recentDays = 7

// sinceOfAuthors returns the date from which deletions by the authors of a chunk of a job are
// fetched; 0: that of the job. Authors of whom all were fetched are asked for apart from others.
func (p *Peer) sinceOfAuthors(j *job, c *Content) int64 {
	if j.Since > 0 || c.Items.Authors.Empty() {
		return 0
	}
	others := c.Items.Authors
	others.Remove(p.past)
	if others.Empty() {
		return max((p.driver.budget.now/strategy.Day-recentDays)*(strategy.Day/strategy.Second), 1)
	}
	again := c.Items.Authors
	again.Remove(others)
	c.Items.Authors = others
	j.content.Items.AddItems(Items{Authors: again})
	return 0
}

// openAuthors opens subscriptions to deletions by authors. They come after all other content: what
// has no room is polled. New authors join subscriptions with fewer of them, so that there are few.
func (p *Peer) openAuthors(t *stepBudget, o *opening, s shape) bool {
	p.joinAuthors(o)
	left, open := p.liveAuthors(), 0
	for _, sub := range p.subs {
		if !sub.old {
			left -= sub.content.Items.Authors.Len()
			open++
		}
	}
	if p.maxSubs()-open <= spareSubs {
		left = 0
	}
	authors := &o.content.Items.Authors
	if stay, rest := newest(p.driver.Index.authors.dates, *authors, max(left, 0)); !rest.Empty() {
		*authors = stay
		p.withoutSub(&opening{content: Of(Items{Authors: rest}), Opening: o.Opening, which: allParts})
		return true
	}
	if p.maxSubs()-len(p.subs)-len(p.stale) < 1 {
		return p.makeRoom(t, o, s) // others that are old give way
	}
	w := &p.driver.writer
	w.reset(p.SecondLevel, o.Live)
	var c Content
	filters := 1
	if s.filters >= 3 {
		filters = 3 * s.chunks
	}
	for n := 0; n < filters && !o.content.empty(); n++ {
		more := p.driver.Index.chunk(&o.content, s)
		w.add(&p.driver.Index, more, 1, o.Since, [3]int64{})
		c.Items.AddItems(more.Items)
	}
	if tooMany, full := !p.fits(w.count+len(w.filters)), !t.room(1, w.size+len(p.URL)+40); tooMany || full {
		o.content.Items.AddItems(c.Items)
		if !tooMany {
			return false
		}
		p.withoutSub(o)
		return true
	}
	t.left -= w.count + workDo
	p.groups++
	p.subscribe(t, o, c, allParts, w.filters)
	return true
}

// joinAuthors takes open subscriptions to authors into an opening: those with fewer authors than
// the opening, so that each author is sent few times. It takes larger ones too, until few are left.
func (p *Peer) joinAuthors(o *opening) {
	if o.joined {
		return
	}
	var list []*sub
	for _, sub := range p.subs {
		if !sub.old && sub.batch == nil && !sub.content.Items.Authors.Empty() {
			list = append(list, sub)
		}
	}
	slices.SortStableFunc(list, func(a, b *sub) int {
		return cmp.Compare(a.content.Items.Authors.Len(), b.content.Items.Authors.Len())
	})
	limit := max(1, p.maxSubs()/8)
	for i, sub := range list {
		if sub.content.Items.Authors.Len() > o.content.Items.Authors.Len() && len(list)-i < limit {
			return
		}
		p.takeOver(o, sub)
	}
}

// authorsGiveWay closes a subscription to authors, because other content needs the room. It reports
// false if there is none.
func (p *Peer) authorsGiveWay(o *opening) bool {
	if o.content.Items.onlyAuthors() {
		return false
	}
	for _, sub := range p.subs {
		if !sub.old && !sub.content.Items.Authors.Empty() {
			sub.old, sub.replaced = true, true
			p.fetchRest(sub)
			p.polls(Of(Items{Authors: sub.content.Items.Authors}))
			return true
		}
	}
	return false
}

// addAuthors appends the filter for deletions by authors.
func (w *writer) addAuthors(x *Index, authors Set, since, until int64) {
	start := len(w.authors)
	for n := range authors.All() {
		w.authors = append(w.authors, *x.Author(n))
	}
	w.filters = append(w.filters, strategy.Filter{
		Kinds: secondLevelKinds[:1], Authors: w.authors[start:len(w.authors):len(w.authors)], Since: since, Until: until,
	})
	w.count += len(w.authors) - start + 1
	w.size += 40*(len(w.authors)-start) + 40
}
