package githttp

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

// BenchmarkTransfer clones and pushes a generated repository, here and over git
// http-backend behind a plain Go proxy (net/http/cgi), in turns. TALON_GIT_OBJECTS is
// the number of objects (20,000), TALON_GIT_BYTES the size of each blob (200). The
// figures are the fastest and the median; the percentages compare the fastest. MB is
// the most memory that the server had of the system, git's own apart.
func BenchmarkTransfer(b *testing.B) {
	objects, size := setting(b, "TALON_GIT_OBJECTS", 20_000), setting(b, "TALON_GIT_BYTES", 200)
	dir := generate(b, objects, size)
	plain, backend := newBackend(b)
	s := newSite(b, nil)
	var took [2][2][]time.Duration // by server and step
	rounds := 0
	for b.Loop() {
		rounds++
		_, ours := s.repo(fmt.Sprint("r", strings.Repeat("x", rounds)), gitrepo.SHA1)
		name := fmt.Sprint("r", rounds, ".git")
		git(b, plain, "init", "-q", "--bare", "-b", "main", name)
		// In turns, so that other load of the machine affects both.
		for step := range 2 {
			for i, url := range []string{ours, backend + "/" + name} {
				began := time.Now()
				if step == 0 {
					// CGI of net/http takes no chunked bodies.
					git(b, dir, "-c", "http.postBuffer=1g", "push", "-q", url, "main")
				} else {
					git(b, ".", "clone", "-q", "--bare", url, filepath.Join(b.TempDir(), fmt.Sprint("c", rounds, i)))
				}
				took[i][step] = append(took[i][step], time.Since(began))
			}
		}
	}
	for step, what := range []string{"push", "clone"} {
		for i, who := range []string{"talon", "backend"} {
			slices.Sort(took[i][step])
			b.ReportMetric(float64(took[i][step][0].Milliseconds()), who+"-"+what+"-ms")
			b.ReportMetric(float64(took[i][step][rounds/2].Milliseconds()), who+"-"+what+"-median-ms")
		}
		b.ReportMetric(100*(took[0][step][0].Seconds()/took[1][step][0].Seconds()-1), what+"-%")
	}
	b.ReportMetric(float64(peak())/(1<<10), "MB")
}

