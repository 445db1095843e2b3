package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"talon/host/moderation"
	"talon/internal/testkit"
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
