package relaysync

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/relaysynctest"
	"talon/host/wire"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// An event that the relay gets is here immediately, and counted as live.
func TestLive(t *testing.T) {
	r := newRemote(t, nil)
	r.add(notes(t, 5)...)
	w := start(t, onConnect(r.url, live(r.url, "live", kinds(1))), nil)
	if got := w.plan.wait(t, 1, "eose live"); got != "eose live events=0 new=0 min=0" {
		t.Errorf("nothing stored was asked for: %s", got)
	}
	e := signed(t, alice, 1, epoch+1, "now")
	r.add(e)
	testkit.Eventually(t, "the event's arrival", func() bool { return w.store.Has(e.ID) })
	if stored := w.store.Len(); stored != 1 {
		t.Errorf("%d events are here", stored)
	}
	testkit.Eventually(t, "the count", func() bool { return testutil.ToFloat64(w.sync.metrics.events.WithLabelValues("live")) == 1 })
	w.put(signed(t, alice, 1, epoch+2, "from a client"))
	if n := testutil.ToFloat64(w.sync.metrics.events.WithLabelValues("direct")); n != 1 {
		t.Errorf("%v direct events", n)
	}
}

// An event that waits for git data is counted when it comes, not again when it is
// released.
func TestHeldIsCountedOnce(t *testing.T) {
	r := newRemote(t, nil)
	w := start(t, onConnect(r.url, live(r.url, "live", kinds(1))), nil)
	w.store.SetPolicy(func(*host.Event) host.Verdict { return host.Verdict{Code: host.Held} })
	w.plan.wait(t, 1, "eose live")
	counted := func(source string) float64 { return testutil.ToFloat64(w.sync.metrics.events.WithLabelValues(source)) }
	synced, sent := signed(t, alice, 1, epoch+1, "from a relay"), signed(t, alice, 1, epoch+2, "from a client")
	r.add(synced)
	testkit.Eventually(t, "the count", func() bool { return counted("live") == 1 })
	w.put(sent)
	for _, e := range []*host.Event{synced, sent} {
		w.sync.Follow(nil, []host.HeldChange{{Event: e, Status: host.StatusReleased}})
		w.sync.Publish([]host.Published{{Event: e, Seq: 1}})
	}
	if counted("live") != 1 || counted("direct") != 1 {
		t.Errorf("%v live and %v direct events, want one of each", counted("live"), counted("direct"))
	}
}

// TestReconnect lets a relay go away and come back. Its new events are fetched, and counted as a
// gap.
func TestReconnect(t *testing.T) {
	r := newRemote(t, nil)
	catchUp := fetch(r.url, "missed", abi.MethodAuto, kinds(1))
	catchUp.Purpose = abi.PurposeReconnect
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(r.url)}
		case abi.InputRelayConnected:
			if v.RelayConnected().LastConnected > 0 {
				return []abi.StepAction{catchUp}
			}
			return []abi.StepAction{live(r.url, "live", kinds(1))}
		}
		return nil
	}, nil)
	w.plan.wait(t, 1, "eose live")
	r.refuse(true)
	if got := w.plan.wait(t, 1, "disconnected"); !strings.HasPrefix(got, fmt.Sprintf("disconnected class=%d connected=true retry=true", abi.ClassLost)) {
		t.Errorf("the strategy hears %q", got)
	}
	w.plan.wait(t, 2, "disconnected") // attempts fail
	missed := notes(t, 3)
	r.add(missed...)
	r.refuse(false)
	w.plan.wait(t, 1, "connected last=true")
	w.plan.wait(t, 1, "done missed")
	for _, e := range missed {
		if !w.store.Has(e.ID) {
			t.Error("an event of the outage is lost")
		}
	}
	testkit.Eventually(t, "the count of gaps", func() bool { return testutil.ToFloat64(w.sync.metrics.gaps.WithLabelValues(r.url)) == 3 })
	if !w.health.saw(loop.OutcomeServer) || !w.health.saw(loop.OutcomeDisconnected) {
		t.Errorf("the throttle was told %v", w.health.outcomes)
	}
}

// announce makes an announcement that lists us and some relays.
func announce(t testing.TB, who *testkit.Signer, d string, at int64, relays ...string) *host.Event {
	return signed(t, who, 30617, at, "",
		host.Tag{"d", d}, host.Tag{"clone", "https://own.example.com/x/y.git"},
		append(host.Tag{"relays", "wss://own.example.com"}, relays...))
}

