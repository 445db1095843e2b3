package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/sdk/grasp"
)

// The first page says what this is and what it accepts, and lists what is here.
func TestLanding(t *testing.T) {
	w := newWorld(t)
	w.about = []host.Description{
		{Grasps: []string{"GRASP-06", "GRASP-01"}, Criteria: "Repositories of birds only.", Curation: "Chosen by the owl."},
		{Grasps: []string{"GRASP-01"}},
	}
	empty := w.get("/").status(t, 200)
	empty.has(t, "Nest", "A home for birds.", "wss://git.example.com", "https://git.example.com/<npub>/<identifier>.git",
		"op@example.com", "GRASP-01, GRASP-06", "1, 11, 34", "Repositories of birds only.", "Chosen by the owl.",
		"talon event announce --name 'My project' --server wss://git.example.com",
		"talon event push https://git.example.com/<npub>/my-project.git --all", "None yet.")
	if !slices.Contains(empty.hrefs(), "mailto:op@example.com") {
		t.Errorf("links: %v", empty.hrefs())
	}
	w.publish(event("owl", 0, now, `{"name":"Owl"}`))
	w.host(w.publish(announce("owl", "nest", host.Tag{"name", "My nest"}, host.Tag{"description", "Twigs\nand moss"})))
	w.publish(announce("crow", "nest", host.Tag{"name", "A member's"}))
	page := w.get("/")
	page.has(t, "My nest", "Twigs and moss", "Owl npub1")
	page.hasNot(t, "A member's", "None yet", "Older")
	if !slices.Contains(page.hrefs(), "/"+npub("owl")+"/nest.git") {
		t.Errorf("links: %v", page.hrefs())
	}

	// A policy that says nothing of itself is GRASP-01's.
	w.about = nil
	w.get("/").has(t, "Repositories whose announcement lists this service", "under /prs/")
	bare := newWorld(t, func(c *Config) { c.Name, c.Description, c.Contact, c.About, c.PRs = "", "", "", nil, false })
	got := bare.get("/").status(t, 200)
	got.has(t, "git.example.com", "Repositories whose announcement lists this service")
	got.hasNot(t, "Operator", "Speaks", "/prs/")

	// One that says what it accepts, and names no GRASP, hosts nothing: as in NIP-11.
	w.about = []host.Description{{Criteria: "Every valid event is stored."}}
	general := w.get("/").status(t, 200)
	general.has(t, "A nostr relay.", "wss://git.example.com", "1, 11", "Every valid event is stored.", "My nest")
	general.hasNot(t, "git server in one", "11, 34", "talon event announce", "npub>/<identifier>.git")
	w.about = []host.Description{{Curation: "Friends only."}}
	w.get("/").status(t, 200).has(t, "What the policy of the operator takes.", "Friends only.")
}

// All repositories are found by going from page to page, also those of one second.
func TestLandingPages(t *testing.T) {
	for name, test := range map[string]struct {
		apart int64
		n     int
	}{"each in its second": {1, 65}, "in pairs": {0, 19}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := map[string]bool{}
			for i := range test.n {
				for second := range int64(3) {
					e := announce("owl", "r"+itoa(i)+"-"+itoa(int(second)))
					e.CreatedAt = now + 100*second + int64(i)*test.apart
					e = event("owl", e.Kind, e.CreatedAt, "", e.Tags...)
					w.host(w.publish(e))
					want[repoOf("owl", e.D()).Path()] = true
				}
			}
			for href := range w.listed() {
				delete(want, href)
			}
			if len(want) > 0 {
				t.Errorf("not found: %v", want)
			}
		})
	}
}

// More repositories of one second than a page has do not keep the list from going on.
func TestLandingSecond(t *testing.T) {
	w := newWorld(t)
	for i := range 3 * maxListed {
		w.host(w.publish(announce("owl", "r"+itoa(i))))
	}
	older := event("owl", grasp.KindAnnouncement, now-1, "", host.Tag{"d", "older"})
	w.host(w.publish(older))
	if !w.listed()[repoOf("owl", "older").Path()] {
		t.Error("older repositories are not found")
	}
}

