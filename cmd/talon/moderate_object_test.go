package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModerateObject bans a git object: the command names the repositories that reach it, no push brings
// it again, and a delete names the backups that may have it.
func TestModerateObject(t *testing.T) {
	t.Parallel()
	data := graspData(t)
	st := newStory(t, startGrasp(t, data, pluginFolder(t, "grasp")))
	owner, other, work := st.who("owner"), st.who("other"), st.folder()
	commit := work.commit("secret")
	st.held(st.announcement(owner, "tool"))
	st.held(st.state(owner, "tool", "refs/heads/main", commit))
	work.push(st.repo(owner, "tool"), commit+":refs/heads/main")
	tree := work.git("rev-parse", commit+"^{tree}")

	command := func(args ...string) string {
		t.Helper()
		out, err := talon(t, nil, append(args, "--data", data)...)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	if out := command("moderate", "ban", "object:"+tree); !strings.Contains(out, owner.npub()+"/tool.git reaches the object") {
		t.Errorf("the ban prints %s", out)
	}
	st.held(st.announcement(other, "copy"))
	st.held(st.state(other, "copy", "refs/heads/main", commit))
	work.cannotPush("the object "+tree+" was taken down by the operator", st.repo(other, "copy"), commit+":refs/heads/main")
	command("moderate", "unban", "object:"+tree)
	work.push(st.repo(other, "copy"), commit+":refs/heads/main")

	backup := filepath.Join(t.TempDir(), "backup")
	command("backup", "--to", backup)
	out := command("delete", other.npub()+"/copy")
	if !strings.Contains(out, "the backup "+backup) {
		t.Errorf("the delete prints %s", out)
	}
	if err := os.RemoveAll(backup); err != nil {
		t.Fatal(err)
	}
	if out := command("delete", "object:"+tree, "--dry-run"); !strings.Contains(out, owner.npub()+"/tool.git reaches the object") || strings.Contains(out, "the backup ") {
		t.Errorf("the dry run prints %s", out)
	}
}