// An issue comes before its repository, and from another relay: it is decided again
// when that comes, and so is the comment on it.
func TestOrderOfArrival(t *testing.T) {
	repo := announce(t, alice, "demo", epoch, "wss://x.example")
	address, _ := repo.Address()
	issue := signed(t, bob, 1621, epoch+1, "it fails", host.Tag{"a", address.String()})
	comment := signed(t, alice, 1111, epoch+2, "no", host.Tag{"E", issue.ID.String()})
	noise := signed(t, bob, 1, epoch+3, "buy", host.Tag{"e", strings.Repeat("ab", 32)})
	early, late := newRemote(t, nil), newRemote(t, nil)
	early.add(comment, issue, noise)
	w := start(t, nil, nil)
	w.store.SetPolicy(w.store.About(""))
	w.plan.swap(onConnect(early.url, fetch(early.url, "early", abi.MethodREQ, kinds(1, 1111, 1621))))
	w.plan.wait(t, 1, "done early")
	if stored := w.store.Len(); stored != 0 {
		t.Fatalf("%d events are here", stored)
	}
	late.add(repo)
	w.plan.swap(onConnect(late.url, fetch(late.url, "late", abi.MethodREQ, kinds(30617))))
	testkit.Eventually(t, "the comment's arrival", func() bool { return w.store.Has(comment.ID) })
	if !w.store.Has(issue.ID) || w.store.Has(noise.ID) {
		t.Error("the wrong events are here")
	}
	if got := w.plan.wait(t, 1, "local kind=1621"); got != "local kind=1621 level=0 origin=3 from="+early.url+" relays=[]" {
		t.Errorf("the strategy hears %q", got)
	}
}

// An event that a policy refuses because it is dated ahead is decided again when its time
// has come.
func TestDatedAhead(t *testing.T) {
	r := newRemote(t, nil)
	e := signed(t, alice, 1, epoch+7200, "from the future")
	r.add(e)
	var clock atomic.Int64
	clock.Store(epoch)
	w := start(t, nil, func(cfg *Config, _ *Deps) { cfg.Now = func() time.Time { return time.Unix(clock.Load(), 0) } })
	w.store.SetPolicy(func(e *host.Event) host.Verdict {
		if e.CreatedAt > clock.Load()+900 {
			return host.Verdict{Code: host.Rejected, Reason: "invalid: created_at is more than 900 seconds in the future"}
		}
		return host.Verdict{Code: host.Stored}
	})
	w.plan.swap(onConnect(r.url, fetch(r.url, "all", abi.MethodREQ, kinds(1))))
	w.plan.wait(t, 1, "done all")
	if w.store.Has(e.ID) {
		t.Fatal("it is here before its time")
	}
	clock.Store(epoch + 7200)
	testkit.Eventually(t, "the event is here", func() bool { return w.store.Has(e.ID) })
	if submitted := w.store.Submitted(); submitted != 2 {
		t.Errorf("it was submitted %d times, want twice", submitted)
	}
}

// A large repository whose announcement comes last: however many wait for it, all are
// decided again.
func TestManyWait(t *testing.T) {
	const n = 3000
	repo := announce(t, alice, "demo", epoch, "wss://x.example")
	address, _ := repo.Address()
	r := newRemote(t, nil)
	for i := range n {
		r.add(signed(t, bob, 1621, epoch-int64(i), "", host.Tag{"a", address.String()}))
	}
	w := start(t, nil, nil)
	w.store.SetPolicy(func(e *host.Event) host.Verdict {
		if e.Kind != 30617 && !w.store.Has(repo.ID) {
			return host.Verdict{Code: host.Rejected, Reason: "blocked: not about anything here"}
		}
		return host.Verdict{Code: host.Stored}
	})
	w.plan.swap(onConnect(r.url, fetch(r.url, "early", abi.MethodREQ, kinds(1621))))
	w.plan.wait(t, 1, "done early")
	w.put(repo)
	testkit.Eventually(t, "the arrival of all", func() bool { return w.store.Len() == n+1 })
}

