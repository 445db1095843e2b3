package githttp

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

const mallory = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"

// of returns the repository x of somebody, and its path.
func (s *site) of(npub string, format gitrepo.Format) (*gitrepo.Repo, string) {
	s.t.Helper()
	name, err := gitrepo.ParseName(npub, "x")
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.root.Repo(name)
	unlock, err := r.Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	if err := r.Init(s.t.Context(), format); err != nil {
		s.t.Fatal(err)
	}
	return r, "/" + npub + "/x.git"
}

// wanted asks for one object over a version of the protocol, and returns the answer.
func (s *site) wanted(version int, path, id string) string {
	s.t.Helper()
	pkt := func(lines ...string) (text string) {
		for _, line := range lines {
			text += string(gitrepo.AppendPkt(nil, line+"\n"))
		}
		return text
	}
	format := "sha1"
	if len(id) == 64 {
		format = "sha256"
	}
	request := pkt("want "+id+" side-band-64k object-format="+format) + flushPkt + pkt("done")
	header := http.Header{"Content-Type": fetchType["Content-Type"]}
	if version > 0 {
		header.Set("Git-Protocol", fmt.Sprint("version=", version))
	}
	if version == 2 {
		request = pkt("command=fetch", "object-format="+format) + "0001" + pkt("want "+id, "done") + flushPkt
	}
	return text(s.t, s.request("POST", path+"/git-upload-pack", header, strings.NewReader(request)))
}

// A fetch gets what the refs of the very repository reach, in every version of the protocol, also
// if a stranger's repository has brought more to the store that both share. make test has each format
// and each kind of store once.
func TestWants(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
		for _, bitmap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/bitmap %t", format, bitmap), func(t *testing.T) {
				if bitmap != (format == gitrepo.SHA1) {
					testkit.Nightly(t, "the other combinations have this format, and this kind of store")
				}
				t.Parallel()
				testWants(t, format, bitmap)
			})
		}
	}
}

func testWants(t *testing.T, format gitrepo.Format, bitmap bool) {
	s := newSite(t, nil)
	_, hers := s.of(alice, format)
	his, strangers := s.of(mallory, format)
	dir := work(t, format)
	git(t, dir, "push", "-q", s.url+hers, "main", "v1")
	git(t, dir, "checkout", "-q", "-b", "evil")
	testkit.Commit(t, dir, "evil")
	git(t, dir, "tag", "-a", "-m", "evil", "vevil")
	git(t, dir, "push", "-q", s.url+strangers, "evil", "vevil")
	if bitmap {
		if err := s.root.Collect(t.Context(), "x", format, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	name := func(rev string) string { return git(t, dir, "rev-parse", rev) }
	ours := map[string]string{
		"a tip": name("main"), "a tag": name("v1"), "a commit": name("main~2"), "a tree": name("main~^{tree}"), "a blob": name("main~:file"),
	}
	theirs := map[string]string{
		"a commit": name("evil"), "a tag": name("vevil"), "a tree": name("evil^{tree}"), "a blob": name("evil:file"),
	}
	check := func(when string) {
		t.Helper()
		for version := range 3 {
			for what, id := range ours {
				if got := s.wanted(version, hers, id); !strings.Contains(got, "PACK") {
					t.Errorf("%s, version %d: %s of the repository's own gets %.100q", when, version, what, got)
				}
			}
			for what, id := range theirs {
				if got := s.wanted(version, hers, id); !strings.Contains(got, "ERR upload-pack: not our ref "+id) {
					t.Errorf("%s, version %d: %s of a stranger's gets %.100q", when, version, what, got)
				}
				if version == 2 {
					upper := strings.ToUpper(id)
					if got := s.wanted(version, hers, upper); !strings.Contains(got, "not our ref "+id) {
						t.Errorf("%s: %s of a stranger's in upper case gets %.100q", when, what, got)
					}
				}
			}
		}
	}
	// The first round finds nothing remembered, the second does.
	check("at first")
	check("again")
	for what, id := range theirs {
		if got := s.wanted(2, strangers, id); !strings.Contains(got, "PACK") {
			t.Errorf("the stranger gets %.100q for %s", got, what)
		}
	}
	unlock, err := his.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = his.Remove(t.Context())
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	check("after the stranger's repository was removed")

	// A new ref makes all that it reaches available at once. Its deletion takes that back.
	git(t, dir, "push", "-q", s.url+hers, "evil")
	if got := s.wanted(2, hers, theirs["a blob"]); !strings.Contains(got, "PACK") {
		t.Errorf("after a push of it, a blob gets %.100q", got)
	}
	git(t, dir, "push", "-q", s.url+hers, ":evil")
	check("after its branch was deleted")
}

// Clones without blobs get them when they need them, and not those of strangers.
func TestPartialClone(t *testing.T) {
	s := newSite(t, nil)
	_, hers := s.of(alice, gitrepo.SHA1)
	_, strangers := s.of(mallory, gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", s.url+hers, "main")
	git(t, dir, "checkout", "-q", "-b", "evil")
	evil := testkit.Commit(t, dir, "evil")
	git(t, dir, "push", "-q", s.url+strangers, "evil")
	for _, filter := range []string{"blob:none", "tree:0"} {
		clone := filepath.Join(t.TempDir(), "clone")
		git(t, ".", "clone", "-q", "--filter="+filter, s.url+hers, clone)
		git(t, clone, "checkout", "-q", "main~2")
		git(t, clone, "log", "-p", "main")
		if out := git(t, clone, "rev-list", "--objects", "--missing=print", "main"); strings.Contains(out, "?") {
			t.Errorf("with %s, objects are missing:\n%s", filter, out)
		}
		if out, err := tryGit(t.Context(), clone, "-c", "protocol.version=2", "fetch", "-q", "origin", evil); err == nil || !strings.Contains(out, "not our ref "+evil) {
			t.Errorf("a stranger's commit: %v %s", err, out)
		}
	}
}

// Checks that need git count for the network, and tips need none.
func TestWalksAreCharged(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Walk = time.Second }) // what is charged fades away in an hour
	_, hers := s.of(alice, gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", s.url+hers, "main")
	tip, older, oldest := git(t, dir, "rev-parse", "main"), git(t, dir, "rev-parse", "main~"), git(t, dir, "rev-parse", "main~2")
	s.from("192.0.2.1")
	for range 5 {
		s.wanted(2, hers, older)
	}
	left := s.handler.walks.Left(s.handler.cfg.Client(nil).Addr)
	if all := time.Second.Milliseconds(); left >= all {
		t.Errorf("%d of %d ms are left after five walks", left, all)
	}
	s.handler.walks.Charge(s.handler.cfg.Client(nil).Addr, float64(left)+60_000)
	if got := s.wanted(2, hers, tip); !strings.Contains(got, "PACK") {
		t.Errorf("a tip gets %.100q", got)
	}
	if got := s.wanted(2, hers, oldest); !strings.Contains(got, "ERR git has looked long") {
		t.Errorf("a commit gets %.100q", got)
	}
	s.from("198.51.100.1")
	if got := s.wanted(2, hers, oldest); !strings.Contains(got, "PACK") {
		t.Errorf("another network gets %.100q", got)
	}
}
