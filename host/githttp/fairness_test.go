package githttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

const (
	attacker  = "203.0.113.7"
	attacker2 = "198.51.100.9"
	bystander = "192.0.2.55"
)

// fairSite serves clients that say in a header where they come from. Nobody is cut off for
// being slow. A scheduler has one slot of each class, unless a test changes it.
func fairSite(t *testing.T, schedule func(*gitrepo.ScheduleOptions), change func(*Limits)) *site {
	t.Helper()
	s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) {
		for i := range o.Classes {
			o.Classes[i].Slots, o.Classes[i].Wait = 1, 0
		}
		o.Idle = 50 * time.Millisecond
		if schedule != nil {
			schedule(o)
		}
	}, func(l *Limits) {
		l.Stall, l.OpeningTime = time.Hour, time.Hour
		if change != nil {
			change(l)
		}
	})
	s.change(func(h *Handler) {
		h.cfg.Client = func(r *http.Request) host.Client {
			addr, err := netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
			if err != nil {
				t.Errorf("a client without an address: %v", err)
			}
			return host.Client{Addr: addr}
		}
	})
	return s
}

// as runs git for a client with an address.
func as(addr string, args ...string) []string {
	return append([]string{"-c", "http.extraHeader=X-Forwarded-For: " + addr}, args...)
}

// open begins a request of an address, with a body and its length.
func (s *site) open(addr, repo, service, body string, length int) net.Conn {
	s.t.Helper()
	return s.dial(fmt.Sprintf("POST /%s/%s.git/git-%s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nContent-Type: application/x-git-%s-request\r\n"+
		"Content-Length: %d\r\n\r\n%s", alice, repo, service, addr, service, length, body))
}

// noisyRepo makes a repository that takes a while to send, and returns a request for it.
func (s *site) noisyRepo(bytes int) (r *gitrepo.Repo, url, request string) {
	s.t.Helper()
	r, url = s.repo("x", gitrepo.SHA1)
	dir := work(s.t, gitrepo.SHA1)
	addNoise(s.t, dir, bytes)
	git(s.t, dir, "push", "-q", r.Dir(), "main")
	return r, url, "0032want " + git(s.t, dir, "rev-parse", "main") + "\n00000009done\n"
}

// TestUnsentRequestsTakeNoSlot shows that others go on while the requests of fetches do not come.
func TestUnsentRequestsTakeNoSlot(t *testing.T) {
	s := fairSite(t, nil, nil)
	r, url, _ := s.noisyRepo(1 << 10)
	for range 4 {
		s.open(attacker, "x", "upload-pack", "0032want", 1_000_000)
	}
	testkit.Eventually(t, "the requests are being read", func() bool { return s.handler.bodies.Used() == 4*firstPieceBytes })
	git(t, t.TempDir(), as(bystander, "ls-remote", url)...)
	git(t, t.TempDir(), as(bystander, "clone", "-q", url)...)
	if n := children(t, r.Dir()); n > 0 {
		t.Errorf("%d gits work for requests that are not here", n)
	}
}

// TestListsOfRefsNeedNoSlot shows that ls-remote works while all slots are in use, also by the
// client's own network.
func TestListsOfRefsNeedNoSlot(t *testing.T) {
	s := fairSite(t, func(o *gitrepo.ScheduleOptions) {
		for i := range o.Classes {
			o.Classes[i].Queue = 0
		}
	}, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, as(bystander, "push", "-q", url, "main")...)
	s.fillPlaces(gitrepo.ClassRefs)
	s.fillPlaces(gitrepo.ClassFetch)
	if got := git(t, dir, as(bystander, "-c", "protocol.version=2", "ls-remote", "--symref", url)...); !strings.Contains(got, "ref: refs/heads/main\tHEAD") {
		t.Errorf("it lists\n%s", got)
	}
	if n := s.handler.bodies.Used(); n != 0 {
		t.Errorf("%d bytes of memory are in use", n)
	}
}

