package githttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// leftovers are what a push leaves that did not land: quarantines, temporary packs,
// locks.
func leftovers(t testing.TB, r *gitrepo.Repo) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{
		"objects/tmp_*", "objects/pack/tmp_*", "objects/pack/*.keep", "*.lock", "refs/*/*.lock", "../../.trash/*",
	} {
		found, err := filepath.Glob(filepath.Join(r.Dir(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestFullDisk: the disk is full in the middle of a push. The pusher gets an error, and nothing
// of the push stays. The old content is served, and small pushes land as long as they fit. With
// room again, the large push lands too. A limit on the size of files simulates the disk. Git
// meets it as an error of write, or, in the second round, as a signal that kills it.
func TestFullDisk(t *testing.T) {
	testkit.SkipRace(t)
	for how, script := range map[string]string{"an error": "trap '' XFSZ; ", "a signal": ""} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			room, wrapper := filepath.Join(dir, "room"), filepath.Join(dir, "git")
			set := func(blocks string) {
				if err := os.WriteFile(room, []byte(blocks), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			set("unlimited")
			text := "#!/bin/sh\n" + script + "ulimit -c 0; ulimit -f $(cat '" + room + "'); exec git \"$@\"\n"
			testkit.WriteProgram(t, wrapper, text)
			s := newSiteOf(t, wrapper, gitrepo.DefaultOptions, nil)
			r, url := s.repo("x", gitrepo.SHA1)
			dir = work(t, gitrepo.SHA1)
			git(t, dir, "push", "-q", url, "main")
			before := git(t, dir, "rev-parse", "main")
			addNoise(t, dir, 4<<20)

			for _, blocks := range []string{"2048", "0"} { // of 512 bytes, or of 1,024
				set(blocks)
				if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "unpack") {
					t.Errorf("room for %s blocks: %v\n%s", blocks, err, out)
				}
				if left := leftovers(t, r); len(left) > 0 {
					t.Errorf("room for %s blocks: it leaves %v", blocks, left)
				}
				if refs := git(t, dir, "ls-remote", url, "main"); !strings.HasPrefix(refs, before) {
					t.Errorf("room for %s blocks: main is %s", blocks, refs)
				}
				git(t, ".", "clone", "-q", url, filepath.Join(t.TempDir(), "clone"))
			}
			set("2048")
			git(t, dir, "push", "-q", url, "main~:refs/heads/small", "v1")
			set("unlimited")
			git(t, dir, "push", "-q", url, "main")
			git(t, r.Dir(), "fsck", "--strict")
		})
	}
}

// halfPush sends the first half of a push and waits until git has it.
func (s *site) halfPush(r *gitrepo.Repo, id string) io.ReadWriteCloser {
	s.t.Helper()
	body := create(id, "refs/heads/half") + halfPack()
	c := s.dial("POST /" + alice + "/x.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-receive-pack-request\r\n" +
		"Content-Length: 1000000\r\n\r\n" + body)
	testkit.Eventually(s.t, "index-pack runs", func() bool {
		packs, err := filepath.Glob(filepath.Join(r.Dir(), "../../.trash/push-*/objects/pack/tmp_pack_*"))
		return err == nil && len(packs) > 0
	})
	return c
}

// Somebody, such as the kernel that is out of memory, kills git in the middle of a
// push, and one before it in the middle of a change of refs. The pusher gets an error,
// nothing stays, and the next push is stopped by no lock.
func TestKilledGit(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	for _, name := range []string{"refs/heads/main.lock", "packed-refs.lock"} {
		c := s.halfPush(r, id)
		for _, pid := range processes(t, r.Dir()) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("kill: %v", err)
			}
		}
		answer := make([]byte, 4<<10)
		if n, _ := io.ReadAtLeast(c, answer, 15); !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200 OK") {
			t.Errorf("the client is told %q", answer[:n])
		}
		c.Close()
		testkit.Eventually(t, "all of git ends", func() bool { return children(t, r.Dir()) == 0 })
		testkit.Eventually(t, "nothing is left", func() bool { return len(leftovers(t, r)) == 0 })
		if err := os.WriteFile(filepath.Join(r.Dir(), name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "push", "-q", "--force", url, "main", "main:refs/heads/gone")
		git(t, dir, "push", "-q", "--force", url, "main~:main", ":gone")
		if left := leftovers(t, r); len(left) > 0 {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
}

// TestCutOffPushLeavesNothing: a push that is cut off leaves nothing on the disk. A git that a
// signal ends leaves everything that came, so a client that sends much and goes away would fill
// the disk.
func TestCutOffPushLeavesNothing(t *testing.T) {
	s := newSite(t, nil)
	r, _ := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	c := s.halfPush(r, git(t, dir, "rev-parse", "main"))
	c.Close()
	testkit.Eventually(t, "git ends", func() bool { return children(t, r.Dir()) == 0 })
	testkit.Eventually(t, "nothing is left", func() bool { return len(leftovers(t, r)) == 0 })
}

// TestRemoveUnderSlowClone: the repository is removed while somebody reads a large clone of it
// slowly. The clone ends, complete or with an error. Processes and files of it are gone. A
// repository of the same name can be made immediately.
func TestRemoveUnderSlowClone(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	addNoise(t, dir, 16<<20)
	git(t, dir, "push", "-q", url, "main")
	body := "0032want " + git(t, dir, "rev-parse", "main") + "\n00000009done\n"
	resp := s.request("POST", "/"+alice+"/x.git/git-upload-pack", fetchType, strings.NewReader(body))
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if children(t, r.Dir()) == 0 {
		t.Error("upload-pack has ended already: the clone is not slow")
	}
	unlock, err := r.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Remove(t.Context())
	if err == nil {
		err = r.Init(t.Context(), gitrepo.SHA1)
	}
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	t.Logf("%d bytes more, %v", n, err)
	testkit.Eventually(t, "git ends", func() bool { return children(t, r.Dir()) == 0 })
	if out := git(t, dir, "ls-remote", url); out != "" {
		t.Errorf("the new repository has\n%s", out)
	}
	git(t, dir, "push", "-q", url, "main")
}

// The repository goes after the push has come, and before git runs: it is not found,
// and is not made again by the push.
func TestPushToRemovedRepository(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	s.authorize.set(func(p *Push) error { return p.Repo.Remove(context.Background()) })
	if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "404") {
		t.Errorf("the push: %v\n%s", err, out)
	}
	if there, err := r.Exists(); there || err != nil {
		t.Errorf("the repository exists: %t, %v", there, err)
	}
	for _, p := range s.landed {
		if p.Changed {
			t.Error("a push landed")
		}
	}
}

// TestHostileFetches: git gets the request of a fetch as the client wrote it. No part of it is
// an option or a path to git, asks for an object that is not advertised, or makes git work for
// long.
func TestHostileFetches(t *testing.T) {
	testkit.SkipRace(t)
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	git(t, r.Dir(), "update-ref", "refs/heads/secret", git(t, dir, "rev-parse", "main~"))
	id := git(t, dir, "rev-parse", "main")
	lines := func(list ...string) string {
		var b []byte
		for _, line := range list {
			switch line {
			case "0000", "0001":
				b = append(b, line...)
			default:
				b = gitrepo.AppendPkt(b, line, "\n")
			}
		}
		return string(b)
	}
	many := slices.Repeat([]string{"have " + strings.Repeat("ab", 20)}, 20_000)
	prefixes := slices.Repeat([]string{"ref-prefix refs/" + strings.Repeat("x/", 100)}, 20_000)
	v2 := func(list ...string) string { return lines(append(list, "0000")...) }
	for name, c := range map[string]struct {
		version int
		body    string
		pack    bool // a pack is the right answer
	}{
		"an option":            {0, lines("want --help", "0000", "done"), false},
		"a ref":                {0, lines("want refs/heads/main", "0000", "done"), false},
		"HEAD":                 {0, lines("want HEAD", "0000", "done"), false},
		"a short id":           {0, lines("want "+id[:20], "0000", "done"), false},
		"an absent id":         {0, lines("want "+strings.Repeat("ab", 20), "0000", "done"), false},
		"a SHA-256 id":         {0, lines("want "+strings.Repeat("ab", 32), "0000", "done"), false},
		"less than nothing":    {0, lines("want "+id+" shallow", "deepen -1", "0000", "done"), false},
		"deeper than possible": {0, lines("want "+id+" shallow", "deepen 99999999999999999999", "0000", "done"), false},
		"since a word":         {0, lines("want "+id+" shallow deepen-since", "deepen-since --all", "0000", "done"), false},
		"not an option":        {0, lines("want "+id+" deepen-not", "deepen-not --all", "0000", "done"), false},
		"shallow at a ref":     {0, lines("want "+id+" shallow", "shallow HEAD", "0000", "done"), false},
		"a filter of a blob":   {0, lines("want "+id+" filter", "filter sparse:oid="+id, "0000", "done"), false},
		"a filter of a file":   {0, lines("want "+id+" filter", "filter sparse:path=/etc/passwd", "0000", "done"), false},
		"a filter of a ref":    {0, lines("want "+id+" filter", "filter sparse:oid=main:file", "0000", "done"), false},
		"filters in filters":   {0, lines("want "+id+" filter", "filter combine:"+strings.Repeat("combine:", 4000)+"blob:none", "0000", "done"), true},
		"a hidden filter":      {0, lines("want "+id+" filter", "filter combine:blob:none+sparse:oid="+id, "0000", "done"), false},
		"many haves":           {0, lines(append(append([]string{"want " + id, "0000"}, many...), "done")...), true},
		"commands":             {2, v2("command=ls-refs", "command=fetch"), false},
		"no command":           {2, v2("command=--upload-pack=id"), false},
		"object-info":          {2, v2("command=object-info", "0001", "size", "oid "+id), false},
		"bundle-uri":           {2, v2("command=bundle-uri"), false},
		"want-ref":             {2, v2("command=fetch", "0001", "want-ref refs/heads/secret", "done"), false},
		"an option in v2":      {2, v2("command=fetch", "0001", "want --all", "done"), false},
		"many prefixes":        {2, v2(append([]string{"command=ls-refs", "0001"}, prefixes...)...), false},
		"another format":       {2, v2("command=fetch", "object-format=sha256", "0001", "want "+id, "done"), false},
		"the fetch":            {2, v2("command=fetch", "0001", "want "+id, "done"), true},
	} {
		header := http.Header{"Content-Type": fetchType["Content-Type"]}
		if c.version == 2 {
			header.Set("Git-Protocol", "version=2")
		}
		resp := s.request("POST", "/"+alice+"/x.git/git-upload-pack", header, strings.NewReader(c.body))
		answer := text(t, resp)
		if resp.StatusCode != 200 || strings.Contains(answer, "PACK") != c.pack || strings.Contains(answer, "root:") {
			t.Errorf("%s: %s %.300q", name, resp.Status, answer)
		}
	}
	testkit.Eventually(t, "git ends", func() bool { return children(t, r.Dir()) == 0 })

	adv := text(t, s.request("GET", "/"+alice+"/x.git/info/refs?service=git-upload-pack", http.Header{"Git-Protocol": {"version=2"}}, nil))
	for _, word := range []string{"bundle-uri", "ref-in-want", "packfile-uris"} {
		if strings.Contains(adv, word) {
			t.Errorf("%s is advertised: %q", word, adv)
		}
	}
}

// TestIdentifiers: a repository with any identifier can be pushed to and cloned, and each
// identifier has a repository of its own.
func TestIdentifiers(t *testing.T) {
	testkit.SkipRace(t)
	s := newSite(t, nil)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	for i, identifier := range []string{
		"a:b", ":", "a b", " ", "🚀", strings.Repeat("a", 200), strings.Repeat("🚀", 200), strings.Repeat("A", 200), "a.git", ".git", "...", "-x", "--help", "~", "~x",
		"a%2fb", "%2e%2e", "%", "a+b", "a?b", "a#b", "a&b;c", `"'$(id)`, "<script>", "*", "[x]", "é", "e\u0301", "info", "HEAD", "x.lock", "npub1", "CON",
	} {
		if i%3 != 0 && !testkit.Scale() {
			continue // make scale has all of them
		}
		r, url := s.repo(identifier, gitrepo.SHA1)
		git(t, dir, "push", "-q", url, fmt.Sprint("main:refs/heads/b", i), "main")
		if refs := git(t, dir, "ls-remote", "--heads", url); refs != fmt.Sprintf("%s\trefs/heads/b%d\n%s\trefs/heads/main", id, i, id) {
			t.Errorf("%.40q has the refs\n%s", identifier, refs)
		}
		if name := s.landed[len(s.landed)-1].Repo.Name().Identifier(); name != identifier || r.Name().Identifier() != identifier {
			t.Errorf("%.40q became %.40q", identifier, name)
		}
	}
}

// A client of one format and a repository of the other: refused, and nothing stays.
func TestFormatsDoNotMix(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
		s := newSite(t, nil)
		r, url := s.repo("x", format)
		dir := work(t, 1-format)
		id := git(t, dir, "rev-parse", "main")
		if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil {
			t.Errorf("a push to %s: %s", format, out)
		}
		// A client that does not look.
		push := create(id, "refs/heads/x", " object-format="+(1-format).String()) + packOf(t, dir)
		if answer := s.post(push); strings.Contains(answer, "ok refs/heads/x") {
			t.Errorf("a push to %s: %q", format, answer)
		}
		if refs, err := r.Refs(t.Context()); err != nil || len(refs.List) > 0 {
			t.Errorf("%s has %v, %v", format, refs, err)
		}
		if left := leftovers(t, r); len(left) > 0 {
			t.Errorf("%s: it leaves %v", format, left)
		}
	}
}