// listed goes from page to page of the list, and returns the repositories.
func (w *world) listed() map[string]bool {
	w.t.Helper()
	found := map[string]bool{}
	path := "/"
	for pages := 0; path != ""; pages++ {
		if pages == 100 {
			w.t.Fatalf("the list goes on at %q", path)
		}
		listed := 0
		hrefs := w.get(path).status(w.t, 200).hrefs()
		path = ""
		for _, href := range hrefs {
			if strings.HasSuffix(href, ".git") {
				found[href] = true
				listed++
			}
			if strings.HasPrefix(href, "?") {
				path = "/" + href
			}
		}
		if listed > maxListed {
			w.t.Errorf("%d on one page", listed)
		}
	}
	return found
}

// A page for a repository says all that is known of it here.
func TestRepository(t *testing.T) {
	w := newWorld(t)
	// Owl lists crow, crow lists jay: all three maintain owl's repository.
	w.host(w.publish(announce("owl", "nest",
		host.Tag{"name", "My nest"}, host.Tag{"description", "Twigs\nand moss"}, host.Tag{"maintainers", key("crow").String()},
		host.Tag{"web", "https://nest.example/a?b=1&c=2", "javascript:alert(1)", "nostr:npub1abc"})),
		heads("refs/heads/main", "refs/heads/feature", "refs/tags/v1.9", "refs/tags/v1.10", "refs/nostr/"+strings.Repeat("a", 64))...)
	w.held = append(w.held, announce("crow", "nest", host.Tag{"name", "Held name"}, host.Tag{"maintainers", key("jay").String()}))
	w.publish(announce("stranger", "nest", host.Tag{"maintainers", key("thief").String(), key("owl").String()}))
	w.publish(event("owl", 0, now, `{"name":"Owl","display_name":"The Owl"}`), event("jay", 0, now, `{"name":7}`))
	w.publish(event("jay", grasp.KindState, now+86400, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(0)}))
	w.publish(event("stranger", grasp.KindState, now+2*86400, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(0)}))

	issue := w.publish(event("wren", grasp.KindIssue, now+1, "It is cold", a("owl", "nest"), host.Tag{"subject", "Too cold"}))
	w.publish(event("wren", grasp.KindIssue, now+2, "# First line\nsecond", a("jay", "nest")))
	closed := w.publish(event("wren", grasp.KindIssue, now+3, "Was wet", a("owl", "nest")))
	w.publish(event("jay", grasp.KindApplied, now+4, "", rootTag(closed)))
	w.publish(event("stranger", grasp.KindClosed, now+5, "", rootTag(issue)))
	for i := range 3 {
		w.publish(event("stranger", grasp.KindComment, now+6+int64(i), "yes", host.Tag{"E", issue.ID.String()}))
	}
	pr := w.publish(event("wren", grasp.KindPullRequest, now+7, "Add moss", a("owl", "nest"), host.Tag{"c", commit(100)}))
	w.publish(event("wren", grasp.KindPRUpdate, now+8, "", a("owl", "nest"), host.Tag{"E", pr.ID.String()}, host.Tag{"c", commit(200)}))
	w.publish(event("stranger", grasp.KindPRUpdate, now+9, "", a("owl", "nest"), host.Tag{"E", pr.ID.String()}, host.Tag{"c", commit(300)}))
	w.publish(event("robin", grasp.KindPullRequest, now+7, "Add twigs", a("owl", "nest"), host.Tag{"c", commit(100)}))
	w.publish(event("robin", grasp.KindPRUpdate, now+9, "", a("owl", "nest"), host.Tag{"E", pr.ID.String()}, host.Tag{"c", commit(300)}))
	w.publish(event("wren", grasp.KindDraft, now+10, "", rootTag(pr)))
	first := w.publish(event("wren", grasp.KindPatch, now+11, "From 123 Mon\nFrom: Wren\nSubject: [PATCH 0/1] Warm it\n\nbody", a("owl", "nest"), host.Tag{"t", "root"}))
	w.publish(event("wren", grasp.KindPatch, now+12, "Subject: [PATCH 1/1] Second of a series", a("owl", "nest"), rootTag(first)))
	w.held = append(w.held, event("wren", grasp.KindPullRequest, now+13, "Held pull request", a("owl", "nest"), host.Tag{"c", commit(1)}))

	for _, path := range []string{"/nest", "/nest.git", "/nest/", "/nest.git/", "/n%65st%2Egit"} {
		d := w.get("/"+npub("owl")+path).status(t, 200)
		d.has(t, "My nest", "Twigs and moss", "git clone https://git.example.com/"+npub("owl")+"/nest.git",
			"git clone nostr://"+npub("owl")+"/git.example.com/nest",
			"The Owl", shortKey(npub("crow")), shortKey(npub("jay")), "https://other.example/x.git",
			"Branches 2 main HEAD "+shortID(commit(0))+" feature", "Tags 2 v1.10 "+shortID(commit(3))+" v1.9",
			"State signed 22 Sep 2026", "Issues 2 open, 1 closed", "Too cold", "3 comments", "# First line", "resolved", "Was wet",
			"Pull requests 2 open", "Add twigs", "Add moss draft", "tip "+shortID(commit(200)), "updated", "Patches 1 open", "Warm it")
		d.hasNot(t, "[PATCH", "Second of a series", "Held pull request", "Held name", shortKey(npub("thief")), "read-only", "https://git.example.com/x.git",
			"refs/nostr", shortID(commit(300)))
		for _, href := range []string{"https://nest.example/a?b=1&c=2", "nostr:npub1abc"} {
			if !slices.Contains(d.hrefs(), href) {
				t.Errorf("no link to %s in %v", href, d.hrefs())
			}
		}
		if slices.ContainsFunc(d.hrefs(), func(href string) bool { return strings.HasPrefix(href, "javascript") }) {
			t.Errorf("a link that runs a script in %v", d.hrefs())
		}
		var code string
		for _, href := range d.hrefs() {
			if c, ok := strings.CutPrefix(href, "https://gitworkshop.dev/naddr"); ok {
				code = "naddr" + c
			}
		}
		if !slices.Contains(d.hrefs(), "nostr:"+code) {
			t.Errorf("no link to a client in %v", d.hrefs())
		}
	}
}

