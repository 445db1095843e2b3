package repos

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"talon/host"
	"talon/host/githttp"
	"talon/sdk/grasp"
)

// between does something once a push is all here, before it is confirmed.
type between struct {
	*Reconciler
	do func(*githttp.Push)
}

func (b *between) Confirm(ctx context.Context, p *githttp.Push) error {
	b.do(p)
	return b.Reconciler.Confirm(ctx, p)
}

// between serves the world at another address, where that is done.
func (w *world) between(do func(*githttp.Push)) (url string) {
	w.t.Helper()
	handler, err := githttp.New(githttp.Config{
		Prefix: "/", Limits: githttp.DefaultLimits, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	}, w.reconciler, &between{w.reconciler, do})
	w.must(err)
	server := httptest.NewServer(handler)
	w.t.Cleanup(server.Close)
	return server.URL
}

// TestStateDeletedDuringPush: what allowed a push goes while its pack comes; the push does
// not land, and says why.
func TestStateDeletedDuringPush(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	w.sent(w.announce(alice, "demo"), host.Held)
	state := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	url := w.between(func(*githttp.Push) {
		w.sent(w.event(alice, 5, host.Tag{"e", state.ID.String()}), host.Stored)
	}) + at.Path()
	if out, err := work.try("push", url, "main"); err == nil || !strings.Contains(out, "state event") {
		t.Errorf("the push: %v %s", err, out)
	}
	w.waitIdle()
	w.wantRefs(at, "absent") // the folder goes with the push that it was made for
	w.wantHere(at, true)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
}

// TestAnnouncementDeletedDuringPush: the push gets an error, and brings no repository
// back.
func TestAnnouncementDeletedDuringPush(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	url := w.between(func(*githttp.Push) {
		w.sent(w.event(alice, 5, host.Tag{"a", at.Address()}), host.Stored)
	}) + at.Path()
	if out, err := work.try("push", url, "main"); err == nil {
		t.Errorf("the push landed: %s", out)
	}
	w.waitIdle()
	w.wantRefs(at, "absent")
}

// TestPolicyIsAskedOnce: a policy that counts pushes counts each of them once.
func TestPolicyIsAskedOnce(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	why := "not twice"
	url := w.between(func(*githttp.Push) { w.policy.refusing.Store(&why) }) + at.Path()
	work.git("push", url, "main")
	w.wantRefs(at, "HEAD=refs/heads/main", "refs/heads/main="+one)
}

// TestPlaceGoesDuringPush: a push to /prs/ that failed takes the place away, for it is
// empty, while another is on its way; that one lands all the same.
func TestPlaceGoesDuringPush(t *testing.T) {
	w, work, one := newWork(t)
	at := location{Repo: repoOf(eve, "demo"), prs: true}
	url := w.between(func(p *githttp.Push) { w.must(p.Repo.Remove(t.Context())) }) + "/prs" + at.Path()
	pr := w.event(eve, grasp.KindPullRequest, host.Tag{"c", one}, host.Tag{"a", repoOf(alice, "demo").Address()},
		host.Tag{"clone", "https://" + domain + "/prs" + at.Path()})
	ref := "refs/nostr/" + pr.ID.String()
	work.git("push", url, one+":"+ref)
	w.wantRefs(at, "HEAD=refs/heads/master", ref+"="+one)
	w.sent(pr, host.Held)
	w.waitIdle()
	w.wantServed(pr, true)
}

// TestStateRemoves: who sends a state from an older one than that in effect hears what it
// removes, with the answer to the event and with the one to the push.
func TestStateRemoves(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	two, three := work.commit("two"), work.commit("three")
	w.sent(w.state(alice, "demo", "refs/heads/main", one, "refs/heads/theirs", two), host.Held)
	work.git("push", w.url(alice, "demo"), two+":refs/heads/theirs")

	v := w.send(w.state(alice, "demo", "refs/heads/main", one, "refs/heads/mine", three))
	if want := host.ReasonHeld + "; it removes refs/heads/theirs"; v.Reason != want {
		t.Errorf("the state is answered %q, want %q", v.Reason, want)
	}
	const warning = "remote: warning: the state event does not have these refs, so they are removed: refs/heads/theirs"
	out, err := work.try("push", w.url(alice, "demo"), three+":refs/heads/mine")
	if err != nil || !strings.Contains(out, warning) {
		t.Errorf("the push: %v\n%s", err, out)
	}
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one, "refs/heads/mine="+three)

	// A removal that the push names needs no warning.
	w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)
	w.waitIdle()
	four := work.commit("four")
	w.sent(w.state(alice, "demo", "refs/heads/main", four), host.Held)
	if out, err := work.try("push", w.url(alice, "demo"), "main"); err != nil || strings.Contains(out, "warning") {
		t.Errorf("the push: %v\n%s", err, out)
	}
}
