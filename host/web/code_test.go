package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitread"
	"talon/host/gitrepo"
	"talon/host/moderation"
	"talon/internal/testkit"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// leadsTo asks that a path redirects to another.
func (w *world) leadsTo(t *testing.T, path, to string) {
	t.Helper()
	if got := w.raw(path); got.Code != http.StatusFound || got.Header().Get("Location") != to {
		t.Errorf("%s leads to %d %q, want %q", path, got.Code, got.Header().Get("Location"), to)
	}
}

// TestLineEnds shows a change of the ends of lines, and nothing of them elsewhere.
func TestLineEnds(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"windows": "one\r\ntwo\r\nthree\r\n"})
	write(t, dir+"/windows", "one\r\nTWO\r\nthree\r\n")
	testkit.Git(t, dir, "commit", "-qam", "A word")
	write(t, dir+"/windows", "one\r\nTWO\nthree\r\n")
	testkit.Git(t, dir, "commit", "-qam", "An end")
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	word := w.get(base+"/commit/"+testkit.Git(t, dir, "rev-parse", "main~1")).status(t, 200)
	word.has(t, "TWO")
	word.hasNot(t, "…", "^M")
	w.get(base+"/commit/"+testkit.Git(t, dir, "rev-parse", "main")).status(t, 200).has(t, "TWO ^M")
	w.get(base+"/blame/main/windows").status(t, 200).hasNot(t, "^M")
}

// TestBlameBounds refuses a blame of more lines than a page has, and marks a line that it cuts.
func TestBlameBounds(t *testing.T) {
	w := newWorld(t)
	w.serveCodeOf("nest", workTree(t, map[string]string{"many": strings.Repeat("\n", 20_001), "long": strings.Repeat("x", 5000) + "\n"}))
	base := "/" + npub("owl") + "/nest"
	w.get(base+"/blame/main/many").status(t, 200).has(t, "too many lines")
	long := w.get(base+"/blame/main/long").status(t, 200)
	long.has(t, "x …")
	long.tame(t)
}

// TestReadmeOfOtherHosts shows images that are linked as other hosts have it.
func TestReadmeOfOtherHosts(t *testing.T) {
	w := newWorld(t)
	w.serveCodeOf("nest", workTree(t, map[string]string{"README.md": "![logo](img/a.png?raw=true) [guide](docs/x.md?plain=1#part)\n", "img/a.png": "png", "docs/x.md": "# Part\n"}))
	base := "/" + npub("owl") + "/nest"
	page := w.get(base).status(t, 200)
	if !strings.Contains(page.Body.String(), `src="`+base+`/raw/main/img/a.png"`) || !slices.Contains(page.hrefs(), base+"/blob/main/docs/x.md#part") {
		t.Errorf("links: %v", page.hrefs())
	}
	for _, more := range []string{"/log", "/refs", "/grep"} {
		if !slices.Contains(page.hrefs(), base+more) {
			t.Errorf("the first page does not lead to %s: %v", more, page.hrefs())
		}
	}
}

// TestRedirects keep the query. A tag of a file leads to the list of tags.
func TestRedirects(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"a.txt": "one\ntwo\n"})
	testkit.Git(t, dir, "tag", "key", testkit.Git(t, dir, "rev-parse", "HEAD:a.txt"))
	w.serveCodeOf("nest", dir)
	base, id := "/"+npub("owl")+"/nest", testkit.Git(t, dir, "rev-parse", "HEAD")
	w.leadsTo(t, base+"/blob/"+id[:9]+"/a.txt?l=2", base+"/blob/"+id+"/a.txt?l=2")
	w.leadsTo(t, base+"/grep?q=two", base+"/grep/main?q=two")
	w.leadsTo(t, base+"/commit/"+id[:9]+".patch", base+"/commit/"+id+".patch")
	w.leadsTo(t, base+"/commit/main.diff", base+"/commit/"+id+".diff")
	w.leadsTo(t, base+"/tree/key", base+"/refs")
	refs := w.get(base+"/refs").status(t, 200)
	refs.has(t, "key not a commit")
	if slices.Contains(refs.hrefs(), base+"/tree/key") {
		t.Errorf("links: %v", refs.hrefs())
	}
}

