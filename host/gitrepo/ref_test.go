package gitrepo

import (
	"os/exec"
	"strings"
	"testing"
)

func checkRefFormat(t testing.TB, name string) bool {
	t.Helper()
	err := exec.Command("git", "check-ref-format", name).Run()
	if err != nil && exitCode(err) != 1 {
		t.Fatal(err)
	}
	return err == nil
}

var refSeeds = []string{
	"refs/heads/main", "refs/heads/a/b", "refs/heads/", "refs//heads", "/refs/heads/x", "refs/heads/.x", "refs/heads/x.lock",
	"refs/heads/x.lock/y", "refs/heads/x..y", "refs/heads/x.", "refs/heads/x@{1}", "refs/heads/@", "@", "refs/heads/a b", "refs/heads/a~b",
	"refs/heads/a^{}", "refs/heads/a:b", "refs/heads/a?b", "refs/heads/*", "refs/heads/[", "refs/heads/a\\b", "refs/heads/\x7f", "refs/heads/é",
	"refs/heads/\xff", "refs/heads/-", "-x/y", "HEAD", "refs", "refs/x", "refs/heads/a\nb", "", "/", ".", "refs/heads/x.lock.", "refs/./x",
}

// The rules are git's own.
func TestRefFormat(t *testing.T) {
	for _, name := range refSeeds {
		if name == "" || strings.HasPrefix(name, "-") {
			continue // git takes these for no argument, or an option
		}
		if got, want := isRefFormat(name), checkRefFormat(t, name); got != want {
			t.Errorf("isRefFormat(%q) = %t; git check-ref-format says %t", name, got, want)
		}
	}
}

func TestRefBounds(t *testing.T) {
	for name, want := range map[string]bool{
		"refs/heads/main": true, "heads/main": false, "HEAD": false, "-x/y": false, "": false,
		"refs/heads/" + strings.Repeat("a", 250):  true,
		"refs/heads/" + strings.Repeat("a", 251):  false, // its lock file has no name
		"refs/" + strings.Repeat("a/", 600) + "b": false,
	} {
		if IsRef(name) != want {
			t.Errorf("IsRef(%.30q) = %t", name, !want)
		}
	}
	event := strings.Repeat("ab", 32)
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/tags/v1": true, "refs/nostr/" + event: true, "refs/nostr/" + strings.ToUpper(event): false,
		"refs/nostr/" + event[:40]: false, "refs/nostr/" + event + "/x": false, "refs/notes/x": false, "refs/pull/1/head": false,
		"HEAD": false, "refs/headsx/y": false, "refs/heads/..": false,
	} {
		if IsPushable(name) != want {
			t.Errorf("IsPushable(%q) = %t", name, !want)
		}
	}
}

func FuzzRef(f *testing.F) {
	for _, name := range refSeeds {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name[0] == '-' || strings.Contains(name, "\x00") || len(name) > 1<<12 {
			return
		}
		if got, want := isRefFormat(name), checkRefFormat(t, name); got != want {
			t.Fatalf("isRefFormat(%q) = %t; git check-ref-format says %t", name, got, want)
		}
	})
}