// TestForget checks that refused events are decided again when another policy decides.
func TestForget(t *testing.T) {
	list := notes(t, 100)
	r := newRemote(t, nil)
	r.add(list...)
	var kind atomic.Bool
	w := start(t, nil, nil)
	w.store.SetPolicy(func(*host.Event) host.Verdict {
		if kind.Load() {
			return host.Verdict{Code: host.Stored}
		}
		return host.Verdict{Code: host.Rejected, Reason: "blocked: no"}
	})
	w.plan.swap(onConnect(r.url, fetch(r.url, "h", abi.MethodREQ, kinds(1))))
	w.plan.wait(t, 1, "done h")
	kind.Store(true)
	w.sync.Forget()
	testkit.Eventually(t, "the arrival of all", func() bool { return w.store.Len() == len(list) })
}

// Local changes go to the strategy: announcements with their relays, normalised and
// without our own; root events of our repositories; and what ends.
func TestLocalEvents(t *testing.T) {
	w := start(t, nil, nil)
	first := announce(t, alice, "demo", epoch, "wss://Relay.One/", "WSS://relay.one", "wss://two.example", "nonsense", "ws://own.example.com")
	w.put(first)
	if got := w.plan.wait(t, 1, "local kind=30617"); got != "local kind=30617 level=1 origin=1 from= relays=[wss://relay.one wss://two.example]" {
		t.Errorf("the strategy hears %q", got)
	}
	address, _ := first.Address()
	w.put(signed(t, bob, 1621, epoch+1, "", host.Tag{"a", address.String()}),
		signed(t, bob, 1621, epoch+1, "of another repository", host.Tag{"a", "30617:" + strings.Repeat("cd", 32) + ":x"}),
		signed(t, bob, 1111, epoch+1, "no root", host.Tag{"a", address.String()}),
		signed(t, bob, 30617, epoch+1, "not ours", host.Tag{"d", "elsewhere"}, host.Tag{"relays", "wss://three.example"}),
		signed(t, bob, 10317, epoch+1, "", host.Tag{"g", "wss://grasp.example/"}, host.Tag{"g", "wss://own.example.com"}))
	if got := w.plan.wait(t, 1, "local kind=10317"); got != "local kind=10317 level=0 origin=1 from= relays=[wss://grasp.example]" {
		t.Errorf("the strategy hears %q", got)
	}
	if n := len(w.plan.list()); n != 4 { // with init
		t.Errorf("the strategy was told %d things:\n%s", n, strings.Join(w.plan.list(), "\n"))
	}
	// A newer version, with other relays.
	second := announce(t, alice, "demo", epoch+5, "wss://four.example")
	w.put(second)
	if got := w.plan.wait(t, 2, "local kind=30617"); !strings.HasSuffix(got, "relays=[wss://four.example]") {
		t.Errorf("the strategy hears %q", got)
	}
	// Deleted.
	w.store.Delete(second.ID)
	w.sync.Follow([]*host.Event{second}, nil)
	w.plan.wait(t, 1, "gone 30617:")
	// Held, then released.
	third := announce(t, bob, "held", epoch+6, "wss://five.example")
	w.store.Hold(third)
	w.sync.Follow(nil, []host.HeldChange{{Event: third, Status: host.StatusHeld}})
	if got := w.plan.wait(t, 3, "local kind=30617"); !strings.HasPrefix(got, "local kind=30617 level=2") {
		t.Errorf("the strategy hears %q", got)
	}
	w.store.Delete(third.ID)
	w.store.Put(third)
	w.sync.Publish([]host.Published{{Event: third, Seq: 9}})
	if got := w.plan.wait(t, 4, "local kind=30617"); !strings.HasPrefix(got, "local kind=30617 level=1") {
		t.Errorf("the strategy hears %q", got)
	}
}

// More happens than the queue holds: the loop looks at everything again.
func TestMissedNews(t *testing.T) {
	w := start(t, nil, nil)
	w.plan.wait(t, 1, "init")
	repo := announce(t, alice, "demo", epoch, "wss://x.example")
	address, _ := repo.Address()
	issue := signed(t, bob, 1621, epoch+1, "", host.Tag{"a", address.String()})
	w.store.Put(repo, issue)
	w.sync.changes.changed(make([]loop.Change, maxChanges+1))
	w.plan.wait(t, 1, "local kind=30617")
	w.plan.wait(t, 1, "local kind=1621")
}

