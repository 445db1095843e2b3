package attack

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host/schnorr"
	"talon/host/wire"
	"talon/internal/testkit"
)

// TestThinPack completes a thin pack with git, which makes it as large as the blob.
func TestThinPack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	large := make([]byte, 1<<20)
	_, _ = crand.Read(large)
	commits, err := makeRepository(t.Context(), dir, 1, large)
	if err != nil {
		t.Fatal(err)
	}
	pack, commit := thinPack(large, commits[0], 1)
	if len(pack) > 1000 {
		t.Errorf("the pack has %d bytes", len(pack))
	}
	complete := exec.CommandContext(t.Context(), "git", "index-pack", "--stdin", "--fix-thin")
	complete.Dir, complete.Stdin = dir, bytes.NewReader(pack)
	if out, err := complete.CombinedOutput(); err != nil {
		t.Fatalf("git index-pack: %v\n%s", err, out)
	}
	testkit.Git(t, dir, "fsck", "--strict", commit)
	if got := testkit.Git(t, dir, "cat-file", "-s", commit+":large"); got != "110" {
		t.Errorf("the edited file has %s bytes, want 110", got)
	}
	packs, _ := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
	if len(packs) != 1 {
		t.Fatalf("the packs are %q, want the completed one", packs)
	}
	if info, err := os.Stat(packs[0]); err != nil || info.Size() < int64(len(large)) {
		t.Errorf("git did not append the blob to the pack: %v, %v", info, err)
	}
}

// TestEvents signs announcements that list the target, and messages that a relay reads.
func TestEvents(t *testing.T) {
	target := &Target{Listen: "127.0.0.1:7334"}
	p := newPerson("somebody")
	if again := newPerson("somebody"); again.key != p.key || newPerson("else").key == p.key {
		t.Error("a name does not decide about the key")
	}
	e := p.announce(target, "repo", 10)
	if err := schnorr.Verify(e); err != nil {
		t.Error(err)
	}
	m, err := wire.ParseMessage(eventMessage(e), &wire.Limits{})
	if err != nil || m.Event == nil || m.Event.ID != e.ID {
		t.Errorf("the message is read as %+v, %v", m, err)
	}
	if clone := e.Tags[2]; clone[1] != "http://127.0.0.1:7334"+p.repo("repo").Path() {
		t.Errorf("the announcement lists %q", clone)
	}
}

// TestCriteria compares phases that meet the criteria, or miss one of them.
func TestCriteria(t *testing.T) {
	samples := func(took time.Duration, but string, other time.Duration, err error) *Samples {
		s := newSamples()
		for _, op := range operations {
			if op == but {
				s.add(op, other, err)
				continue
			}
			s.add(op, took, nil)
		}
		return s
	}
	const ms = time.Millisecond
	alone := samples(10*ms, "", 0, nil)
	for name, c := range map[string]struct {
		under   *Samples
		after   Usage
		count   int64
		crash   string
		finding string // empty: all criteria are met
	}{
		"equal":          {under: samples(10*ms, "", 0, nil)},
		"a floor":        {under: samples(10*ms, opREQ, 49*ms, nil)},
		"slow REQ":       {under: samples(10*ms, opREQ, 51*ms, nil), finding: "REQ: p99 51 ms, at most 50"},
		"slow push":      {under: samples(10*ms, opPush, 31*ms, nil), finding: "push: p99 31 ms, at most 30"},
		"twice":          {under: samples(10*ms, opPublish, 20*ms, nil)},
		"more than that": {under: samples(10*ms, opPublish, 21*ms, nil), finding: "publish: p99 21 ms, at most 20"},
		"a refusal":      {under: samples(10*ms, opPage, ms, errors.New("503")), finding: "1 operations of honest people were refused"},
		"nothing":        {under: newSamples(), finding: "connect: nobody got so far"},
		"disk":           {under: alone, after: Usage{Disk: diskGrowth + 1}, finding: "the data folder grew"},
		"memory":         {under: alone, after: Usage{Memory: memoryGrowth + 1}, finding: "memory grew"},
		"a stopped one":  {under: alone, after: Usage{Children: 2, Stopped: 1}, finding: "2 processes of the server remain, 1 of them stopped"},
		"its own figure": {under: alone, count: 61, finding: "dials: 61, at most 60"},
		"a crash":        {under: alone, crash: "panic: x", finding: "the server ended: panic: x"},
	} {
		r := &Result{Operations: map[string]Operation{}, After: c.after, Crash: c.crash, Outcome: Outcome{Figures: Figures{"dials": c.count}}}
		r.attack, r.alone, r.under = &Attack{Max: map[string]int64{"dials": 60}, Twice: []string{opPublish}}, alone, c.under
		if v := Judge([]*Result{r}); v.OK != r.OK() || len(v.Fail) > 0 == v.OK || len(v.Busy) > 0 {
			t.Errorf("%s: the verdict is %+v", name, v)
		}
		found := strings.Join(r.Findings, "; ")
		if r.OK() != (c.finding == "") || !strings.Contains(found, c.finding) {
			t.Errorf("%s: the findings are %q, want %q", name, found, c.finding)
		}
	}
}

