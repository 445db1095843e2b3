package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// TestChaos has people publish, listen and push at three nodes of one relay, whichever
// answers, while nodes are killed and paused and the database ends. In the end every event
// that was answered OK is there. Each subscriber has had it once, and in the same order as
// the others. All nodes give the same answers, and the refs are those of the newest states.
func TestChaos(t *testing.T) {
	kinds := []string{"node killed", "node paused", "database restarted", "database ends at once", "node killed while the database ends at once"}
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("takes minutes: TALON_TEST_SCALE=1")
	}
	const faults, pause = 100, 20 * time.Second // longer than a node may be silent, and than its turn to write may last
	var server testkit.Postgres
	url := server.URL(t)
	t.Cleanup(server.Stop)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	x := &chaos{T: t, url: url, repositories: filepath.Join(t.TempDir(), "repositories"), notes: map[string]*nostr.Event{}, deleted: map[string]*nostr.Event{}, newest: map[string]*nostr.Event{}, heard: map[string]int{}}
	for i := range x.nodes {
		x.data[i] = graspData(t)
		x.start(i)
	}
	var workers, listeners sync.WaitGroup
	for i := range 6 {
		p := x.sender(seed, i)
		workers.Go(p.publish)
	}
	for i := range 2 {
		p := x.sender(seed, 100+i)
		work := filepath.Join(t.TempDir(), "work")
		mustGit(t, ".", "init", "-q", "-b", "main", work)
		workers.Go(func() { p.push(work) })
	}
	for i := range x.nodes {
		listeners.Go(func() { x.listen(i) })
	}

	var paused sync.WaitGroup
	var standing atomic.Int64 // the node that is paused, or -1
	standing.Store(-1)
	began := time.Now()
	for n := 0; n < faults && !t.Failed(); n++ {
		if n%len(kinds) == 0 {
			random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		<-time.After(time.Duration(500+random.IntN(1500)) * time.Millisecond)
		away := time.Duration(random.IntN(2000)) * time.Millisecond
		i := random.IntN(len(x.nodes))
		for standing.Load() == int64(i) {
			i = random.IntN(len(x.nodes))
		}
		s := x.nodes[i].Load()
		x.mu.Lock()
		t.Logf("%v: node %d, %s, after %d notes and %d pushes", time.Since(began).Round(100*time.Millisecond), i, kinds[n%len(kinds)], len(x.notes), x.pushes)
		x.mu.Unlock()
		switch kinds[n%len(kinds)] {
		case "node killed":
			s.kill()
			<-time.After(away)
			x.start(i)
		case "node paused":
			paused.Wait()
			standing.Store(int64(i))
			if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			paused.Go(func() {
				<-time.After(pause)
				_ = s.cmd.Process.Signal(syscall.SIGCONT)
				standing.Store(-1)
			})
		case "database restarted":
			server.Away(t, syscall.SIGINT, away)
		case "database ends at once":
			server.Away(t, syscall.SIGQUIT, away)
		case "node killed while the database ends at once":
			s.kill()
			server.Away(t, syscall.SIGQUIT, away)
			x.start(i)
		}
	}
	paused.Wait()
	lasted := time.Since(began)
	x.ending.Store(true)
	workers.Wait()
	// A later subscriber gets it as well.
	last := signAs(t, theLast, nostr.Event{Kind: 1, CreatedAt: nostr.Now() + 600})
	if a := x.sender(seed, 1000).deliver(last); !a.ok {
		t.Errorf("the last event: %+v", a)
	}
	listeners.Wait()

	x.sameAnswers()
	x.sameSessions()
	for i := range x.nodes {
		if out, err := talon(t, nil, "check", "--store", url, "--git-data", x.repositories, "--data", x.data[i]); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	for i := range x.nodes {
		s := x.nodes[i].Load()
		if t.Failed() {
			t.Logf("log of node %d:\n%s", i, s.text())
		}
		s.mustStop(t)
	}
	t.Logf("%d times %v in %v", faults/len(kinds), kinds, lasted.Round(time.Second))
	t.Logf("%d notes, %d deleted, %d states of %d repositories pushed, %d of %d ephemeral events arrived on %d subscriptions", len(x.notes), len(x.deleted), x.pushes, len(x.repos), x.ephemeralHeard(), x.ephemeral, len(x.sessions))
	for _, text := range slices.Sorted(maps.Keys(x.heard)) {
		t.Logf("%5d × %s", x.heard[text], text)
	}
}

// theLast signs the event that ends all.
const theLast = "last"

// chaos is one relay of three nodes, and what those who use it know.
type chaos struct {
	*testing.T
	url, repositories string
	data              [3]string
	nodes             [3]atomic.Pointer[process]
	ending            atomic.Bool // nobody begins anything new

	mu        sync.Mutex              // guards the fields below
	notes     map[string]*nostr.Event // answered OK, and by nobody deleted
	deleted   map[string]*nostr.Event // a deletion of them was sent, and answered OK before the end
	newest    map[string]*nostr.Event // by address: which must win
	repos     []chaosRepo
	pushes    int
	ephemeral int
	sessions  []*session
	heard     map[string]int // what those heard who were not served
}

// start starts a node. It listens somewhere else than before.
func (x *chaos) start(i int) {
	x.Helper()
	x.nodes[i].Store(startAs(x.T, exec.Command(realTalon, serveArgs(x, x.data[i], "--domain", serviceDomain, "--store", x.url,
		"--git-data", x.repositories, "--node", fmt.Sprint("node", i))...), x.data[i]))
}

var varying = regexp.MustCompile(`[0-9a-f]{8,}|npub1\w+|\d+`)

// countRefusal counts the reasons that were given to those who were not served.
func (x *chaos) countRefusal(format string, args ...any) {
	text := varying.ReplaceAllString(fmt.Sprintf(format, args...), "…")
	x.mu.Lock()
	x.heard[text]++
	x.mu.Unlock()
}

// sender is somebody who takes another node when one does not answer.
type sender struct {
	*chaos
	name   string
	random *rand.Rand
	at     *client // nil without a connection
}

func (x *chaos) sender(seed uint64, i int) *sender {
	return &sender{chaos: x, name: fmt.Sprint("publisher ", i), random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
}

func (p *sender) node() *process { return p.nodes[p.random.IntN(len(p.nodes))].Load() }

// try sends an event to the node that it is connected to, or to any.
func (p *sender) try(e *nostr.Event, impatience time.Duration) (a answer, err error) {
	if p.at == nil {
		if p.at, err = openWith(p.node().url, ws.Dialer{Timeout: impatience}); err != nil {
			p.at = nil
			return a, err
		}
	}
	stop := time.AfterFunc(impatience, p.at.close)
	defer stop.Stop()
	if err = p.at.write(message(e)); err == nil {
		var text string
		if text, err = p.at.next("OK"); err == nil {
			a, err = parseOK(text)
		}
	}
	if err != nil {
		p.disconnect()
	}
	return a, err
}

func (p *sender) disconnect() {
	if p.at != nil {
		p.at.close()
		p.at = nil
	}
}

// deliver sends an event until a node says what becomes of it.
func (p *sender) deliver(e *nostr.Event) answer {
	impatience := 3 * time.Second
	for began := time.Now(); ; {
		a, err := p.try(e, impatience)
		switch {
		case err != nil:
			impatience += impatience / 4 // a machine may be slow
			var end closed
			if errors.As(err, &end) {
				p.countRefusal("EVENT: %v", end)
			}
		case a.id != e.ID:
			p.Errorf("an answer is for %s, not for %s", a.id, e.ID)
			return a
		case !strings.HasPrefix(a.reason, "error: "):
			return a
		default:
			p.countRefusal("EVENT: %s", a.reason)
			p.disconnect()
		}
		if time.Since(began) > 4*patience {
			p.Errorf("nobody says what becomes of %s: %+v %v", e, a, err)
			return a
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (p *sender) sign(name string, e nostr.Event) *nostr.Event {
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Now()
	}
	e.Content += fmt.Sprint(p.name, " ", p.random.Uint64())
	if err := e.Sign(key(name)); err != nil {
		p.Error(err)
	}
	return &e
}

// publish sends events of each kind until the end.
func (p *sender) publish() {
	defer p.disconnect()
	var own []*nostr.Event // may be deleted
	for n := 0; !p.ending.Load() && !p.Failed(); n++ {
		if p.random.IntN(50) == 0 {
			p.disconnect()
		}
		switch {
		case n%10 == 6 && len(own) > 0:
			i := p.random.IntN(len(own))
			e := own[i]
			own = slices.Delete(own, i, i+1)
			p.mu.Lock()
			delete(p.notes, e.ID)
			p.mu.Unlock()
			deletion := p.sign(p.name, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", e.ID}, {"k", "1"}}})
			if a := p.deliver(deletion); !a.ok {
				p.Errorf("a deletion: %+v", a)
			}
			p.mu.Lock()
			p.deleted[e.ID] = e
			p.notes[deletion.ID] = deletion
			p.mu.Unlock()
		case n%10 == 7 || n%10 == 8:
			e := nostr.Event{Kind: 0}
			if n%10 == 8 {
				e.Kind, e.Tags = 30023, nostr.Tags{{"d", fmt.Sprint(n % 7)}}
			}
			// Everybody has the same key.
			p.replace(p.sign("crowd", e))
		case n%10 == 9:
			// Once: nobody knows an ephemeral event again.
			p.mu.Lock()
			p.ephemeral++
			p.mu.Unlock()
			if a, err := p.try(p.sign(p.name, nostr.Event{Kind: 20001}), 3*time.Second); err == nil && !a.ok && !strings.HasPrefix(a.reason, "error: ") {
				p.Errorf("an ephemeral event: %+v", a)
			}
		default:
			e := p.sign(p.name, nostr.Event{Kind: 1})
			if a := p.deliver(e); !a.ok {
				p.Errorf("a note: %+v", a)
			}
			p.mu.Lock()
			p.notes[e.ID] = e
			p.mu.Unlock()
			own = append(own, e)
		}
	}
}

// addressOf is of what an event replaces.
func addressOf(e *nostr.Event) string { return fmt.Sprint(e.Kind, ":", e.PubKey, ":", e.Tags.GetD()) }

// replace delivers an event that may be older than another.
func (p *sender) replace(e *nostr.Event) {
	p.mu.Lock()
	old := p.newest[addressOf(e)]
	if old == nil || e.CreatedAt > old.CreatedAt || e.CreatedAt == old.CreatedAt && e.ID < old.ID {
		p.newest[addressOf(e)] = e
	}
	p.mu.Unlock()
	if a := p.deliver(e); !a.ok && a.reason != "replaced: have newer event" {
		p.Errorf("a replaceable event: %+v", a)
	}
}

// chaosRepo is a repository and what its owner pushed last.
type chaosRepo struct {
	owner  person
	id     string
	state  *nostr.Event
	commit string
}

func (r chaosRepo) refs() string { return "HEAD=refs/heads/main refs/heads/main=" + r.commit }

func (r chaosRepo) at(s *process) string {
	return s.web() + repoPath(r.owner, r.id)
}

// git asks a node, for as long as it says something.
func (p *sender) git(dir string, args ...string) (string, error) {
	return gitAs(dir, append([]string{"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=5"}, args...)...)
}

// push announces a repository, and again and again signs a state and pushes it.
func (p *sender) push(work string) {
	defer p.disconnect()
	r := chaosRepo{owner: person(p.name), id: p.name}
	p.replace(p.sign(p.name, nostr.Event{Kind: 30617, Tags: announcementTags(r.owner, r.id)}))
	at := nostr.Now()
	for n := 0; !p.ending.Load() && !p.Failed(); n++ {
		if out, err := gitAs(work, "commit", "-q", "--allow-empty", "-m", fmt.Sprint(p.name, n)); err != nil {
			p.Errorf("%v: %s", err, out)
			return
		}
		commit, err := gitAs(work, "rev-parse", "HEAD")
		if err != nil {
			p.Error(err)
			return
		}
		at = max(at+1, nostr.Now())
		state := p.sign(p.name, nostr.Event{Kind: 30618, CreatedAt: at, Tags: nostr.Tags{{"d", r.id}, {"HEAD", "ref: refs/heads/main"}, {"refs/heads/main", commit}}})
		p.replace(state)
		for began := time.Now(); ; {
			out, err := p.git(work, "push", "-q", r.at(p.node()), "main")
			if err == nil {
				break
			}
			p.countRefusal("push: %s", strings.Join(strings.Fields(out), " "))
			if time.Since(began) > 4*patience {
				p.Errorf("a push is not taken: %s", out)
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		r.state, r.commit = state, commit
		p.mu.Lock()
		p.pushes++
		p.mu.Unlock()
		if out, err := p.git(".", "ls-remote", r.at(p.node()), "refs/heads/main"); err != nil {
			p.countRefusal("ls-remote: %s", strings.Join(strings.Fields(out), " "))
		} else if !strings.HasPrefix(out, commit) {
			p.Errorf("after the push of %s another node has %q", commit, out)
		}
	}
	p.mu.Lock()
	p.repos = append(p.repos, r)
	p.mu.Unlock()
}

// session is what one subscription got.
type session struct {
	node   int
	since  nostr.Timestamp
	stored map[string]bool // before EOSE
	live   []*nostr.Event
	place  map[string]int // in live
	ended  bool           // by the last event
}

func (s *session) has(id string) bool {
	_, ok := s.place[id]
	return ok || s.stored[id]
}

// listen subscribes at a node, again whenever the connection is lost, until the last event.
func (x *chaos) listen(node int) {
	last := pubkey(theLast)
	for began := time.Now(); !x.Failed(); <-time.After(20 * time.Millisecond) {
		s := &session{node: node, since: nostr.Now() - 2, stored: map[string]bool{}, place: map[string]int{}}
		n, err := x.follow(s, last)
		if n > 0 {
			x.mu.Lock()
			x.sessions = append(x.sessions, s)
			x.mu.Unlock()
		}
		if s.ended {
			return
		}
		if n > 0 && !x.ending.Load() {
			began = time.Now()
		}
		var end closed
		if errors.As(err, &end) || errors.Is(err, errRefusedREQ) {
			x.countRefusal("REQ: %v", err)
		}
		if time.Since(began) > 4*patience {
			x.Errorf("node %d does not answer subscribers: %v", node, err)
			return
		}
	}
}

var errRefusedREQ = errors.New("CLOSED")

// follow reads a session to its end. It returns how many messages came.
func (x *chaos) follow(s *session, last string) (n int, err error) {
	c, err := openWith(x.nodes[s.node].Load().url, ws.Dialer{Timeout: patience})
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.write([]byte(fmt.Sprintf(`["REQ","live",{"since":%d,"limit":5000}]`, s.since))); err != nil {
		return 0, err
	}
	for live := false; !s.ended; n++ {
		text, err := c.read()
		if err != nil {
			return n, err
		}
		switch verbOf(text) {
		case "EOSE":
			live = true
		case "CLOSED":
			return n, fmt.Errorf("%w %s", errRefusedREQ, text)
		case "EVENT":
			var e nostr.Event
			if err := json.Unmarshal(text, &[]any{new(string), new(string), &e}); err != nil {
				x.Errorf("a subscriber got %.200s: %v", text, err)
				return n, err
			}
			if s.has(e.ID) {
				x.Errorf("a subscriber at node %d got twice: %s", s.node, &e)
			}
			if live {
				s.place[e.ID] = len(s.live)
				s.live = append(s.live, &e)
			} else {
				s.stored[e.ID] = true
			}
			s.ended = s.ended || e.PubKey == last
		}
	}
	return n, nil
}

// lasting reports whether an event must reach every subscriber who asks for its time.
func (x *chaos) lasting(e *nostr.Event, s *session) bool {
	return x.notes[e.ID] != nil && e.CreatedAt >= s.since
}

// sameSessions compares what subscribers got.
func (x *chaos) sameSessions() {
	for i, a := range x.sessions {
		if a.ended {
			missing := 0
			for _, e := range x.notes {
				if x.lasting(e, a) && !a.has(e.ID) {
					if missing++; missing == 1 {
						x.Logf("missed by session %d at node %d: %s", i, a.node, e)
					}
				}
			}
			if missing > 0 {
				x.Errorf("the last subscriber at node %d has missed %d of %d events", a.node, missing, len(x.notes))
			}
		}
		for j, b := range x.sessions {
			before, from, to := -1, -1, -1
			for at, e := range a.live {
				place, ok := b.place[e.ID]
				if !ok {
					continue
				}
				if from < 0 {
					from = at
				}
				to = at
				if place < before {
					x.Errorf("sessions %d at node %d and %d at node %d: %s comes after another, and before it", i, a.node, j, b.node, e)
				}
				before = place
			}
			// Between two events that both had, both had the same.
			for at := from; at >= 0 && at < to; at++ {
				if e := a.live[at]; x.lasting(e, b) && !b.has(e.ID) {
					x.Errorf("session %d at node %d has missed %s, which session %d at node %d had", j, b.node, e, i, a.node)
				}
			}
		}
	}
}

func (x *chaos) ephemeralHeard() int {
	heard := map[string]bool{}
	for _, s := range x.sessions {
		for _, e := range s.live {
			if e.Kind == 20001 {
				heard[e.ID] = true
			}
		}
	}
	return len(heard)
}

// sameAnswers asks each node for everything.
func (x *chaos) sameAnswers() {
	promised := &promises{stored: map[string]bool{}, deleted: map[string]bool{}}
	for id := range x.notes {
		promised.stored[id] = true
	}
	for id := range x.deleted {
		promised.deleted[id] = true
	}
	st := make([]*story, len(x.nodes))
	for i := range x.nodes {
		st[i] = newStory(x.T, x.nodes[i].Load())
		promised.verify(x.T, st[i].s)
		for address, e := range x.newest {
			var got []*nostr.Event
			filter := fmt.Sprintf(`{"kinds":[%d],"authors":["%s"]`, e.Kind, e.PubKey)
			if d := e.Tags.GetD(); d != "" {
				filter += fmt.Sprintf(`,"#d":["%s"]`, d)
			}
			// A node that was lost may have left a push that another one completes.
			st[i].until(address+" is the newest", func() bool {
				got = st[i].c.query(st[i], filter+"}")
				return len(got) == 1 && (got[0].ID == e.ID || e.Kind != 30618)
			})
			if got[0].ID != e.ID {
				x.Errorf("node %d has %s, want %s", i, got[0], e)
			}
		}
		for _, r := range x.repos {
			st[i].wantRefs(r.at(st[i].s), r.refs())
			clone := filepath.Join(x.TempDir(), fmt.Sprint("clone", i))
			if st[i].git(".", "clone", "-q", r.at(st[i].s), clone); st[i].git(clone, "rev-parse", "HEAD") != r.commit {
				x.Errorf("the clone of %s from node %d is not at %s", r.id, i, r.commit)
			}
			_ = os.RemoveAll(clone)
		}
		n := 0
		for _, e := range x.deleted {
			if a := st[i].c.publish(st[i], e); a.ok || !strings.HasPrefix(a.reason, "blocked: deleted") {
				x.Errorf("node %d takes what was deleted: %+v", i, a)
			}
			if n++; n == 20 {
				break
			}
		}
	}
	for _, filter := range []string{`{"limit":5000}`, `{"kinds":[5],"limit":5000}`, `{"kinds":[1],"limit":5000}`, `{"#k":["1"],"limit":5000}`} {
		want := ids(st[0].c.query(st[0], filter))
		for i := range st {
			if got := ids(st[i].c.query(st[i], filter)); !slices.Equal(got, want) {
				x.Errorf("to %s node %d answers with %d events, node 0 with %d others", filter, i, len(got), len(want))
			}
		}
	}
}
