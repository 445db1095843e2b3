package relaysync

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/relayclient"
	"talon/host/relaysync/loop"
	"talon/host/wire"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// onReq lets a remote answer each REQ with what a test says.
func onReq(play func(p *peer, sub string)) func(r *remote) {
	return func(r *remote) {
		r.neg = false
		r.script = func(p *peer, m *wire.Message) bool {
			if m.Verb == wire.Req {
				play(p, m.SubID)
			}
			return m.Verb == wire.Req
		}
	}
}

// A relay that breaks the rules loses its connection, soon, and brings nothing in.
func TestRelayBreaksRules(t *testing.T) {
	note := signed(t, alice, 1, epoch, "a note")
	other := signed(t, alice, 7, epoch, "not asked for")
	forged := func(i int) string {
		return strings.Replace(string(note.JSON), "a note", fmt.Sprint("forged ", i), 1)
	}
	badSig := func(i int) string {
		e := *notes(t, 40)[i%40]
		e.Sig[5] ^= 1
		return string(e.AppendJSON(nil))
	}
	for name, play := range map[string]func(p *peer, sub string, i int){
		"events that do not match":  func(p *peer, sub string, _ int) { p.event(sub, other) },
		"events of no subscription": func(p *peer, _ string, _ int) { p.event("nobody", note) },
		"the same event for ever":   func(p *peer, sub string, _ int) { p.event(sub, note) },
		"forged ids": func(p *peer, sub string, i int) {
			p.say(`["EVENT","%s",%s]`, sub, strings.Replace(forged(i), note.ID.String(), fmt.Sprintf("%064x", i), 1))
		},
		"wrong signatures":              func(p *peer, sub string, i int) { p.say(`["EVENT","%s",%s]`, sub, badSig(i)) },
		"EOSE for ever":                 func(p *peer, sub string, _ int) { p.say(`["EOSE","%s"]`, sub) },
		"EOSE of nothing":               func(p *peer, _ string, _ int) { p.say(`["EOSE","x"]`) },
		"CLOSED of nothing":             func(p *peer, _ string, _ int) { p.say(`["CLOSED","x","y"]`) },
		"a flood of notices":            func(p *peer, _ string, i int) { p.say(`["NOTICE","this is %d\u001b"]`, i) },
		"a flood of notices of a limit": func(p *peer, _ string, i int) { p.say(`["NOTICE","rate-limited: %d"]`, i) },
		"a flood of challenges":         func(p *peer, _ string, i int) { p.say(`["AUTH","%d"]`, i) },
		"OK of nothing":                 func(p *peer, _ string, _ int) { p.say(`["OK","%s",true,""]`, note.ID) },
		"NEG-MSG of nothing":            func(p *peer, sub string, _ int) { p.say(`["NEG-MSG","%s","61"]`, sub) },
		"nonsense":                      func(p *peer, _ string, _ int) { p.say("nonsense") },
		"half an event":                 func(p *peer, sub string, _ int) { p.say(`["EVENT","%s",{"id":"x"}]`, sub) },
		"deep JSON":                     func(p *peer, _ string, _ int) { p.say(`%s`, strings.Repeat("[", 10_000)) },
		"an unknown verb":               func(p *peer, _ string, _ int) { p.say(`["HELLO",[[[]]]]`) },
		"binary frames": func(p *peer, _ string, _ int) {
			_ = ws.WriteFrame(p.net, ws.NewBinaryFrame([]byte(`["EOSE","x"]`)))
		},
		"a message without an end": func(p *peer, _ string, i int) {
			if i > 0 {
				return
			}
			_ = ws.WriteFrame(p.net, ws.NewFrame(ws.OpText, false, bytes.Repeat([]byte("x"), 100_000)))
			for range 1000 {
				_ = ws.WriteFrame(p.net, ws.NewFrame(ws.OpContinuation, false, bytes.Repeat([]byte("x"), 100_000)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			var once sync.Once
			r := newRemote(t, func(r *remote) {
				onReq(func(p *peer, sub string) {
					once.Do(func() { // the second connection is answered with silence
						go func() {
							_ = p.net.SetWriteDeadline(testkit.Deadline(t))
							for i := range 3000 {
								play(p, sub, i)
							}
						}()
					})
				})(r)
			})
			w := start(t, onConnect(r.url, fetch(r.url, "h", abi.MethodREQ, kinds(1))), nil)
			got := w.plan.wait(t, 1, "disconnected")
			if !strings.HasPrefix(got, fmt.Sprintf("disconnected class=%d connected=true", abi.ClassError)) {
				t.Errorf("the strategy hears %q", got)
			}
			if !w.health.saw(loop.OutcomeProtocol) {
				t.Error("the throttle was not told")
			}
			if stored, submitted := w.store.Len(), w.store.Submitted(); stored > 1 || submitted > DefaultLimits.InFlight+128 {
				t.Errorf("%d events are here, %d were submitted", stored, submitted)
			}
			allowed := DefaultLimits.Notices + int(time.Since(began).Minutes()*float64(DefaultLimits.Notices)) + 10
			if n := len(w.plan.list()); n > allowed {
				t.Errorf("the strategy was told %d things, want at most %d", n, allowed)
			}
		})
	}
}

// Forged copies of an event do not keep the real one out, whichever comes first: with
// its id and other content, with its content and a wrong signature.
func TestForgedDoesNotPoison(t *testing.T) {
	real := signed(t, alice, 1, epoch, "real")
	sig := *real
	sig.Sig[9] ^= 1
	content := strings.Replace(string(real.JSON), `"real"`, `"false"`, 1)
	copies := [][]byte{[]byte(content), sig.AppendJSON(nil)}
	bad := newRemote(t, onReq(func(p *peer, sub string) {
		if len(copies) > 0 {
			p.say(`["EVENT","%s",%s]`, sub, copies[0])
			copies = copies[1:]
		}
		p.say(`["EOSE","%s"]`, sub)
	}))
	good := newRemote(t, nil)
	good.add(real)
	stored := func(id string) abi.StepAction {
		return abi.StepAction{Do: abi.DoSubscribe, Relay: bad.url, ID: id, Filters: []abi.Filter{kinds(1)}}
	}
	w := start(t, onConnect(bad.url, stored("content"), stored("signature")), nil)
	w.plan.wait(t, 1, "eose content events=1 new=1")
	w.plan.wait(t, 1, "eose signature events=1 new=1")
	forged := w.sync.metrics.dropped.WithLabelValues("forged") // counted while the strategy hears of it
	testkit.Eventually(t, "two forged events", func() bool { return testutil.ToFloat64(forged) == 2 })
	w.plan.swap(onConnect(good.url, fetch(good.url, "good", abi.MethodAuto, kinds(1))))
	w.plan.wait(t, 1, "done good")
	if !w.store.Has(real.ID) {
		t.Error("the real event was kept out")
	}
}

// TestStreamAfterEnd checks that messages after the end of stored events do not delay the news of
// it.
func TestStreamAfterEnd(t *testing.T) {
	list := notes(t, 2)
	r := newRemote(t, onReq(func(p *peer, sub string) {
		p.event(sub, list[0])
		p.say(`["EOSE","%s"]`, sub)
		p.event(sub, list[1])
	}))
	w := start(t, nil, nil)
	step, release := w.store.Halt()
	t.Cleanup(release)
	w.plan.swap(onConnect(r.url, abi.StepAction{Do: abi.DoSubscribe, Relay: r.url, ID: "s", Filters: []abi.Filter{kinds(1)}}))
	testkit.Eventually(t, "the second event", func() bool { return w.store.Waiting() == 1 })
	step <- struct{}{} // the first is decided
	w.plan.wait(t, 1, "eose s events=2 new=1")
	if stored := w.store.Len(); stored != 1 {
		t.Errorf("%d events are here", stored)
	}
	release()
}

// A relay closes every subscription, and the strategy asks again immediately, for ever.
func TestClosedForEver(t *testing.T) {
	r := newRemote(t, onReq(func(p *peer, sub string) { p.say(`["CLOSED","%s","error: no"]`, sub) }))
	begun := time.Now()
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputClosed {
			return []abi.StepAction{live(r.url, "s", kinds(1))}
		}
		return onConnect(r.url, live(r.url, "s", kinds(1)))(v)
	}, func(cfg *Config, _ *Deps) { cfg.Limits.Burst = 20 })
	w.plan.wait(t, 40, "closed s")
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("the relay was asked 40 times in %v", took)
	}
}

