package gitread

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host/bound"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// site is a folder of repositories and a reader of them.
type site struct {
	t      testing.TB
	root   *gitrepo.Root
	reader *Reader
}

func newSite(t testing.TB) *site {
	t.Helper()
	return newSiteWith(t, gitrepo.DefaultOptions)
}

func newSiteWith(t testing.TB, options gitrepo.Options) *site {
	t.Helper()
	git, err := gitrepo.Find(t.Context(), "git", options)
	if err != nil {
		t.Fatal(err)
	}
	root, err := gitrepo.Open(git, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	reader, err := Open(Options{Scheduler: root.Scheduler(), Archives: filepath.Join(t.TempDir(), "archives")})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, root, reader}
}

// Owners of repositories.
const (
	alice = "npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq"
	bob   = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
)

// repo makes an empty repository.
func (s *site) repo(npub, identifier string) *gitrepo.Repo {
	s.t.Helper()
	name, err := gitrepo.ParseName(npub, identifier)
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.root.Repo(name)
	unlock, err := r.Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	if err := r.Init(s.t.Context(), gitrepo.SHA1); err != nil {
		s.t.Fatal(err)
	}
	testkit.Git(s.t, r.Dir(), "symbolic-ref", "HEAD", "refs/heads/main")
	return r
}

// share moves what was pushed to the store, as a push does.
func (s *site) share(r *gitrepo.Repo) {
	s.t.Helper()
	unlock, err := r.Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	if err := r.Share(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) open(r *gitrepo.Repo) *Repository {
	s.t.Helper()
	o, err := s.reader.Open(s.t.Context(), r, bound.Holder{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(o.Close)
	return o
}

// generate makes a history of n commits by git fast-import: branches, merges that take a side or mix
// both, reverts, renames, files that become folders, and many commits of one second.
func generate(t testing.TB, dir string, n int, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	type commit map[string]string
	var all []commit
	var b strings.Builder
	for i := range n {
		var parents []int
		if i > 0 {
			parents = append(parents, i-1-r.IntN(min(i, 4)))
			for r.IntN(4) == 0 && len(parents) < 4 {
				if p := i - 1 - r.IntN(min(i, 9)); !slices.Contains(parents, p) {
					parents = append(parents, p)
				}
			}
		}
		files := commit{}
		if len(parents) > 0 {
			files = maps.Clone(all[parents[0]])
		}
		for _, p := range parents[min(1, len(parents)):] {
			names := slices.Sorted(maps.Keys(all[p]))
			mode := r.IntN(4)
			if mode == 0 {
				files = maps.Clone(all[p])
			}
			for _, name := range names {
				if mode == 1 && r.IntN(2) == 0 {
					files[name] = all[p][name]
				}
			}
		}
		if len(parents) < 2 || r.IntN(3) == 0 {
			for range 1 + r.IntN(3) {
				name := []string{"a", "b", "c", "dir/a", "dir/b", "dir/sub/a", "dir/sub/b", "x/y/z", "\xc3\xbc/\xff", "ü"}[r.IntN(10)]
				switch r.IntN(6) {
				case 0:
					delete(files, name)
				case 1: // a revert
					if old := all[r.IntN(max(1, len(all)))%max(1, len(all)):]; len(old) > 0 {
						files[name] = old[0][name]
					}
				default:
					files[name] = fmt.Sprint(r.IntN(30))
				}
			}
		}
		for name, content := range files {
			if content == "" {
				delete(files, name)
			}
		}
		all = append(all, files)
		at := 1_700_000_000 + int64(i/3)*10 - int64(r.IntN(2)*r.IntN(200))
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\nauthor A <a@example.com> %d +0100\ncommitter C <c@example.com> %d +0000\ndata <<END\nSubject %d\n\nThe body.\nEND\n", i+1, at, at, i)
		for j, p := range parents {
			fmt.Fprintf(&b, "%s :%d\n", []string{"from", "merge"}[min(j, 1)], p+1)
		}
		b.WriteString("deleteall\n")
		for _, name := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", quote(name), len(files[name]), files[name])
		}
		b.WriteString("\n")
		if i%40 == 7 {
			fmt.Fprintf(&b, "reset refs/heads/topic/%d\nfrom :%d\n\n", i, i+1)
		}
	}
	fastImport(t, dir, b.String())
}

// fastImport makes a repository of a stream of git fast-import.
func fastImport(t testing.TB, dir, stream string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(file, []byte(stream), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	testkit.Git(t, dir, "-c", "alias.feed=!f() { git fast-import --quiet --force < \"$1\"; }; f", "feed", file)
}

// writeFile writes a file of a work tree.
func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		if c := name[i]; c >= 0x80 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