// TestUnreadAnswersTakeNoSlot shows that others go on while clients do not read their clones.
// A client who reads again gets all of it.
func TestUnreadAnswersTakeNoSlot(t *testing.T) {
	const size = 12 << 20
	s := fairSite(t, nil, nil)
	r, url, request := s.noisyRepo(size)
	var slow []net.Conn
	for range 4 {
		c := s.open(attacker, "x", "upload-pack", "", len(request))
		if err := c.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil { // the kernel holds less of the answer
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	for i := range 2 {
		git(t, t.TempDir(), as(bystander, "clone", "-q", url, fmt.Sprint(i))...)
	}
	scheduler := s.handler.cfg.Scheduler
	if n := scheduler.Displaced(); n > 0 {
		t.Errorf("%d requests ended", n)
	}
	for i, c := range slow {
		_ = c.SetDeadline(testkit.Deadline(t))
		if i > 0 {
			c.Close() // a paused git of a client that is gone
			continue
		}
		answer := readAnswer(t, c)
		pack, ok := strings.CutPrefix(answer, "0008NAK\n")
		if !ok || len(pack) < size {
			t.Fatalf("the slow client gets %d bytes: %.20q", len(answer), answer)
		}
		indexPack(t, pack)
	}
	testkit.Eventually(t, "all of git ends", func() bool { return children(t, r.Dir()) == 0 })
	testkit.Eventually(t, "all slots are given back", func() bool {
		return scheduler.Load(gitrepo.ClassFetch) == gitrepo.Load{} && scheduler.Paused() == 0
	})
}

// indexPack fails the test if a pack is not whole.
func indexPack(t *testing.T, pack string) {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "--bare")
	index := gitCommand(t.Context(), dir, "index-pack", "--stdin", "--strict")
	index.Stdin = strings.NewReader(pack)
	if out, err := index.CombinedOutput(); err != nil {
		t.Errorf("the pack is damaged: %v\n%s", err, out)
	}
}

// TestUnsentCommandsTakeNoPlace shows that others go on while the commands of pushes do not
// come. The stalest of those pushes are cut off.
func TestUnsentCommandsTakeNoPlace(t *testing.T) {
	s := fairSite(t, nil, func(l *Limits) { l.Opening = 16 })
	_, url := s.repo("x", gitrepo.SHA1)
	var all []net.Conn
	for i := range 68 {
		all = append(all, s.open([]string{attacker, attacker2}[i%2], "none", "receive-pack", "", 1_000_000))
	}
	testkit.Eventually(t, "each network has its share", func() bool { return s.handler.opening.Used() == 4 })
	git(t, work(t, gitrepo.SHA1), as(bystander, "push", "-q", url, "main")...)
	cutOff := 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range all {
		wg.Go(func() {
			answer := make([]byte, 12)
			if _, err := io.ReadFull(c, answer); err == nil && string(answer) == "HTTP/1.1 503" {
				mu.Lock()
				defer mu.Unlock()
				cutOff++
			}
		})
	}
	testkit.Eventually(t, "64 are cut off", func() bool { mu.Lock(); defer mu.Unlock(); return cutOff == 64 })
	for _, c := range all {
		c.Close()
	}
	wg.Wait()
}

// TestCommandMemory shows that commands of pushes fill no more memory than they may.
func TestCommandMemory(t *testing.T) {
	s := fairSite(t, nil, func(l *Limits) { l.FetchBytes, l.CommandBytes, l.BodyBytes = 64<<10, 64<<10, 512<<10 })
	_, url := s.repo("x", gitrepo.SHA1)
	var long []byte
	for i := range 400 {
		long = gitrepo.AppendPkt(long, strings.Repeat("0", 40), " ", strings.Repeat("ab", 20), fmt.Sprintf(" refs/heads/%d", i))
	}
	for n := range 40 {
		s.open(fmt.Sprintf("203.0.%d.1", n/2), "x", "receive-pack", string(long), 60_000)
	}
	testkit.Eventually(t, "memory is in use", func() bool { return s.handler.bodies.Used() > 300<<10 })
	git(t, work(t, gitrepo.SHA1), as(bystander, "push", "-q", url, "main")...)
	if used := s.handler.bodies.Used(); used > 512<<10 {
		t.Errorf("%d bytes are in use", used)
	}
	s.server.CloseClientConnections()
	testkit.Eventually(t, "all memory is given back", func() bool { return s.handler.bodies.Used() == 0 })
}

// TestLateCommands shows that a push whose commands take too long hears so.
func TestLateCommands(t *testing.T) {
	s := fairSite(t, nil, func(l *Limits) { l.OpeningTime = 100 * time.Millisecond })
	s.repo("x", gitrepo.SHA1)
	command := string(gitrepo.AppendPkt(nil, strings.Repeat("0", 40), " ", strings.Repeat("ab", 20), " refs/heads/a\x00report-status"))
	c := s.open(attacker, "x", "receive-pack", command, 1_000_000)
	_ = c.SetDeadline(testkit.Deadline(t))
	if answer := readAnswer(t, c); !strings.Contains(answer, "ng refs/heads/a the commands of the push did not come in 100ms") {
		t.Errorf("it hears %q", answer)
	}
	c = s.open(attacker, "x", "upload-pack", "0032want", 1_000_000)
	_ = c.SetDeadline(testkit.Deadline(t))
	if answer := readAnswer(t, c); !strings.Contains(answer, "the request did not come") {
		t.Errorf("a fetch hears %q", answer)
	}
}

// TestUnsentPacksGiveWay shows that others go on while the packs of pushes do not come. Beyond
// what can be paused, the stalest push ends and hears why.
func TestUnsentPacksGiveWay(t *testing.T) {
	s := fairSite(t, func(o *gitrepo.ScheduleOptions) { o.Paused = 8 }, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	_, other := s.repo("y", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	half := create(git(t, dir, "rev-parse", "main"), "refs/heads/half", " side-band-64k") + halfPack()
	scheduler := s.handler.cfg.Scheduler
	first := s.open(attacker, "x", "receive-pack", half, 1_000_000)
	testkit.Eventually(t, "it has the slot", func() bool { return scheduler.Load(gitrepo.ClassPush).Working == 1 })
	git(t, dir, as(bystander, "push", "-q", url, "main")...)
	second := s.open(attacker, "x", "receive-pack", half, 1_000_000)
	testkit.Eventually(t, "the second has the slot", func() bool { return scheduler.Load(gitrepo.ClassPush).Working == 1 })
	git(t, dir, as(bystander, "push", "-q", other, "main")...)
	_ = first.SetDeadline(testkit.Deadline(t))
	if answer := readAnswer(t, first); !strings.Contains(answer, displaced) {
		t.Errorf("the stalest push hears %q", answer)
	}
	if n := scheduler.Displaced(); n != 1 {
		t.Errorf("%d pushes ended, want one", n)
	}
	second.Close()
}

// TestStalledPushesLeaveRoom shows that clients who send the beginning of a push keep nobody
// from a slot who sends on.
func TestStalledPushesLeaveRoom(t *testing.T) {
	s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) { o.Classes[gitrepo.ClassPush].Slots = 1 }, nil)
	r, _ := s.repo("x", gitrepo.SHA1)
	_, other := s.repo("y", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	c := s.halfPush(r, git(t, dir, "rev-parse", "main"))
	git(t, dir, "push", "-q", other, "main")
	if children(t, r.Dir()) == 0 {
		t.Error("the first push was cut off")
	}
	c.Close()
	testkit.Eventually(t, "git ends", func() bool { return children(t, r.Dir()) == 0 })
	git(t, dir, "push", "-q", other, "main:again")
	testkit.Eventually(t, "all slots are given back", func() bool {
		return s.handler.cfg.Scheduler.Load(gitrepo.ClassPush) == gitrepo.Load{}
	})
}

// TestOneNetworkLeavesRoom shows that one network holds an eighth of the places for pushes.
func TestOneNetworkLeavesRoom(t *testing.T) {
	s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) {
		o.Classes[gitrepo.ClassPush].Slots, o.Classes[gitrepo.ClassPush].Queue = 2, 22
	}, nil)
	var from atomic.Pointer[netip.Addr]
	s.change(func(h *Handler) {
		h.cfg.Client = func(*http.Request) host.Client { return host.Client{Addr: *from.Load()} }
	})
	come := func(addr string) {
		a := netip.MustParseAddr(addr)
		from.Store(&a)
	}
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	main := git(t, dir, "rev-parse", "main")
	come("2001:db8::1")
	for range 3 {
		defer s.halfPush(r, main).Close()
	}
	testkit.Eventually(t, "three have a place", func() bool {
		l := s.handler.cfg.Scheduler.Load(gitrepo.ClassPush)
		return l.Working+l.Waiting == 3
	})
	come("2001:db8::2") // of the same /64
	if _, err := tryGit(t.Context(), dir, "push", "-q", url, "main"); err == nil {
		t.Error("a fourth push of one network has a place")
	}
	come("192.0.2.1")
	git(t, dir, "push", "-q", url, "main")
}