// A relay names events that it does not have.
func TestNeedOfNothing(t *testing.T) {
	var b negentropy.Builder
	for i := range 20_000 {
		b.Add(negentropy.Item{CreatedAt: epoch, ID: host.ID{1, byte(i), byte(i >> 8), byte(i >> 16)}})
	}
	server, err := negentropy.NewServer(b.Build(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRemote(t, func(r *remote) {
		r.script = func(p *peer, m *wire.Message) bool {
			if m.Verb == wire.NegOpen || m.Verb == wire.NegMsg {
				reply, _ := server.Reconcile(m.Neg)
				p.say(`["NEG-MSG","%s","%x"]`, m.SubID, reply)
				return true
			}
			return false
		}
	})
	for name, limit := range map[string]int{"all at once": 100_000, "more than can be held": 5000} {
		t.Run(name, func(t *testing.T) {
			w := start(t, onConnect(r.url, fetch(r.url, "h", abi.MethodAuto, kinds(1))), func(cfg *Config, _ *Deps) { cfg.Limits.Need = limit })
			got := w.plan.wait(t, 1, "done h")
			if complete := limit == 100_000; !strings.HasPrefix(got, fmt.Sprintf("done h method=1 complete=%v", complete)) {
				t.Errorf("the strategy hears %q", got)
			}
		})
	}
}

// A relay gives events for ids that it named, but not such as were asked for.
func TestNeedOfOthers(t *testing.T) {
	other := signed(t, alice, 7, epoch, "nobody asked for this kind")
	r := newRemote(t, nil)
	r.add(other)
	r.script = func(p *peer, m *wire.Message) bool {
		if m.Verb == wire.NegOpen {
			m.Filters[0].Kinds = nil // it compares with everything that it has
		}
		return false
	}
	w := start(t, onConnect(r.url, fetch(r.url, "h", abi.MethodAuto, kinds(1))), nil)
	w.plan.wait(t, 1, "done h")
	if stored := w.store.Len(); stored != 0 {
		t.Error("it was taken")
	}
}

// A server that takes the connection and then stalls, at each stage.
func TestHalfHandshake(t *testing.T) {
	for name, say := range map[string]string{
		"nothing":        "",
		"half a line":    "HTTP/1.1 10",
		"half a header":  "HTTP/1.1 101 Switching Protocols\r\nUpgr",
		"a wrong accept": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = c.Close() })
					_, _ = c.Write([]byte(say))
				}
			}()
			w := start(t, onConnect("ws://"+l.Addr().String()), func(cfg *Config, _ *Deps) { cfg.Limits.ConnectTime = 400 * time.Millisecond })
			w.plan.wait(t, 1, fmt.Sprintf("disconnected class=%d connected=false retry=true", abi.ClassUnreachable))
		})
	}
}

