package attack

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// crawlers walk over the history of a repository, as those do that fill models with text.
func crawlers() []Attack {
	return []Attack{{
		Name: "crawlers", Text: "crawlers ask for blame, comparisons and commits of all history, each from a network of its own",
		Count: 200, Unit: "crawlers", Disk: 512 << 20, // the history itself
		Twice: []string{opPublish, opPage, opClone}, Rounds: 8, Prepare: prepareCrawlers,
	}}
}

const (
	// crawledCommits is how many commits the history has for each crawler.
	crawledCommits = 10

	// crawlerPause is the time until a crawler that was refused asks again. It does not obey
	// Retry-After.
	crawlerPause = time.Second
)

// history is a repository to crawl.
type history struct {
	path    string // on the server
	commits []string
	files   []string
}

// prepareCrawlers pushes a generated history. TALON_CODE_REPO names a repository to crawl instead.
func prepareCrawlers(ctx context.Context, t *Target, count int) (Run, error) {
	dir := os.Getenv("TALON_CODE_REPO")
	if dir == "" {
		dir = filepath.Join(t.Dir, "history.git")
		if err := makeHistory(ctx, dir, count*crawledCommits); err != nil {
			return nil, err
		}
	}
	h, err := readHistory(ctx, dir)
	if err != nil {
		return nil, err
	}
	p := newPerson("attacker history")
	h.path = strings.TrimSuffix(p.repo("history").Path(), ".git")
	if err := t.found(ctx, p, "history", attacker(0), dir, h.commits[0]); err != nil {
		return nil, err
	}
	round := uint64(0)
	return func(ctx context.Context) Outcome {
		round++ // so that each asks for other pages
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			MaxIdleConnsPerHost: count, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext,
		}}
		var mu sync.Mutex // guards the figures and said
		answers, said := Figures{}, ""
		f := holdAll(ctx, count, func(ctx context.Context, i int, opened func()) error {
			opened()
			random := rand.New(rand.NewPCG(round, uint64(i)))
			for ctx.Err() == nil {
				kind, url := h.url(random)
				status, _, err := get(ctx, client, t.url(url), attacker(i))
				if ctx.Err() != nil {
					break
				}
				mu.Lock()
				switch {
				case err != nil:
					answers[kind+"_lost"]++
					said = err.Error()
				case status == http.StatusOK:
					answers[kind]++
				case status == http.StatusServiceUnavailable:
					answers["refused"]++
				default:
					answers[fmt.Sprint("status_", status)]++
					said = url
				}
				mu.Unlock()
				if err != nil || status != http.StatusOK {
					pause(ctx, crawlerPause)
				}
			}
			return nil
		})
		for name, n := range answers {
			f[name] = n
		}
		return Outcome{f, said}
	}, nil
}

// url returns the kind and the path of the next page to ask for.
func (h *history) url(random *rand.Rand) (kind, path string) {
	commit := h.commits[random.IntN(len(h.commits))]
	switch random.IntN(3) {
	case 0:
		return "blame", h.path + "/blame/" + commit + "/" + h.files[random.IntN(len(h.files))]
	case 1:
		return "compare", h.path + "/compare/" + commit + "..." + h.commits[random.IntN(len(h.commits))]
	}
	return "commit", h.path + "/commit/" + commit
}

// maxCrawled bounds the commits and files that crawlers know.
const maxCrawled = 100_000

// readHistory returns the commits of the HEAD of a repository, the newest first, and the files of it
// that every page has in its path as they are.
func readHistory(ctx context.Context, dir string) (*history, error) {
	h := &history{}
	out, err := runGit(ctx, dir, "", "rev-list", fmt.Sprint("--max-count=", maxCrawled), "HEAD")
	if err != nil {
		return nil, err
	}
	h.commits = strings.Fields(out)
	if out, err = runGit(ctx, dir, "", "ls-tree", "-r", "--name-only", "HEAD"); err != nil {
		return nil, err
	}
	for name := range strings.Lines(out) {
		if name = strings.TrimSpace(name); !strings.ContainsAny(name, " \"%?#") && len(h.files) < maxCrawled {
			h.files = append(h.files, name)
		}
	}
	if len(h.commits) == 0 || len(h.files) == 0 {
		return nil, fmt.Errorf("crawl %s: it has %d commits and %d files", dir, len(h.commits), len(h.files))
	}
	return h, nil
}

const (
	crawledFiles = 60
	usualLines   = 300
	longLines    = 4000 // of the first file, which every eighth commit changes
)

// makeHistory makes a bare repository of n commits, each of which changes some lines of a file. Every
// twentieth is a merge.
func makeHistory(ctx context.Context, dir string, n int) error {
	if _, err := runGit(ctx, filepath.Dir(dir), "", "init", "-q", "--bare", "--initial-branch=main", dir); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(2, 2))
	var files [crawledFiles][]string
	name := func(k int) string { return fmt.Sprintf("src%d/file%d.c", k%6, k) }
	var b bytes.Buffer
	change := func(k, commit int) {
		if files[k] == nil {
			files[k] = make([]string, usualLines)
			if k == 0 {
				files[k] = make([]string, longLines)
			}
			for i := range files[k] {
				files[k][i] = fmt.Sprintf("int value_%d = 0;\n", i)
			}
		}
		for range 8 {
			i := random.IntN(len(files[k]))
			files[k][i] = fmt.Sprintf("int value_%d = %d;\n", i, commit)
		}
		text := strings.Join(files[k], "")
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", name(k), len(text), text)
	}
	commit := func(i int, parents string) {
		text := fmt.Sprintf("Change %d\n\nThis is the reason of change %d.\n", i, i)
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\nauthor a <a@example.com> %d +0000\ncommitter a <a@example.com> %d +0000\ndata %d\n%s%s",
			i+1, 1600000000+600*i, 1600000000+600*i, len(text), text, parents)
	}
	for i := range n {
		switch {
		case i == 0:
			commit(i, "")
			for k := range crawledFiles {
				change(k, i)
			}
			continue
		case i%20 == 0:
			commit(i, fmt.Sprintf("from :%d\nmerge :%d\n", i, i-9))
		default:
			commit(i, fmt.Sprintf("from :%d\n", i))
		}
		k := 0
		if i%8 > 0 {
			k = 1 + random.IntN(crawledFiles-1)
		}
		change(k, i)
	}
	_, err := runGit(ctx, dir, b.String(), "-c", "core.fsync=none", "fast-import", "--quiet")
	return err
}
