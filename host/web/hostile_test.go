package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"talon/host"
	"talon/sdk/grasp"
)

// hostile are texts that try to become more than text.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "`${alert(1)}`", `</title><script>x</script>`,
	`</style><script>x</script>`, `<!--`, `-->`, `]]>`, `<![CDATA[`, `&lt;b&gt;`, `{{.Style}}`, `{{template "top"}}`, `</textarea>`, `<svg/onload=alert(1)>`,
	"\u202eevil\u202c", "a\u0000b", "\x1b[31mred", strings.Repeat("a\u0301\u0301\u0301\u0301\u0301", 50), strings.Repeat("W", 100_000), "\u200b\u200b", "   ",
	"javascript:alert(1)", "data:text/html,<script>x</script>", "vbscript:x", "JaVaScRiPt:alert(1)", " javascript:x", "java\nscript:x", "//evil.example",
	"https://user@evil.example", "https://ok.example\\@evil.example", "file:///etc/passwd", "nostr:<script>", "nostr://npub1x", "https://",
}

// known are the elements that pages are made of, and what may be in their attributes.
var known = map[string]string{
	"html": "lang", "head": "", "meta": "charset name content property", "link": "rel href type title", "style": "", "title": "", "body": "", "header": "", "main": "", "footer": "",
	"a": "href title rel class aria-current", "article": "id class", "section": "class aria-label", "label": "",
	"svg": "viewBox aria-hidden", "path": "d fill stroke stroke-width stroke-linecap", "bdi": "", "h1": "class", "h2": "id class", "h3": "id class", "h4": "id class", "h5": "id class", "h6": "id class", "small": "",
	"thead": "", "blockquote": "", "hr": "", "strong": "", "em": "", "del": "", "i": "", "kbd": "",
	"p": "class", "code": "", "pre": "class tabindex", "b": "", "span": "class id title", "div": "class tabindex", "ul": "class", "ol": "class", "li": "class", "dl": "", "dt": "", "dd": "",
	"br": "", "time": "datetime", "details": "class id open", "summary": "",
	"nav": "class aria-label", "table": "class", "tr": "class id", "td": "class colspan", "th": "class", "tbody": "", "img": "src alt loading", "audio": "src controls preload", "video": "src controls preload",
	"form": "class action method role", "input": "name value type aria-label maxlength size placeholder", "button": "",
}

// tame asks that a page is made of what the templates have, and that its links lead to
// pages only.
func (d *doc) tame(t *testing.T) {
	t.Helper()
	for _, e := range d.elements {
		allowed, ok := known[e.name]
		if !ok {
			t.Fatalf("an element <%s> in\n%.3000s", e.name, d.Body)
		}
		for name := range e.attr {
			if !slices.Contains(strings.Fields(allowed), name) {
				t.Fatalf("an attribute %s of <%s> in\n%.3000s", name, e.name, d.Body)
			}
		}
	}
	for _, href := range d.hrefs() {
		u, err := url.Parse(href)
		if err != nil {
			t.Errorf("a link to %q: %v", href, err)
			continue
		}
		switch {
		case u.Scheme == "https" && u.Host != "" && u.User == nil && u.Hostname() != "evil.example":
		case u.Scheme == "mailto":
		case u.Scheme == "nostr" && isCode(u.Opaque):
		case u.Scheme == "" && u.Host == "" && (strings.HasPrefix(href, "/") || strings.HasPrefix(href, "?") || strings.HasPrefix(href, "#")):
		default:
			t.Errorf("a link to %q", href)
		}
	}
	for _, r := range d.text {
		if r != '\n' && (invisible(r) || r < ' ') {
			t.Errorf("the page has a %U", r)
		}
	}
	if n := d.Body.Len(); n > 400_000 {
		t.Errorf("the page has %d bytes", n)
	}
}

func quoteJSON(s string) string { return string(host.AppendString(nil, s)) }

