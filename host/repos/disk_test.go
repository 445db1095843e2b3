package repos

import (
	"strings"
	"testing"

	"talon/host"
	"talon/sdk/grasp"
)

// TestHasCommit: a policy tells commits from other objects, of which no branch can be
// made.
func TestHasCommit(t *testing.T) {
	w, work, one := newWork(t)
	work.git("tag", "-a", "v1", "-m", "v1")
	tag, blob := work.git("rev-parse", "v1"), work.git("rev-parse", "HEAD:file")
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one, "refs/tags/v1", tag), host.Held)
	work.git("push", w.url(alice, "demo"), "main", "v1")
	here := host.Address{Kind: grasp.KindAnnouncement, PubKey: alice.PubKey, D: "demo"}
	elsewhere := host.Address{Kind: grasp.KindAnnouncement, PubKey: bob.PubKey, D: "demo"}
	for _, tt := range []struct {
		at     host.Address
		object string
		want   bool
	}{
		{here, one, true}, {here, one + ofCommit, true},
		{here, tag, true}, {here, tag + ofCommit, false},
		{here, blob, true}, {here, blob + ofCommit, false},
		{here, strings.Repeat("1", 40) + ofCommit, false},
		{here, ofCommit, false}, {here, "main" + ofCommit, false}, {here, "HEAD", false}, {here, "", true},
		{elsewhere, one + ofCommit, false}, {elsewhere, "", false},
	} {
		if got, err := w.disk.Has(t.Context(), tt.at, tt.object); got != tt.want || err != nil {
			t.Errorf("%q: %v, %v", tt.object, got, err)
		}
	}
}
