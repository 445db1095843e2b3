package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/relaysync"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

// TestDevnetPeers runs Talon with relays that are not ours, each in a process of its own. These are
// khatru with its stores, and the programs that TALON_PEERS names (see scripts/peers). Each event is on
// exactly one relay of its repository. Some have old dates, some delete others. Relays are cut off,
// fall silent and crash, and Talon crashes and restarts. Afterwards nobody is barred, nothing is
// missing after one check, what was deleted is not served, live events came within 5 seconds (p99),
// and a relay that was away brought an event within 10 seconds after its return.
//
// TALON_PEERS_MINUTES is how long people write; it is 2 without. Checks are a minute apart, and a
// relay is healthy after a minute: the simulations test the defaults. With TALON_PEERS_CHECKS=default
// checks come at the default times, so that the bytes are those of a server. The test then only logs
// missing events, for the next check may be hours away. TALON_PEERS_ONLY names the relays that take part.
func TestDevnetPeers(t *testing.T) {
	if !largeNets() {
		t.Skip("it takes minutes: set TALON_TEST_DEVNET=1")
	}
	length := 2 * time.Minute
	if text := os.Getenv("TALON_PEERS_MINUTES"); text != "" {
		var err error
		if length, err = time.ParseDuration(text + "m"); err != nil {
			t.Fatalf("TALON_PEERS_MINUTES: %v", err)
		}
	}
	strategies := map[string]string{
		"mirror":     "check_minutes_pages = 1\ncompare_minutes_from = 1\ncompare_minutes_to = 1\n",
		"layered-v5": "check_minutes_pages = 1\nsecond_level = 3\n",
	}
	defaults := os.Getenv("TALON_PEERS_CHECKS") == "default"
	if defaults {
		strategies = map[string]string{"mirror": "", "layered-v5": "second_level = 1\n"}
	}
	devnetCode(t, "mirror", "layered-v5", "polite")
	for name, settings := range strategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPeersWorld(t, map[string]string{name: settings, "polite": "relay_eager_after_s = 60\n"})
			w.defaults = defaults
			w.firstSync()
			ctx, stop := context.WithCancel(t.Context())
			watched := make(chan peersClaims, 1)
			go func() { watched <- w.watch(ctx) }()
			w.write(length)
			w.judge(stop, watched)
		})
	}
}

const (
	peersRepos = 24
	peersEach  = 250 * time.Millisecond // between two events
	peersCheck = 75 * time.Second       // between two checks, and what the last takes
	peersBack  = 10 * time.Second       // until a relay is in use again
	peersLive  = 5 * time.Second
)

// peersWorld is a Talon, the relays around it, and people who write there.
type peersWorld struct {
	*testing.T
	random *rand.Rand
	people []*testkit.Signer
	peers  []*peer
	repos  []*peersRepo
	args   []string
	data   string
	bytes  float64   // received by Talons that have ended
	began  time.Time // when the first sync had ended
	logs   string    // of Talons that have ended

	defaults bool // checks come at the default times

	mu      sync.Mutex // guards the fields below
	talon   *process   // nil while it is away
	sent    map[host.ID]*peersEvent
	seen    map[host.ID]time.Time
	outages []*peersOutage
}

type peersRepo struct {
	address string
	peers   []int
	roots   []*host.Event
	at      map[host.ID]int // the relays of roots
}

// peersEvent is an event that was published.
type peersEvent struct {
	*host.Event
	peer    int
	at      time.Time
	deleted bool    // by another event
	target  host.ID // that it deletes
}

// peersOutage is a time in which a relay was not to be had, or Talon (peer -1) was away.
type peersOutage struct {
	peer       int
	how        string
	began, end time.Time // end is zero while it lasts
}