// TestPoliciesChanged changes the policies. Repositories without an archive are no longer followed,
// and those with a new archive are. The strategy hears of nothing else again.
func TestPoliciesChanged(t *testing.T) {
	var archived atomic.Value
	archived.Store("first")
	w := start(t, nil, func(_ *Config, d *Deps) {
		d.Hosted = func(a *grasp.Announcement) (bool, error) {
			return a.Identifier == "ours" || a.Identifier == archived.Load(), nil
		}
	})
	w.plan.wait(t, 1, "init")
	for i, d := range []string{"ours", "first", "second"} {
		repo := announce(t, alice, d, epoch+int64(i), "wss://"+d+".example")
		address, _ := repo.Address()
		w.put(repo, signed(t, bob, 1621, epoch, d, host.Tag{"a", address.String()}))
	}
	w.plan.wait(t, 2, "local kind=30617")
	archived.Store("second")
	w.sync.Forget()
	w.plan.wait(t, 1, "gone")
	if got := w.plan.wait(t, 3, "local kind=30617"); !strings.Contains(got, "wss://second.example") {
		t.Errorf("the strategy hears %q", got)
	}
	archived.Store("")
	w.sync.Forget()
	w.plan.wait(t, 2, "gone")
	w.stop()
	heard := slices.DeleteFunc(slices.Clone(w.plan.list()), func(s string) bool { return !strings.HasPrefix(s, "local kind=30617") })
	if len(heard) != 3 {
		t.Errorf("it hears %q, want each repository once", heard)
	}
}

// A strategy is swapped while a relay is connected: the connection stays, and the new
// one begins with the world as it is.
func TestSwap(t *testing.T) {
	r := newRemote(t, nil)
	w := start(t, onConnect(r.url, live(r.url, "old", kinds(1))), nil)
	w.put(announce(t, alice, "demo", epoch, "wss://x.example"))
	w.plan.wait(t, 1, "eose old")
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{{Do: abi.DoUnsubscribe, Relay: r.url, ID: "old"}, live(r.url, "new", kinds(1))}
		}
		return nil
	})
	want := fmt.Sprintf("init part 0 relay(%s bootstrap=false wanted=true connected=true) sub(old live=true eose=true) repo(level=1 roots=0 wss://x.example)", r.url)
	if got := w.plan.wait(t, 2, "init"); got != want {
		t.Errorf("the new one hears\n%s, want\n%s", got, want)
	}
	w.plan.wait(t, 1, "eose new")
	e := signed(t, alice, 1, epoch, "x")
	r.add(e)
	testkit.Eventually(t, "the event's arrival", func() bool { return w.store.Has(e.ID) })
	if r.connections() != 1 || r.count("CLOSE") != 1 {
		t.Errorf("%d connections, %d CLOSE", r.connections(), r.count("CLOSE"))
	}
}