// TestLinksOfCode leads from a deleted file to its content, from a log to its feed, and from a
// submodule with a relative URL to its repository.
func TestLinksOfCode(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"gone": "text\n", ".gitmodules": "[submodule \"egg\"]\n\tpath = egg\n\turl = ../egg.git\n"})
	first := testkit.Git(t, dir, "rev-parse", "HEAD")
	testkit.Git(t, dir, "rm", "-q", "gone")
	testkit.Git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+first+",egg")
	testkit.Git(t, dir, "commit", "-q", "-m", "An egg")
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	commit := w.get(base+"/commit/"+testkit.Git(t, dir, "rev-parse", "HEAD")).status(t, 200)
	if at := base + "/blob/" + first + "/gone"; !slices.Contains(commit.hrefs(), at) || w.raw(at).Code != 200 {
		t.Errorf("links: %v", commit.hrefs())
	}
	if tree := w.get(base+"/tree/main").status(t, 200); !slices.Contains(tree.hrefs(), "/"+npub("owl")+"/egg/tree/"+first) {
		t.Errorf("links: %v", tree.hrefs())
	}
	log := w.get(base+"/log/main").status(t, 200)
	if !strings.Contains(log.Body.String(), `href="`+base+`/log.atom/main"`) || w.raw(base+"/log.atom/main").Code != 200 {
		t.Error("the log does not lead to its feed")
	}
}

// TestNeighbours follows the links between commits from the newest to the oldest, in the order of
// git log. A page that was kept is made again when a newer commit comes.
func TestNeighbours(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"a": "1\n"})
	for _, content := range []string{"2\n", "3\n"} {
		write(t, dir+"/a", content)
		testkit.Git(t, dir, "commit", "-qam", content)
	}
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	ids := strings.Fields(testkit.Git(t, dir, "log", "--format=%H"))
	for i, id := range ids {
		page := w.get(base+"/commit/"+id).status(t, 200)
		for _, link := range []struct {
			text string
			at   int
		}{{"Next commit", i - 1}, {"Previous commit", i + 1}} {
			has := strings.Contains(page.text, link.text)
			want := link.at >= 0 && link.at < len(ids)
			if has != want || want && !strings.Contains(page.Body.String(), `<a href="`+base+"/commit/"+ids[link.at]+`" rel="nofollow">`+link.text) {
				t.Errorf("%d: %s: %v", i, link.text, page.hrefs())
			}
		}
	}
	etag := w.raw(base + "/commit/" + ids[0]).Header().Get("ETag")
	write(t, dir+"/a", "4\n")
	testkit.Git(t, dir, "commit", "-qam", "4")
	address, _ := announce("owl", "nest").Address()
	testkit.Git(t, dir, "push", "-q", w.repos[address].git.Dir(), "main")
	again := w.get(base+"/commit/"+ids[0], func(r *http.Request) { r.Header.Set("If-None-Match", etag) })
	again.status(t, 200).has(t, "Next commit")
}

// TestModerationNumber gives pages of code another ETag with each row about their repository.
func TestModerationNumber(t *testing.T) {
	log := new(moderation.Log)
	w := newWorld(t, func(c *Config) { c.Moderation = log })
	w.serveCodeOf("nest", workTree(t, map[string]string{"a": "1\n"}))
	path := "/" + npub("owl") + "/nest/blob/main/a"
	row := func(number int64, action moderation.Action, identifier string) {
		target, err := moderation.RepositoryTarget(key("owl"), identifier)
		if err != nil {
			t.Fatal(err)
		}
		log.Apply([]moderation.Row{{Number: number, At: now, Action: action, Target: target}})
	}
	before := w.raw(path).Header().Get("ETag")
	row(1, moderation.Hide, "another")
	if got := w.raw(path).Header().Get("ETag"); got != before || got == "" {
		t.Errorf("the ETag %s becomes %s with a row about another repository", before, got)
	}
	row(2, moderation.Hide, "nest")
	if got := w.raw(path, func(r *http.Request) { r.Header.Set("If-None-Match", before) }); got.Code != http.StatusUnavailableForLegalReasons {
		t.Errorf("a hidden repository: %d", got.Code)
	}
	row(3, moderation.Unhide, "nest")
	if got := w.raw(path); got.Code != 200 || got.Header().Get("ETag") == before {
		t.Errorf("shown again: %d with the ETag %s as before", got.Code, before)
	}
}

