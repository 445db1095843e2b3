package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

func pathOf(e *host.Event, section string) string {
	return "/" + npub("owl") + "/nest/" + section + "/" + e.ID.String()
}

// comment returns a comment (NIP-22) on a root, as an answer to a parent.
func comment(who string, at int64, content string, root, parent *host.Event) *host.Event {
	return event(who, grasp.KindComment, at, content,
		host.Tag{"E", root.ID.String()}, host.Tag{"K", fmt.Sprint(root.Kind)}, host.Tag{"P", root.PubKey.String()},
		host.Tag{"e", parent.ID.String()}, host.Tag{"k", fmt.Sprint(parent.Kind)}, host.Tag{"p", parent.PubKey.String()})
}

// An issue is shown with everything that was said, in threads, and with what those set who may.
func TestIssue(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest", host.Tag{"name", "My nest"}, host.Tag{"maintainers", key("crow").String()})))
	w.publish(event("owl", 0, now, `{"name":"Owl"}`), event("wren", 0, now, `{"name":"Wren"}`))
	issue := w.publish(event("wren", grasp.KindIssue, now+1, "# It is cold\n\nAsk nostr:"+npub("owl")+" **now**.", a("owl", "nest"), host.Tag{"subject", "Too cold"}, host.Tag{"t", "bug"}))
	first := w.publish(comment("jay", now+2, "I agree", issue, issue))
	second := w.publish(comment("owl", now+5, "Why?", issue, first))
	w.publish(comment("jay", now+7, "Because of the wind", issue, second))
	w.publish(comment("robin", now+3, "Me too", issue, issue))
	w.publish(event("robin", kindReply, now+4, "An old client", host.Tag{"e", issue.ID.String()}))
	label := func(who string, at int64, tags ...host.Tag) {
		w.publish(event(who, kindLabel, at, "", append(tags, host.Tag{"e", issue.ID.String()})...))
	}
	label("crow", now+8, host.Tag{"L", "#t"}, host.Tag{"l", "winter", "#t"}, host.Tag{"l", "bug", "#t"})
	label("stranger", now+9, host.Tag{"L", "#t"}, host.Tag{"l", "spam", "#t"})
	label("wren", now+10, host.Tag{"L", "#subject"}, host.Tag{"l", "Much too cold", "#subject"})
	label("stranger", now+11, host.Tag{"L", "#subject"}, host.Tag{"l", "Buy feathers", "#subject"})
	w.publish(event("crow", grasp.KindClosed, now+12, "Fixed by *moss*", rootTag(issue)))
	w.publish(event("stranger", grasp.KindOpen, now+13, "No!", rootTag(issue)))
	w.publish(event("crow", kindCoverNote, now+14, "See the wiki", host.Tag{"e", issue.ID.String()}))
	w.publish(event("stranger", kindCoverNote, now+15, "See my shop", host.Tag{"e", issue.ID.String()}))
	for _, who := range []string{"owl", "crow", "crow"} {
		w.publish(event(who, kindReaction, now+16, "+", host.Tag{"e", issue.ID.String()}))
	}
	w.publish(event("owl", kindReaction, now+16, "🪹", host.Tag{"e", first.ID.String()}), event("owl", kindReaction, now+16, "buy this", host.Tag{"e", first.ID.String()}))
	w.held = append(w.held, comment("owl", now+17, "A held comment", issue, issue))

	d := w.get(pathOf(issue, "issues")).status(t, 200)
	d.tame(t)
	d.has(t, "Much too cold closed", "It is cold", "Ask @Owl now", "I agree", "An old client", "changed the title to Much too cold", "maintainer added winter",
		"maintainer closed this", "Fixed by moss", "See the wiki", "👍 2", "🪹 1", "bug winter",
		"talon event publish --key ~/alice.key --kind 1111", "--tag E="+issue.ID.String(), "ngit issue comment "+issue.ID.String())
	d.hasNot(t, "Buy feathers", "spam", "See my shop", "No!", "A held comment", "buy this", "git fetch")
	if order := []string{"I agree", "Why?", "Because of the wind", "Me too", "An old client", "Fixed by"}; !inOrder(d.text, order) {
		t.Errorf("the order is not %q in %s", order, d.text)
	}
	if n := strings.Count(d.Body.String(), `class="said reply d1"`); n != 1 || !strings.Contains(d.Body.String(), `class="said reply d2"`) {
		t.Errorf("%d answers of the first depth in\n%s", n, d.Body)
	}
	for _, href := range []string{"/" + npub("owl"), "/" + npub("owl") + "/nest", "/" + npub("owl") + "/nest/issues?label=winter&state=all"} {
		if !slices.Contains(d.hrefs(), href) {
			t.Errorf("no link to %s in %v", href, d.hrefs())
		}
	}

	// The same page has other names.
	code := nip19.EncodeNevent(issue.ID, issue.PubKey, uint16(issue.Kind), "")
	for _, path := range []string{"/nest/issues/" + code, "/nest.git/issues/" + code} {
		if got := w.get("/"+npub("owl")+path).status(t, 302).Header().Get("Location"); got != pathOf(issue, "issues") {
			t.Errorf("%s leads to %q", path, got)
		}
	}
	w.get(strings.Replace(pathOf(issue, "issues"), "/nest/", "/nest.git/", 1)).status(t, 200)

	json := w.raw(pathOf(issue, "issues") + ".json")
	if json.Body.String() != string(issue.JSON) || json.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s: %s", json.Header(), json.Body)
	}
	w.get(pathOf(issue, "pulls")+".json").status(t, 404)

	// It is no page of another kind, of another repository, nor of a comment.
	w.host(w.publish(announce("owl", "other")))
	for _, path := range []string{pathOf(issue, "pulls"), pathOf(first, "issues"), strings.Replace(pathOf(issue, "issues"), "/nest/", "/other/", 1), pathOf(issue, "issues") + "x", pathOf(issue, "issues") + "/x"} {
		w.get(path).status(t, 404)
	}
}