// A large world comes in parts, with nothing in between.
func TestWorldInParts(t *testing.T) {
	w := start(t, nil, nil)
	var list []*host.Event
	for i := range 20 {
		repo := announce(t, alice, fmt.Sprintf("repo%d", i), epoch+int64(i), "wss://x.example")
		address, _ := repo.Address()
		list = append(list, repo)
		for j := range 300 {
			e := &host.Event{ID: host.ID{1, byte(i), byte(j), byte(j >> 8)}, Kind: 1621, CreatedAt: epoch, Tags: host.Tags{{"a", address.String()}}}
			e, err := wire.ParseEvent(e.AppendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
	}
	w.store.Put(list...)
	w.plan.swap(nil)
	w.plan.wait(t, 1, "init part 3")
	roots := 0
	for _, s := range w.plan.list()[1:] {
		if !strings.HasPrefix(s, "init part") || len(s) > 100_000 {
			t.Errorf("the strategy hears %.50q in between", s)
		}
		for _, word := range strings.Fields(s) {
			var n int
			if _, err := fmt.Sscanf(word, "roots=%d", &n); err == nil {
				roots += n
			}
		}
	}
	if roots != 6000 {
		t.Errorf("%d root events, want 6000", roots)
	}
}

// A strategy that traps rests, and begins again with the world as it is.
func TestStrategyFails(t *testing.T) {
	r := newRemote(t, nil)
	w := start(t, onConnect(r.url, live(r.url, "live", kinds(1))), func(cfg *Config, d *Deps) {
		cfg.Limits.FailTime = 10
		d.Strategy.(*plan).fail = func(call int) error {
			if call == 3 {
				return errors.New("trap")
			}
			return nil
		}
	})
	if got := w.plan.wait(t, 2, "init"); !strings.Contains(got, "connected=true) sub(live") || r.connections() != 1 {
		t.Errorf("after the trap: %q, %d connections", got, r.connections())
	}
	if n := testutil.ToFloat64(w.sync.metrics.faults); n != 1 {
		t.Errorf("%v failures", n)
	}
}

// TestNoStrategy checks that without a strategy no relay is asked, and nothing fails. A strategy
// that comes begins with the state of the world.
func TestNoStrategy(t *testing.T) {
	r := newRemote(t, nil)
	var none atomic.Bool
	none.Store(true)
	asked := make(chan struct{}, 16)
	w := start(t, onConnect(r.url, live(r.url, "live", kinds(1))), func(_ *Config, d *Deps) {
		d.Strategy.(*plan).fail = func(int) error {
			if none.Load() {
				asked <- struct{}{}
				return fmt.Errorf("wrapped: %w", ErrNoStrategy)
			}
			return nil
		}
	})
	<-asked
	none.Store(false)
	w.plan.changed <- struct{}{}
	w.plan.wait(t, 1, "connected")
	if n := testutil.ToFloat64(w.sync.metrics.faults); n != 0 {
		t.Errorf("%v failures", n)
	}
}

// TestCaps checks that forbidden actions of a strategy are not carried out and get an answer that
// says so. It cannot make the host exceed the limits.
func TestCaps(t *testing.T) {
	r := newRemote(t, nil)
	var many []abi.StepAction
	for i := range 300 {
		many = append(many, live(r.url, fmt.Sprint("s", i), kinds(1)))
	}
	for i := range 3000 {
		many = append(many, abi.StepAction{Do: abi.DoSetTimer, ID: fmt.Sprint(i), At: 1<<62 + int64(i)})
	}
	begun := time.Now()
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			list := []abi.StepAction{connectTo(r.url)}
			for _, u := range []string{"wss://own.example.com", "ws://OWN.example.com:80/x", "nonsense", "http://x.example"} {
				list = append(list, connectTo(u))
			}
			return append(list, live("wss://unknown.example", "s", kinds(1)), fetch("wss://own.example.com", "h", 0, kinds(1)))
		case abi.InputRelayConnected:
			return many
		case abi.InputClosed:
			// It asks again, for ever.
			return []abi.StepAction{live(r.url, v.Closed().ID, kinds(1))}
		}
		return nil
	}, func(cfg *Config, _ *Deps) {
		cfg.Limits.Subscriptions, cfg.Limits.Timers, cfg.Limits.Answers = 7, 100, 600
	})
	for range 4 {
		w.plan.wait(t, 4, fmt.Sprintf("disconnected class=%d", abi.ClassForbidden))
	}
	w.plan.wait(t, 1, fmt.Sprintf("closed s class=%d", abi.ClassLost))
	w.plan.wait(t, 1, fmt.Sprintf("done h method=0 complete=false class=%d", abi.ClassForbidden))
	w.plan.wait(t, 7, "eose s")
	// It asks as fast as it may, and the host stays calm: it answers 600 times in a
	// burst, and 600 times in a second.
	w.plan.wait(t, 1000, "closed s")
	if took := time.Since(begun); took < 600*time.Millisecond {
		t.Errorf("1000 answers in %v", took)
	}
	if n := r.count("REQ"); n != 7 {
		t.Errorf("%d subscriptions", n)
	}
	e := signed(t, alice, 1, epoch, "x")
	r.add(e)
	testkit.Eventually(t, "the event's arrival", func() bool { return w.store.Has(e.ID) })
	w.stop()
}

// An answer that is too large is passed over as a whole.
func TestAnswerTooLarge(t *testing.T) {
	r := newRemote(t, nil)
	for name, list := range map[string][]abi.StepAction{
		"too many actions": slicesOf(200, connectTo(r.url)),
		"too many filters": {connectTo(r.url), live(r.url, "x", make([]abi.Filter, 20)...)},
		"too many values":  {connectTo(r.url), live(r.url, "x", abi.Filter{Kinds: make([]uint32, 600)})},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, func(v *abi.StepView) []abi.StepAction { return list }, func(cfg *Config, _ *Deps) { cfg.Limits.Actions = 100 })
			testkit.Eventually(t, "the refusal", func() bool { return testutil.ToFloat64(w.sync.metrics.refused.WithLabelValues("malformed")) == 1 })
			w.stop()
			if r.connections() != 0 {
				t.Error("half of it was carried out")
			}
		})
	}
}

