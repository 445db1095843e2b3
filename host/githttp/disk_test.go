package githttp

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// newThinSite serves a repository in which a file is large for the limits, and returns its
// address and a clone. Pushes are of the given author.
func newThinSite(t *testing.T, author string, change func(*Limits)) (s *site, r *gitrepo.Repo, url, dir string) {
	s = newSite(t, change)
	s.authorize.set(func(p *Push) error {
		p.Author = author
		return nil
	})
	r, url = s.repo("x", gitrepo.SHA1)
	dir = work(t, gitrepo.SHA1)
	addNoise(t, dir, largeFile)
	git(t, dir, "push", "-q", url, "main")
	return s, r, url, dir
}

// largeFile is the length of a file that does not compress.
const largeFile = 1 << 20

// edit appends a line to the large file, and commits it.
func edit(t *testing.T, dir string, n int) (commit string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "noise"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, "edit", n); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return testkit.Commit(t, dir, fmt.Sprint("edit ", n))
}

// thinPack is what a client sends that knows the large file to be there.
func thinPack(t *testing.T, dir, commit string) string {
	t.Helper()
	cmd := gitCommand(t.Context(), dir, "pack-objects", "--revs", "--thin", "--stdout", "-q")
	cmd.Stdin = strings.NewReader(commit + "\n^" + commit + "~\n")
	pack, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(pack) > 4<<10 {
		t.Fatalf("the pack has %d bytes", len(pack))
	}
	return string(pack)
}

// onDisk is the size of all files of a site.
func (s *site) onDisk() (sum int64) {
	s.t.Helper()
	dir := filepath.Dir(filepath.Dir(s.anyRepo().Dir()))
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, failed := d.Info()
			if failed != nil {
				return failed
			}
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}

func (s *site) anyRepo() *gitrepo.Repo {
	name, err := gitrepo.ParseName(alice, "x")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.root.Repo(name)
}

// TestThinPacksOfStrangers shows that strangers cannot store a large file again by a few hundred
// bytes, and that the advice of the refusal helps.
func TestThinPacksOfStrangers(t *testing.T) {
	testkit.SkipRace(t)
	s, _, url, dir := newThinSite(t, "", func(l *Limits) { l.ThinEarly = gitrepo.ThinLimit{Free: 256 << 10, Times: 10} })
	before := s.onDisk()
	const attacks = 8
	commit := edit(t, dir, 0)
	pack := thinPack(t, dir, commit)
	for i := range attacks {
		answer := s.post(create(commit, fmt.Sprintf("refs/nostr/%064x", i)) + pack)
		if !strings.Contains(answer, "unpack push again with --no-thin: ") {
			t.Errorf("attack %d with %d bytes: %q", i, len(pack), answer)
		}
	}
	if after := s.onDisk(); after > before+largeFile/8 {
		t.Errorf("%d attacks of %d bytes store %d bytes", attacks, len(pack), after-before)
	}
	git(t, dir, "push", "-q", "--no-thin", url, fmt.Sprintf("main:refs/nostr/%064x", attacks))
}

