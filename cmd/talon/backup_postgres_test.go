package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// TestBackupPostgres backs up a server on PostgreSQL with pg_dump and talon backup while it runs, and
// restores both. The new server obeys a takedown that is newer than the dump, and talon check finds
// git data that are missing.
func TestBackupPostgres(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TALON_TEST_SCALE is not set: TestBackup has the parts without PostgreSQL")
	}
	t.Parallel()
	var database testkit.Postgres
	t.Cleanup(database.Stop)
	store := database.URL(t)
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(database.Program(name), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := talon(t, nil, args...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return out
	}
	data, plugins := graspData(t), pluginFolder(t, "grasp")
	serve := func(data, store string) *story {
		return newStory(t, start(t, data, "--plugins", plugins, "--domain", serviceDomain, "--store", store))
	}
	st := serve(data, store)
	owner, work := st.who("owner"), st.folder()
	commit := work.commit("one")
	st.held(st.announcement(owner, "tool"))
	st.held(st.state(owner, "tool", "refs/heads/main", commit))
	work.push(st.repo(owner, "tool"), "main")
	waiting := st.held(st.announcement(owner, "waiting"))
	issue := func(subject string) *nostr.Event {
		return st.stored(st.event(st.who("reader"), 1621, nostr.Tag{"a", repoAddress(owner, "tool")}, nostr.Tag{"subject", subject}))
	}
	kept, taken := issue("kept"), issue("taken")

	// As the page says: pg_dump first, and talon backup after it.
	dump, folder := filepath.Join(t.TempDir(), "events.dump"), filepath.Join(t.TempDir(), "backup")
	from, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	connection := []string{"--host", from.Query().Get("host"), "--username", "talon"}
	run("pg_dump", append(connection, "--format=custom", "--schema", from.Query().Get("search_path"), "--file", dump, "postgres")...)
	later := issue("later")
	must("backup", "--data", data, "--to", folder, "--store", store)
	must("moderate", "ban", "--purge", "event:"+taken.ID, "--reason", "scam", "--data", data, "--store", store)
	st.s.mustStop(t)

	run("createdb", append(connection, "restored")...)
	run("pg_restore", append(connection, "--exit-on-error", "--dbname", "restored", dump)...)
	from.Path = "/restored"
	store = from.String()
	restored := filepath.Join(t.TempDir(), "data")
	must("restore", "--from", folder, "--data", restored, "--plugins", filepath.Join(t.TempDir(), "plugins"))
	log, err := os.ReadFile(filepath.Join(data, "moderation.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	drop(t, restored, "moderation.jsonl", log)
	again := serve(restored, store)
	again.until("what was taken down later goes", func() bool { return !again.served(taken) })
	if a := again.c.publish(t, taken); a.ok || a.reason != "blocked: removed by the operator: scam" && a.reason != "blocked: banned by the operator: scam" {
		t.Errorf("what was taken down is answered %v %q", a.ok, a.reason)
	}
	again.wantServed(kept, true)
	again.wantServed(later, false)
	again.wantServed(waiting, false)
	again.answered(waiting, true, purgatory)
	if got, want := again.refsOf(again.repo(owner, "tool")), commit; !strings.Contains(got, want) {
		t.Errorf("the refs are %s, want %s", got, want)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	again.git(".", "clone", "-q", again.repo(owner, "tool"), clone)
	again.git(clone, "fsck", "--strict")
	again.s.mustStop(t)
	check := []string{"check", "--data", restored, "--store", store, "--domain", serviceDomain}
	if out := must(check...); !strings.Contains(out, "0 problems") {
		t.Errorf("talon check says %s", out)
	}
	if err := os.RemoveAll(filepath.Join(restored, "git", owner.npub(), "tool.git")); err != nil {
		t.Fatal(err)
	}
	if out, err := talon(t, nil, check...); err == nil || !strings.Contains(out, "tool") {
		t.Errorf("without the repository talon check says: %v\n%s", err, out)
	}
}
