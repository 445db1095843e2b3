package relaysync_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/relaysync"
	"talon/host/relaysync/health"
	"talon/host/relaysync/relaysynctest"
	"talon/host/schnorr"
	"talon/host/throttle"
	"talon/internal/testkit"
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
)

// ownDomain is that of the Talon in the middle.
const ownDomain = "own.example.com"

// matrixRelays is how many relays a world has, all of one profile. The first is the
// bootstrap relay.
const matrixRelays = 3

func matrixURL(relay int) string { return fmt.Sprintf("ws://relay-%d.example", relay) }

// matrixEvent is an event and the relays that get it.
type matrixEvent struct {
	*host.Event
	relays []int
	listed []int // by its repository
}

// matrixEvents are what people say in a world. They are made once: signing is slow.
type matrixEvents struct {
	stored []matrixEvent // before Talon begins
	fresh  [][]matrixEvent
	bulk   []matrixEvent // further issues, for a first sync that takes its time
}

const (
	matrixRepos    = 20
	matrixRoots    = 8
	matrixBulk     = 4000
	matrixBegin    = 946684800 // what synctest begins with, 2000-01-01, in unix seconds
	matrixFresh    = 20        // events of one round that are said later
	matrixRounds   = 3
	matrixInterval = 7 // seconds between two stored events
)

var matrixSaid = sync.OnceValue(func() *matrixEvents {
	people := []*testkit.Signer{testkit.NewSigner(11), testkit.NewSigner(12), testkit.NewSigner(13)}
	at := int64(matrixBegin - 100_000)
	m := &matrixEvents{}
	relaysOf := func(repo int) []int { return []int{repo % matrixRelays, (repo + 1) % matrixRelays} }
	var addresses []string
	var roots [][]*host.Event
	say := func(list *[]matrixEvent, repo, n int, kind host.Kind, at int64, text string, tags ...host.Tag) *host.Event {
		e := people[n%3].Event(kind, at, text, tags...)
		relays := relaysOf(repo)
		if n%4 != 0 {
			relays = relays[n%2 : n%2+1]
		}
		*list = append(*list, matrixEvent{e, relays, relaysOf(repo)})
		return e
	}
	for i := range matrixRepos {
		list := host.Tag{"relays", "wss://" + ownDomain}
		for _, k := range relaysOf(i) {
			list = append(list, matrixURL(k))
		}
		d := fmt.Sprintf("repo-%d", i)
		e := people[0].Event(30617, at, "", host.Tag{"d", d}, host.Tag{"clone", "https://" + ownDomain + "/x/" + d + ".git"}, list)
		m.stored = append(m.stored, matrixEvent{e, append([]int{0}, relaysOf(i)...), relaysOf(i)})
		a, _ := e.Address()
		addresses = append(addresses, a.String())
		roots = append(roots, nil)
		for k := range matrixRoots {
			at += matrixInterval
			root := say(&m.stored, i, i+k, 1621, at, fmt.Sprint("issue ", i, k), host.Tag{"a", a.String()})
			roots[i] = append(roots[i], root)
			say(&m.stored, i, i+k+1, 1111, at+1, fmt.Sprint("comment ", i, k), host.Tag{"E", root.ID.String()}, host.Tag{"e", root.ID.String()})
		}
	}
	for round := range matrixRounds {
		var list []matrixEvent
		for n := range matrixFresh {
			i := (n*7 + round) % matrixRepos
			// Late events have old dates; the others get theirs when they are said.
			text := fmt.Sprint("fresh ", round, n)
			if n%2 == 0 {
				say(&list, i, n, 1621, matrixBegin-50_000+int64(100*round+n), text, host.Tag{"a", addresses[i]})
			} else {
				root := roots[i][n%matrixRoots]
				say(&list, i, n, 1111, matrixBegin-50_000+int64(100*round+n), text, host.Tag{"E", root.ID.String()}, host.Tag{"e", root.ID.String()})
			}
		}
		m.fresh = append(m.fresh, list)
	}
	for n := range matrixBulk {
		i := n % 6
		e := people[1].Event(1621, matrixBegin-90_000+int64(n), fmt.Sprint("bulk ", n), host.Tag{"a", addresses[i]})
		m.bulk = append(m.bulk, matrixEvent{e, relaysOf(i), relaysOf(i)})
	}
	return m
})