// A redirect is not followed, neither of the websocket nor of the document.
func TestRedirect(t *testing.T) {
	inside := newRemote(t, func(r *remote) { r.info = `{"supported_nips":[77]}` })
	r := newRemote(t, func(r *remote) {
		r.handler = http.RedirectHandler("http"+strings.TrimPrefix(inside.url, "ws"), http.StatusFound)
	})
	w := start(t, onConnect(r.url), nil)
	if got := w.plan.wait(t, 1, "disconnected"); !strings.Contains(got, "302") {
		t.Errorf("the strategy hears %q", got)
	}
	if inside.connections() != 0 {
		t.Error("it was followed")
	}
}

// TestWrongInformation checks that Talon connects in spite of an endless or wrong document of
// NIP-11.
func TestWrongInformation(t *testing.T) {
	for name, text := range map[string]string{
		"endless":    `{"name":"` + strings.Repeat("x", 10<<20),
		"no JSON":    "<html>",
		"an array":   "[1,2,3]",
		"deep":       strings.Repeat("[", 200_000),
		"wrong type": `{"supported_nips":{"77":true},"limitation":{"max_limit":"many","max_filters":-5,"max_subscriptions":1e300,"max_message_length":0.5}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRemote(t, func(r *remote) { r.info = text })
			w := start(t, onConnect(r.url), nil)
			if got := w.plan.wait(t, 1, "connected"); !strings.Contains(got, "neg=0 limit=0") {
				t.Errorf("the strategy hears %q", got)
			}
		})
	}
}

// A relay that says nothing is pinged, and left when it does not answer that.
func TestNeverPongs(t *testing.T) {
	r := newRemote(t, func(r *remote) {
		r.greet = func(p *peer) { _, _ = io.Copy(io.Discard, p.net) } // reads, and answers nothing
	})
	w := start(t, onConnect(r.url), func(cfg *Config, _ *Deps) { cfg.Limits.PingAfter, cfg.Limits.PongTime = 1000, 1000 })
	if got := w.plan.wait(t, 1, "disconnected"); !strings.Contains(got, errSilent.Error()) {
		t.Errorf("the strategy hears %q", got)
	}
	w.plan.wait(t, 2, "disconnected") // once more the same
}

// The answer to a ping is heard, or the relay would be left as one that is silent.
func TestPongs(t *testing.T) {
	pinged, answer := make(chan struct{}), make(chan struct{})
	r := newRemote(t, func(r *remote) {
		r.greet = func(p *peer) {
			if f, err := ws.ReadFrame(p.net); err != nil || f.Header.OpCode != ws.OpPing {
				t.Errorf("it sends %+v, %v, want a ping", f.Header, err)
			}
			close(pinged)
			<-answer
			_ = ws.WriteFrame(p.net, ws.NewPongFrame(nil))
		}
	})
	w := start(t, onConnect(r.url), func(cfg *Config, _ *Deps) { cfg.Limits.PingAfter = 500 })
	testkit.Receive(t, "a ping", pinged)
	heard := func() float64 { return testutil.ToFloat64(w.sync.metrics.received) }
	before := heard()
	close(answer)
	testkit.Eventually(t, "the pong", func() bool { return heard() > before })
}

// A relay that does not read is left when its queue is full.
func TestNeverReads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = ws.Upgrade(c)
			<-t.Context().Done()
			_ = c.Close()
		}
	}()
	s, err := relayclient.DialSocket(t.Context(), "ws://"+l.Addr().String(), relayclient.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := newOutbox(s, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.run(ctx)
	}()
	for range 1000 {
		o.push(make([]byte, 100<<10))
	}
	testkit.Eventually(t, "the end", func() bool { o.push(make([]byte, 100<<10)); return o.failed() != nil })
	o.mu.Lock()
	waiting := o.bytes
	o.mu.Unlock()
	if waiting > 1<<20 {
		t.Errorf("%d bytes wait", waiting)
	}
	cancel()
	_ = s.Close()
	<-done
}

// The pipeline stands still while a relay sends: reading stops, and what waits is
// bounded.
func TestBusyPipeline(t *testing.T) {
	r := newRemote(t, nil)
	list := notes(t, 1000)
	w := start(t, onConnect(r.url, live(r.url, "live", kinds(1))), func(cfg *Config, _ *Deps) { cfg.Limits.InFlight = 10 })
	w.plan.wait(t, 1, "eose live")
	_, release := w.store.Halt()
	t.Cleanup(release)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.add(list...)
	}()
	// One is in the pipeline's hands. Of the others, as many as came in a batch.
	testkit.Eventually(t, "the stop", func() bool { return w.store.Waiting() >= 9 })
	// The loop does not wait.
	w.plan.swap(nil)
	w.plan.wait(t, 2, "init")
	if n := w.store.Waiting(); n > 10+128 {
		t.Errorf("%d events wait", n)
	}
	release()
	<-sent
	testkit.Eventually(t, "the rest", func() bool { return w.store.Len() == 1000 })
}

// A hundred relays die together and come back: all are connected again, each once, and no
// more at a time than the limit.
func TestManyRelaysDie(t *testing.T) {
	var remotes []*remote
	for range 100 {
		remotes = append(remotes, newRemote(t, nil))
	}
	w := start(t, func(v *abi.StepView) (list []abi.StepAction) {
		if v.Kind == abi.InputInit {
			for _, r := range remotes {
				list = append(list, connectTo(r.url))
			}
		}
		return list
	}, nil)
	w.plan.wait(t, 100, "connected")
	for _, r := range remotes {
		r.cut()
	}
	w.plan.wait(t, 100, "disconnected")
	w.plan.wait(t, 100, "connected last=true")
	w.stop()
	for _, r := range remotes {
		if n := r.connections(); n != 2 {
			t.Errorf("%d connections to one", n)
		}
	}
	// Nothing is left of them.
	testkit.Eventually(t, "the end of the connections' goroutines", func() bool {
		stacks := make([]byte, 8<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("relaysync.(*line)"))
	})
}

// A first sync that is interrupted at any moment is completed by the next.
func TestInterrupted(t *testing.T) {
	list := notes(t, 1000)
	r := newRemote(t, nil)
	r.add(list...)
	var kept []*host.Event
	for i, stop := range []int{100, 500, 1000} {
		w := start(t, nil, nil)
		w.store.Put(kept...)
		before := len(kept)
		w.plan.swap(onConnect(r.url, fetch(r.url, "h", abi.MethodAuto, kinds(1))))
		testkit.Eventually(t, "some events", func() bool { return w.store.Len() >= stop })
		w.stop()
		kept = w.store.Events()
		if submitted := w.store.Submitted(); submitted > 1000-before {
			t.Errorf("run %d submitted %d events, %d of them again", i, submitted, submitted-1000+before)
		}
	}
	if len(kept) != 1000 {
		t.Errorf("%d events", len(kept))
	}
}