// BenchmarkLazyFetch clones a generated repository whole and without blobs, checks out its
// branch, and then has git fetch single blobs of its history. Eight strangers have forks in the
// same store, each with a commit of its own. TALON_GIT_OBJECTS is the number of objects (10,000).
// The store has a bitmap in the second run. The figures are the fastest.
func BenchmarkLazyFetch(b *testing.B) {
	dir := generate(b, setting(b, "TALON_GIT_OBJECTS", 10_000), 200)
	blobs := strings.Fields(git(b, dir, "log", "--format=", "--raw", "--no-abbrev", "-n", "2000", "main"))
	for _, bitmap := range []bool{false, true} {
		b.Run(fmt.Sprintf("bitmap=%t", bitmap), func(b *testing.B) {
			s := newSite(b, nil)
			_, hers := s.repo("x", gitrepo.SHA1)
			git(b, dir, "push", "-q", hers, "main")
			for i := range 8 {
				name, err := gitrepo.ParseName(nip19.EncodeNpub(testkit.NewSigner(byte(10+i)).PubKey), "x")
				if err != nil {
					b.Fatal(err)
				}
				fork := s.root.Repo(name)
				unlock, err := fork.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := fork.Init(b.Context(), gitrepo.SHA1); err != nil {
					b.Fatal(err)
				}
				unlock()
				commit := git(b, dir, "commit-tree", "-p", "main", "-m", fmt.Sprint(i), "main^{tree}")
				git(b, dir, "push", "-q", s.url+"/"+name.Npub()+"/x.git", commit+":refs/heads/main")
			}
			if bitmap {
				if err := s.root.Collect(b.Context(), "x", gitrepo.SHA1, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			const steps = 4
			var took [steps][]time.Duration
			next := 0
			for b.Loop() {
				at := time.Now()
				lap := func(step int, n int) {
					took[step] = append(took[step], time.Since(at)/time.Duration(n))
					at = time.Now()
				}
				git(b, ".", "clone", "-q", "--bare", hers, filepath.Join(b.TempDir(), "whole"))
				lap(0, 1)
				clone := filepath.Join(b.TempDir(), "partial")
				git(b, ".", "clone", "-q", "--no-checkout", "--filter=blob:none", hers, clone)
				lap(1, 1)
				git(b, clone, "checkout", "-q", "main")
				lap(2, 1)
				const single = 20
				for range single {
					for !gitrepo.IsID(blobs[next]) || gitrepo.IsZero(blobs[next]) {
						next = (next + 1) % len(blobs)
					}
					git(b, clone, "cat-file", "blob", blobs[next])
					next = (next + 60) % len(blobs)
				}
				lap(3, single)
			}
			for step, what := range []string{"clone", "partial-clone", "checkout", "blob"} {
				slices.Sort(took[step])
				b.ReportMetric(float64(took[step][0].Microseconds())/1000, what+"-ms")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// newBackend serves a folder by git http-backend behind a plain Go proxy.
func newBackend(b *testing.B) (dir, url string) {
	backend := filepath.Join(git(b, ".", "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		b.Skip("there is no git http-backend")
	}
	dir = b.TempDir()
	server := httptest.NewServer(&cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=bench", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir,
	}, InheritEnv: []string{"PATH"}})
	b.Cleanup(server.Close)
	return dir, server.URL
}

// peak is the most memory that this process had, in KiB.
func peak() int { return peakOf(os.Getpid()) }

// peakOf is the most memory that a process had, in KiB; 0 if it has gone.
func peakOf(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

func setting(b *testing.B, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}

// generate makes a repository of commits that change one of 50 files each: three
// objects a commit.
func generate(b *testing.B, objects, size int) string {
	dir := b.TempDir()
	git(b, dir, "init", "-q", "--bare", "-b", "main")
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	noise := make([]byte, size)
	seed := uint64(1)
	for i := range objects / 3 {
		for j := range noise {
			seed ^= seed << 13
			seed ^= seed >> 7
			seed ^= seed << 17
			noise[j] = byte(seed)
		}
		fmt.Fprintf(in, "commit refs/heads/main\ncommitter a <a@example.com> %d +0000\ndata 2\nc\n\nM 644 inline d%d/f%d\ndata %d\n",
			1_700_000_000+i, i%7, i%50, size)
		if _, err := in.Write(noise); err != nil {
			b.Fatal(err)
		}
		fmt.Fprintln(in)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkSmallPush is a push of one commit, from the client's start to its end,
// and what of that the server took.
func BenchmarkSmallPush(b *testing.B) {
	s := newSite(b, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(b, gitrepo.SHA1)
	git(b, dir, "push", "-q", url, "main")
	var inside time.Duration
	served := s.server.Config.Handler
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		served.ServeHTTP(w, r)
		if r.Method == http.MethodPost {
			inside += time.Since(began)
		}
	})
	n := 0
	for b.Loop() {
		n++
		b.StopTimer()
		git(b, dir, "commit", "-q", "--allow-empty", "-m", "more")
		b.StartTimer()
		git(b, dir, "push", "-q", url, "main")
	}
	b.ReportMetric(float64(inside.Microseconds())/1000/float64(n), "request-ms")
}

// BenchmarkOneCommit is what the server takes for a push of one commit, the two requests
// that it is of, here and over git http-backend, in turns. The figures are the fastest
// and the median.
func BenchmarkOneCommit(b *testing.B) {
	const commits = 40
	plain, backend := newBackend(b)
	s := newSite(b, nil)
	_, ours := s.repo("x", gitrepo.SHA1)
	git(b, plain, "init", "-q", "--bare", "-b", "main", "x.git")
	dir := work(b, gitrepo.SHA1)
	urls := []string{ours, backend + "/x.git"}
	for _, url := range urls {
		git(b, dir, "push", "-q", url, "main")
	}
	var bodies [][]byte
	for i := range commits {
		old := git(b, dir, "rev-parse", "main")
		git(b, dir, "commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
		id := git(b, dir, "rev-parse", "main")
		cmd := gitCommand(b.Context(), dir, "pack-objects", "--revs", "--stdout", "-q")
		cmd.Stdin = strings.NewReader(id + "\n^" + old + "\n")
		pack, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		body := append(gitrepo.AppendPkt(nil, old, " ", id, " refs/heads/main\x00report-status"), flushPkt...)
		bodies = append(bodies, append(body, pack...))
	}
	var took [2][2][]time.Duration // by server and request
	for b.Loop() {
		for _, url := range urls {
			git(b, dir, "push", "-q", "--force", url, git(b, dir, "rev-parse", fmt.Sprint("main~", commits))+":main")
		}
		for _, body := range bodies {
			for i, url := range urls {
				began := time.Now()
				resp, err := http.Get(url + "/info/refs?service=git-receive-pack")
				if err != nil {
					b.Fatal(err)
				}
				text(b, resp)
				resp.Body.Close()
				took[i][0] = append(took[i][0], time.Since(began))
				began = time.Now()
				resp, err = http.Post(url+"/git-receive-pack", pushType.Get("Content-Type"), bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if answer := text(b, resp); !strings.Contains(answer, "ok refs/heads/main") {
					b.Fatalf("the push: %q", answer)
				}
				resp.Body.Close()
				took[i][1] = append(took[i][1], time.Since(began))
			}
		}
	}
	for i, who := range []string{"talon", "backend"} {
		for step, what := range []string{"refs", "push"} {
			slices.Sort(took[i][step])
			b.ReportMetric(float64(took[i][step][0].Microseconds())/1000, who+"-"+what+"-ms")
			b.ReportMetric(float64(took[i][step][len(took[i][step])/2].Microseconds())/1000, who+"-"+what+"-median-ms")
		}
	}
}