// matrixWorld is relays and a Talon, in a network in memory.
type matrixWorld struct {
	t         *testing.T
	warnings  *matrixWarnings
	network   *testkit.Network // nil: the real one
	first     string           // the bootstrap relay
	relays    []*server.Server
	honest    []bool // by relay: what it has can be had from it
	expected  map[host.ID]bool
	lateLive  string // why events with old dates wait for the daily sync; "": they do not
	lateAway  string // likewise those that come to a relay that is away
	lateAgain string // and those that come when it is back
	sooner    bool   // they may come before: where a relay has little room, the live part of a subscription has no since
	here      *relaysynctest.Store
	strategy  *matrixStrategy
	health    *health.Keeper
	known     relaysynctest.Memory // of sync
	beliefs   relaysynctest.Holdings
	sound     relaysynctest.Memory // of health
	stop      func()
	closers   []func()
}

func newMatrixWorld(t *testing.T, modules, code string, profiles []*relaymodel.Profile) *matrixWorld {
	w := &matrixWorld{t: t, warnings: newMatrixWarnings(t), network: testkit.NewNetwork(), first: matrixURL(0), expected: map[host.ID]bool{}, here: relaysynctest.NewStore(0, verifyOnce)}
	w.here.SetPolicy(w.here.About("wss://" + ownDomain))
	registry, err := plugin.Open(context.Background(), plugin.Options{
		Dir: modules, CacheDir: code, Facts: w.here, Held: w.here, Limits: guest.Limits{Fuel: 1e10, Memory: 256 << 20}, Log: slog.New(w.warnings),
	})
	if err != nil {
		w.here.Close()
		t.Fatal(err)
	}
	w.strategy = &matrixStrategy{registry: registry, changed: make(chan struct{}, 1)}
	throttle := registry.Reducer(manifest.WorldThrottle, nil)
	if w.health, err = health.Open(context.Background(), matrixThrottle{throttle}, &w.sound, slog.New(w.warnings)); err != nil {
		t.Fatal(err)
	}
	for i, profile := range profiles {
		s, stop := relaysynctest.Serve(w.network.Listen(fmt.Sprintf("relay-%d.example:80", i)), profile, uint64(i+1))
		w.honest = append(w.honest, profile.Honest())
		w.relays, w.closers = append(w.relays, s), append(w.closers, stop)
	}
	w.closers = append(w.closers, func() {
		throttle.Close()
		w.strategy.close()
		_ = registry.Close(context.Background())
	}, w.here.Close)
	return w
}

// say publishes events at their relays, and at one from which they can be had.
func (w *matrixWorld) say(list []matrixEvent) {
	trusted := func(k int) bool { return w.honest[k] }
	for _, e := range list {
		w.expected[e.ID] = true
		relays := e.relays
		if !slices.ContainsFunc(relays, trusted) {
			relays = append(slices.Clone(relays), e.listed[slices.IndexFunc(e.listed, trusted)])
		}
		for _, k := range relays {
			w.relays[k].Add(e.Event)
		}
	}
}

// begin starts Talon.
func (w *matrixWorld) begin() {
	w.strategy.restart()
	s, err := relaysync.New(relaysync.Config{
		Own: []string{ownDomain}, Bootstrap: []string{w.first}, AllowPrivate: true, Limits: relaysync.DefaultLimits, Seed: 1, Log: slog.New(w.warnings), Now: time.Now,
	}, relaysync.Deps{
		Strategy: w.strategy, Ingest: w.here, Facts: w.here, Local: w.here, Health: w.health, Memory: &w.known, Holdings: &w.beliefs, Verify: verifyOnce,
		Sign:   func(e *host.Event) error { testkit.NewSigner(42).Sign(e); return nil },
		Hosted: func(a *grasp.Announcement) (bool, error) { return a.ListsService(grasp.Service{Host: ownDomain}), nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.network != nil {
		s.ConnectBy(w.network.Dial)
	}
	w.strategy.sync = s
	w.here.SetFollower(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		w.here.SetFollower(nil)
	})
}

func (w *matrixWorld) close() {
	w.stop()
	for _, f := range w.closers {
		f()
	}
}

// connections returns how often a relay was connected to.
func (w *matrixWorld) connections(relay int) (n uint64) {
	w.relays[relay].View(func(r *relaymodel.Relay) { n = r.Stats().Connections })
	return n
}

// missing returns how many events are not here that should be.
func (w *matrixWorld) missing() int {
	n := 0
	for id := range w.expected {
		if !w.here.Has(id) {
			n++
		}
	}
	return n
}

// beside returns the number of events here that should not be.
func (w *matrixWorld) beside() int { return w.here.Len() - len(w.expected) }

// within waits until all that should be here is, and returns what is wrong if that
// takes longer, or if there is more.
func (w *matrixWorld) within(limit time.Duration) string {
	if wrong := w.until(limit, time.Second, 0); wrong != "" {
		return wrong
	}
	if n := w.beside(); n > 0 {
		return fmt.Sprintf("%d others are here", n)
	}
	return ""
}

// withinDay is within for what takes a visit, or with a reason takes a day, and no less.
func (w *matrixWorld) withinDay(why string) string {
	wrong := w.within(visit)
	switch {
	case why == "":
		return wrong
	case wrong == "" && w.sooner:
		return ""
	case wrong == "":
		return "it takes no longer than a visit: take this reason out of matrixLate: " + why
	}
	return w.within(daily)
}

// until waits until no more than the given number are missing. After a minute it looks
// each ten seconds only.
func (w *matrixWorld) until(limit, step time.Duration, missing int) string {
	for began := time.Now(); w.missing() > missing; time.Sleep(step) {
		switch {
		case time.Since(began) > limit:
			return fmt.Sprintf("after %v %d of %d are missing", limit, w.missing(), len(w.expected))
		case time.Since(began) > time.Minute:
			step = 10 * time.Second
		}
	}
	return ""
}

// matrixWarnings counts what is logged as a warning or an error: it says why a world
// does not converge. With TALON_TEST_LOG=1 all that is logged is shown.
type matrixWarnings struct {
	t *testing.T

	mu    sync.Mutex // guards lines
	lines map[string]int
}

func newMatrixWarnings(t *testing.T) *matrixWarnings {
	return &matrixWarnings{t: t, lines: map[string]int{}}
}

func (m *matrixWarnings) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || os.Getenv("TALON_TEST_LOG") != ""
}

func (m *matrixWarnings) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m *matrixWarnings) WithGroup(string) slog.Handler      { return m }

