package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/sdk/grasp"
)

// The first page lists repositories by their last change: a state that a maintainer signed, or the
// announcement.
func TestLastChange(t *testing.T) {
	w := newWorld(t)
	state := func(who, identifier string, at int64) {
		w.publish(event(who, grasp.KindState, at, "", host.Tag{"d", identifier}, host.Tag{"refs/heads/main", commit(1)}))
	}
	w.host(w.publish(announce("owl", "old")))
	w.host(w.publish(announce("owl", "pushed")))
	w.host(w.publish(announce("owl", "shared", host.Tag{"maintainers", key("crow").String()})))
	w.publish(announce("jay", "elsewhere"))
	state("owl", "pushed", now+10)
	state("crow", "shared", now+20)
	state("stranger", "old", now+30)
	state("jay", "elsewhere", now+40)
	var got []string
	for _, href := range w.get("/").status(t, 200).hrefs() {
		if name, ok := strings.CutSuffix(href, ".git"); ok {
			got = append(got, name[strings.LastIndex(name, "/")+1:])
		}
	}
	if !slices.Equal(got, []string{"shared", "pushed", "old"}) {
		t.Errorf("the list is %q", got)
	}
}

// A repository that changed is on one page of the list only.
func TestLastChangePages(t *testing.T) {
	w := newWorld(t)
	const n = 3 * maxListed
	for i := range n {
		name := "nest" + itoa(i)
		w.host(w.publish(event("owl", grasp.KindAnnouncement, now+int64(i), "", host.Tag{"d", name}, host.Tag{"clone", "https://git.example.com/x.git"}, host.Tag{"relays", "wss://git.example.com"})))
		w.publish(event("owl", grasp.KindState, now+1000-int64(i), "", host.Tag{"d", name}, host.Tag{"refs/heads/main", commit(1)}))
	}
	found := map[string]int{}
	for path := "/"; path != ""; {
		hrefs := w.get(path).status(t, 200).hrefs()
		path = ""
		for _, href := range hrefs {
			if strings.HasSuffix(href, ".git") {
				found[href]++
			}
			if strings.HasPrefix(href, "?") {
				path = "/" + href
			}
		}
	}
	for href, times := range found {
		// The last of a page may be the first of the next.
		if times > 2 {
			t.Errorf("%s is listed %d times", href, times)
		}
	}
	if len(found) != n {
		t.Errorf("%d repositories are listed", len(found))
	}
}

// Each key has a page, with its profile and repositories.
func TestOwner(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest", host.Tag{"name", "My nest"})))
	w.publish(announce("owl", "elsewhere"))
	w.host(w.publish(announce("crow", "other")))
	w.publish(event("owl", 0, now, `{"name":"Owl","about":"A bird.\nIt flies.","website":"https://owl.example","nip05":"_@owl.example"}`))
	d := w.get("/"+npub("owl")).status(t, 200)
	d.tame(t)
	d.has(t, "Owl", npub("owl"), "A bird.", "My nest")
	d.hasNot(t, "elsewhere", "other", "_@owl.example", "noindex")
	if !slices.Contains(d.hrefs(), "https://owl.example") {
		t.Errorf("links: %v", d.hrefs())
	}
	unknown := w.get("/"+npub("stranger")+"/").status(t, 200)
	unknown.tame(t)
	unknown.has(t, "None here")
	if !strings.Contains(unknown.Body.String(), "noindex") {
		t.Error("the page of an unknown key may be indexed")
	}
	for _, path := range []string{"/" + npub("owl")[:60], "/" + strings.ToUpper(npub("owl")), "/" + key("owl").String()} {
		w.get(path).status(t, 404)
	}
	for _, evil := range hostile {
		w := newWorld(t)
		w.publish(event("owl", 0, now, `{"name":`+quoteJSON(evil)+`,"about":`+quoteJSON(evil)+`,"website":`+quoteJSON(evil)+`}`))
		w.get("/"+npub("owl")).status(t, 200).tame(t)
	}
}

// TestOwnerUsage: an owner who has signed in sees what takes how much here, and nobody else does.
func TestOwnerUsage(t *testing.T) {
	signedIn := false
	var asked []host.Address
	w := newWorld(t, func(c *Config) {
		c.SignedIn = func(*http.Request) string { return map[bool]string{true: "/auth"}[signedIn] }
		c.Usage = func(_ *http.Request, author host.PubKey, list []host.Address) ([]string, error) {
			asked = list
			if author != key("owl") {
				return nil, nil
			}
			return []string{"The git data of <nest> takes 1 KiB."}, nil
		}
	})
	w.host(w.publish(announce("owl", "nest")))
	w.get("/"+npub("owl")).status(t, 200).hasNot(t, "takes 1 KiB")
	signedIn = true
	d := w.get("/"+npub("owl")).status(t, 200)
	d.has(t, "Your part of this server", "The git data of <nest> takes 1 KiB.")
	d.tame(t)
	if want := []host.Address{{Kind: host.KindAnnouncement, PubKey: key("owl"), D: "nest"}}; !slices.Equal(asked, want) {
		t.Errorf("asked about %v, want %v", asked, want)
	}
	w.get("/"+npub("crow")).status(t, 200).hasNot(t, "Your part")
	signedIn = false
	w.get("/"+npub("owl")).status(t, 200).hasNot(t, "takes 1 KiB")
}
