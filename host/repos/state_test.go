package repos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// TestSameSecond: of states of several maintainers in one second, the one with the lowest id is in
// effect, in whatever order they come, and after a restart. The other one moves nothing any more.
func TestSameSecond(t *testing.T) {
	w, work, one := newWork(t)
	two := work.commit("two")
	at := time.Now().Unix() - 100
	for _, order := range [][2]*testkit.Signer{{alice, bob}, {bob, alice}} {
		id := "first-" + order[0].PubKey.String()[:8]
		w.sent(w.announce(alice, id, bob), host.Held)
		w.sent(w.state(alice, id, "refs/heads/main", one, "refs/heads/other", two), host.Held)
		work.git("push", w.url(alice, id), one+":refs/heads/main", two+":refs/heads/other")
		objects := map[*testkit.Signer]string{alice: one, bob: two}
		var winner *host.Event
		var want string
		for _, who := range order {
			e := w.eventAt(who, at, grasp.KindState, host.Tag{"d", id}, host.Tag{"refs/heads/main", objects[who]})
			w.sent(e, host.Held)
			w.waitIdle()
			if winner == nil || bytes.Compare(e.ID[:], winner.ID[:]) < 0 {
				winner, want = e, objects[who]
			}
		}
		place := location{Repo: repoOf(alice, id)}
		w.wantRefs(place, "HEAD=refs/heads/main", "refs/heads/main="+want)
		w.restart()
		w.wantRefs(place, "HEAD=refs/heads/main", "refs/heads/main="+want)
		loser := one
		if want == one {
			loser = two
		}
		if out, err := work.try("push", "--force", w.url(alice, id), loser+":refs/heads/main"); err == nil {
			t.Errorf("the state with the higher id authorised a push: %s", out)
		}
	}
}

// TestHEADOfNothing: a state whose HEAD names none of its branches leaves HEAD where it is, or on a
// branch that is there. Its sender hears so.
func TestHEADOfNothing(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	const note = "its HEAD names refs/heads/gone, which it does not have, so HEAD stays on a branch that is there"
	v := w.send(w.state(alice, "demo", "HEAD", "ref: refs/heads/gone", "refs/heads/topic", one))
	if !strings.HasSuffix(v.Reason, note) || v.Code != host.Held {
		t.Errorf("%v %q", v.Code, v.Reason)
	}
	work.git("push", w.url(alice, "demo"), one+":refs/heads/topic")
	w.wantRefs(demo(alice), "HEAD=refs/heads/topic", "refs/heads/topic="+one)
	w.send(w.state(alice, "demo", "HEAD", "ref: refs/heads/gone", "refs/heads/a", one, "refs/heads/topic", one))
	w.waitIdle()
	w.wantRefs(demo(alice), "HEAD=refs/heads/topic", "refs/heads/a="+one, "refs/heads/topic="+one)
	w.send(w.state(alice, "demo", "HEAD", "ref: refs/heads/gone", "refs/heads/a", one, "refs/heads/main", one))
	w.waitIdle()
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/a="+one, "refs/heads/main="+one)
}