// readAnswer reads the body of an answer, as far as it comes.
func readAnswer(t *testing.T, c net.Conn) string {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a client that is cut off gets no end
		t.Fatal(err)
	}
	return string(body)
}

// TestOneNetworkClonesAtOnce shows that eight clones of one network finish when nobody else
// is there, and that nothing is paused or ends for that.
func TestOneNetworkClonesAtOnce(t *testing.T) {
	s := fairSite(t, func(o *gitrepo.ScheduleOptions) { o.Classes[gitrepo.ClassFetch].Slots = 4 }, nil)
	_, url, _ := s.noisyRepo(1 << 20)
	into := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if out, err := tryGit(t.Context(), into, as(bystander, "clone", "-q", url, fmt.Sprint(i))...); err != nil {
				t.Errorf("clone %d: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
	if n := s.handler.cfg.Scheduler.Displaced(); n > 0 {
		t.Errorf("%d requests ended", n)
	}
}

// TestBusyNetworkGivesWay shows that a git that works for ever is paused for another network.
// Nothing stays stopped when the server ends.
func TestBusyNetworkGivesWay(t *testing.T) {
	options := gitrepo.DefaultOptions
	options.Scheduler = scheduler(t, func(o *gitrepo.ScheduleOptions) {
		o.Classes[gitrepo.ClassFetch].Slots, o.Slice = 1, 50*time.Millisecond
	})
	ready := filepath.Join(t.TempDir(), "busy")
	program := gitThat(t, "upload-pack --stateless-rpc --strict", "if [ -e "+ready+" ]; then rm "+ready+"; while :; do :; done; fi")
	s := newSiteOf(t, program, options, nil)
	s.change(func(h *Handler) {
		h.cfg.Client = func(r *http.Request) host.Client {
			return host.Client{Addr: netip.MustParseAddr(r.Header.Get("X-Forwarded-For"))}
		}
	})
	r, url, request := s.noisyRepo(1 << 10)
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.open(attacker, "x", "upload-pack", request, len(request))
	testkit.Eventually(t, "the busy git works", func() bool {
		_, err := os.Stat(ready)
		return os.IsNotExist(err) && children(t, r.Dir()) == 1
	})
	for i := range 3 {
		git(t, t.TempDir(), as(bystander, "clone", "-q", url, fmt.Sprint(i))...)
	}
	if n := children(t, r.Dir()); n != 1 {
		t.Errorf("%d gits are there, want the busy one, which goes on", n)
	}
	// It is stopped while the slot is of another network.
	task, err := options.Scheduler.Reserve(t.Context(), gitrepo.ClassFetch, bound.Holder{Addr: netip.MustParseAddr(bystander)})
	if err != nil {
		t.Fatal(err)
	}
	defer task.End()
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the busy git is stopped", func() bool { return strings.Contains(states(t, r.Dir()), "T") })
	s.server.CloseClientConnections()
	testkit.Eventually(t, "nothing stays stopped", func() bool { return states(t, r.Dir()) == "" })
}

// TestDisplacedFetchHearsWhy shows that a clone which ends because others need its place says
// so between two packets.
func TestDisplacedFetchHearsWhy(t *testing.T) {
	options := gitrepo.DefaultOptions
	options.Scheduler = scheduler(t, func(o *gitrepo.ScheduleOptions) {
		o.Classes[gitrepo.ClassFetch].Slots, o.Classes[gitrepo.ClassFetch].Queue = 1, 15
	})
	program := gitThat(t, "upload-pack --stateless-rpc --strict", `printf '000dpackfile\n000a\002hello'; while :; do sleep 0.1; done`)
	s := newSiteOf(t, program, options, nil)
	s.from(attacker)
	_, _, request := s.noisyRepo(1 << 10)
	c := s.open(attacker, "x", "upload-pack", request, len(request))
	_ = c.SetDeadline(testkit.Deadline(t))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	const before = "000dpackfile\n000a\x02hello"
	if _, err := io.ReadFull(resp.Body, make([]byte, len(before))); err != nil {
		t.Fatal(err)
	}
	for n := range 16 {
		addr := fmt.Sprintf("198.51.%d.1", n)
		if n == 0 {
			addr = attacker // which then has the most places
		}
		task, err := options.Scheduler.Reserve(t.Context(), gitrepo.ClassFetch, bound.Holder{Addr: netip.MustParseAddr(addr)})
		if err != nil {
			t.Fatal(err)
		}
		defer task.End()
	}
	if got, want := text(t, resp), string(gitrepo.AppendPkt(nil, "\x03", displaced, "\n")); got != want {
		t.Errorf("the client then reads %q, want %q", got, want)
	}
}

// states returns the states of the git processes of a repository, such as "RT".
func states(t *testing.T, dir string) (all string) {
	t.Helper()
	for _, pid := range processes(t, dir) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		all += string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0])
	}
	return all
}

