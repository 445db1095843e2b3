package relaysync

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/relaysynctest"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

var alice, bob = testkit.NewSigner(1), testkit.NewSigner(2)

// signed signs an event.
func signed(_ testing.TB, who *testkit.Signer, kind int, at int64, content string, tags ...host.Tag) *host.Event {
	return who.Event(host.Kind(kind), at, content, tags...)
}

// notes are n events of kind 1, the newest first.
func notes(_ testing.TB, n int) []*host.Event { return relaysynctest.Notes(n) }

// epoch is the time of the tests' events.
const epoch = relaysynctest.Epoch

// plan is a strategy that does what a test says, and records its inputs.
type plan struct {
	react   func(v *abi.StepView) []abi.StepAction
	init    func() []byte
	changed chan struct{}

	mu    sync.Mutex // guards the fields below
	fresh bool
	calls int
	fail  func(call int) error
	told  []string
	news  chan struct{}
}

func newPlan(react func(v *abi.StepView) []abi.StepAction) *plan {
	return &plan{react: react, changed: make(chan struct{}, 1), fresh: true, news: make(chan struct{}, 1)}
}

func (p *plan) Changed() <-chan struct{} { return p.changed }

func (p *plan) Call(_ context.Context, request []byte, _ int64) ([]byte, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := p.fresh
	p.fresh = false
	if fresh {
		request = p.init()
	}
	if request == nil {
		return nil, fresh, nil
	}
	p.calls++
	if p.fail != nil {
		if err := p.fail(p.calls); err != nil {
			p.fresh = true
			return nil, fresh, err
		}
	}
	var v abi.StepView
	if err := v.Decode(request); err != nil {
		return nil, fresh, err
	}
	p.told = append(p.told, describe(&v))
	select {
	case p.news <- struct{}{}:
	default:
	}
	var answer []byte
	if p.react != nil {
		for _, a := range p.react(&v) {
			answer = abi.AppendAction(answer, &a)
		}
	}
	return answer, fresh, nil
}

// swap lets the plan begin again.
func (p *plan) swap(react func(v *abi.StepView) []abi.StepAction) {
	p.mu.Lock()
	p.react, p.fresh = react, true
	p.mu.Unlock()
	p.changed <- struct{}{}
}

// list returns the inputs of the strategy so far.
func (p *plan) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// wait waits until the strategy gets its n-th input that begins so.
func (p *plan) wait(t testing.TB, n int, prefix string) string {
	t.Helper()
	late := time.NewTimer(time.Until(testkit.Deadline(t)))
	defer late.Stop()
	for {
		found := 0
		for _, s := range p.list() {
			if strings.HasPrefix(s, prefix) {
				if found++; found == n {
					return s
				}
			}
		}
		select {
		case <-p.news:
		case <-late.C:
			t.Fatalf("the strategy was not told %q for the %d. time, but\n%s", prefix, n, strings.Join(p.list(), "\n"))
		}
	}
}

