package daemon

import (
	"context"
	"io"
	"testing"

	"talon/host/gitrepo"
)

// TestAlone has a process that is alone do by itself what nodes share.
func TestAlone(t *testing.T) {
	var n node = alone{}
	n.setReady()
	n.setDraining()
	ran, losses := false, 0
	err := n.RunAs(t.Context(), "sync", func(context.Context) error { ran = true; return io.EOF })
	if !ran || err != io.EOF || !n.Has("sync") || n.Others() || n.Name() != "" || n.Close() != nil {
		t.Errorf("a node that is alone: it ran %v, %v; it has the role: %v; others: %v; name %q", ran, err, n.Has("sync"), n.Others(), n.Name())
	}
	if err := n.EachLoss(t.Context(), func(context.Context) error { losses++; return nil }); err != nil || losses != 1 {
		t.Errorf("%v, and the work of lost nodes is done %d times; want once, at the start", err, losses)
	}
	if _, err := n.Ask(t.Context(), "sync", nil); err == nil {
		t.Error("somebody answers, and nobody is there")
	}
	if nodes, follows := n.plugins("other"); nodes != nil || !follows {
		t.Errorf("plugins are shared with %v; it follows its folder: %v", nodes, follows)
	}
	git, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	if err != nil {
		t.Skip(err)
	}
	root, err := n.openRoot(git, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root.Close()
}