// TestRequestMemory shows that bodies of fetches fill no more memory than they may, that the
// stalest gives way, and that all of it is given back.
func TestRequestMemory(t *testing.T) {
	s := fairSite(t, nil, func(l *Limits) { l.FetchBytes, l.CommandBytes, l.BodyBytes = 64<<10, 64<<10, 512<<10 })
	_, url, request := s.noisyRepo(1 << 10)
	line := request[:50]
	var all []net.Conn
	for n := range 40 {
		all = append(all, s.open(fmt.Sprintf("203.0.%d.1", n/2), "x", "upload-pack", strings.Repeat(line, 500), 60_000))
	}
	testkit.Eventually(t, "memory is in use", func() bool { return s.handler.bodies.Used() > 300<<10 })
	git(t, t.TempDir(), as(bystander, "clone", "-q", url)...)
	if used := s.handler.bodies.Used(); used > 512<<10 {
		t.Errorf("%d bytes are in use", used)
	}
	c := s.open(bystander, "x", "upload-pack", strings.Repeat(line, 1000)+request[50:], 50_000+len(request[50:]))
	_ = c.SetDeadline(testkit.Deadline(t))
	if answer := readAnswer(t, c); !strings.Contains(answer, "PACK") {
		t.Errorf("a large request gets %.100q", answer)
	}
	for _, c := range all {
		c.Close()
	}
	testkit.Eventually(t, "all memory is given back", func() bool { return s.handler.bodies.Used() == 0 })
}

