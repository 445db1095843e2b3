package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// related: what people write is accepted if it names an accepted event or address, by
// any of the tags that do, or is named by an accepted event, through any number of
// steps. Nothing else is.
func related(st *story) {
	owner, contributor, stranger := st.who("owner"), st.who("contributor"), st.who("stranger")
	work := st.folder()
	st.published(owner, work)
	address := repoAddress(owner, "demo")
	issue := st.stored(st.event(contributor, 1621, nostr.Tag{"a", address}, nostr.Tag{"subject", "it breaks"}))
	for _, tag := range []string{"a", "A", "q"} {
		st.stored(st.event(stranger, 1111, nostr.Tag{tag, address}))
	}
	for _, tag := range []string{"e", "E", "q"} {
		st.stored(st.event(stranger, 1111, nostr.Tag{tag, issue.ID}))
	}
	// The tag may stand behind others, and have relays and markers.
	st.stored(st.event(stranger, 1, nostr.Tag{"t", "x"}, nostr.Tag{"e", strings.Repeat("0", 64)}, nostr.Tag{"e", issue.ID, "wss://relay.test", "root"}))
	// Through steps: a patch, a comment on it, a reaction to that, a zap of that.
	last := st.stored(st.event(contributor, 1617, nostr.Tag{"a", address}))
	for _, kind := range []int{1111, 7, 9735, 1985, 1} {
		last = st.stored(st.event(stranger, kind, nostr.Tag{"e", last.ID}))
	}
	// Statuses and long texts too.
	for _, kind := range []int{1630, 1631, 1632, 1633, 1622, 30023, 30315} {
		st.stored(st.event(owner, kind, nostr.Tag{"e", issue.ID, "", "root"}, nostr.Tag{"d", fmt.Sprint(kind)}))
	}
	// The other way round: what an accepted event names.
	note := st.event(stranger, 1, nostr.Tag{"t", "quoted"})
	article := st.event(stranger, 30023, nostr.Tag{"d", "article"})
	st.refused(note, unrelatedReason)
	st.refused(article, unrelatedReason)
	st.stored(st.event(contributor, 1111, nostr.Tag{"E", issue.ID}, nostr.Tag{"q", note.ID}, nostr.Tag{"a", "30023:" + stranger.hex() + ":article"}))
	st.stored(note)
	st.stored(article)
	// Unrelated, or nearly related.
	for _, tags := range [][]nostr.Tag{
		nil, {{"t", issue.ID}}, {{"p", owner.hex()}}, {{"x", address}}, {{"e", strings.Repeat("1", 64)}}, {{"e", issue.ID[:63]}}, {{"e", strings.ToUpper(issue.ID)}},
		{{"a", address + "x"}}, {{"a", "30617:" + stranger.hex() + ":demo"}}, {{"a", "30617:" + owner.hex()}}, {{"a", issue.ID}}, {{"e", address}}, {{"e"}}, {{"a", ""}},
		{{"alt", "e", issue.ID}},
	} {
		st.refused(st.event(stranger, 1, tags...), unrelatedReason)
	}
	st.refused(st.event(stranger, 1621, nostr.Tag{"a", repoAddress(stranger, "demo")}), unrelatedReason)
	st.refused(st.event(stranger, 1618, nostr.Tag{"c", strings.Repeat("1", 40)}, nostr.Tag{"a", repoAddress(stranger, "demo")}), unrelatedReason)
}