func describe(v *abi.StepView) string {
	switch v.Kind {
	case abi.InputInit:
		in := v.Init()
		var b strings.Builder
		fmt.Fprintf(&b, "init part %d", in.Part)
		for it := in.Relays(); it.Next(); {
			r := it.Relay()
			fmt.Fprintf(&b, " relay(%s bootstrap=%v wanted=%v connected=%v)", r.URL, r.Bootstrap, r.Wanted, r.Connected)
			for it := r.Subscriptions(); it.Next(); {
				s := it.Subscription()
				fmt.Fprintf(&b, " sub(%s live=%v eose=%v)", s.ID, s.Live, s.Eose)
			}
		}
		for it := in.Repositories(); it.Next(); {
			r := it.Repository()
			fmt.Fprintf(&b, " repo(level=%d roots=%d", r.Level, r.NumRoots())
			for it := r.Relays(); it.Next(); {
				fmt.Fprintf(&b, " %s", it.Bytes())
			}
			b.WriteString(")")
		}
		return b.String()
	case abi.InputLocalEvent:
		e := v.LocalEvent()
		var relays []string
		for it := e.Relays(); it.Next(); {
			relays = append(relays, string(it.Bytes()))
		}
		return fmt.Sprintf("local kind=%d level=%d origin=%d from=%s relays=%v", e.Kind, e.Level, e.Origin, e.Relay, relays)
	case abi.InputRepoGone:
		return "gone " + v.RepoGone().Repository[:10]
	case abi.InputRelayConnected:
		r := v.RelayConnected()
		return fmt.Sprintf("connected last=%v neg=%d limit=%d subs=%d", r.LastConnected > 0, r.Capabilities.Negentropy, r.Capabilities.MaxLimit, r.Capabilities.MaxSubscriptions)
	case abi.InputRelayDisconnected:
		r := v.RelayDisconnected()
		return fmt.Sprintf("disconnected class=%d connected=%v retry=%v reason=%s", r.Class, r.Connected, r.RetryAt > 0, r.Reason)
	case abi.InputEose:
		e := v.Eose()
		return fmt.Sprintf("eose %s events=%d new=%d min=%d", e.ID, e.Events, e.New, e.MinCreatedAt)
	case abi.InputClosed:
		c := v.Closed()
		return fmt.Sprintf("closed %s class=%d reason=%s", c.ID, c.Class, c.Reason)
	case abi.InputHistoricDone:
		h := v.HistoricDone()
		return fmt.Sprintf("done %s method=%d complete=%v class=%d have=%d need=%d new=%d rounds=%d reason=%s", h.ID, h.Method, h.Complete, h.Class, h.Have, h.Need, h.New, h.Rounds, h.Reason)
	case abi.InputNotice:
		n := v.Notice()
		return fmt.Sprintf("notice class=%d %s", n.Class, n.Text)
	case abi.InputTimerFired:
		return "timer " + v.TimerFired().ID
	}
	return "?"
}

// calm is the throttle of the tests: the numbers of the documents, but for the
// first wait.
type calm struct {
	first time.Duration

	mu       sync.Mutex // guards the fields below
	failures map[string]int
	outcomes []loop.Outcome
	left     []string
}

func (h *calm) Allow(string, int64) int64 { return 0 }

func (h *calm) Report(relay string, r loop.ConnResult, _ int64) loop.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, r.Outcome)
	if h.failures == nil {
		h.failures = map[string]int{}
	}
	first := h.first.Milliseconds()
	switch r.Outcome {
	case loop.OutcomeOK:
		h.failures[relay] = 0
		return loop.State{Status: loop.StatusHealthy}
	case loop.OutcomeDisconnected:
		return loop.State{Status: loop.StatusHealthy}
	case loop.OutcomeRateLimited:
		return loop.State{Status: loop.StatusDegraded, Wait: first}
	}
	h.failures[relay]++
	n := h.failures[relay]
	st := loop.State{Status: loop.StatusDegraded, Failures: n, Wait: min(time.Hour.Milliseconds(), first<<min(n-1, 20))}
	if r.Outcome == loop.OutcomeDNS || r.Outcome == loop.OutcomeTLS || r.Outcome == loop.OutcomeProtocol {
		st.Status, st.Wait = loop.StatusDead, (12 * time.Hour).Milliseconds()
	}
	return st
}

func (h *calm) Get(string, int64) loop.State { return loop.State{} }

func (h *calm) Reset(relay string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.failures, relay)
}

func (h *calm) Bootstrap(string) {}

func (h *calm) Forget(relay string, _ int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = append(h.left, relay)
}

func (h *calm) saw(o loop.Outcome) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.outcomes, o)
}

// world is a running Sync with what is around it.
type world struct {
	t      testing.TB
	store  *relaysynctest.Store
	plan   *plan
	health *calm
	sync   *Sync
	stop   func()
}

// patient are the default limits without those of time: a machine that pauses ends no
// connection.
var patient = func() Limits {
	l := DefaultLimits
	const day = 24 * time.Hour
	l.ConnectTime, l.AnswerTime, l.PageTime, l.PingAfter, l.PongTime = day, day.Milliseconds(), day.Milliseconds(), day.Milliseconds(), day.Milliseconds()
	return l
}()