// TestRefusedThinPackIsAskedFor shows that a client whose thin pack is refused is asked for
// another when it comes again, and others are not.
func TestRefusedThinPackIsAskedFor(t *testing.T) {
	s, _, url, dir := newThinSite(t, "", func(l *Limits) { l.ThinEarly = gitrepo.ThinLimit{Free: 256 << 10, Times: 10} })
	asked := func(addr string) bool {
		s.from(addr)
		return strings.Contains(text(t, s.request("GET", "/"+alice+"/x.git/info/refs?service=git-receive-pack", nil, nil)), " no-thin ")
	}
	edit(t, dir, 0)
	for _, addr := range []string{"192.0.2.1", "127.0.0.1"} {
		if asked(addr) {
			t.Errorf("%s is asked before it has pushed", addr)
		}
		if out, err := tryGit(t.Context(), dir, "push", url, "main:"+addr); err == nil || !strings.Contains(out, "push again with --no-thin") {
			t.Errorf("a thin push from %s: %v\n%s", addr, err, out)
		}
		if !asked(addr) || asked("198.51.100.1") {
			t.Errorf("%s is asked: %t, somebody else: %t", addr, asked(addr), asked("198.51.100.1"))
		}
		s.from(addr)
		git(t, dir, "push", "-q", url, "main:"+addr)
		git(t, dir, "push", "-q", url, ":"+addr)
		if err := s.anyRepo().Repack(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestThinPacksOfAuthors shows that the pushes of an author pass however often a large file is
// edited: clients are asked for other packs in time. A thin pack that comes all the same is
// refused. Others have their part.
func TestThinPacksOfAuthors(t *testing.T) {
	testkit.SkipRace(t)
	const copies = 4
	s, _, url, dir := newThinSite(t, alice, func(l *Limits) { l.Thin = copies*largeFile + largeFile/2 })
	s.from("192.0.2.1")
	asked := 0
	for i := range copies + 3 {
		commit := edit(t, dir, i)
		if strings.Contains(text(t, s.request("GET", "/"+alice+"/x.git/info/refs?service=git-receive-pack", nil, nil)), " no-thin ") {
			asked++
		}
		git(t, dir, "push", "-q", url, "main")
		if got := strings.Fields(git(t, dir, "ls-remote", url, "main"))[0]; got != commit {
			t.Fatalf("push %d: main is %s", i, got)
		}
	}
	if asked < 3 || asked > 4 {
		t.Errorf("clients are asked %d times for packs that are not thin", asked)
	}
	commit := edit(t, dir, copies+3)
	pack := thinPack(t, dir, commit)
	before := s.onDisk()
	post := func(author, addr string) string {
		s.authorize.set(func(p *Push) error {
			p.Author = author
			return nil
		})
		s.from(addr)
		return s.post(create(commit, "refs/heads/"+author+addr) + pack)
	}
	const refused = "unpack push again with --no-thin"
	for _, who := range [][2]string{{alice, "192.0.2.1"}, {alice, "198.51.100.1"}, {alice, "127.0.0.1"}, {"bob", "192.0.2.1"}} {
		if answer := post(who[0], who[1]); !strings.Contains(answer, refused) {
			t.Errorf("%s from %s: %q", who[0], who[1], answer)
		}
	}
	if after := s.onDisk(); after > before+largeFile/8 {
		t.Errorf("thin packs that are refused store %d bytes", after-before)
	}
	if answer := post("bob", "198.51.100.1"); !strings.Contains(answer, "unpack ok") {
		t.Errorf("somebody else: %q", answer)
	}
}

// TestDiskOfANetwork shows that pushes of one network are refused once they have stored what
// they may in an hour. Other networks and loopback are not.
func TestDiskOfANetwork(t *testing.T) {
	testkit.SkipRace(t)
	s := newSite(t, func(l *Limits) { l.Disk = 3 * largeFile / 2 })
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	push := func(addr, branch string) (string, error) {
		t.Helper()
		git(t, dir, "config", "core.compression", "0")
		git(t, dir, "checkout", "-q", "--orphan", branch)
		if err := os.WriteFile(filepath.Join(dir, "noise"), append(noise(largeFile), branch...), 0o644); err != nil {
			t.Fatal(err)
		}
		testkit.Commit(t, dir, branch)
		s.from(addr)
		return tryGit(t.Context(), dir, "push", "--no-thin", url, branch)
	}
	for i, c := range []struct {
		addr string
		ok   bool
	}{
		{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, {"198.51.100.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true},
	} {
		out, err := push(c.addr, fmt.Sprint("branch", i))
		if c.ok != (err == nil) || !c.ok && !strings.Contains(out, "pushes from your address have stored") {
			t.Errorf("push %d, from %s: %v\n%s", i, c.addr, err, out)
		}
	}
	// A push that stores nothing passes.
	s.from("192.0.2.1")
	git(t, dir, "push", "-q", url, ":branch0")
	for _, spec := range s.handler.Bounds() {
		if spec.Name == "" || spec.Network == 0 && spec.Key == 0 {
			t.Errorf("a bound is %+v", spec)
		}
	}
}