func (m *matrixWarnings) Handle(_ context.Context, r slog.Record) error {
	text, all := r.Message, r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" || a.Key == "err" {
			text += ": " + a.Value.String()
		}
		all += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	if os.Getenv("TALON_TEST_LOG") != "" {
		m.t.Logf("%v %s", time.Now().Format("15:04:05.000"), all)
	}
	if r.Level >= slog.LevelWarn {
		m.mu.Lock()
		m.lines[text]++
		m.mu.Unlock()
	}
	return nil
}

// String returns what was said most often.
func (m *matrixWarnings) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.lines), func(a, b string) int { return cmp.Or(m.lines[b]-m.lines[a], strings.Compare(a, b)) })
	text := ""
	for _, k := range keys[:min(len(keys), 4)] {
		text += fmt.Sprintf("; %d × %q", m.lines[k], k)
	}
	return text
}

// matrixStrategy is a module as the daemon has it, which begins again on request.
type matrixStrategy struct {
	registry *plugin.Registry
	changed  chan struct{}

	mu      sync.Mutex // guards the fields below
	reducer *plugin.Reducer
	sync    *relaysync.Sync
}

func (m *matrixStrategy) Changed() <-chan struct{} { return m.changed }

func (m *matrixStrategy) Call(ctx context.Context, request []byte, now int64) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reducer.Call(ctx, guest.Step, request, now)
}

// restart gives the next call a new instance.
func (m *matrixStrategy) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reducer != nil {
		m.reducer.Close()
	}
	m.reducer = m.registry.Reducer(manifest.WorldStrategy, func() []byte { return m.sync.Init() })
}

// swap restarts the strategy while it runs.
func (m *matrixStrategy) swap() {
	m.restart()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *matrixStrategy) close() {
	if m.reducer != nil {
		m.reducer.Close()
	}
}

type matrixThrottle struct{ plugin *plugin.Reducer }

func (m matrixThrottle) Ask(ctx context.Context, q throttle.Function, request []byte, now int64) ([]byte, error) {
	f := [throttle.Questions]guest.Func{throttle.Admit: guest.ThrottleAdmit, throttle.After: guest.ThrottleAfter}[q]
	answer, _, err := m.plugin.Call(ctx, f, request, now)
	if errors.Is(err, plugin.ErrNoPlugin) {
		err = throttle.ErrNoModule
	}
	return answer, err
}

// verified has the ids and signatures of events that are right.
var verified sync.Map

// verifyOnce verifies each event once for all worlds, which have the same events.
func verifyOnce(e *host.Event) error {
	type signed struct {
		id  host.ID
		sig host.Sig
	}
	key := signed{e.ID, e.Sig}
	if _, ok := verified.Load(key); ok {
		return nil
	}
	err := schnorr.Verify(e)
	if err == nil {
		verified.Store(key, nil)
	}
	return err
}