// put stores events as a client would.
func (w *world) put(list ...*host.Event) {
	w.t.Helper()
	for _, e := range list {
		done := make(chan host.Verdict, 1)
		err := w.store.Submit(w.t.Context(), &host.Item{Event: e, Source: &host.Source{}, Done: func(v host.Verdict, _ error) { done <- v }})
		if err != nil {
			w.t.Fatal(err)
		}
		<-done
	}
}

// start runs a Sync. change may change what it is made of.
func start(t testing.TB, react func(v *abi.StepView) []abi.StepAction, change func(cfg *Config, deps *Deps)) *world {
	t.Helper()
	w := &world{t: t, store: relaysynctest.NewStore(0, schnorr.Verify), plan: newPlan(react), health: &calm{first: 50 * time.Millisecond}}
	t.Cleanup(w.store.Close)
	cfg := Config{AllowPrivate: true, Limits: patient, Now: time.Now, Log: slog.New(slog.NewTextHandler(logs{t}, nil)), Own: []string{"own.example.com"}}
	deps := Deps{
		Strategy: w.plan, Ingest: w.store, Facts: w.store, Local: w.store, Health: w.health, Verify: schnorr.Verify,
		Hosted: func(a *grasp.Announcement) (bool, error) {
			return a.ListsService(grasp.Service{Host: "own.example.com"}), nil
		},
	}
	if change != nil {
		change(&cfg, &deps)
	}
	s, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	w.sync, w.plan.init = s, s.Init
	w.store.SetFollower(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(w.stop)
	if deps.Strategy == Strategy(w.plan) && w.plan.fail == nil {
		w.plan.wait(t, 1, "init") // what the test does then is news
	}
	return w
}

// logs shows what is logged if the test fails.
type logs struct{ t testing.TB }

func (l logs) Write(p []byte) (int, error) {
	defer func() { _ = recover() }() // the test is over
	l.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// remote is a relay that does what it should, but for what a test changes.
type remote struct {
	t       testing.TB
	url     string
	info    string                                   // NIP-11; empty: there is none
	neg     bool                                     // it has negentropy
	most    int                                      // events of one answer; 0: no limit
	script  func(p *peer, m *wire.Message) (ok bool) // what it does differently; true: that was all
	greet   func(p *peer)
	handler http.Handler // in place of the relay

	mu     sync.Mutex // guards the fields below
	relay  *relaymodel.Relay
	peers  map[uint64]*peer // by the relay's number
	asked  []string         // messages that came
	met    int              // connections
	down   bool
	server *httptest.Server
}

// peer is one connection of a remote.
type peer struct {
	r     *remote
	id    uint64
	net   net.Conn
	mu    sync.Mutex               // for writing
	texts map[*wire.Message][]byte // of what came
}

func newRemote(t testing.TB, change func(r *remote)) *remote {
	t.Helper()
	r := &remote{t: t, neg: true, peers: map[uint64]*peer{}}
	if change != nil {
		change(r)
	}
	p := relaymodel.Default()
	p.Limits.Limit, p.Negentropy.Supported, p.Refuse.Message.Text = r.most, r.neg, "ERROR: bad msg: unknown cmd"
	r.relay = relaymodel.New(p, 0, time.Now().UnixMilli())
	r.server = httptest.NewServer(r)
	r.url = "ws" + strings.TrimPrefix(r.server.URL, "http")
	t.Cleanup(func() {
		r.cut()
		r.server.Close()
	})
	return r
}

func (r *remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	down := r.down
	r.mu.Unlock()
	switch {
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case r.handler != nil:
		r.handler.ServeHTTP(w, req)
		return
	case req.Header.Get("Upgrade") == "":
		if r.info == "" {
			http.NotFound(w, req)
			return
		}
		_, _ = io.WriteString(w, r.info)
		return
	}
	p := r.meet(w, req)
	if p == nil {
		return
	}
	defer func() {
		_ = p.net.Close()
		r.update(func(now int64) []relaymodel.Effect {
			delete(r.peers, p.id)
			return r.relay.Gone(p.id, now)
		})
	}()
	if r.greet != nil {
		r.greet(p)
	}
	for {
		text, _, err := wsutil.ReadClientData(p.net)
		if err != nil {
			return
		}
		m, err := wire.ParseMessage(text, &wire.Limits{SubID: 64, Filters: 100, Values: 10_000})
		if err != nil {
			r.t.Errorf("the client sent %.200s: %v", text, err)
			return
		}
		r.mu.Lock()
		r.asked = append(r.asked, m.Verb.String()+" "+string(text[:min(len(text), 200)]))
		r.mu.Unlock()
		p.texts[&m] = text
		if r.script == nil || !r.script(p, &m) {
			p.serve(&m)
		}
	}
}

// say sends a message.
func (p *peer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = wsutil.WriteServerText(p.net, fmt.Appendf(nil, format, args...))
}

func (p *peer) event(sub string, e *host.Event) { p.say(`["EVENT","%s",%s]`, sub, e.JSON) }

// serve does what a relay should.
func (p *peer) serve(m *wire.Message) {
	p.r.update(func(now int64) []relaymodel.Effect { return p.r.relay.Receive(p.id, p.texts[m], now) })
}

// update has something happen at the relay, and sends what it answers.
func (r *remote) update(f func(now int64) []relaymodel.Effect) {
	r.mu.Lock()
	effects := f(time.Now().UnixMilli())
	peers := maps.Clone(r.peers)
	r.mu.Unlock()
	for _, e := range effects {
		if p := peers[e.Conn]; p != nil {
			p.say("%s", e.Frame)
		}
	}
}

// add stores events and sends them to all subscribers.
func (r *remote) add(list ...*host.Event) {
	for _, e := range list {
		r.update(func(now int64) []relaymodel.Effect { return r.relay.Add(e, now) })
	}
}

// meet answers a handshake. After a client has read the answer, the connection is counted, and cut
// cuts it.
func (r *remote) meet(w http.ResponseWriter, req *http.Request) *peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return nil
	}
	conn, _, _, err := ws.UpgradeHTTP(req, w)
	if err != nil {
		return nil
	}
	p := &peer{r: r, net: conn, texts: map[*wire.Message][]byte{}}
	p.id, _, _ = r.relay.Open(netip.Addr{}, time.Now().UnixMilli())
	r.peers[p.id] = p
	r.met++
	return p
}