// inOrder reports whether words are in a text one after another.
func inOrder(text string, words []string) bool {
	for _, word := range words {
		_, rest, ok := strings.Cut(text, word)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// A pull request has its newest version, by its author, and says how to fetch it.
func TestPull(t *testing.T) {
	w := newWorld(t)
	announcement := w.publish(announce("owl", "nest"))
	pr := w.publish(event("wren", grasp.KindPullRequest, now, "Add moss", a("owl", "nest"), host.Tag{"c", commit(1)}, host.Tag{"branch-name", "moss"}, host.Tag{"merge-base", commit(9)}))
	w.host(announcement, grasp.Ref{Name: "refs/nostr/" + pr.ID.String(), Object: commit(1)})
	path := pathOf(pr, "pulls")
	d := w.get(path).status(t, 200)
	d.tame(t)
	d.has(t, "Add moss", "Tip "+commit(1), "Base "+commit(9), "Branch moss", "git fetch https://git.example.com/"+npub("owl")+"/nest.git refs/nostr/"+pr.ID.String(), "ngit pr checkout")

	update := w.publish(event("wren", grasp.KindPRUpdate, now+2, "", a("owl", "nest"), host.Tag{"E", pr.ID.String()}, host.Tag{"c", commit(2)}))
	w.publish(event("wren", grasp.KindPRUpdate, now+1, "", a("owl", "nest"), host.Tag{"E", pr.ID.String()}, host.Tag{"c", commit(3)}))
	w.publish(event("stranger", grasp.KindPRUpdate, now+3, "", a("owl", "nest"), host.Tag{"E", pr.ID.String()}, host.Tag{"c", commit(4)}))
	w.publish(event("owl", grasp.KindApplied, now+4, "", rootTag(pr), host.Tag{"merge-commit", commit(5)}))
	d = w.get(path).status(t, 200)
	d.has(t, "merged", "Tip "+commit(2), "The commits are not on this server", "pushed a new version "+shortID(commit(3)), shortID(commit(3))+" → "+shortID(commit(2)), "merged this "+shortID(commit(5)))
	d.hasNot(t, commit(4)[:10])
	w.host(announcement, grasp.Ref{Name: "refs/nostr/" + update.ID.String(), Object: commit(2)})
	w.get(path).has(t, "refs/nostr/"+update.ID.String())
}

// A series of patches is one page.
func TestPatchSeries(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	const diff = "\n---\n a | 2 +-\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old <b>\n+new \u202e\n-- \n2.39\n"
	first := w.publish(event("wren", grasp.KindPatch, now, "From 1\nSubject: [PATCH 1/2] Warm it\n"+diff, a("owl", "nest"), host.Tag{"t", "root"}))
	second := w.publish(event("wren", grasp.KindPatch, now+1, "From 2\nSubject: [PATCH 2/2] Dry it\n"+diff, a("owl", "nest"), rootTag(first)))
	w.publish(event("stranger", grasp.KindPatch, now+2, "Subject: not mine\n", a("owl", "nest"), rootTag(first)))
	d := w.get(pathOf(first, "patches")).status(t, 200)
	d.tame(t)
	d.has(t, "Warm it", "added a patch Dry it", "-old <b>", "+new ⟨U+202E⟩")
	d.hasNot(t, "not mine")
	if n := strings.Count(d.Body.String(), `<span class="add">`); n != 2 {
		t.Errorf("%d lines that are added", n)
	}
	w.get(pathOf(second, "patches")).status(t, 404)
	w.get("/"+npub("owl")+"/nest/patches").status(t, 200).has(t, "Warm it")
}

// Lists are filtered by state, label and author.
func TestList(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	var issues []*host.Event
	for i, who := range []string{"wren", "jay", "wren", "jay"} {
		issues = append(issues, w.publish(event(who, grasp.KindIssue, now+int64(i), "text", a("owl", "nest"), host.Tag{"subject", "Issue " + itoa(i)}, host.Tag{"t", "label " + itoa(i%2)})))
	}
	w.publish(event("owl", grasp.KindClosed, now+10, "", rootTag(issues[1])))
	w.publish(event("owl", grasp.KindApplied, now+10, "", rootTag(issues[2])))
	w.publish(event("stranger", grasp.KindClosed, now+10, "", rootTag(issues[3])))
	w.publish(event("owl", kindLabel, now+10, "", host.Tag{"L", "#t"}, host.Tag{"l", "late", "#t"}, host.Tag{"e", issues[0].ID.String()}))
	for query, want := range map[string][]int{
		"": {3, 0}, "?state=closed": {1}, "?state=done": {2}, "?state=all": {3, 2, 1, 0}, "?state=draft": nil, "?state=nonsense": {3, 0},
		"?state=all&label=label+1": {3, 1}, "?label=late": {0}, "?label=none": nil,
		"?author=" + npub("wren"): {0}, "?state=all&author=" + key("jay").String(): {3, 1}, "?author=nobody": nil,
	} {
		d := w.get("/"+npub("owl")+"/nest/issues"+query).status(t, 200)
		d.tame(t)
		var got []int
		for _, href := range d.hrefs() {
			for i, issue := range issues {
				if href == pathOf(issue, "issues") {
					got = append(got, i)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %v, want %v", query, got, want)
		}
	}
	w.get("/"+npub("owl")+"/nest/issues").has(t, "Open an issue", "--tag a=naddr1", "ngit issue create")
	w.get("/"+npub("owl")+"/nest/pulls").has(t, "Open a pull request", "git push -u origin pr/MY-BRANCH")
	for _, path := range []string{"/nest/pulls", "/nest/patches"} {
		w.get("/"+npub("owl")+path).status(t, 200).has(t, "None.")
	}
	w.get("/"+npub("jay")+"/nest/issues").status(t, 404)
	w.get("/"+npub("owl")+"/nest/nonsense").status(t, 404)
}

// All of ten thousand issues are found, also with a filter that few match, at a bounded cost.
func TestManyIssues(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	const n = 3000 // the fake store is slow: BenchmarkList has 10,000
	for i := range n {
		e := event("wren", grasp.KindIssue, now+int64(i/2), "text", a("owl", "nest"), host.Tag{"subject", "Issue " + itoa(i)})
		w.stored = append(w.stored, e)
		if i%1000 != 7 {
			w.stored = append(w.stored, event("owl", grasp.KindClosed, now+int64(i), "", rootTag(e)))
		}
	}
	for query, want := range map[string]int{"": n / 1000, "?state=all": n} {
		found, pages := map[string]bool{}, 0
		path := "/" + npub("owl") + "/nest/issues"
		for next := path + query; next != ""; pages++ {
			w.queries, w.read = 0, 0
			hrefs := w.get(next).status(t, 200).hrefs()
			if w.queries > 700 || w.read > 5*maxLooked {
				t.Fatalf("%d queries returned %d events for %s", w.queries, w.read, next)
			}
			if next = ""; len(hrefs) == 0 {
				break
			}
			for _, href := range hrefs {
				if strings.HasPrefix(href, path+"/") {
					found[href] = true
				}
				if strings.HasPrefix(href, "?") && strings.Contains(href, "until=") {
					next = path + href
				}
			}
		}
		if len(found) != want || query == "" && pages > n/maxLooked+1 {
			t.Errorf("%q: %d issues on %d pages, want %d", query, len(found), pages, want)
		}
	}
}

// A flood of comments hides none of those by people who have a say, and what is older is on other
// pages.
func TestManyComments(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	issue := w.publish(event("wren", grasp.KindIssue, now, "It is cold", a("owl", "nest")))
	w.stored = append(w.stored, comment("owl", now+1, "The owl speaks", issue, issue), comment("wren", now+2, "The wren speaks", issue, issue))
	for i := range 5 * maxComments {
		w.stored = append(w.stored, comment("spammer"+itoa(i), now+10+int64(i), "spam "+itoa(i)+".", issue, issue))
	}
	for i := range 500 {
		w.stored = append(w.stored, event("spammer"+itoa(i), kindReaction, now, "+", host.Tag{"e", issue.ID.String()}))
		w.stored = append(w.stored, event("wren", grasp.KindOpen, now+int64(i), "", rootTag(issue)))
	}
	path := pathOf(issue, "issues")
	d := w.get(path).status(t, 200)
	d.has(t, "The owl speaks", "The wren speaks", "spam 999.", "Earlier comments", "the newest were counted")
	if w.queries > 100 || w.read > 2000 {
		t.Errorf("%d queries returned %d events", w.queries, w.read)
	}
	found := map[int]bool{}
	for pages := 0; path != "" && pages < 50; pages++ {
		d := w.get(path).status(t, 200)
		path = ""
		for i := range 5 * maxComments {
			found[i] = found[i] || strings.Contains(d.text, "spam "+itoa(i)+".")
		}
		for _, href := range d.hrefs() {
			if strings.HasPrefix(href, "?until=") {
				path = pathOf(issue, "issues") + href
			}
		}
	}
	for i := range 5 * maxComments {
		if !found[i] {
			t.Fatalf("comment %d is on no page", i)
		}
	}
}

// Large texts are cut, and a page of them stays bounded.
func TestLargeConversation(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	issue := w.publish(event("wren", grasp.KindIssue, now, strings.Repeat("[a](", 50_000), a("owl", "nest")))
	for i := range maxComments {
		w.stored = append(w.stored, comment("jay", now+int64(i), strings.Repeat("*a_ [", 20_000), issue, issue))
	}
	d := w.get(pathOf(issue, "issues")).status(t, 200)
	d.has(t, "The text goes on")
	if n := d.Body.Len(); n > 3<<20 {
		t.Errorf("the page has %d bytes", n)
	}
}

// Every text of a conversation stays a text.
func TestHostileConversations(t *testing.T) {
	for _, evil := range hostile {
		t.Run(fmt.Sprintf("%.20q", evil), func(t *testing.T) {
			w := newWorld(t)
			w.host(w.publish(announce("owl", "nest", host.Tag{"name", evil})))
			for _, who := range []string{"owl", "wren", "jay"} {
				w.publish(event(who, 0, now, `{"name":`+quoteJSON(evil)+`,"about":`+quoteJSON(evil)+`,"website":`+quoteJSON(evil)+`,"nip05":`+quoteJSON(evil)+`}`))
			}
			for i, s := range sections {
				root := w.publish(event("wren", s.kind, now+int64(i), evil, a("owl", "nest"), host.Tag{"c", commit(3)}, host.Tag{"subject", evil}, host.Tag{"t", evil}, host.Tag{"branch-name", evil}, host.Tag{"merge-base", evil}))
				e := host.Tag{"e", root.ID.String(), evil, evil}
				c := w.publish(comment("jay", now, evil, root, root))
				w.publish(event("jay", kindReply, now, evil, e), event("jay", kindReaction, now, evil, e), event("jay", kindReaction, now, evil, host.Tag{"e", c.ID.String()}))
				w.publish(event("owl", kindLabel, now, evil, e, host.Tag{"l", evil, "#t"}, host.Tag{"l", evil, evil}))
				w.publish(event("owl", kindLabel, now, evil, e, host.Tag{"l", evil, "#subject"}))
				w.publish(event("owl", kindCoverNote, now, evil, e))
				w.publish(event("owl", grasp.KindApplied, now, evil, e, host.Tag{"merge-commit", evil}))
				w.publish(event("wren", grasp.KindPRUpdate, now, evil, host.Tag{"E", root.ID.String()}, host.Tag{"c", commit(4)}))
				w.publish(event("wren", grasp.KindPatch, now, evil, e))
				w.get(pathOf(root, s.Name)).status(t, 200).tame(t)
				for _, query := range []string{"state", "label", "author", "until"} {
					w.get("/"+npub("owl")+"/nest/"+s.Name+"?state=all", func(r *http.Request) {
						q := r.URL.Query()
						q.Set(query, evil)
						r.URL.RawQuery = q.Encode()
					}).status(t, 200).tame(t)
				}
			}
		})
	}
}

// The page of a conversation is made again after each change of what it shows.
func TestKeptConversation(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	issue := w.publish(event("wren", grasp.KindIssue, now, "It is cold", a("owl", "nest")))
	path := pathOf(issue, "issues")
	for name, e := range map[string]*host.Event{
		"a comment":   comment("jay", now+1, "yes", issue, issue),
		"a status":    event("owl", grasp.KindClosed, now+1, "", rootTag(issue)),
		"a label":     event("owl", kindLabel, now+1, "", host.Tag{"e", issue.ID.String()}, host.Tag{"l", "a", "#t"}),
		"a reaction":  event("jay", kindReaction, now+1, "+", host.Tag{"e", issue.ID.String()}),
		"a name":      event("wren", 0, now, `{"name":"Wren"}`),
		"an old form": event("jay", kindReply, now+1, "yes", host.Tag{"e", issue.ID.String()}),
	} {
		before := w.get(path).status(t, 200).Body.String()
		w.publish(e)
		if w.get(path).Body.String() == before {
			t.Errorf("%s: the old page is shown", name)
		}
	}
	w.stored = slices.DeleteFunc(w.stored, func(e *host.Event) bool { return e == issue })
	w.Handler.Follow([]*host.Event{issue}, nil)
	w.get(path).status(t, 404)
}

// A pull request says how it stands to the default branch, and leads to its changes.
func TestPullStanding(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"a": "1\n"})
	git := func(args ...string) string { return strings.TrimSpace(testkit.Git(t, dir, args...)) }
	base := git("rev-parse", "HEAD")
	git("checkout", "-q", "-b", "topic")
	write(t, dir+"/b", "2\n")
	git("add", "-A")
	git("commit", "-q", "-m", "Add b")
	tip := git("rev-parse", "HEAD")
	pr := event("wren", grasp.KindPullRequest, now, "Add b", a("owl", "nest"), host.Tag{"c", tip}, host.Tag{"merge-base", base})
	git("update-ref", "refs/nostr/"+pr.ID.String(), tip)
	git("checkout", "-q", "main")
	git("branch", "-q", "-D", "topic")
	write(t, dir+"/c", "3\n")
	git("add", "-A")
	git("commit", "-q", "-m", "Add c")
	w.serveCodeOf("nest", dir)
	w.publish(pr)
	path, url := pathOf(pr, "pulls"), "/"+npub("owl")+"/nest"
	d := w.get(path).status(t, 200)
	d.tame(t)
	d.has(t, "1 commit that main does not have", "main got 1 others")
	for _, href := range []string{url + "/compare/" + base + "..." + tip, url + "/commit/" + tip} {
		if !slices.Contains(d.hrefs(), href) {
			t.Errorf("no link to %s in %v", href, d.hrefs())
		}
		w.get(href).status(t, 200)
	}

	// A commit that the repository does not have is no link.
	w.publish(event("owl", grasp.KindApplied, now+1, "", rootTag(pr), host.Tag{"merge-commit", commit(7)}))
	d = w.get(path)
	d.has(t, "merged this "+shortID(commit(7)))
	if slices.Contains(d.hrefs(), url+"/commit/"+commit(7)) {
		t.Error("a link to a commit that is not here")
	}

	git("merge", "-q", "--no-edit", "refs/nostr/"+pr.ID.String())
	other := newWorld(t)
	other.serveCodeOf("nest", dir)
	other.publish(pr)
	d = other.get(path).status(t, 200)
	d.has(t, "All commits are on main")
	if !slices.Contains(d.hrefs(), url+"/compare/"+base+"..."+tip) {
		t.Errorf("a merged pull request has no changes: %v", d.hrefs())
	}
}