// TestJudge compares each attack with the first phases of all of them, and names those that were
// measured on a busy machine.
func TestJudge(t *testing.T) {
	phase := func(took ...time.Duration) *Samples {
		s := newSamples()
		for _, op := range operations {
			for _, d := range took {
				s.add(op, d, nil)
			}
		}
		return s
	}
	const ms = time.Millisecond
	result := func(name string, alone, under time.Duration) *Result {
		return &Result{Name: name, Operations: map[string]Operation{}, attack: &Attack{}, alone: phase(alone), under: phase(under)}
	}
	quick, slow, busy := result("quick", 10*ms, 85*ms), result("slow", 30*ms, 95*ms), result("busy", 20*ms, 90*ms)
	busy.Processor.Others = 2 * busyMachine
	v := Judge([]*Result{quick, slow, busy})
	if v.OK || strings.Join(v.Fail, " ") != "slow" || strings.Join(v.Busy, " ") != "busy" {
		t.Errorf("the verdict is %+v; 90 ms are right beside 30, before whichever attack these were", v)
	}
	var text strings.Builder
	v.PrintTable(&text)
	if want := "1 of 3 attacks fail a criterion: slow\n"; !strings.Contains(text.String(), want) {
		t.Errorf("the table lacks %q:\n%s", want, text.String())
	}
}

// TestProcessorTime counts the time of this process, which is a part of that of the machine.
func TestProcessorTime(t *testing.T) {
	used := measureProcessor(os.Getpid(), 0)
	for block := make([]byte, 1<<20); used().Server < 0.05; {
		block[0] = sha256.Sum256(block)[0]
	}
	if p := used(); p.Attackers != 0 || p.Others > 1 || machineTime() < p.Server {
		t.Errorf("counted %+v, and %v s of the machine", p, machineTime())
	}
}

// TestHoldAll holds connections until the context ends, and counts those that ended before.
func TestHoldAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var opened atomic.Int64
	go func() {
		testkit.Eventually(t, "all are open", func() bool { return opened.Load() == 200 })
		cancel()
	}()
	f := holdAll(ctx, 200, func(ctx context.Context, i int, open func()) error {
		open()
		opened.Add(1)
		<-ctx.Done()
		return nil
	})
	if f["open"] != 200 || f["peak"] != 200 || f["ended"] != 0 {
		t.Errorf("the figures are %v", f)
	}
}

// TestPost sends an address and a long length, and no body.
func TestPost(t *testing.T) {
	heard := make(chan *http.Request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r }))
	defer s.Close()
	target := &Target{Listen: s.Listener.Addr().String()}
	c, err := target.post(t.Context(), attacker(300), 1, "/npub/x.git", "git-upload-pack", 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := testkit.Receive(t, "the request", heard)
	_ = c.Close()
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	if r.ContentLength != 1000 || r.Header.Get("X-Forwarded-For") != "198.18.44.8" || host != "127.0.0.3" || r.URL.Path != "/npub/x.git/git-upload-pack" {
		t.Errorf("the request is %v of %d bytes from %s, %v", r.URL, r.ContentLength, r.RemoteAddr, r.Header)
	}
}

// TestHistory makes a history with merges, and leads crawlers to pages of all kinds.
func TestHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	const commits = 45
	if err := makeHistory(t.Context(), dir, commits); err != nil {
		t.Fatal(err)
	}
	h, err := readHistory(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if merges := testkit.Git(t, dir, "rev-list", "--count", "--merges", "HEAD"); len(h.commits) != commits || len(h.files) != crawledFiles || merges != "2" {
		t.Errorf("the history has %d commits, %s of them merges, and %d files", len(h.commits), merges, len(h.files))
	}
	seen := map[string]bool{}
	for random := rand.New(rand.NewPCG(1, 1)); len(seen) < 3; {
		kind, path := h.url(random)
		if !strings.HasPrefix(path, "/"+kind+"/") {
			t.Fatalf("the URL of the kind %s is %s", kind, path)
		}
		seen[kind] = true
	}
}

// TestNames has one name for each attack, and a unit.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range All() {
		if seen[a.Name] || a.Text == "" || a.Unit == "" || a.Count == 0 || a.Prepare == nil {
			t.Errorf("the attack %+v is not complete, or its name is used twice", a)
		}
		seen[a.Name] = true
	}
}