func newPeersWorld(t *testing.T, modules map[string]string) *peersWorld {
	w := &peersWorld{
		T: t, random: rand.New(rand.NewPCG(1, 2)), sent: map[host.ID]*peersEvent{}, seen: map[host.ID]time.Time{},
		peers: newPeers(t, behindGate, strings.Fields(os.Getenv("TALON_PEERS_ONLY"))...), data: newMiddleData(t),
	}
	for n := range 4 {
		w.people = append(w.people, testkit.NewSigner(byte(100+n)))
	}
	w.found()
	w.args = serveArgs(t, w.data, "--plugins", devnetModules(t, modules), "--domain", serviceDomain, "--allow-private", "true", "--bootstrap", w.peers[0].gate.URL())
	w.start()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go w.listen(ctx)
	return w
}

// firstSync waits until everything is here that was said before. Repositories wait for their git data.
func (w *peersWorld) firstSync() {
	w.Helper()
	began := time.Now()
	for missing := w.missing(); len(missing) > 0; missing = w.missing() {
		if time.Since(began) > patience {
			w.report(missing, time.Now())
			w.healthy()
			w.FailNow()
		}
		testkit.Pause(time.Since(began))
	}
	w.began = time.Now()
	w.Logf("first sync: %d events in %v", len(w.sent), time.Since(began).Round(time.Second))
}

// start runs Talon.
func (w *peersWorld) start() {
	s := startAs(w, exec.Command("talon", w.args...), w.data)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.talon = s
}