// orphans: a client sends an announcement and immediately, without a wait for any answer,
// all that is about it. None of that is refused as unrelated: it is held as long as what it is
// about. So is what is about a held state or pull request.
func orphans(st *story) {
	owner, contributor := st.who("owner"), st.who("contributor")
	address := repoAddress(owner, "demo")
	commit := strings.Repeat("1", 40)
	announcement := st.announcement(owner, "demo")
	state := st.state(owner, "demo", "refs/heads/main", commit)
	pr := st.pull(contributor, commit, address)
	issue := st.event(contributor, 1621, nostr.Tag{"a", address})
	events := []*nostr.Event{
		announcement, state, issue, pr,
		st.event(owner, 1111, nostr.Tag{"E", issue.ID}),
		st.event(owner, 1111, nostr.Tag{"E", announcement.ID}),
		st.event(owner, 1111, nostr.Tag{"q", state.ID}),
		st.event(contributor, 1111, nostr.Tag{"a", strings.Replace(address, "30617", "30618", 1)}),
		st.event(owner, 1111, nostr.Tag{"E", pr.ID}),
		st.event(owner, 1632, nostr.Tag{"e", pr.ID}),
	}
	var messages strings.Builder
	for _, e := range events {
		messages.Reset()
		messages.Write(message(e))
		st.c.send(st, messages.String())
	}
	got := map[string]answer{}
	for range events {
		a, err := parseOK(st.c.mustNext(st, "OK"))
		if err != nil {
			st.Fatal(err)
		}
		got[a.id] = a
	}
	for i, e := range events {
		want := answer{e.ID, true, relatedWaits}
		if e == announcement || e == state || e == pr {
			want.reason = purgatory
		}
		if got[e.ID] != want {
			st.Errorf("event %d, of kind %d: %+v, want %+v", i, e.Kind, got[e.ID], want)
		}
	}
	st.answered(st.event(contributor, 1621, nostr.Tag{"A", address}), true, relatedWaits)
}

// relatedWaits answers an event that only a held one justifies.
const relatedWaits = "purgatory: won't be served until the event that this one is about is"

// heldOpensNothing: events about an announcement that waits for its first push are held with it,
// if their kinds belong to git. No other kind is taken. The first push releases all of them.
func heldOpensNothing(st *story) {
	owner, contributor, stranger := st.who("owner"), st.who("contributor"), st.who("stranger")
	work := st.folder()
	commit := work.commit("one")
	address := repoAddress(owner, "demo")
	announcement := st.held(st.announcement(owner, "demo"))
	issue := st.event(contributor, 1621, nostr.Tag{"a", address})
	waiting := []*nostr.Event{
		issue, st.event(contributor, 1617, nostr.Tag{"a", address}),
		st.event(stranger, 1111, nostr.Tag{"E", issue.ID}), st.event(owner, 1630, nostr.Tag{"e", issue.ID}),
	}
	for _, e := range waiting {
		st.answered(e, true, relatedWaits)
		st.wantServed(e, false)
	}
	for _, kind := range []int{0, 1, 3, 4, 7, 1059, 10002, 30023} {
		st.refused(st.event(stranger, kind, nostr.Tag{"a", address}, nostr.Tag{"d", "x"}), unrelatedReason)
		st.refused(st.event(stranger, kind, nostr.Tag{"e", issue.ID}, nostr.Tag{"d", "y"}), unrelatedReason)
	}
	st.refused(st.event(stranger, 5, nostr.Tag{"e", announcement.ID}, nostr.Tag{"a", address}), unrelatedReason)
	st.refused(st.event(owner, 0), unrelatedReason)

	st.held(st.state(owner, "demo", "refs/heads/main", commit))
	work.push(st.repo(owner, "demo"), "main")
	for _, e := range append(waiting, announcement) {
		st.becomesServed(e)
	}
	st.stored(st.event(stranger, 1, nostr.Tag{"a", address}))
	st.stored(st.event(owner, 0))
}