func slicesOf(n int, a abi.StepAction) (list []abi.StepAction) {
	for range n {
		list = append(list, a)
	}
	return list
}

// Bootstrap relays are connected to without a strategy's wish, and never dropped.
func TestBootstrap(t *testing.T) {
	r := newRemote(t, nil)
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputRelayConnected {
			return []abi.StepAction{{Do: abi.DoDisconnect, Relay: r.url}, live(r.url, "live", kinds(1))}
		}
		return nil
	}, func(cfg *Config, _ *Deps) { cfg.Bootstrap = []string{r.url + "/"} })
	w.plan.wait(t, 1, "eose live")
	if r.connections() != 1 {
		t.Errorf("%d connections", r.connections())
	}
	for _, bad := range []string{"nonsense", "wss://own.example.com"} {
		if _, err := New(Config{Bootstrap: []string{bad}, Own: []string{"own.example.com"}, Limits: DefaultLimits}, w.sync.deps); err == nil {
			t.Errorf("the bootstrap relay %s is taken", bad)
		}
	}
}

// A relay that nobody wants any more is left, and may be wanted again.
func TestDisconnect(t *testing.T) {
	r := newRemote(t, nil)
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(r.url)}
		case abi.InputRelayConnected:
			if v.RelayConnected().LastConnected > 0 {
				return nil
			}
			return []abi.StepAction{{Do: abi.DoDisconnect, Relay: r.url}, {Do: abi.DoSetTimer, ID: "again", At: 1}}
		case abi.InputTimerFired:
			return []abi.StepAction{connectTo(r.url)}
		}
		return nil
	}, nil)
	w.plan.wait(t, 1, "connected last=true")
	for _, s := range w.plan.list() {
		if strings.HasPrefix(s, "disconnected") {
			t.Errorf("it was told %q", s)
		}
	}
}

// An attempt that the strategy gives up ends for the throttle too, or it would count for
// ever as one that is under way.
func TestGiveUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := "ws://" + l.Addr().String()
	w := start(t, onConnect(url), nil)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{{Do: abi.DoDisconnect, Relay: url}}
		}
		return nil
	})
	testkit.Eventually(t, "the end of the attempt", func() bool {
		w.health.mu.Lock()
		defer w.health.mu.Unlock()
		return slices.Equal(w.health.left, []string{url})
	})
}

// Addresses that are private, or ours by number, are not contacted.
func TestForbiddenAddresses(t *testing.T) {
	r := newRemote(t, nil)
	at := netip.MustParseAddrPort(strings.TrimPrefix(r.url, "ws://"))
	for name, change := range map[string]func(cfg *Config, deps *Deps){
		"private": func(cfg *Config, _ *Deps) { cfg.AllowPrivate = false },
		"ours":    func(cfg *Config, _ *Deps) { cfg.Listen = []netip.AddrPort{at} },
		"any of our addresses": func(cfg *Config, _ *Deps) {
			cfg.Listen = []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, onConnect(r.url), change)
			if got := w.plan.wait(t, 1, "disconnected"); !strings.HasPrefix(got, fmt.Sprintf("disconnected class=%d", abi.ClassForbidden)) {
				t.Errorf("the strategy hears %q", got)
			}
		})
	}
	if r.connections() != 0 {
		t.Error("it was contacted")
	}
}

// We are at another name as well: the document says that it is us.
func TestOurselves(t *testing.T) {
	own := host.PubKey{7}
	r := newRemote(t, func(r *remote) { r.info = `{"self":"` + own.String() + `","supported_nips":"none","limitation":[]}` })
	w := start(t, onConnect(r.url), func(cfg *Config, _ *Deps) { cfg.Self = own })
	if got := w.plan.wait(t, 1, "disconnected"); !strings.Contains(got, "this relay under another name") {
		t.Errorf("the strategy hears %q", got)
	}
	if r.connections() != 0 {
		t.Error("it was connected to")
	}
}

