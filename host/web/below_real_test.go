package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"talon/host/gitread"
	"talon/internal/testkit"
)

// realPages are the pages that are measured, with the paths that others have for them, and the commands of
// soft-serve. HEAD becomes the id of the last commit.
var realPages = []struct{ path, cgit, gitea, soft string }{
	{"", "/", "", ""},
	{"/tree/master", "/tree/", "/src/branch/master", "tree git"},
	{"/tree/master/t", "/tree/t", "/src/branch/master/t", "tree git t"},
	{"/blob/master/diff.c", "/tree/diff.c", "/src/branch/master/diff.c", "blob --color git diff.c"},
	{"/blob/master/strbuf.c", "/tree/strbuf.c", "/src/branch/master/strbuf.c", "blob --color git strbuf.c"},
	{"/raw/master/diff.c", "/plain/diff.c", "/raw/branch/master/diff.c", "blob git diff.c"},
	{"/log/master", "/log/", "/commits/branch/master", ""},
	{"/log/HEAD?from=80000", "/log/?ofs=80000", "/commits/branch/master?page=1601", ""},
	{"/log/master/t", "/log/t", "/commits/branch/master/t", ""},
	{"/log/master/COPYING", "/log/COPYING", "/commits/branch/master/COPYING", ""},
	{"/commit/HEAD", "/commit/?id=HEAD", "/commit/HEAD", "commit git HEAD"},
	{"/compare/v2.50.0...v2.50.1", "/diff/?id=v2.50.1&id2=v2.50.0", "/compare/v2.50.0...v2.50.1", ""},
	{"/refs", "/refs/", "/tags", "tag list git"},
	{"/blame/master/strbuf.c", "/blame/strbuf.c", "/blame/branch/master/strbuf.c", ""},
	{"/grep/master?q=oid_to_hex", "", "/search?q=oid_to_hex", ""},
	{"/issues", "", "/issues", ""},
	{"/log.atom", "/atom/?h=master", "/atom/branch/master", ""},
	{"/archive/master.tar.gz", "/snapshot/git-master.tar.gz", "/archive/master.tar.gz", ""},
}