// An announcement that does not list this service makes a read-only archive.
func TestArchive(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(event("owl", grasp.KindAnnouncement, now, "", host.Tag{"d", "nest"},
		host.Tag{"clone", "https://git.example.com.evil/x.git"}, host.Tag{"relays", "wss://elsewhere"})))
	d := w.get("/"+npub("owl")+"/nest").status(t, 200)
	d.has(t, "read-only archive", "https://git.example.com.evil/x.git", "pushes are refused here", "Branches None yet")
	d.hasNot(t, "talon event push", "git push", "talon event state")
}

// One that waits to become an archive does not ask for pushes either.
func TestHeldArchive(t *testing.T) {
	w := newWorld(t)
	e := event("owl", grasp.KindAnnouncement, now, "", host.Tag{"d", "nest"}, host.Tag{"clone", "https://other.example/x.git"}, host.Tag{"relays", "wss://other.example"})
	w.held = append(w.held, e)
	w.host(e)
	for _, want := range []string{"can be cloned already", "no git data was found"} {
		d := w.get("/"+npub("owl")+"/nest.git").status(t, 200)
		d.has(t, "waits for its git data", want)
		d.hasNot(t, "talon event push", "git push", "talon event state", "first push", "other.example")
		clear(w.repos)
	}
}

// A repository that waits has a page, which shows nothing of its announcement.
func TestHeld(t *testing.T) {
	w := newWorld(t)
	e := announce("owl", "nest", host.Tag{"name", "Buy pills"}, host.Tag{"description", "cheap"}, host.Tag{"web", "https://pills.example"})
	w.held = append(w.held, e)
	w.publish(event("wren", grasp.KindIssue, now, "An issue", a("owl", "nest")), event("owl", 0, now, `{"name":"Pill Seller"}`))
	w.host(e)
	d := w.get("/"+npub("owl")+"/nest.git").status(t, 200)
	d.has(t, "waits for its first push", "within 30 minutes", "talon event push https://git.example.com/"+npub("owl")+"/nest.git --all")
	d.hasNot(t, "Buy pills", "cheap", "pills.example", "An issue", "Pill Seller", "other.example")

	// Its time was up: it is dormant, and can be revived.
	clear(w.repos)
	d = w.get("/"+npub("owl")+"/nest.git").status(t, 200)
	d.has(t, "there is no git repository for it at the moment", "talon event state --identifier=nest wss://git.example.com",
		"git push https://git.example.com/"+npub("owl")+"/nest.git")
	d.hasNot(t, "Buy pills", "can be cloned")
}