// fork makes repositories of several owners that share objects, each with the branches of a work tree.
func (w *world) fork(t *testing.T, identifier, workTree string, branches map[string][]string) {
	t.Helper()
	git, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	root, err := gitrepo.Open(git, t.TempDir()+"/git")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	for who, list := range branches {
		name, err := gitrepo.ParseName(npub(who), identifier)
		if err != nil {
			t.Fatal(err)
		}
		repo := root.Repo(name)
		unlock, err := repo.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := repo.Init(t.Context(), gitrepo.SHA1); err != nil {
			t.Fatal(err)
		}
		testkit.Git(t, workTree, append([]string{"push", "-q", repo.Dir()}, list...)...)
		testkit.Git(t, repo.Dir(), "symbolic-ref", "HEAD", "refs/heads/main")
		if err := repo.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
		unlock()
		e := announce(who, identifier)
		w.host(w.publish(e))
		address, _ := e.Address()
		on := w.repos[address]
		on.git = repo
		w.repos[address] = on
	}
}

// TestCompareForks compares branches of two owners. A repository that is not served takes no part.
func TestCompareForks(t *testing.T) {
	log := new(moderation.Log)
	w := newWorld(t, func(c *Config) { c.Moderation = log })
	dir := workTree(t, map[string]string{"a": "one\n", "gone": "x\n"})
	testkit.Git(t, dir, "checkout", "-q", "-b", "topic")
	testkit.Git(t, dir, "rm", "-q", "gone")
	write(t, dir+"/a", "one\ntwo\n")
	testkit.Git(t, dir, "commit", "-qam", "Two more")
	w.fork(t, "nest", dir, map[string][]string{"owl": {"main"}, "jay": {"main", "topic"}, "crow": {"main"}})
	w.serveCodeOf("other", workTree(t, map[string]string{"b": "b\n"}))
	owl, jay, topic := "/"+npub("owl")+"/nest", "/"+npub("jay")+"/nest", testkit.Git(t, dir, "rev-parse", "topic")

	path := owl + "/compare/main..." + npub("jay") + ":topic"
	page := w.get(path).status(t, 200)
	page.has(t, "1 commit", "Two more", "2 files changed", "two")
	page.tame(t)
	for _, href := range page.hrefs() {
		if strings.HasPrefix(href, "/npub") && w.raw(href).Code >= 400 {
			t.Errorf("a link to %s", href)
		}
	}
	if !slices.Contains(page.hrefs(), jay+"/commit/"+topic) {
		t.Errorf("links: %v", page.hrefs())
	}
	w.get(jay+"/compare/"+npub("owl")+":main...topic").status(t, 200).has(t, "Two more")
	w.get(jay+"/compare/topic..."+npub("owl")+":main").status(t, 200).has(t, "No commits")
	w.leadsTo(t, owl+"/compare/main..."+npub("jay")+":"+topic[:9], owl+"/compare/main..."+npub("jay")+":"+topic)
	w.get(owl+"/commit/"+topic).status(t, 404)
	for _, b := range []string{"topic", topic, npub("crow") + ":topic", npub("crow") + ":" + topic, npub("wren") + ":main", "npub1x:main", ":main", npub("jay") + ":topic/a"} {
		w.get(owl+"/compare/main..."+b).status(t, 404)
	}
	refs := w.get(owl+"/refs").status(t, 200)
	refs.has(t, "Repositories of this name by others")
	if !slices.Contains(refs.hrefs(), owl+"/compare/main..."+npub("jay")+":HEAD") || !slices.Contains(refs.hrefs(), jay) {
		t.Errorf("links: %v", refs.hrefs())
	}
	w.get("/"+npub("owl")+"/other/refs").status(t, 200).hasNot(t, "by others")

	target, err := moderation.RepositoryTarget(key("jay"), "nest")
	if err != nil {
		t.Fatal(err)
	}
	log.Apply([]moderation.Row{{Number: 1, At: now, Action: moderation.Hide, Target: target}})
	w.get(path).status(t, 404)
	if refs := w.get(owl + "/refs"); slices.Contains(refs.hrefs(), jay) {
		t.Errorf("links to a hidden repository: %v", refs.hrefs())
	}
}