// cut ends all connections.
func (r *remote) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.peers {
		_ = p.net.Close()
	}
}

// refuse takes no connections, or takes them again.
func (r *remote) refuse(down bool) {
	r.mu.Lock()
	r.down = down
	r.mu.Unlock()
	if down {
		r.cut()
	}
}

// count is how many messages came that begin so.
func (r *remote) count(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, text := range r.asked {
		if strings.HasPrefix(text, prefix) {
			n++
		}
	}
	return n
}

func (r *remote) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.met
}

// Actions, in short.

func connectTo(url string) abi.StepAction { return abi.StepAction{Do: abi.DoConnect, Relay: url} }

func kinds(list ...uint32) abi.Filter { return abi.Filter{Kinds: list} }

func fetch(url, id string, method uint32, f abi.Filter) abi.StepAction {
	return abi.StepAction{Do: abi.DoHistoric, Relay: url, ID: id, Method: method, Purpose: abi.PurposeStartup, Filters: []abi.Filter{f}}
}

func live(url, id string, f ...abi.Filter) abi.StepAction {
	return abi.StepAction{Do: abi.DoSubscribe, Relay: url, ID: id, Live: true, Filters: f}
}

// onConnect connects at the start, and does something at each connection.
func onConnect(url string, then ...abi.StepAction) func(v *abi.StepView) []abi.StepAction {
	return func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(url)}
		case abi.InputRelayConnected:
			return then
		}
		return nil
	}
}
