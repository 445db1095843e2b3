package web

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

func TestSearch(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest", host.Tag{"name", "My nest"}, host.Tag{"description", "Twigs and moss"}, host.Tag{"t", "birds"})))
	w.publish(announce("owl", "elsewhere", host.Tag{"description", "Twigs too"}))
	cold := w.publish(event("wren", grasp.KindIssue, now, "It is cold", a("owl", "nest"), host.Tag{"subject", "Draught"}))
	w.publish(event("owl", grasp.KindClosed, now+1, "", rootTag(cold)))
	w.publish(event("owl", kindLabel, now+1, "", host.Tag{"l", "A new title", "#subject"}, host.Tag{"e", cold.ID.String()}))
	w.publish(event("wren", grasp.KindIssue, now, "It is cold elsewhere", a("owl", "elsewhere")))
	w.held = append(w.held, event("wren", grasp.KindPullRequest, now, "A cold pull request", a("owl", "nest"), host.Tag{"c", commit(1)}))
	for query, want := range map[string]string{
		"moss twigs": "Repositories My nest", "birds": "My nest", "cold": "A new title closed", "draught": "Issue of nest", "nonsense": "Repositories None.", "": "All words must occur",
		strings.Repeat("a b c d e f g h i j k l m n o p q r s t u v w x y z ", 2): "too many words",
	} {
		d := w.get("/search?q="+url.QueryEscape(query)).status(t, 200)
		d.tame(t)
		d.has(t, want)
		d.hasNot(t, "elsewhere", "pull request of")
	}
	for query, want := range map[string]string{
		npub("owl"): "/" + npub("owl"), "nostr:" + npub("owl"): "/" + npub("owl"),
		nip19.EncodeNaddr(nip19.Naddr{Kind: grasp.KindAnnouncement, PubKey: key("owl"), D: "nest"}, ""): repoOf("owl", "nest").Path(),
	} {
		if got := w.get("/search?q="+query).status(t, http.StatusFound).Header().Get("Location"); got != want {
			t.Errorf("%s leads to %q", query, got)
		}
	}
	for _, evil := range hostile {
		w.get("/search?q="+url.QueryEscape(evil)).status(t, 200).tame(t)
	}
	if !strings.Contains(w.get("/").Body.String(), `action="/search"`) {
		t.Error("the first page has no search")
	}
}

func TestFeed(t *testing.T) {
	for _, evil := range append(slices.Clone(hostile), "Too cold") {
		w := newWorld(t)
		w.host(w.publish(announce("owl", "nest", host.Tag{"name", evil})))
		w.publish(event("wren", 0, now, `{"name":`+quoteJSON(evil)+`}`))
		issue := w.publish(event("wren", grasp.KindIssue, now+1, evil, a("owl", "nest"), host.Tag{"subject", evil}, host.Tag{"t", evil}))
		w.publish(event("wren", grasp.KindIssue, 1<<60, "never", a("owl", "nest")))
		w.publish(event("owl", grasp.KindClosed, now+2, "", rootTag(issue)))
		got := w.raw("/" + npub("owl") + "/nest/issues.atom")
		var feed atom
		if err := xml.Unmarshal(got.Body.Bytes(), &feed); err != nil || got.Code != 200 || !strings.HasPrefix(got.Header().Get("Content-Type"), "application/atom+xml") {
			t.Fatalf("%v in status %d, %s\n%s", err, got.Code, got.Header(), got.Body)
		}
		if len(feed.Entries) != 2 || feed.Entries[1].Link.Href != "https://git.example.com"+pathOf(issue, "issues") || feed.Entries[1].Categories[0].Term != "closed" || feed.Entries[1].Updated != "2026-09-21T14:13:21Z" {
			t.Errorf("%+v", feed)
		}
	}
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest")))
	for _, s := range sections {
		if got := w.raw("/" + npub("owl") + "/nest/" + s.Name + ".atom"); got.Code != 200 {
			t.Errorf("%s: status %d", s.Name, got.Code)
		}
	}
	for _, path := range []string{"/nest/other.atom", "/nest/issues.atom/x", "/other/issues.atom"} {
		w.get("/"+npub("owl")+path).status(t, 404)
	}
	// The second answer is the kept one.
	first, second := w.raw("/"+npub("owl")+"/nest/issues.atom"), w.raw("/"+npub("owl")+"/nest/issues.atom")
	if first.Body.String() != second.Body.String() || first.Header().Get("Content-Type") != second.Header().Get("Content-Type") {
		t.Errorf("%v and then %v", first.Header(), second.Header())
	}
}

func TestSitemap(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.host(w.publish(announce("owl", fmt.Sprintf("a&<%d", i))))
	}
	w.publish(announce("owl", "elsewhere"))
	got := w.raw("/sitemap.xml")
	var sites struct {
		URL []struct {
			Loc string `xml:"loc"`
		} `xml:"url"`
	}
	if err := xml.Unmarshal(got.Body.Bytes(), &sites); err != nil || got.Code != 200 || len(sites.URL) != 4 || !strings.HasSuffix(sites.URL[1].Loc, ".git") {
		t.Errorf("%v in status %d\n%s", err, got.Code, got.Body)
	}
	robots := w.raw("/robots.txt")
	if text := robots.Body.String(); !strings.Contains(text, "Sitemap: https://git.example.com/sitemap.xml") || !strings.HasPrefix(robots.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("%s", text)
	}
}

// Commits of a ref and tags have feeds.
func TestCodeFeed(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"a": "1\n"})
	testkit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "A <b> & \x1b \u202e")
	testkit.Git(t, dir, "branch", "topic/one")
	testkit.Git(t, dir, "tag", "v1.9")
	testkit.Git(t, dir, "tag", "-a", "-m", "ten", "v1.10")
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	for path, titles := range map[string][]string{
		"/log.atom": {"A <b> &", "The files"}, "/log.atom/topic/one": {"A <b> &", "The files"}, "/log.atom/v1.9": {"A <b> &", "The files"}, "/refs.atom": {"v1.10", "v1.9"},
	} {
		got := w.raw(base + path)
		var feed atom
		if err := xml.Unmarshal(got.Body.Bytes(), &feed); err != nil || got.Code != 200 {
			t.Fatalf("%s: %v in status %d\n%s", path, err, got.Code, got.Body)
		}
		var have []string
		for _, e := range feed.Entries {
			have = append(have, e.Title)
			w.get(strings.TrimPrefix(e.Link.Href, "https://git.example.com")).status(t, 200)
		}
		if !slices.Equal(have, titles) {
			t.Errorf("%s has %q", path, have)
		}
		w.get(strings.TrimPrefix(feed.Links[1].Href, "https://git.example.com"))
	}
	for _, path := range []string{"/log.atom/none", "/log.atom/main/a", "/log.atom/..", "/refs.atom/x", "/tree.atom"} {
		w.get(base+path).status(t, 404)
	}
}
