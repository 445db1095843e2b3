package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPurgeOfFork removes a repository that shares objects with a fork. Its objects and its refs go, the fork
// keeps all that it reaches.
func TestPurgeOfFork(t *testing.T) {
	t.Parallel()
	data, plugins := graspData(t), pluginFolder(t, "grasp")
	st := newStory(t, startGrasp(t, data, plugins))
	alice, mallory, reader, work := st.who("alice"), st.who("mallory"), st.who("reader"), st.folder()
	one := work.commit("one")
	secret := work.commit("secret")
	pulled := work.unrelated()
	publish := func(who person, commit string) {
		st.held(st.announcement(who, "tool"))
		st.held(st.state(who, "tool", "refs/heads/main", commit))
		work.push(st.repo(who, "tool"), commit+":refs/heads/main")
	}
	publish(alice, one)
	publish(mallory, secret)
	pull := st.held(st.pull(reader, pulled, repoAddress(mallory, "tool")))
	work.push(st.repo(mallory, "tool"), pulled+":refs/nostr/"+pull.ID)
	st.becomesServed(pull)
	at := filepath.Join(data, "git", alice.npub(), "tool.git")
	has := func(object string) bool {
		return exec.Command("git", "--git-dir", at, "cat-file", "-e", object).Run() == nil
	}
	if !has(one) || !has(secret) {
		t.Skip("the two repositories share no objects")
	}
	if out, err := talon(t, nil, "delete", "--repository", mallory.npub()+"/tool", "--reason", "scam", "--data", data); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(data, "git", mallory.npub(), "tool.git")); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
	st.until("the objects of the repository go", func() bool { return !has(secret) && !has(pulled) })
	clone := filepath.Join(t.TempDir(), "clone")
	st.git(".", "clone", "-q", st.repo(alice, "tool"), clone)
	st.git(clone, "fsck", "--strict")
	if got := st.git(clone, "rev-parse", "HEAD"); got != one {
		t.Errorf("the clone of the fork is at %s, want %s", got, one)
	}
	work.cannotPush("removed by the operator: scam", st.repo(mallory, "tool"), secret+":refs/heads/main")
}