// Git data that is looked for elsewhere: a served page says where, one that waits only
// that it is.
func TestHunt(t *testing.T) {
	search, on := Hunt{Missing: 3, Asking: []string{"https://git.other.example/<b>x.git"}}, true
	w := newWorld(t, func(c *Config) { c.Hunt = func(string) (Hunt, bool) { return search, on } })
	e := announce("owl", "nest")
	w.held = append(w.held, e)
	w.host(e)
	d := w.get("/"+npub("owl")+"/nest.git").status(t, 200)
	d.has(t, "Other servers are being asked")
	d.hasNot(t, "git.other.example")

	w.held = nil
	w.publish(e)
	w.get("/"+npub("owl")+"/nest.git").has(t, "git data that is not here yet (3 objects)", "fetched from git.other.example.")
	search = Hunt{Next: time.Unix(now, 0)}
	w.get("/"+npub("owl")+"/nest.git").has(t, "git data that is not here yet. The servers that they name are asked again at")
	on = false
	w.get("/"+npub("owl")+"/nest.git").hasNot(t, "not here yet")
}

// A maintainer's announcement has no repository here: the page leads to where there
// is one.
func TestMember(t *testing.T) {
	w := newWorld(t)
	w.publish(announce("crow", "nest", host.Tag{"name", "Crow's copy"}))
	d := w.get("/"+npub("crow")+"/nest").status(t, 404)
	d.has(t, "Crow's copy", "not here", "https://other.example/x.git")
}

func TestPRsPage(t *testing.T) {
	path := "/prs/" + npub("owl") + "/nest.git"
	d := newWorld(t).get(path).status(t, 200)
	d.has(t, "git push https://git.example.com"+path+" COMMIT:refs/nostr/EVENT-ID")
	newWorld(t, func(c *Config) { c.PRs = false }).get(path).status(t, 404)
	newWorld(t).get("/prs/npub1/nest.git").status(t, 404)
}

// TestNotFound: every path without a page gets 404, for every method, since git asks with POST.
func TestNotFound(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	for _, path := range []string{
		"/x", "//", "/favicon.ico", "/" + npub("owl") + "/other", "/" + npub("crow") + "/nest",
		"/" + npub("owl") + "/nest.git/info/refs", "/" + npub("owl") + "/nest/x", "/" + npub("owl") + "/.git", "/" + npub("owl") + "/%2e%2e",
		"/" + npub("owl") + "/..%2fnest", "/" + npub("owl") + "/nest%00", "/" + strings.ToUpper(npub("owl")) + "/nest", "/npub1x/nest",
		"/" + npub("owl") + "/nest//", "/" + npub("owl") + "/%ff", "/prs/", "/prs",
	} {
		d := w.get(path).status(t, 404)
		d.has(t, "There is no page and no repository under this address.")
		if d.Header().Get("ETag") != "" {
			t.Errorf("%s has an ETag", path)
		}
	}
	w.request("POST", "/"+npub("owl")+"/other.git/git-upload-pack").status(t, 404)
	for _, path := range []string{"/", "/" + npub("owl") + "/nest"} {
		d := w.request("POST", path).status(t, 405)
		if d.Header().Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("Allow: %s", d.Header().Get("Allow"))
		}
	}
}

