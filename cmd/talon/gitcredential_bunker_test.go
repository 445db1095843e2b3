package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nbd-wtf/go-nostr/nip46"
)

// TestCredentialOfBunker clones a private repository with git. The helper asks a remote signer (NIP-46)
// for each password, and has no key. A signer that refuses ends the clone with its reason.
func TestCredentialOfBunker(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TALON_TEST_SCALE is not set: TestReaderOfPrivateRepository has the helper, and TestRemoteSigner the signer")
	}
	plugins, data := modulesAnd(t, []string{"readers", "grasp"}, nil), graspData(t)
	st := newStory(t, startGrasp(t, data, plugins))
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv(keyFileVar, "")
	t.Setenv(signerVar, "")
	owner, alice := st.who("owner"), person("alice")
	members := filepath.Join(t.TempDir(), "members.txt")
	if err := os.WriteFile(members, []byte(alice.npub()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "own"))
	state := st.held(st.state(owner, "own", "refs/heads/main", one))
	work.push(st.repo(owner, "own"), one+":refs/heads/main")
	st.becomesServed(state)
	configure(t, st.s, plugins, "readers", `readers_repositories = ["`+owner.npub()+`/own"]`+"\n[sets.readers]\nfile = \""+members+"\"")
	st.until("the repository becomes private", func() bool { return !st.served(state) })

	// The signer and the helper talk over another relay, which takes their events.
	b := startBunker(t, start(t, newData(t), "--domain", serviceDomain).url)
	site := "http://" + serviceDomain
	as := func(signer string, args ...string) (string, error) {
		return gitAs(work.dir, append([]string{
			"-c", "http.proxy=" + st.web,
			"-c", "credential." + site + ".helper=!talon git-credential --signer '" + signer + "'",
			"-c", "credential." + site + ".useHttpPath=true",
		}, args...)...)
	}
	url := site + "/auth" + repoPath(owner, "own")
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := as(b.url("once"), "clone", "-q", url, clone); err != nil {
		t.Fatalf("a clone: %v\n%s", err, out)
	}
	if got := mustGit(t, clone, "rev-parse", "HEAD"); got != one {
		t.Errorf("cloned %s, want %s", got, one)
	}
	if got := b.requests(); got != "connect get_public_key sign_event" {
		t.Errorf("the signer was asked for %q", got)
	}
	b.answers(func(_ string, resp *nip46.Response) bool {
		if resp.Result != "" && resp.Result != "ack" {
			resp.Result, resp.Error = "", "the person said no"
		}
		return true
	})
	if out, err := as(b.url("once"), "ls-remote", url); err == nil {
		t.Errorf("the signer refuses, and git reads the repository:\n%s", out)
	}
}
