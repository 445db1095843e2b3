package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/negentropy"
	"talon/host/relayclient"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/relaysync/relaysynctest"
	"talon/host/wire"
	"talon/sdk/abi/manifest"
)

// TestDevnetLab: one network at both levels of the lab, and as it is: the server as a
// process, relays behind sockets, signatures that are checked. The events at the end are
// the same. The bytes that relays send differ by 5 % at most at the level of the wire.
func TestDevnetLab(t *testing.T) {
	if !largeNets() {
		t.Skip("takes a minute for each strategy")
	}
	s, _, err := scenario.Builtin("small")
	if err != nil {
		t.Fatal(err)
	}
	s, err = s.With("relays.*.outage-every", "0s", "relays.*.jitter", "0", "relays.*.latency-ms", "1", "relays.*.latency-sigma", "0", "relays.*.bandwidth", "0",
		"relays.*.keys", "connection.compression = false", "duration", "1m", "quiet", "20s", "start", fmt.Sprint(time.Now().Unix()),
		"repositories.roots", "500", "publishers.roots-per-day", "30000", "publishers.comments-per-day", "60000")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"layered-v2", "layered-v5", "mirror"} {
		t.Run(name, func(t *testing.T) {
			plugins := modulesAnd(t, []string{"open"}, map[string]string{name: "", "polite": ""})
			drop(t, plugins, "open.toml", []byte(openRelay))
			w := world.Draw(s, 1)
			var sent [2]float64
			var open [2]*module.Wasm
			for i, one := range [][2]string{{name, manifest.WorldStrategy}, {"polite", manifest.WorldThrottle}} {
				if open[i], err = module.Open(t.Context(), filepath.Join(plugins, one[0]+".wasm"), module.Options{World: one[1]}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = open[i].Close() })
			}
			for i, level := range []result.Level{result.Wire, result.Model} {
				r, err := engine.Run(t.Context(), engine.Config{World: w, Level: level, Strategy: open[0], Throttle: open[1], Relays: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range r.Relays {
					sent[i] += float64(row.BytesDown)
				}
				low := map[result.Level]float64{result.Wire: 1, result.Model: 0.995}[level] // some may be on its way
				if complete, _ := r.Measures.Get(result.Completeness); r.End.How != result.Finished || complete < low {
					t.Errorf("level %s: %+v, completeness %v", level, r.End, complete)
				}
			}
			got := asItIs(t, w, plugins)
			t.Logf("%s: relays send %.0f bytes, %.0f at the wire (%+.1f %%), %.0f in the model (%+.0f %%)", name, got, sent[0], 100*(sent[0]/got-1), sent[1], 100*(sent[1]/got-1))
			if sent[0] < got*0.95 || sent[0] > got*1.05 {
				t.Errorf("%s: relays send %.0f bytes, %.0f in the lab", name, got, sent[0])
			}
		})
	}
}

// listenAs serves a relay of a world on the loopback interface.
func listenAs(t *testing.T, r *world.Relay) (s *server.Server, url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, stop := relaysynctest.Serve(l, r.Profile, r.Seed)
	t.Cleanup(stop)
	return s, "ws://" + l.Addr().String()
}

// signed returns the events of a world with keys and signatures that are real, and the
// addresses that relays have now.
func signed(t *testing.T, w *world.World, urls []string) (events []*host.Event) {
	addresses := []string{w.Talons[0].Domain, serviceDomain}
	for i, r := range w.Relays {
		addresses = append(addresses, r.URL, urls[i], "https"+strings.TrimPrefix(r.URL, "wss"), "http"+strings.TrimPrefix(urls[i], "ws"))
	}
	replacer := strings.NewReplacer(addresses...)
	names := map[string]string{} // keys and ids, as they were drawn
	secret := func(e *world.Event) string {
		sum := sha256.Sum256([]byte(e.PubKey.String()))
		return hex.EncodeToString(sum[:])
	}
	for _, e := range w.Events {
		public, err := nostr.GetPublicKey(secret(e))
		if err != nil {
			t.Fatal(err)
		}
		names[e.PubKey.String()] = public
	}
	for _, e := range w.Events {
		n := &nostr.Event{Kind: int(e.Kind), CreatedAt: nostr.Timestamp(e.CreatedAt), Content: e.Content, Tags: nostr.Tags{}}
		for _, tag := range e.Tags {
			changed := make(nostr.Tag, len(tag))
			for k, value := range tag {
				parts := strings.Split(replacer.Replace(value), ":")
				for i := range parts {
					parts[i] = cmp.Or(names[parts[i]], parts[i])
				}
				changed[k] = strings.Join(parts, ":")
			}
			n.Tags = append(n.Tags, changed)
		}
		if err := n.Sign(secret(e)); err != nil {
			t.Fatal(err)
		}
		parsed, err := wire.ParseEvent([]byte(n.String()))
		if err != nil {
			t.Fatal(err)
		}
		names[e.ID.String()] = n.ID
		events = append(events, parsed)
	}
	return events
}

// asItIs runs a world as it is, in real time. When Talon has all events that it should
// have, it returns how much the relays sent.
func asItIs(t *testing.T, w *world.World, plugins string) (sent float64) {
	var relays []*server.Server
	var urls, first []string
	for _, r := range w.Relays {
		s, url := listenAs(t, r)
		relays, urls = append(relays, s), append(urls, url)
		if r.Bootstrap {
			first = append(first, url)
		}
	}
	events := signed(t, w, urls)
	for i, e := range w.Events {
		for _, c := range e.Copies {
			if c.At <= 0 {
				relays[c.Place].Add(events[i])
			}
		}
	}
	data := newMiddleData(t)
	args := serveArgs(t, data, "--plugins", plugins, "--domain", serviceDomain, "--hunt", "false", "--allow-private", "true", "--bootstrap", strings.Join(first, ","))
	p := startAs(t, exec.Command("talon", args...), data)
	t.Cleanup(func() { p.mustStop(t) })
	begun := time.Now()
	var wanted negentropy.Builder
	for i, e := range w.Events {
		if e.Ended == 0 {
			wanted.Add(negentropy.Item{CreatedAt: uint64(events[i].CreatedAt), ID: events[i].ID})
		}
		for _, c := range e.Copies {
			if c.At > 0 {
				timer := time.AfterFunc(time.Until(begun.Add(time.Duration(c.At)*time.Millisecond)), func() { relays[c.Place].Add(events[i]) })
				t.Cleanup(func() { timer.Stop() })
			}
		}
	}
	set := wanted.Build()
	time.Sleep(time.Until(begun.Add(time.Duration(w.End) * time.Millisecond)))
	until(t, "all that is wanted is here, and nothing else", func() bool {
		c, err := relayclient.Dial(t.Context(), p.url, relayclient.Options{MessageBytes: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		lacks, beside, err := c.Reconcile(t.Context(), []byte("{}"), set, negentropy.ClientLimits{IDs: 1_000_000, Rounds: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return len(lacks)+len(beside) == 0
	})
	for _, s := range relays {
		s.View(func(r *relaymodel.Relay) {
			st := r.Stats()
			// With the headers of frames, and of HTTP, as the lab counts them.
			sent += float64(st.SentBytes) + 3.5*float64(st.SentFrames) + float64(st.Connections)*(400+float64(len(r.InfoDocument())))
		})
	}
	return sent
}