// Every answer has the headers that keep a browser from doing more than to show it.
func TestHeaders(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	w.held = append(w.held, announce("owl", "waits"))
	for _, path := range []string{"/", "/" + npub("owl") + "/nest", "/" + npub("owl") + "/waits", "/prs/" + npub("owl") + "/x.git", "/nothing"} {
		d := w.get(path)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Content-Type": "text/html; charset=utf-8", "Vary": "Accept", "Cache-Control": "public, no-cache",
		} {
			if got := d.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		// The one style sheet is the one that the policy names, to the byte.
		_, sheet, _ := strings.Cut(d.Body.String(), "<style>")
		sheet, _, _ = strings.Cut(sheet, "</style>")
		csp := d.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "style-src 'sha256-"+hash(sheet)+"';") || !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %s", path, csp)
		}
		for _, e := range d.elements {
			if e.attr["style"] != "" || e.name == "script" || e.attr["src"] != "" || e.name == "link" && e.attr["rel"] != "icon" && e.attr["rel"] != "canonical" && e.attr["rel"] != "alternate" {
				t.Errorf("%s: the page loads or does something: %v", path, e)
			}
		}
		head := w.request("HEAD", path).status(t, d.Code)
		if head.Body.Len() > 0 || head.Header().Get("Content-Length") != itoa(d.Body.Len()) || head.Header().Get("ETag") != d.Header().Get("ETag") {
			t.Errorf("%s: HEAD answers %v", path, head.Header())
		}
		if options := w.request("OPTIONS", path).status(t, 204); options.Body.Len() > 0 {
			t.Errorf("%s: OPTIONS answers %v", path, options.Header())
		}
		tag := d.Header().Get("ETag")
		if d.Code == 200 {
			again := w.get(path, func(r *http.Request) { r.Header.Set("If-None-Match", `"x", W/`+tag) }).status(t, 304)
			if again.Body.Len() > 0 {
				t.Errorf("%s: a body with 304", path)
			}
		}
	}
	before := w.get("/").Header().Get("ETag")
	w.host(w.publish(announce("owl", "second")))
	if w.get("/").Header().Get("ETag") == before {
		t.Error("the ETag does not change with the page")
	}
}

// When the server fails, the page does not say why.
func TestFailure(t *testing.T) {
	w := newWorld(t)
	w.err = errors.New("open /secret/talon.db: no such file")
	for _, path := range []string{"/", "/" + npub("owl") + "/nest"} {
		d := w.get(path).status(t, 500)
		d.has(t, "The server failed")
		d.hasNot(t, "secret", "no such file")
		if d.Header().Get("Cache-Control") != "no-store" || d.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("headers: %v", d.Header())
		}
	}
}

// While the database is away, a page asks the browser to come again.
func TestDatabaseAway(t *testing.T) {
	w := newWorld(t)
	w.err = fmt.Errorf("select events: %w: /secret/socket", host.ErrAway)
	for _, path := range []string{"/", "/" + npub("owl") + "/nest", "/" + npub("owl") + "/nest/log/main"} {
		d := w.get(path).status(t, 503)
		d.has(t, "cannot be reached now")
		d.hasNot(t, "secret")
		if d.Header().Get("Cache-Control") != "no-store" || d.Header().Get("Retry-After") == "" {
			t.Errorf("%s: headers %v", path, d.Header())
		}
	}
}