// TestPackets shows where an error can be said in an answer that has begun.
func TestPackets(t *testing.T) {
	line := func(parts ...string) string { return string(gitrepo.AppendPkt(nil, parts...)) }
	errorPkt, band3 := line("ERR no"), line("\x03no\n")
	for sent, want := range map[string]string{
		"":                                     errorPkt,
		"0000":                                 errorPkt,
		line("NAK\n"):                          errorPkt,
		line("NAK\n") + "00":                   "",
		line("NAK\n")[:6]:                      "",
		line("packfile\n") + line("\x02hello"): band3,
		line("packfile\n") + line("\x01PACK"):  band3,
		line("\x01PACK")[:5]:                   "",
		line("NAK\n") + "PACK\x00\x00":         "",
		line("\x01PACK") + "0001":              band3,
	} {
		for _, step := range []int{1, 3, 100} {
			var k packets
			for rest := []byte(sent); len(rest) > 0; {
				n := min(step, len(rest))
				k.add(rest[:n])
				rest = rest[n:]
			}
			if got := string(k.appendError(nil, "no")); got != want {
				t.Errorf("after %q by %d bytes the error is %q, want %q", sent, step, got, want)
			}
		}
	}
}

// TestBounds shows that each bound that clients share has a row of its own, with a share.
func TestBounds(t *testing.T) {
	s := newSite(t, nil)
	seen := map[string]bool{}
	for _, row := range s.handler.Bounds() {
		if seen[row.Name] || row.Network+row.Key <= 0 || row.Total > 0 && row.Network > row.Total {
			t.Errorf("a row is %+v", row)
		}
		seen[row.Name] = true
	}
	if want := 1 + 2*int(gitrepo.Classes) + 9; len(seen) != want {
		t.Errorf("%d rows, want %d", len(seen), want)
	}
}
