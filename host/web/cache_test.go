package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/sdk/grasp"
)

// TestKeptPages shows that a page is made once, and again after each change of what it shows.
func TestKeptPages(t *testing.T) {
	clock := time.Unix(now, 0)
	w := newWorld(t, func(c *Config) { c.Now = func() time.Time { return clock } })
	w.host(w.publish(announce("owl", "nest", host.Tag{"maintainers", key("crow").String()})), heads("refs/heads/main")...)
	issue := w.publish(event("wren", grasp.KindIssue, now, "It is cold", a("owl", "nest")))
	path := "/" + npub("owl") + "/nest"
	made := func() bool { // whether the page was made
		before := w.queries
		w.get(path).status(t, 200)
		return w.queries > before
	}
	if !made() || made() {
		t.Fatal("the page is made twice, or never")
	}
	held := announce("crow", "nest", host.Tag{"maintainers", key("jay").String()})
	for _, tt := range []struct {
		name   string
		change func()
	}{
		{"an issue", func() { w.publish(event("jay", grasp.KindIssue, now+1, "It is warm", a("owl", "nest"))) }},
		{"a comment", func() { w.publish(event("jay", grasp.KindComment, now+1, "yes", host.Tag{"E", issue.ID.String()})) }},
		{"a status", func() { w.publish(event("owl", grasp.KindClosed, now+1, "", rootTag(issue))) }},
		{"a name", func() { w.publish(event("wren", 0, now, `{"name":"Wren"}`)) }},
		{"a state", func() {
			w.publish(event("owl", grasp.KindState, now, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(1)}))
		}},
		{"a held announcement", func() { w.held = append(w.held, held); w.Handler.Follow(nil, []host.HeldChange{{Event: held}}) }},
		{"a branch", func() { w.host(w.stored[0], heads("refs/heads/main", "refs/heads/next")...) }},
		{"an issue that is gone", func() { w.stored = w.stored[:1]; w.Handler.Follow([]*host.Event{issue}, nil) }},
	} {
		made()
		if made() {
			t.Errorf("before %s: the page is made without a change", tt.name)
		}
		tt.change()
		if !made() {
			t.Errorf("%s: the old page is shown", tt.name)
		}
	}
	w.publish(event("jay", grasp.KindIssue, now, "of something else", a("owl", "other")), event("jay", 1, now, "hello"))
	if made() {
		t.Error("the page is made for events that it does not show")
	}
	clock = clock.Add(keepFor)
	if !made() {
		t.Error("the page is shown for longer than it may be")
	}
	for i := range maxChanges + 1 {
		w.Handler.Publish([]host.Published{{Event: event("jay", 1, int64(i), ""), Seq: 1}})
	}
	if !made() {
		t.Error("the page is shown though some changes since are forgotten")
	}
}

// TestKeptPagesDiffer shows that pages whose text depends on the request are kept apart.
func TestKeptPagesDiffer(t *testing.T) {
	w := newWorld(t)
	for i := range 2 * maxListed {
		name := fmt.Sprintf("nest%d", i)
		e := event("owl", grasp.KindAnnouncement, now-int64(i), "", host.Tag{"d", name}, host.Tag{"clone", "https://git.example.com/x.git"}, host.Tag{"relays", "wss://git.example.com"})
		w.host(w.publish(e))
	}
	first := w.get("/").text
	older := w.get(fmt.Sprintf("/?until=%d", now-30)).text
	if first == older || !strings.Contains(older, "nest31") || w.get("/").text != first {
		t.Error("the second page of the list is kept as the first")
	}
	if n := w.get("/", func(r *http.Request) { r.Method = http.MethodHead }).Body.Len(); n != 0 {
		t.Errorf("HEAD is answered with %d bytes", n)
	}
}

// TestCacheIsBounded shows that the oldest pages are dropped.
func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	start := time.Unix(now, 0)
	for i := range 2 * maxKept {
		c.put(&kept{key: fmt.Sprint(i), made: start.Add(time.Duration(i)), body: make([]byte, 100<<10)})
	}
	if c.bytes > maxKeptBytes || len(c.pages) > maxKept || c.bytes != len(c.pages)*(100<<10) {
		t.Errorf("%d pages of %d bytes are kept", len(c.pages), c.bytes)
	}
	if c.get(fmt.Sprint(2*maxKept-1), start.Add(time.Second)) == nil || c.get("0", start.Add(time.Second)) != nil {
		t.Error("the newest page is dropped, or the oldest kept")
	}
}
