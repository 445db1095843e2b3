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
	b.Run("flood=0", func(b *testing.B) { benchRepository(b, 0) })
	b.Run("flood=50000", func(b *testing.B) { benchRepository(b, 50_000) })
}

func benchRepository(b *testing.B, flood int) {
	w := newWorld(&testing.T{})
	db, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
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
	path := "/" + npub("owl") + "/nest"
	w.get(path).has(&testing.T{}, "Issues")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := w.route(request(path))(b.Context(), request(path)); err != nil {
			b.Fatal(err)
		}
	}
}