// TestRealPages measures pages of the repository that TALON_CODE_REPO names: git's own, with its
// objects in packs. It also measures those of cgit where that is installed, and those of a Gitea that
// runs and has the repository: TALON_CODE_GITEA is its process and the URL of its page, "PID URL". It
// measures commands of a soft-serve that has the repository "git": TALON_CODE_SOFT is its process and
// how to reach it, "PID ssh -p 23231 localhost".
func TestRealPages(t *testing.T) {
	source := os.Getenv("TALON_CODE_REPO")
	if source == "" {
		t.Skip("TALON_CODE_REPO names no repository")
	}
	w := newWorld(t)
	reader, err := gitread.Open(gitread.Options{Scheduler: testScheduler, Archives: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if w.Handler, err = New(w.Handler.cfg, Deps{Facts: w, Git: w, Code: reader}); err != nil {
		t.Fatal(err)
	}
	w.serveCodeOf("nest", workTree(t, map[string]string{"x": "x\n"}))
	address, _ := announce("owl", "nest").Address()
	repo := w.repos[address].git
	packs, _ := filepath.Glob(filepath.Join(source, "objects", "pack", "pack-*"))
	for _, file := range packs {
		if err := os.Symlink(file, filepath.Join(repo.Dir(), "objects", "pack", filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	refs := testkit.Git(t, source, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/master", "refs/tags")
	if err := os.WriteFile(filepath.Join(repo.Dir(), "packed-refs"), []byte(refs+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, repo.Dir(), "pack-refs", "--all")
	testkit.Git(t, repo.Dir(), "symbolic-ref", "HEAD", "refs/heads/master")
	unlock, err := repo.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Share(t.Context()); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := repo.WriteCommitGraph(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	base := "/" + npub("owl") + "/nest"
	head := testkit.Git(t, repo.Dir(), "rev-parse", "refs/heads/master")
	cgit := cgitOf(t, repo.Dir())
	gitea, soft := giteaOf(t), softOf(t)
	t.Logf("ms of CPU: Talon, first and then warm; cgit; Gitea, first and then warm; soft-serve, the same")
	for _, page := range realPages {
		ask := func() int {
			got := w.raw(base + strings.ReplaceAll(page.path, "HEAD", head))
			if got.Code != 200 {
				t.Errorf("%s: %d", page.path, got.Code)
			}
			return got.Body.Len()
		}
		used := ownTime()
		size := ask()
		first := ownTime() - used
		for range 3 {
			time.Sleep(time.Second) // for the walk in the background
			ask()
		}
		const n = 10
		runtime.GC()
		used = ownTime()
		for range n {
			w.Handler.cache = newCache() // of whole pages, which lasts for seconds
			ask()
		}
		warm := (ownTime() - used) / n
		named := func(path string) string { return strings.ReplaceAll(path, "HEAD", head) }
		t.Logf("%8.1f %8.1f %8s %18s %12s  %s, %d bytes", ms(first), ms(warm), cgit(named(page.cgit)), gitea(named(page.gitea)), soft(named(page.soft)), cmp.Or(page.path, "first page"), size)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cgitOf returns a function that measures a page of cgit, as CGI without a cache, with highlighting off.
func cgitOf(t *testing.T, dir string) func(path string) string {
	const program = "/usr/lib/cgit/cgit.cgi"
	if _, err := os.Stat(program); err != nil {
		return func(string) string { return "-" }
	}
	config := filepath.Join(t.TempDir(), "cgitrc")
	write(t, config, "cache-size=0\nenable-blame=1\nsnapshots=tar.gz\nrepo.url=git\nrepo.path="+dir+"\nrepo.defbranch=master\n")
	return func(path string) string {
		if path == "" {
			return "-"
		}
		path, query, _ := strings.Cut(path, "?")
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "CGIT_CONFIG="+config, "PATH_INFO=/git"+path, "QUERY_STRING="+query, "REQUEST_METHOD=GET")
		best := time.Hour
		for range 3 {
			run := *cmd
			out, err := run.Output()
			if err != nil || !strings.Contains(string(out[:min(len(out), 500)]), "Content-Type") {
				t.Errorf("cgit: %s: %v\n%.300s", path, err, out)
				return "-"
			}
			best = min(best, run.ProcessState.UserTime()+run.ProcessState.SystemTime())
		}
		return fmt.Sprintf("%.1f", ms(best))
	}
}

// giteaOf returns a function that measures a page of Gitea.
func giteaOf(t *testing.T) func(path string) string {
	pid, url, ok := strings.Cut(os.Getenv("TALON_CODE_GITEA"), " ")
	if !ok {
		return func(string) string { return "-" }
	}
	return func(path string) string {
		return measureOther(t, pid, func() error {
			resp, err := http.Get(url + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("Gitea: %s: %s", path, resp.Status)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
	}
}

// softOf returns a function that measures a command of soft-serve about a repository.
func softOf(t *testing.T) func(command string) string {
	pid, ssh, ok := strings.Cut(os.Getenv("TALON_CODE_SOFT"), " ")
	return func(command string) string {
		if !ok || command == "" {
			return "-"
		}
		return measureOther(t, pid, func() error {
			words := append(strings.Fields(ssh), "repo", command)
			out, err := exec.Command(words[0], words[1:]...).Output()
			if err == nil && len(out) == 0 {
				err = errors.New("it says nothing")
			}
			if err != nil {
				return fmt.Errorf("soft-serve: %s: %w", command, err)
			}
			return nil
		})
	}
}

// measureOther measures the processor time that a question takes another program, first and then warm.
func measureOther(t *testing.T, pid string, ask func() error) string {
	used := func() (sum time.Duration) {
		text, _ := os.ReadFile("/proc/" + pid + "/stat")
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:15] { // its own time and that of processes that it has waited for
			n, _ := strconv.Atoi(field)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
		return sum
	}
	before := used()
	if err := ask(); err != nil {
		t.Log(err)
		return "-"
	}
	time.Sleep(2 * time.Second) // what it leaves for later
	first := used() - before
	const n = 10
	before = used()
	for range n {
		_ = ask()
	}
	return fmt.Sprintf("%.0f %.0f", ms(first), ms((used()-before)/n))
}

// ownTime returns the processor time of this process and of those that it has waited for.
func ownTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var use syscall.Rusage
		_ = syscall.Getrusage(who, &use)
		sum += time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	return sum
}