// Every text that a stranger can put on a page stays a text.
func TestHostileTexts(t *testing.T) {
	for _, evil := range hostile {
		t.Run(fmt.Sprintf("%.20q", evil), func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Name, c.Description = evil, evil })
			w.about = []host.Description{{Grasps: []string{evil}, Criteria: evil, Curation: evil}}
			owner := announce("owl", "nest", host.Tag{"name", evil}, host.Tag{"description", evil}, host.Tag{"web", evil, evil, evil},
				host.Tag{"clone", evil}, host.Tag{"maintainers", key("crow").String(), evil})
			w.host(w.publish(owner), grasp.Ref{Name: "refs/heads/" + evil, Object: commit(1)}, grasp.Ref{Name: "refs/tags/" + evil, Object: commit(2)})
			w.publish(announce("jay", "nest", host.Tag{"name", evil}, host.Tag{"clone", evil}))
			for _, who := range []string{"owl", "crow", "wren"} {
				w.publish(event(who, 0, now, `{"name":`+quoteJSON(evil)+`,"display_name":`+quoteJSON(evil)+`}`))
			}
			for i, kind := range []host.Kind{grasp.KindIssue, grasp.KindPullRequest, grasp.KindPatch} {
				at := now + int64(i)
				w.publish(event("wren", kind, at, evil, a("owl", "nest"), host.Tag{"c", commit(3)}, host.Tag{"subject", evil}))
				e := w.publish(event("wren", kind, at, "Subject: "+evil, a("owl", "nest"), host.Tag{"c", commit(3)}, host.Tag{"clone", evil}))
				w.publish(event("owl", grasp.KindClosed, at, evil, rootTag(e), host.Tag{"subject", evil}))
				w.publish(event("wren", grasp.KindComment, at, evil, host.Tag{"E", e.ID.String(), evil, evil}))
			}
			w.get("/").status(t, 200).tame(t)
			w.get("/"+npub("owl")+"/nest").status(t, 200).tame(t)
			w.get("/"+npub("jay")+"/nest").status(t, 404).tame(t)
		})
	}
}

// Identifiers are paths, titles and arguments of a shell: whatever they are made of,
// their page is found, and no other.
func TestHostileIdentifiers(t *testing.T) {
	for _, id := range append(slices.Clone(hostile),
		"a:b", "a b", " a ", "🦉🪹", strings.Repeat("n", 200), strings.Repeat("🦉", 100), "a.git", "..git", "...", "-rf", "--upload-pack=x", "$(id)", "`id`", "a'b", "%2e%2e",
		"a%b", "a?b=c", "a#b", "a&b;c", "\u202ehc\u200b", "\u200b", "prs", "a+b", "~", "C:", "con", "日本語") {
		if grasp.CheckIdentifier(id) != nil || len(id) > 1000 {
			continue
		}
		t.Run(fmt.Sprintf("%.20q", id), func(t *testing.T) {
			w := newWorld(t)
			w.host(w.publish(announce("owl", id)))
			w.held = append(w.held, announce("crow", id))
			w.host(w.held[0])
			path := repoOf("owl", id).Path()
			list := w.get("/").status(t, 200)
			list.tame(t)
			if !slices.Contains(list.hrefs(), path) {
				t.Errorf("the list does not lead to %s: %v", path, list.hrefs())
			}
			page := w.get(path).status(t, 200)
			page.tame(t)
			page.has(t, "git clone https://git.example.com"+path)
			if !strings.HasSuffix(id, ".git") {
				w.get(strings.TrimSuffix(path, ".git")).status(t, 200)
			}
			held := w.get(repoOf("crow", id).Path()).status(t, 200)
			held.tame(t)
			held.has(t, "talon event push https://git.example.com/"+npub("crow")+"/")
			w.get("/prs"+path).status(t, 200).tame(t)
			w.get(repoOf("owl", id+"x").Path()).status(t, 404)
			w.get(repoOf("wren", id).Path()).status(t, 404)
		})
	}
}

// TestArgument: a shell reads each argument that a page shows as exactly that text.
func TestArgument(t *testing.T) {
	for identifier, want := range map[string]string{
		"nest": "nest", "my-nest_1.0": "my-nest_1.0", "a b": "'a b'", "$(id)": "'$(id)'", "a'b": `'a'\''b'`, "日本": "'日本'", "-rf": "-rf", "a;b": "'a;b'",
		"a\u202eb": "", "a\u00a0b": "", "a\u200bb": "", "a\nb": "",
	} {
		if got := argument(identifier); got != want {
			t.Errorf("%q: %q, want %q", identifier, got, want)
		}
	}
}