// TestAuthorLog shows the commits of an author to people who have signed in. The links on their pages
// keep them signed in, and caches do not keep the pages.
func TestAuthorLog(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.SignedIn = func(r *http.Request) string { return r.Header.Get("Test-Prefix") }
	})
	dir := workTree(t, map[string]string{"a": "1\n"})
	for i := range 60 {
		testkit.Git(t, dir, "commit", "-q", "--allow-empty", "--author", "Wren [x] <wren@example.com>", "-m", "Number "+itoa(i))
	}
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	w.get(base+"/log/main?author=wren").status(t, http.StatusForbidden).has(t, "signed in")
	w.get(base+"/log/main").status(t, 200).hasNot(t, "Filter")
	in := func(r *http.Request) {
		r.Header.Set("Test-Prefix", "/auth")
	}
	all := w.get(base+"/log/main", in).status(t, 200)
	all.has(t, "Filter", "Number 59")
	page := w.get(base+"/log/main?author=wREN+%5Bx", in).status(t, 200)
	page.has(t, "Number 59", "Number 10")
	page.hasNot(t, "Number 9 ", "The files")
	next := ""
	for _, href := range page.hrefs() {
		if strings.Contains(href, "from=50") {
			next = href
		}
		if strings.HasPrefix(href, base) {
			t.Errorf("a link to %s, where nobody is signed in", href)
		}
	}
	rest, ok := strings.CutPrefix(next, "/auth")
	if !ok {
		t.Fatalf("links: %v", page.hrefs())
	}
	older := w.get(rest, in).status(t, 200)
	older.has(t, "Number 9", "Number 0", "Newer")
	older.hasNot(t, "The files", "Older")
	w.get(base+"/log/main?author=nobody+here", in).status(t, 200).has(t, "no commits here")
}

// TestLanguages says what the code of a repository is written in.
func TestLanguages(t *testing.T) {
	w := newWorld(t)
	w.serveCodeOf("nest", workTree(t, map[string]string{
		"main.go": strings.Repeat("x", 700), "a.ts": strings.Repeat("x", 295), "b.tf": "12345", "data.json": strings.Repeat("1", 9000), "vendor/x/y.c": strings.Repeat("x", 9000), "README.md": strings.Repeat("x", 900),
	}))
	path := "/" + npub("owl") + "/nest"
	for range 10_000 { // it is counted in the background
		if strings.Contains(w.get(path).status(t, 200).text, "Languages") {
			break
		}
		w.cache = newCache()
		time.Sleep(time.Millisecond)
	}
	w.get(path).has(t, "Languages Go 70 %, TypeScript 30 %, Terraform 1 %")
}