// TestQueue shows that a request waits while all places are taken, and that nothing is left of a
// client that has gone.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	for range maxBuilds {
		if err := w.queue.Acquire(t.Context(), bound.Holder{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	gone := w.get("/", func(r *http.Request) { *r = *r.WithContext(ctx) })
	if gone.Body.Len() > 0 {
		t.Errorf("a client that has gone is answered: %s", gone.text)
	}
	w.get("/nothing").status(t, 404) // needs no turn
	for range maxBuilds {
		w.queue.Release()
	}
	w.get("/").status(t, 200)
	if n := w.queue.Busy(); n != 0 {
		t.Errorf("%d places are not given back", n)
	}
}

func TestNew(t *testing.T) {
	w := newWorld(t)
	if _, err := New(Config{Service: "https://x/"}, Deps{Facts: w, Git: w, Code: testReader}); err == nil || !strings.Contains(err.Error(), "https://x/") {
		t.Errorf("a service that is a URL: %v", err)
	}
	if _, err := New(Config{Service: "x"}, Deps{Facts: w}); err != errDeps {
		t.Errorf("without git: %v", err)
	}
}

// The URLs on a page are those by which the client can come again.
// TestHostHeader has a client that names another host: no page, redirect or feed repeats that.
func TestHostHeader(t *testing.T) {
	w := newWorld(t)
	w.serveCodeOf("nest", workTree(t, map[string]string{"README": "hello\n"}))
	base := "/" + npub("owl") + "/nest"
	for _, path := range []string{"/", "/search?q=nest", "/sitemap.xml", "/robots.txt", "/" + npub("owl"), base, base + "?go-get=1", base + "/tree/main", base + "/tree/main/README", base + "/blob/main/README", base + "/log.atom/main", base + "/issues.atom", base + "/nothing"} {
		got := w.raw(path, func(r *http.Request) {
			r.Host = "evil.example"
			r.Header.Set("X-Forwarded-Host", "evil.example")
		})
		if got.Code >= 500 || strings.Contains(got.Body.String(), "evil.example") || strings.Contains(fmt.Sprint(got.Header()), "evil.example") {
			t.Errorf("%s: status %d, %v\n%s", path, got.Code, got.Header(), got.Body)
		}
	}
}

func TestScheme(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, test := range map[string]struct {
		service, from, header string
		want                  string
	}{
		"a domain":                        {"git.example.com", "192.0.2.1:1", "", "https://git.example.com"},
		"a domain with a port":            {"git.example.com:8080", "192.0.2.1:1", "", "http://git.example.com:8080"},
		"the port of https":               {"git.example.com:443", "192.0.2.1:1", "", "https://git.example.com:443"},
		"this machine":                    {"localhost:7334", "127.0.0.1:1", "", "http://localhost:7334"},
		"this machine on the usual port":  {"localhost", "127.0.0.1:1", "", "http://localhost"},
		"an address":                      {"[::1]:7334", "127.0.0.1:1", "", "http://[::1]:7334"},
		"an address without a port":       {"192.0.2.7", "192.0.2.1:1", "", "http://192.0.2.7"},
		"behind a proxy with https":       {"git.example.com:8443", "10.0.0.1:1", "https", "https://git.example.com:8443"},
		"behind a proxy with http":        {"git.example.com", "10.0.0.1:1", "http", "http://git.example.com"},
		"behind two proxies":              {"git.example.com:1", "10.0.0.1:1", "http, https", "https://git.example.com:1"},
		"behind a proxy that says rubish": {"git.example.com", "10.0.0.1:1", "javascript", "https://git.example.com"},
		"whoever says so":                 {"git.example.com:8443", "192.0.2.1:1", "https", "http://git.example.com:8443"},
		"no address":                      {"localhost", "pipe", "https", "http://localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Service, c.Proxies = test.service, proxies })
			d := w.get("/", func(r *http.Request) {
				r.RemoteAddr = test.from
				if test.header != "" {
					r.Header.Set("X-Forwarded-Proto", test.header)
				}
			})
			d.has(t, "Git "+test.want+"/<npub>", "Relay ws"+strings.TrimPrefix(test.want, "http")+" ")
		})
	}
	if got := (serviceURLs{"http", grasp.Service{Host: "localhost", Port: "1"}}).nostr(repoOf("owl", "nest")); got != "" {
		t.Errorf("a helper cannot know %s", got)
	}
}

// A template that misses a field fails when it is used, not before: use them all.
func TestTemplates(t *testing.T) {
	templates := parseTemplates()
	for name, content := range map[string]any{
		"landing": &index{}, "repository": &repository{}, "held": waiting{}, "elsewhere": &repository{}, "prs": repoURL{}, "message": busy,
	} {
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, name, frame{"x", template.CSS(""), content}); err != nil {
			t.Error(err)
		}
	}
}