// A crash, then a start: when the relay was last connected is known, to about the last
// time that it was saved.
func TestMemory(t *testing.T) {
	r := newRemote(t, nil)
	m := new(relaysynctest.Memory)
	_ = m.Save(t.Context(), map[string][]byte{"nonsense": []byte("{}"), "wss://own.example.com": []byte("{}"), "wss://x.example": []byte("nonsense")})
	begun := time.Now().UnixMilli()
	remember := func(cfg *Config, d *Deps) {
		d.Memory = m
		cfg.Limits.SaveEvery = 10
	}
	w := start(t, onConnect(r.url), remember)
	w.plan.wait(t, 1, "connected last=false")
	testkit.Eventually(t, "a save", func() bool {
		return strings.Contains(string(m.Rows()[r.url]), "disconnected_at")
	})
	crashed := m.Rows()
	w.stop()
	_ = m.Save(t.Context(), crashed)
	w = start(t, func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputRelayConnected {
			c := v.RelayConnected()
			if c.LastConnected < begun || c.DisconnectedAt < c.LastConnected || c.DisconnectedAt > time.Now().UnixMilli() {
				t.Errorf("it was connected at %d and disconnected at %d", c.LastConnected, c.DisconnectedAt)
			}
		}
		return onConnect(r.url)(v)
	}, remember)
	w.plan.wait(t, 1, "connected last=true")
}

// A stop while it begins is no failure.
func TestStoppedAtOnce(t *testing.T) {
	w := start(t, nil, func(_ *Config, d *Deps) {
		d.Memory = slowMemory{}
		d.Strategy.(*plan).fail = func(int) error { return nil }
	})
	w.stop()
}

// slowMemory reads until it is stopped.
type slowMemory struct{}

func (slowMemory) Load(ctx context.Context) (map[string][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (slowMemory) Save(context.Context, map[string][]byte) error { return nil }

// The clock jumps: a strategy's never goes back, and timers fire.
func TestClockJumps(t *testing.T) {
	var mu sync.Mutex
	at := time.Unix(epoch, 0)
	jump := func(d time.Duration) {
		mu.Lock()
		at = at.Add(d)
		mu.Unlock()
	}
	var last int64
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		if v.Now < last {
			t.Errorf("the clock goes back from %d to %d", last, v.Now)
		}
		last = v.Now
		if v.Kind == abi.InputInit {
			return []abi.StepAction{
				{Do: abi.DoSetTimer, ID: "later", At: (epoch + 3600) * 1000},
				{Do: abi.DoSetTimer, ID: "sooner", At: (epoch + 1800) * 1000},
				{Do: abi.DoSetTimer, ID: "never", At: (epoch + 1700) * 1000},
				{Do: abi.DoSetTimer, ID: "never"},
			}
		}
		return nil
	}, func(cfg *Config, _ *Deps) {
		cfg.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return at
		}
	})
	w.plan.wait(t, 1, "init")
	jump(-24 * time.Hour)
	w.put(announce(t, alice, "demo", epoch, "wss://x.example"))
	w.plan.wait(t, 1, "local")
	jump(25 * time.Hour)
	w.plan.wait(t, 1, "timer later")
	if got := strings.Join(w.plan.list()[2:], ", "); got != "timer sooner, timer later" {
		t.Errorf("the strategy hears %s", got)
	}
}

// Our key proves itself when a relay asks for it, with each of the ways to ask.
func TestAuth(t *testing.T) {
	for name, late := range map[string]bool{"challenge first": false, "challenge after": true} {
		t.Run(name, func(t *testing.T) {
			list := notes(t, 5)
			proven := map[*peer]bool{}
			r := newRemote(t, func(r *remote) {
				if !late {
					r.greet = func(p *peer) { p.say(`["AUTH","abc"]`) }
				}
				r.script = func(p *peer, m *wire.Message) bool {
					r.mu.Lock()
					defer r.mu.Unlock()
					switch {
					case m.Verb == wire.Auth:
						if m.Event.Tags[0][1] != r.url || m.Event.Tags[1][1] != "abc" {
							t.Errorf("proof %s", m.Event.JSON)
						}
						proven[p] = true
						p.say(`["OK","%s",true,""]`, m.Event.ID)
						return true
					case proven[p]:
						return false
					case m.Verb == wire.NegOpen:
						p.say(`["NEG-ERR","%s","auth-required: who"]`, m.SubID)
					default:
						p.say(`["CLOSED","%s","auth-required: who"]`, m.SubID)
					}
					if late {
						p.say(`["AUTH","abc"]`)
					}
					return true
				}
			})
			r.add(list...)
			w := start(t, onConnect(r.url, fetch(r.url, "neg", abi.MethodNegentropy, kinds(1)), fetch(r.url, "req", abi.MethodREQ, kinds(1)), live(r.url, "live", kinds(1))),
				func(_ *Config, d *Deps) { d.Sign = signer(alice) })
			for _, want := range []string{"done neg method=1 complete=true", "done req method=2 complete=true", "eose live"} {
				w.plan.wait(t, 1, want)
			}
			if stored := w.store.Len(); stored != 5 || r.count("AUTH") != 1 {
				t.Errorf("%d events, %d proofs", stored, r.count("AUTH"))
			}
		})
	}
}