// page: the repository's page shows what is open. A maintainer closes an issue and
// marks a pull request as applied; a stranger's word does not count.
func page(st *story) {
	owner, maintainer, contributor, stranger := st.who("owner"), st.who("maintainer"), st.who("contributor"), st.who("stranger")
	path, address := repoPath(owner, "demo"), repoAddress(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	html := func(status int) string {
		st.Helper()
		r := st.wantStatus(status, "GET", path, "Accept", "text/html")
		if !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
			st.Errorf("the page is %s", r.header.Get("Content-Type"))
		}
		return r.body
	}
	// shows looks for texts, some of which must be absent: those behind "!".
	shows := func(page string, texts ...string) {
		st.Helper()
		for _, text := range texts {
			text, absent := strings.CutPrefix(text, "!")
			if strings.Contains(page, text) == absent {
				st.Errorf("the page has %q: %v\n%s", text, !absent, page)
			}
		}
	}
	html(http.StatusNotFound)
	st.held(st.event(owner, 30617, append(announcementTags(owner, "demo", maintainer), nostr.Tag{"description", "about <eagles>"})...))
	shows(html(http.StatusOK), "waits for its first push", "!about")
	st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(st.repo(owner, "demo"), "main")
	shows(html(http.StatusOK), "The repository demo", "about &lt;eagles&gt;", "!<eagles>", "git clone ", "main", one[:10], owner.npub()[:10], maintainer.npub()[:10], "gitworkshop.dev", "nostr:naddr1", "!Issues</a> <small>")

	issue := st.stored(st.event(contributor, 1621, nostr.Tag{"a", address}, nostr.Tag{"subject", "it breaks"}))
	other := st.stored(st.event(contributor, 1621, nostr.Tag{"a", address}, nostr.Tag{"subject", "it burns"}))
	pr := st.stored(st.pull(contributor, one, address))
	st.stored(st.event(stranger, 1111, nostr.Tag{"E", issue.ID}, nostr.Tag{"K", "1621"}))
	shows(html(http.StatusOK), "Issues</a> <small>2 open</small>", "Pull requests</a> <small>1 open</small>", "it breaks", "it burns", "1 comment")

	status := func(who person, kind int, e *nostr.Event) {
		st.stored(st.event(who, kind, nostr.Tag{"e", e.ID, "", "root"}, nostr.Tag{"a", address}, nostr.Tag{"p", contributor.hex()}))
	}
	status(stranger, 1632, issue)
	shows(html(http.StatusOK), "Issues</a> <small>2 open</small>")
	status(maintainer, 1632, issue)
	shows(html(http.StatusOK), "Issues</a> <small>1 open, 1 closed</small>")
	status(contributor, 1630, issue) // its author opens it again
	shows(html(http.StatusOK), "Issues</a> <small>2 open</small>")
	status(contributor, 1632, other)
	status(owner, 1631, pr)
	shows(html(http.StatusOK), "Issues</a> <small>1 open, 1 closed</small>", "Pull requests</a> <small>0 open, 1 closed</small>")
	status(owner, 1633, pr)
	shows(html(http.StatusOK), "draft")
	shows(st.wantStatus(http.StatusOK, "GET", "/", "Accept", "text/html").body, "relay.test", "GRASP-01")
}

// graspList: people say which services they use (kind 10317), and who they are. It is
// for this service if it names it, or if they have anything else here, also if that
// comes a moment later: clients often send who they are first.
func graspList(st *story) {
	owner, fan, stranger, visitor := st.who("owner"), st.who("fan"), st.who("stranger"), st.who("visitor")
	st.stored(st.event(fan, 10317, nostr.Tag{"g", "wss://other.test"}, nostr.Tag{"g", "wss://relay.test"}))
	st.refused(st.event(stranger, 10317, nostr.Tag{"g", "wss://other.test"}, nostr.Tag{"g", "wss://relay.test.evil.test"}), unrelatedReason)
	st.held(st.announcement(owner, "other"))
	for _, kind := range []int{0, 3, 10002, 10317} {
		st.refused(st.event(owner, kind), unrelatedReason) // what is held does not count
	}
	st.published(owner, st.folder())
	for _, kind := range []int{0, 3, 10002, 10317} {
		st.stored(st.event(owner, kind))
	}
	profile := st.refused(st.event(visitor, 0), unrelatedReason)
	st.stored(st.event(visitor, 1621, nostr.Tag{"a", repoAddress(owner, "demo")}))
	st.becomesServed(profile)
	st.refused(st.event(owner, 1, nostr.Tag{"t", "nothing to do with git"}), unrelatedReason)
}