// listen notes when Talon sends events to a subscriber.
func (w *peersWorld) listen(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		s := w.talon
		w.mu.Unlock()
		if s != nil {
			if conn, err := relayclient.Dial(ctx, s.url, relayclient.Options{}); err == nil {
				_ = conn.Follow(ctx, []byte(`{"limit":500}`), func(e *host.Event) {
					w.mu.Lock()
					defer w.mu.Unlock()
					if w.seen[e.ID].IsZero() {
						w.seen[e.ID] = time.Now()
					}
				}, func() {})
				_ = conn.Close()
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// found announces the repositories, each at its relays. Their commit is at a git server.
func (w *peersWorld) found() {
	w.Helper()
	dir := w.TempDir()
	work := gitWork(w.T, filepath.Join(w.TempDir(), "work"))
	commit := strings.TrimSpace(mustGit(w.T, work, "rev-parse", "HEAD"))
	git := serveGit(w.T, dir)
	now := time.Now().Unix()
	for i := range peersRepos {
		d, owner := fmt.Sprintf("repo-%d", i), w.people[i%len(w.people)]
		npub := nip19.EncodeNpub(owner.PubKey)
		mustGit(w.T, work, "clone", "-q", "--bare", ".", filepath.Join(dir, d+".git"))
		r := &peersRepo{at: map[host.ID]int{}}
		clone := host.Tag{"clone", "https://" + serviceDomain + "/" + npub + "/" + d + ".git", git + d + ".git"}
		relays := host.Tag{"relays", "wss://" + serviceDomain}
		for k := range min(4, len(w.peers)) {
			n := (i*2 + k*(1+i%2)) % len(w.peers)
			if slices.Contains(r.peers, n) {
				continue
			}
			r.peers = append(r.peers, n)
			relays = append(relays, w.peers[n].gate.URL())
			if w.peers[n].selects {
				clone = append(clone, "http://"+w.peers[n].gate.Address()+"/"+npub+"/"+d+".git")
			}
		}
		repo := owner.Event(30617, now-peersOld-1000, "", host.Tag{"d", d}, clone, relays)
		state := owner.Event(30618, now-peersOld-900, "", host.Tag{"d", d}, host.Tag{"refs/heads/main", commit}, host.Tag{"HEAD", "ref: refs/heads/main"})
		a, _ := repo.Address()
		r.address = a.String()
		w.repos = append(w.repos, r)
		for _, n := range slices.Compact(append([]int{0}, r.peers...)) {
			w.publish(n, repo)
			w.publish(n, state)
			if w.peers[n].selects {
				mustGit(w.T, work, "push", "-q", "http://"+w.peers[n].address+"/"+npub+"/"+d+".git", "main")
			}
		}
		for range 4 {
			w.issue(r, peersOld-500)
		}
	}
}

// peersOld is the age of an event with an old date, in seconds.
const peersOld = 40 * 24 * 3600

// publish publishes an event at a relay, and expects it.
func (w *peersWorld) publish(peer int, e *host.Event) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.peers[peer].publish(ctx, e); err != nil {
		w.Fatalf("publish an event of kind %d: %v\n%s", e.Kind, err, e.Content)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[e.ID] = &peersEvent{Event: e, peer: peer, at: time.Now()}
}

// issue opens an issue, dated that number of seconds back.
func (w *peersWorld) issue(r *peersRepo, ago int64) *host.Event {
	e := w.people[w.random.IntN(len(w.people))].Event(1621, time.Now().Unix()-ago, fmt.Sprint("issue ", len(w.sent)), host.Tag{"a", r.address})
	n := r.peers[w.random.IntN(len(r.peers))]
	w.publish(n, e)
	r.roots, r.at[e.ID] = append(r.roots, e), n
	return e
}

// comment comments on an issue, at a relay or, with -1, at any.
func (w *peersWorld) comment(r *peersRepo, peer int, ago int64) *host.Event {
	root := r.roots[w.random.IntN(len(r.roots))]
	if peer < 0 {
		peer = r.peers[w.random.IntN(len(r.peers))]
	}
	if w.peers[peer].selects {
		// It refuses a comment on an issue that has not reached it.
		for _, e := range r.roots {
			if r.at[e.ID] == peer {
				root = e
			}
		}
		if r.at[root.ID] != peer {
			return w.issueAt(r, peer, ago)
		}
	}
	e := w.people[w.random.IntN(len(w.people))].Event(1111, time.Now().Unix()-ago, fmt.Sprint("comment ", len(w.sent)),
		host.Tag{"E", root.ID.String()}, host.Tag{"K", "1621"}, host.Tag{"e", root.ID.String()}, host.Tag{"k", "1621"})
	w.publish(peer, e)
	return e
}

func (w *peersWorld) issueAt(r *peersRepo, peer int, ago int64) *host.Event {
	e := w.people[w.random.IntN(len(w.people))].Event(1621, time.Now().Unix()-ago, fmt.Sprint("issue ", len(w.sent)), host.Tag{"a", r.address})
	w.publish(peer, e)
	r.roots, r.at[e.ID] = append(r.roots, e), peer
	return e
}

// delete deletes a comment at the relay that has it.
func (w *peersWorld) delete(e *host.Event) {
	target := w.sent[e.ID]
	for _, p := range w.people {
		if p.PubKey == e.PubKey {
			deletion := p.Event(5, time.Now().Unix(), "", host.Tag{"e", e.ID.String()}, host.Tag{"k", "1111"})
			w.publish(target.peer, deletion)
			w.mu.Lock()
			target.deleted, w.sent[deletion.ID].target = true, e.ID
			w.mu.Unlock()
		}
	}
}

// write has people write for that long, during outages.
func (w *peersWorld) write(length time.Duration) {
	began := time.Now()
	var faults sync.WaitGroup
	faults.Go(func() { w.fail(began, length) })
	defer faults.Wait()
	var comments []*host.Event
	ticks := time.NewTicker(peersEach)
	defer ticks.Stop()
	for n := 0; time.Since(began) < length; n++ {
		<-ticks.C
		r := w.repos[w.random.IntN(len(w.repos))]
		var ago int64
		if n%7 == 0 {
			ago = peersOld - int64(n)
		}
		switch {
		case n%5 == 0:
			w.issue(r, ago)
		case n%25 == 6 && len(comments) > 20:
			w.delete(comments[len(comments)-20])
			comments = nil
		default:
			if e := w.comment(r, -1, ago); e.Kind == 1111 {
				comments = append(comments, e)
			}
		}
	}
}

// fail takes relays away, one after the other, and Talon twice.
func (w *peersWorld) fail(began time.Time, length time.Duration) {
	const each = 22 * time.Second
	lengths := []time.Duration{1, 8, 15, 3, 33, 5, 10, 20}
	turns := 0
	for i := 0; ; i++ {
		at := 40*time.Second + time.Duration(i)*each
		if at+each+33*time.Second > length {
			return
		}
		time.Sleep(time.Until(began.Add(at)))
		if turns++; turns%7 == 5 {
			w.restart(turns%2 == 0)
			continue
		}
		n := i % len(w.peers)
		p, o := w.peers[n], &peersOutage{peer: n, began: time.Now()}
		w.note(o)
		took := lengths[i%len(lengths)] * time.Second
		switch how := i % 3; {
		case how == 0 && !p.memory:
			o.how = "killed"
			p.gate.Shut()
			p.kill()
			time.Sleep(took)
			p.start(w.T)
		case how == 1:
			o.how = "silent"
			p.gate.Freeze()
			time.Sleep(took)
		default:
			o.how = "cut off"
			p.gate.Shut()
			time.Sleep(took)
		}
		p.gate.Open()
		w.mu.Lock()
		o.end = time.Now()
		w.mu.Unlock()
	}
}

func (w *peersWorld) note(o *peersOutage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outages = append(w.outages, o)
}

// restart ends Talon, by a crash or in order, and starts it again.
func (w *peersWorld) restart(crash bool) {
	w.mu.Lock()
	s := w.talon
	o := &peersOutage{peer: -1, how: "restarted", began: time.Now()}
	w.talon, w.outages = nil, append(w.outages, o)
	w.mu.Unlock()
	w.bytes += s.metric(w, "talon_sync_received_bytes_total")
	if crash {
		o.how = "killed"
		s.kill()
	} else {
		s.mustStop(w)
	}
	time.Sleep(5 * time.Second)
	w.logs += s.text()
	w.start()
	w.mu.Lock()
	defer w.mu.Unlock()
	o.end = time.Now()
}

// judge waits for one check, and says how it went. stop ends the watch.
func (w *peersWorld) judge(stop func(), watched <-chan peersClaims) {
	end := time.Now()
	var missing []*peersEvent
	for time.Since(end) < peersCheck {
		if missing = w.missing(); len(missing) == 0 {
			break
		}
		time.Sleep(time.Second)
	}
	w.Logf("%d events; everything is here %v after the last", len(w.sent), time.Since(end).Round(time.Second))
	w.report(missing, end)
	stop()
	w.punctual()
	w.returned()
	w.healthy()
	claims := <-watched
	w.truthful(&claims)
	needed := 0
	for _, e := range w.sent {
		text, _ := json.Marshal(e.Event)
		needed += len(text)
	}
	received := w.bytes + w.talon.metric(w, "talon_sync_received_bytes_total")
	w.Logf("received %.0f bytes for %d of events, %.2f a byte", received, needed, received/float64(needed))
}

// report fails the test if events are missing, and describes some of them.
func (w *peersWorld) report(missing []*peersEvent, end time.Time) {
	complain := w.Errorf
	if w.defaults {
		complain = w.Logf
	}
	if len(missing) > 0 {
		complain("%d events are missing, or are served although they were deleted", len(missing))
	}
	for _, e := range missing[:min(len(missing), 20)] {
		complain("missing: kind %d at %s, deleted %v, published %v before the end, dated %d s back, during %s, tags %v",
			e.Kind, w.peers[e.peer].name, e.deleted, end.Sub(e.at).Round(time.Second), e.at.Unix()-e.CreatedAt, w.during(e), e.Tags)
	}
}

// missing returns the events that Talon does not serve and should, and deleted ones that it does.
func (w *peersWorld) missing() (list []*peersEvent) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := relayclient.Dial(ctx, w.talon.url, relayclient.Options{})
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	served := map[host.ID]bool{}
	for ids := range slices.Chunk(keysOf(w.sent), 200) {
		filter, _ := json.Marshal(map[string]any{"ids": ids})
		if err := conn.Query(ctx, filter, func(e *host.Event) bool {
			served[e.ID] = true
			return true
		}); err != nil {
			w.Fatal(err)
		}
	}
	for id, e := range w.sent {
		// Nobody here asks for the deletion of an event that was gone before it came.
		unasked := e.target != host.ID{} && w.seen[e.target].IsZero()
		if served[id] == e.deleted && !unasked {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *peersEvent) int { return a.at.Compare(b.at) })
	return list
}

func keysOf(m map[host.ID]*peersEvent) (ids []string) {
	for id := range m {
		ids = append(ids, id.String())
	}
	slices.Sort(ids)
	return ids
}

// during returns the outage in which an event was published, or the time after one in which Talon comes back.
func (w *peersWorld) during(e *peersEvent) string {
	for _, o := range w.outages {
		back := peersBack + peersLive
		if o.peer < 0 {
			back = 30 * time.Second // it loads its modules and connects to all relays
		}
		if (o.peer == e.peer || o.peer < 0) && e.at.After(o.began.Add(-time.Second)) && e.at.Before(o.end.Add(back)) {
			return fmt.Sprintf("an outage of %v (%s)", o.end.Sub(o.began).Round(time.Second), o.how)
		}
	}
	return ""
}

// punctual checks how late events came that were published while Talon was connected to their relay.
func (w *peersWorld) punctual() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var late, old []time.Duration
	var slow []string
	by := map[string][]time.Duration{}
	for id, e := range w.sent {
		if e.deleted || e.at.Before(w.began) || w.during(e) != "" {
			continue
		}
		took := time.Hour
		if at := w.seen[id]; !at.IsZero() {
			took = max(0, at.Sub(w.askable(e)))
		}
		late = append(late, took)
		if took > peersLive {
			slow = append(slow, fmt.Sprintf("%s: kind %d %v after the start took %v", w.peers[e.peer].name, e.Kind, e.at.Sub(w.began).Round(time.Second), took.Round(time.Millisecond)))
		}
		if w.old(e) {
			old = append(old, took)
		}
		by[w.peers[e.peer].name] = append(by[w.peers[e.peer].name], took)
	}
	p50, p99, worst := percentiles(late)
	w.Logf("live events: %d, p50 %v, p99 %v, longest %v", len(late), p50, p99, worst)
	if p99 > peersLive {
		w.Errorf("live events come after %v (p99), want %v", p99, peersLive)
	}
	slices.Sort(slow)
	w.Logf("later than %v: %q", peersLive, slow[:min(len(slow), 20)])
	p50, p99, worst = percentiles(old)
	w.Logf("live events with old dates: %d, p50 %v, p99 %v, longest %v", len(old), p50, p99, worst)
	for _, p := range w.peers {
		p50, p99, worst := percentiles(by[p.name])
		w.Logf("%20s: %4d live events, p50 %v, p99 %v, longest %v", p.name, len(by[p.name]), p50, p99, worst)
	}
}

// askable returns from when on Talon can ask for an event: a comment, when it has the root event. The
// relay of that may have been away.
func (w *peersWorld) askable(e *peersEvent) time.Time {
	if e.Kind == 1111 {
		for id, root := range w.sent {
			if root.Kind == 1621 && id.String() == e.Tags[0][1] && w.seen[id].After(e.at) && w.during(root) != "" {
				return w.seen[id]
			}
		}
	}
	return e.at
}

// old reports whether an event had an old date when it was published.
func (*peersWorld) old(e *peersEvent) bool { return e.at.Unix()-e.CreatedAt > peersOld/2 }

func percentiles(list []time.Duration) (p50, p99, worst time.Duration) {
	if len(list) == 0 {
		return 0, 0, 0
	}
	slices.Sort(list)
	return list[len(list)/2].Round(time.Millisecond), list[min(len(list)-1, len(list)*99/100)].Round(time.Millisecond), list[len(list)-1].Round(time.Millisecond)
}

// returned checks when the first event of a relay came that was published after the end of an outage.
func (w *peersWorld) returned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outages {
		if o.peer < 0 {
			w.Logf("outage: %v after the start Talon was %s for %v", o.began.Sub(w.began).Round(time.Second), o.how, o.end.Sub(o.began).Round(100*time.Millisecond))
			continue
		}
		var during, dated, after time.Duration
		stored, fresh := 0, 0
		for id, e := range w.sent {
			if e.peer != o.peer || e.deleted || w.seen[id].IsZero() {
				continue
			}
			switch since := w.seen[id].Sub(o.end); {
			case e.at.After(o.began) && e.at.Before(o.end):
				stored++
				if w.old(e) && !w.peers[e.peer].compares {
					dated = max(dated, since) // the next check finds it
				} else {
					during = max(during, since)
				}
			case w.old(e) && !w.peers[e.peer].compares:
				// It came before Talon was back, and waits for the next check.
			case e.at.After(o.end) && e.at.Before(o.end.Add(30*time.Second)) && w.soloOutage(o):
				fresh++
				after = max(after, w.seen[id].Sub(e.at))
			}
		}
		w.Logf("outage: %v after the start %s was %s for %v; it is connected after %v; its %d events of that time are here after %v (old dates without NIP-77: %v); %d of the next 30 s after %v at most",
			o.began.Sub(w.began).Round(time.Second), w.peers[o.peer].name, o.how, o.end.Sub(o.began).Round(100*time.Millisecond), w.connected(o), stored, during.Round(100*time.Millisecond), dated.Round(100*time.Millisecond), fresh, after.Round(100*time.Millisecond))
		if w.soloOutage(o) && (after > peersBack+peersLive || o.end.Sub(o.began) < time.Minute && during > peersBack+peersLive) {
			w.Errorf("%s is back %v after an outage of %v", w.peers[o.peer].name, max(during, after), o.end.Sub(o.began))
		}
	}
}