// TestPrepareAfterPush prepares pages of repositories that somebody looked at, when a state is
// published that has them in its identifier.
func TestPrepareAfterPush(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"a": "1\n"})
	w.serveCodeOf("nest", dir)
	var prepared []string
	w.prepare = func(name string, find gitread.Finder) {
		repo, err := find(t.Context())
		if err != nil || repo == nil {
			t.Errorf("%s: %v", name, err)
		}
		prepared = append(prepared, name)
	}
	publish := func(e *host.Event) { w.Handler.Publish([]host.Published{{Event: e, Seq: 1}}) }
	state := event("owl", grasp.KindState, now, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(1)})
	publish(state)
	if prepared != nil {
		t.Errorf("prepared without a visitor: %v", prepared)
	}
	w.get("/"+npub("owl")+"/nest/tree/main").status(t, 200)
	publish(event("owl", grasp.KindState, now, "", host.Tag{"d", "another"}, host.Tag{"refs/heads/main", commit(1)}))
	publish(event("owl", grasp.KindIssue, now, "", a("owl", "nest")))
	publish(state)
	if len(prepared) != 1 || !strings.Contains(prepared[0], "nest") {
		t.Errorf("prepared: %v", prepared)
	}
}

// TestLinksOfMessages leads from a commit to the issue and the pull request that its message names, and
// from a comment to another issue.
func TestLinksOfMessages(t *testing.T) {
	w := newWorld(t)
	issue := event("wren", grasp.KindIssue, now, "It is cold.", a("owl", "nest"), host.Tag{"subject", "Cold"})
	pull := event("wren", grasp.KindPullRequest, now, "Moss.", a("owl", "elsewhere"), a("owl", "nest"), host.Tag{"c", commit(3)})
	w.publish(issue, pull)
	code := func(e *host.Event) string { return nip19.EncodeNevent(e.ID, e.PubKey, uint16(e.Kind), "") }
	stranger := event("wren", grasp.KindIssue, now, "x", a("owl", "elsewhere"))
	dir := workTree(t, map[string]string{"README": "hello\n"})
	testkit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "Add moss\n\nCloses nostr:"+code(issue)+".\nOf nostr:"+code(pull)+", not nostr:"+code(stranger)+
		" or nostr:nevent1x; see (https://example.com/a?b=<c>\"). By nostr:"+npub("owl")+"\n<script>alert(1)</script> javascript:alert(1) https:// xhttps://no.example")
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	path := base + "/commit/" + testkit.Git(t, dir, "rev-parse", "HEAD")
	page := w.get(path).status(t, 200)
	for _, want := range []string{base + "/issues/" + issue.ID.String(), base + "/pulls/" + pull.ID.String(), "nostr:" + code(stranger), "https://example.com/a?b=", "/" + npub("owl")} {
		if !slices.Contains(page.hrefs(), want) {
			t.Errorf("the commit does not lead to %s: %v", want, page.hrefs())
		}
	}
	page.has(t, "Closes Cold.", "Of Moss., not nevent") // titles, if they are here
	page.has(t, "<script>alert(1)</script> javascript:alert(1) https:// xhttps://no.example", "nostr:nevent1x;")
	page.tame(t)
	for _, href := range page.hrefs() {
		if strings.Contains(href, "no.example") || strings.Contains(href, "javascript:") {
			t.Errorf("the commit leads to %s", href)
		}
	}
	// The page changes with the issue.
	etag := page.Header().Get("ETag")
	w.stored = slices.DeleteFunc(w.stored, func(e *host.Event) bool { return e == issue })
	if got := w.raw(path, func(r *http.Request) { r.Header.Set("If-None-Match", etag) }); got.Code != 200 || strings.Contains(got.Body.String(), "/issues/"+issue.ID.String()) {
		t.Errorf("after the issue has gone the commit is answered with %d, and leads to it", got.Code)
	}
	other := event("jay", grasp.KindIssue, now+1, "Like nostr:"+code(pull)+".", a("owl", "nest"))
	w.publish(other)
	if conversation := w.get(base+"/issues/"+other.ID.String()).status(t, 200); !slices.Contains(conversation.hrefs(), base+"/pulls/"+pull.ID.String()) {
		t.Errorf("the issue does not lead to the pull request: %v", conversation.hrefs())
	}
}