// A page costs a bounded number of reads, and of events, whatever is stored.
func TestManyEvents(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest", host.Tag{"maintainers", key("crow").String()})))
	genuine := w.publish(event("wren", grasp.KindIssue, now+50_000, "A real one", a("owl", "nest")))
	w.publish(event("crow", grasp.KindClosed, now, "", rootTag(genuine)))
	for i := range 10_000 {
		at := now + int64(i)
		e := w.publish(event("spammer", grasp.KindIssue, at, "spam", a("owl", "nest")))
		if i >= 9_950 {
			// The spammer has a say about his own issues, and uses it.
			for n := range int64(100) {
				w.publish(event("spammer", grasp.KindOpen, at+n, "", rootTag(e), rootTag(genuine)))
			}
		}
	}
	for i := range 1000 {
		w.publish(event("stranger", grasp.KindClosed, now+90_000+int64(i), "", rootTag(genuine)))
		w.publish(event("stranger", grasp.KindComment, now+int64(i), "", host.Tag{"E", genuine.ID.String()}))
	}
	d := w.get("/"+npub("owl")+"/nest").status(t, 200)
	d.has(t, "Issues 99+ open, 1+ closed", "A real one closed", "200+ comments", "All of them")
	if n := strings.Count(d.text, "spam"); n != maxItems {
		t.Errorf("%d open issues are shown", n)
	}
	if w.queries > 200 || w.read > 2000 {
		t.Errorf("%d queries returned %d events", w.queries, w.read)
	}
	d.tame(t)
}

// All events may be of the same second.
func TestSameSecond(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	for i := range 300 {
		w.publish(event("wren", grasp.KindIssue, now, "issue "+itoa(i), a("owl", "nest")))
	}
	w.publish(event("wren", grasp.KindIssue, now-1, "an older one", a("owl", "nest")))
	w.get("/"+npub("owl")+"/nest").status(t, 200).has(t, "Issues 26+ open", "All of them")
}

// Ten thousand announcements of strangers, and ten thousand maintainers, cost a page
// no more than others; the owner's own word stays.
func TestManyMaintainers(t *testing.T) {
	w := newWorld(t)
	var names []string
	for i := range 990 {
		names = append(names, key("m"+itoa(i)).String())
	}
	w.host(w.publish(announce("owl", "nest", append(host.Tag{"maintainers", key("crow").String()}, names...))))
	for i := range 10_000 {
		w.publish(announce("s"+itoa(i), "nest", host.Tag{"maintainers", key("owl").String(), key("s" + itoa(i+1)).String()}))
	}
	for i := range 100 {
		w.publish(announce("m"+itoa(i), "nest", append(host.Tag{"maintainers"}, names...)))
	}
	d := w.get("/"+npub("owl")+"/nest").status(t, 200)
	d.has(t, shortKey(npub("crow")), "and 962 more")
	d.hasNot(t, shortKey(npub("s1")))
	if w.queries > 200 || w.read > 2000 {
		t.Errorf("%d queries returned %d events", w.queries, w.read)
	}
	d.tame(t)
}

// Ten thousand refs do not make a page of megabytes.
func TestManyRefs(t *testing.T) {
	w := newWorld(t)
	var refs []grasp.Ref
	for i := range 10_000 {
		refs = append(refs, grasp.Ref{Name: fmt.Sprintf("refs/heads/b%05d", i), Object: commit(i)}, grasp.Ref{Name: "refs/tags/v" + itoa(i), Object: commit(i)})
	}
	e := announce("owl", "nest")
	w.host(w.publish(e), append(refs, heads("refs/heads/main")...)...)
	d := w.get("/"+npub("owl")+"/nest").status(t, 200)
	d.has(t, "Branches 10001 main HEAD", "Tags 10000 v9999", "and 9951 more", "and 9950 more")
	d.tame(t)

	// HEAD may name what is not there, and anything else than a branch.
	address, _ := e.Address()
	for _, head := range []string{"", "refs/heads/gone", "refs/tags/v1", "HEAD"} {
		w.repos[address] = repoOnDisk{refs: heads("refs/heads/main", "refs/tags/v1"), head: head}
		w.get("/"+npub("owl")+"/nest").hasNot(t, "HEAD")
	}
}