// connected returns when Talon had its first connection to a relay after an outage.
func (w *peersWorld) connected(o *peersOutage) time.Duration {
	for line := range strings.Lines(w.logs + w.talon.text()) {
		var entry struct {
			Time       time.Time
			Msg, Relay string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "connected to a relay" && strings.HasPrefix(entry.Relay, w.peers[o.peer].gate.URL()) && entry.Time.After(o.began) {
			return entry.Time.Sub(o.end).Round(100 * time.Millisecond)
		}
	}
	return -1 // it kept its connection
}

// soloOutage reports whether Talon itself ran all the while, and for a minute before.
func (w *peersWorld) soloOutage(o *peersOutage) bool {
	for _, other := range w.outages {
		if other.peer < 0 && other.end.Add(70*time.Second).After(o.began) && other.began.Before(o.end.Add(40*time.Second)) {
			return false
		}
	}
	return true
}

// healthy checks that no relay is barred, and none is called complete wrongly.
func (w *peersWorld) healthy() {
	out, err := talon(w, nil, "sync", "status", "--json", "--data", w.data)
	if err != nil {
		w.Fatal(err)
	}
	var st relaysync.Snapshot
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(st.Relays, func(a, b relaysync.RelaySnapshot) int { return cmp.Compare(a.Relay, b.Relay) })
	for _, p := range w.peers {
		i := slices.IndexFunc(st.Relays, func(r relaysync.RelaySnapshot) bool { return strings.TrimSuffix(r.Relay, "/") == p.gate.URL() })
		if i < 0 {
			w.Errorf("%s is not among the relays of sync status", p.name)
			continue
		}
		r := st.Relays[i]
		w.Logf("%20s: %s, %s, negentropy %s, open %+v, received %d bytes", p.name, r.State, r.Health, r.Limits.Negentropy, r.Open, r.Bytes)
		if r.Health == "barred" || r.Health == "dead" {
			w.Errorf("%s is %s: %s", p.name, r.Health, r.Reason)
		}
	}
	for line := range strings.Lines(w.talon.text()) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			w.Log(strings.TrimSpace(line))
		}
	}
}
