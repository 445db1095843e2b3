package web

import (
	"testing"

	"talon/host"
	"talon/host/store"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// BenchmarkRepository makes the page of a repository with 10,000 issues, 1,000 pull
// requests and 10,000 comments; and of one about whose newest issue strangers said
// 50,000 times that it is closed, too.
func BenchmarkRepository(b *testing.B) {
	for _, flood := range []int{0, 50_000} {
		b.Run("flood="+itoa(flood), func(b *testing.B) {
			w, _ := benchWorld(b, flood)
			w.bench(b, "/"+npub("owl")+"/nest")
		})
	}
}

// BenchmarkConversations makes lists of these issues, the page of one with 200 comments, and the
// first page of the server.
func BenchmarkConversations(b *testing.B) {
	w, last := benchWorld(b, 0)
	base := "/" + npub("owl") + "/nest/issues"
	for name, path := range map[string]string{
		"open": base, "closed": base + "?state=closed", "all": base + "?state=all", "author": base + "?author=" + npub("contributor 7"), "rare-label": base + "?label=rare",
		"issue": base + "/" + last.ID.String(), "index": "/", "feed": base + ".atom", "search": "/search?q=cold",
	} {
		b.Run(name, func(b *testing.B) { w.bench(b, path) })
	}
}

// bench makes a page again and again.
func (w *world) bench(b *testing.B, path string) {
	w.t = &testing.T{}
	b.ReportAllocs()
	for b.Loop() {
		status, template, content, err := w.route(request(path))(b.Context(), request(path))
		if err != nil || status != 200 {
			b.Fatal(status, err)
		}
		if template != "" {
			if _, ok := w.render(nil, request(path), template, content); !ok {
				b.Fatal("the page is not filled")
			}
		}
	}
}

func benchWorld(b *testing.B, flood int) (*world, *host.Event) {
	w := newWorld(&testing.T{})
	db, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	w.host(w.publish(announce("owl", "nest", host.Tag{"maintainers", key("crow").String()})), heads("refs/heads/main")...)
	for i := range 10_000 {
		at := now - 20_000 + int64(i)
		who := "contributor " + itoa(i%50)
		e := w.publish(event(who, grasp.KindIssue, at, "It is cold", a("owl", "nest"), host.Tag{"subject", "Issue " + itoa(i)}))
		w.publish(event("stranger", grasp.KindComment, at, "yes", host.Tag{"E", e.ID.String()}))
		if i%2 == 0 {
			w.publish(event("crow", grasp.KindApplied, at, "", rootTag(e)))
		}
		if i%10 == 0 {
			w.publish(event(who, grasp.KindPullRequest, at, "Warm it", a("owl", "nest"), host.Tag{"c", commit(i)}))
			w.publish(event(who, 0, at, `{"name":"Someone"}`))
		}
	}
	last := w.publish(event("owl", grasp.KindIssue, now, "The newest", a("owl", "nest")))
	for i := range flood {
		w.publish(event("stranger "+itoa(i%100), grasp.KindClosed, now+int64(i), "", rootTag(last)))
	}
	for i := range maxComments {
		w.publish(comment("stranger "+itoa(i), now+int64(i), "I *agree*: `it` is [cold](https://x.example).\n\n- one\n- two\n", last, last))
	}
	for i := range 200 {
		name := "nest " + itoa(i)
		w.host(w.publish(event("bird "+itoa(i%20), grasp.KindAnnouncement, now+int64(i), "", host.Tag{"d", name}, host.Tag{"clone", "https://git.example.com/x.git"}, host.Tag{"relays", "wss://git.example.com"})))
		w.publish(event("bird "+itoa(i%20), grasp.KindState, now+int64(2*i), "", host.Tag{"d", name}, host.Tag{"refs/heads/main", commit(1)}))
	}
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range w.stored {
		if _, err := tx.Put(e, now); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	w.Handler.read.facts = struct {
		testkit.Facts
		host.HeldFacts
	}{testkit.Facts{Store: db, Now: now}, db}
	return w, last
}