func signer(who *testkit.Signer) func(e *host.Event) error {
	return func(e *host.Event) error {
		who.Sign(e)
		return nil
	}
}

// A relay that takes no proof, and one that is not to be proven anything to.
func TestAuthRefused(t *testing.T) {
	for name, sign := range map[string]func(*host.Event) error{"refused": signer(alice), "no key": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRemote(t, func(r *remote) {
				r.greet = func(p *peer) { p.say(`["AUTH","abc"]`) }
				r.script = func(p *peer, m *wire.Message) bool {
					switch m.Verb {
					case wire.Auth:
						p.say(`["OK","%s",false,"restricted: not you"]`, m.Event.ID)
					case wire.NegOpen:
						p.say(`["NEG-ERR","%s","auth-required: who"]`, m.SubID)
					case wire.Req:
						p.say(`["CLOSED","%s","auth-required: who"]`, m.SubID)
					}
					return true
				}
			})
			w := start(t, onConnect(r.url, fetch(r.url, "h", abi.MethodAuto, kinds(1)), live(r.url, "s", kinds(1))), func(_ *Config, d *Deps) { d.Sign = sign })
			w.plan.wait(t, 1, fmt.Sprintf("closed s class=%d", abi.ClassAuthRequired))
			w.plan.wait(t, 1, fmt.Sprintf("done h method=1 complete=false class=%d", abi.ClassAuthRequired))
			if sign == nil && r.count("AUTH") != 0 {
				t.Error("something was proven")
			}
		})
	}
}

// A relay says that it is asked too much: nothing new is asked until the throttle
// allows it.
func TestRateLimited(t *testing.T) {
	said := make(chan time.Time, 10)
	r := newRemote(t, func(r *remote) {
		r.script = func(p *peer, m *wire.Message) bool {
			if m.Verb == wire.Req && len(said) == 0 {
				said <- time.Now()
				p.say(`["CLOSED","%s","rate-limited: slow down"]`, m.SubID)
				return true
			}
			return false
		}
	})
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputClosed {
			return []abi.StepAction{live(r.url, "again", kinds(1))}
		}
		return onConnect(r.url, live(r.url, "s", kinds(1)))(v)
	}, func(_ *Config, d *Deps) { d.Health.(*calm).first = 1500 * time.Millisecond })
	w.plan.wait(t, 1, fmt.Sprintf("closed s class=%d", abi.ClassRateLimited))
	w.plan.wait(t, 1, "eose again")
	if rest := time.Since(<-said); rest < time.Second {
		t.Errorf("it was asked again after %v", rest)
	}
	if !w.health.saw(loop.OutcomeRateLimited) {
		t.Error("the throttle was not told")
	}
}

// The most important relays come first where not all can be connected to.
func TestPriority(t *testing.T) {
	a, b, c := newRemote(t, nil), newRemote(t, nil), newRemote(t, nil)
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		if v.Kind != abi.InputInit {
			return nil
		}
		high := connectTo(b.url)
		high.Priority = 5
		return []abi.StepAction{connectTo(a.url), high, connectTo(c.url)}
	}, func(cfg *Config, _ *Deps) { cfg.Limits.Connections, cfg.Bootstrap = 2, []string{c.url} })
	w.plan.wait(t, 2, "connected")
	testkit.Eventually(t, "the relays to count", func() bool { return b.connections() > 0 && c.connections() > 0 }) // they have answered before
	w.stop()
	if a.connections() != 0 || b.connections() != 1 || c.connections() != 1 {
		t.Errorf("%d, %d and %d connections", a.connections(), b.connections(), c.connections())
	}
}