// Numbers that are no time, and events that are not what their kind says.
func TestOddEvents(t *testing.T) {
	w := newWorld(t)
	e := announce("owl", "nest")
	e = event("owl", e.Kind, 1<<62, "", e.Tags...)
	w.host(w.publish(e))
	w.publish(event("wren", grasp.KindIssue, 1<<62, "", a("owl", "nest")), event("wren", grasp.KindIssue, 0, "\n\n \n", a("owl", "nest")))
	w.publish(event("wren", grasp.KindPullRequest, now, "no commit", a("owl", "nest"), host.Tag{"c", "--upload-pack=x"}))
	w.publish(event("wren", grasp.KindPatch, now, "of nothing", a("owl", "nest"), host.Tag{"e", strings.Repeat("0", 64), "", "root"}))
	w.publish(event("owl", grasp.KindState, now, "", host.Tag{"d", "nest"}))
	for _, content := range []string{"", "null", "[]", `"x"`, `{"name":{}}`, `{"name":null}`, strings.Repeat("[", 10_000), `{"name":"` + "\u202e" + `"}`} {
		w.publish(event("owl", 0, now, content))
		d := w.get("/"+npub("owl")+"/nest").status(t, 200)
		d.has(t, "at an impossible time", "(no title)", "Issues 2 open", "Maintainers "+shortKey(npub("owl")))
		d.hasNot(t, "Pull requests 1", "Patches 1", "State signed")
		d.tame(t)
		w.stored = w.stored[:len(w.stored)-1]
	}
	w.get("/?until=x").status(t, 200)
	w.get("/?until=-1").status(t, 200)
	w.get("/?until=0").status(t, 200).has(t, "None in this part")
	w.get("/?until=99999999999999999999999").status(t, 200)
}

// An identifier that an naddr cannot hold has a page without one.
func TestLongIdentifier(t *testing.T) {
	w := newWorld(t)
	id := strings.Repeat("n", 256)
	w.host(w.publish(announce("owl", id)))
	d := w.get(repoOf("owl", id).Path()).status(t, 200)
	d.hasNot(t, "naddr1", "Open in")
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/", "/prs/" + npub("owl") + "/nest.git", repoOf("owl", "nest").Path(), "/" + npub("owl") + "/n%65st", "/" + npub("owl") + "/..%2f", "/" + npub("crow") + "/nest/", "/%", "/?until=5",
		"/search?q=a", "/robots.txt", "/sitemap.xml", "/" + npub("owl"), "/" + npub("owl") + "/nest/issues?state=all&label=x&author=y", "/" + npub("owl") + "/nest/pulls.atom",
		"/" + npub("owl") + "/nest/issues/" + strings.Repeat("0", 64) + ".json", "/" + npub("owl") + "/nest.git/patches/note1", "/" + npub("owl") + "/nest/log.atom/a",
	} {
		f.Add(path)
	}
	w := newWorld(&testing.T{})
	w.host(w.publish(announce("owl", "nest")))
	w.held = append(w.held, announce("crow", "nest"))
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" {
			t.Skip()
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = u
		d := &doc{ResponseRecorder: httptest.NewRecorder()}
		w.ServeHTTP(d.ResponseRecorder, r)
		switch d.Code {
		case 200, 404:
		case 302:
			if to := d.Header().Get("Location"); !strings.HasPrefix(to, "/npub1") {
				t.Fatalf("%q leads to %q", path, to)
			}
			return
		default:
			t.Fatalf("%q: status %d", path, d.Code)
		}
		if kind := d.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/html") {
			return
		}
		d.parse(t)
		d.tame(t)
		if d.Code == 200 && strings.HasPrefix(u.Path, "/npub1") {
			if text := d.Body.String(); !strings.Contains(text, npub("owl")) && !strings.Contains(text, npub("crow")) && !strings.Contains(text, "None ") {
				t.Fatalf("%q is a page of another repository: %s", path, d.text)
			}
		}
	})
}

func FuzzText(f *testing.F) {
	for _, evil := range hostile {
		f.Add(evil[:min(len(evil), 200)])
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, keep := range []bool{false, true} {
			clean := line
			if keep {
				clean = lines
			}
			got := clean(s, 20)
			if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 21 {
				t.Fatalf("%q becomes %q", s, got)
			}
			if again := clean(got, 21); again != got {
				t.Fatalf("%q becomes %q, and that %q", s, got, again)
			}
			if !keep && strings.Contains(got, "\n") {
				t.Fatalf("%q becomes %q", s, got)
			}
		}
		if !hasLook(identifier(s)) {
			t.Fatalf("the identifier %q cannot be seen", s)
		}
		if l := linkTo(s); l.Href != "" {
			u, err := url.Parse(string(l.Href))
			if err != nil || u.User != nil || (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") && (u.Scheme != "nostr" || !isCode(u.Opaque)) {
				t.Fatalf("%q links to %q", s, l.Href)
			}
		}
		argument(s)
		nameOf(s)
	})
}
