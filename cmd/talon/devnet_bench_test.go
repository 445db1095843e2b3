package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/cmd/internal/devnet"
)

// BenchmarkDevnet is sync with one relay that compares, as an operator sees it. It measures
// the first sync, the second with nothing new, and an event's way from the relay to a
// subscriber here. The last part is an outage of 30 seconds under 10 events in a second.
//
// Announcements need no git data here (open), so that it is sync that is measured.
func BenchmarkDevnet(b *testing.B) {
	for _, strategy := range []string{"mirror", "layered-v5"} {
		b.Run(strategy, func(b *testing.B) { devnetBench(b, strategy) })
	}
}

func devnetBench(b *testing.B, strategy string) {
	const repos, roots, comments = 20, 25, 99
	var fetched, first, ratio, second, p99, missed float64
	for range b.N {
		n := startNet(b, func(c *devnet.Config) {
			c.Relays, c.RelaysPer, c.GitServers, c.ClonesPer, c.Negentropy = 1, 1, 0, 0, 1
			c.Repos, c.Roots, c.Comments, c.Noise = repos, roots, comments, 0
		})
		relay := n.Relays[0]
		began := eventBytes(n)

		s := startBeside(b, relay, strategy)
		inLine := func() time.Time { return hasAll(b, n, s) }
		serves := time.Now() // sync begins then
		first += inLine().Sub(serves).Seconds()
		fetched += float64(len(n.Expected()))
		untilQuiet(b, relay)
		ratio += float64(relay.Status().Sent) / began

		sent := relay.Status().Sent
		relay.Cut(true)
		relay.Cut(false)
		until(b, "Talon comes back to the relay", func() bool { return relay.Status().Connections > 0 })
		untilQuiet(b, relay)
		second += float64(relay.Status().Sent - sent)

		p99 += latency(b, n, s)

		inLine()
		untilQuiet(b, relay)
		fetchedFor, lacked, _ := outage(b, n, s, 30*time.Second)
		missed += fetchedFor / lacked
		s.mustStop(b)
	}
	per := float64(b.N)
	b.ReportMetric(fetched/first, "events/s")
	b.ReportMetric(ratio/per, "bytes/event-byte")
	b.ReportMetric(second/per, "B-second-sync")
	b.ReportMetric(p99/per, "ms-p99")
	b.ReportMetric(missed/per, "bytes/missed-byte")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOutage is an outage of a relay that compares, under 10 events in a second,
// which it had for 15 minutes before. Its length is that of TALON_OUTAGE, which is 5m in
// the benchmark report; without it, 30 seconds.
func BenchmarkOutage(b *testing.B) {
	length := 30 * time.Second
	if text := os.Getenv("TALON_OUTAGE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			b.Fatalf("TALON_OUTAGE: %v", err)
		}
	}
	const before = 15 * 60 * 10
	var received, missed, back float64
	for range b.N {
		n := startNet(b, func(c *devnet.Config) {
			c.Relays, c.RelaysPer, c.GitServers, c.ClonesPer, c.Negentropy = 1, 1, 0, 0, 1
			c.Repos, c.Roots, c.Comments, c.Noise = 20, 25, 4, 0
		})
		for range before {
			if err := n.Print(); err != nil {
				b.Fatal(err)
			}
		}
		s := startBeside(b, n.Relays[0], "mirror")
		hasAll(b, n, s)
		untilQuiet(b, n.Relays[0])
		bytes, size, took := outage(b, n, s, length)
		received, missed, back = received+bytes, missed+size, back+took.Seconds()
		s.mustStop(b)
	}
	per := float64(b.N)
	b.ReportMetric(received/missed, "bytes/missed-byte")
	b.ReportMetric(received/per, "B-received")
	b.ReportMetric(missed/per, "B-missed")
	b.ReportMetric(back/per, "s-until-all")
	b.ReportMetric(0, "ns/op")
}

// outage cuts the first relay off for the given length, under 10 events in a second. It
// returns how much the relay sends after that until it is quiet, how much of that Talon
// needed, and how long it took until that was here.
func outage(b *testing.B, n *devnet.Net, s *process, length time.Duration) (received, missed float64, back time.Duration) {
	b.Helper()
	relay, before := n.Relays[0], eventBytes(n)
	relay.Cut(true)
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for range length / (100 * time.Millisecond) {
		<-ticks.C
		if err := n.Print(); err != nil {
			b.Fatal(err)
		}
	}
	sent := relay.Status().Sent
	up := time.Now()
	relay.Cut(false)
	back = hasAll(b, n, s).Sub(up)
	untilQuiet(b, relay)
	return float64(relay.Status().Sent - sent), eventBytes(n) - before, back
}

// startBeside starts a Talon that syncs with one relay, and needs no git data for
// announcements (open).
func startBeside(b *testing.B, relay *devnet.Relay, strategy string) *process {
	b.Helper()
	plugins := devnetModules(b, map[string]string{strategy: "", "polite": hasty})
	drop(b, plugins, "open.toml", []byte(openRelay))
	if err := os.Remove(filepath.Join(plugins, "grasp.wasm")); err != nil { // it would hold them
		b.Fatal(err)
	}
	data := newMiddleData(b)
	return startAs(b, exec.Command("talon", serveArgs(b, data, "--plugins", plugins, "--domain", serviceDomain,
		"--hunt", "false", "--allow-private", "true", "--bootstrap", relay.URL)...), data)
}

// eventBytes is the size of all events together that Talon should have.
func eventBytes(n *devnet.Net) (sum float64) {
	for id := range n.Expected() {
		e, _ := n.Event(id)
		sum += float64(len(e.String()))
	}
	return sum
}

// hasAll waits until Talon lacks nothing, and returns when that was.
func hasAll(b *testing.B, n *devnet.Net, s *process) time.Time {
	b.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := n.Compare(b.Context(), s.url)
		if err != nil {
			b.Fatal(err)
		}
		if len(c.Lacks) == 0 {
			return time.Now()
		}
		if time.Since(began) > patience {
			b.Fatalf("%d events are missing", len(c.Lacks))
		}
	}
}

// untilQuiet waits until a relay has had nothing to say for three seconds.
func untilQuiet(b *testing.B, r *devnet.Relay) {
	b.Helper()
	last, since := int64(-1), time.Now()
	for began := since; time.Since(since) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		if now := r.Status().Sent; now != last {
			last, since = now, time.Now()
		}
		if time.Since(began) > patience {
			b.Fatal("the relay is never quiet")
		}
	}
}

// latency publishes events at the relay, and returns the p99 of milliseconds from its
// OK to their arrival at a subscriber of Talon's.
func latency(b *testing.B, n *devnet.Net, s *process) float64 {
	b.Helper()
	const events = 400
	there, err := open(n.Relays[0].URL)
	if err != nil {
		b.Fatal(err)
	}
	defer there.close()
	here := connect(b, s)
	here.send(b, `["REQ","new",{"kinds":[1621],"limit":0}]`)
	here.mustNext(b, "EOSE")
	address := "30617:" + n.Repositories()[0].Owner + ":" + n.Repositories()[0].Identifier
	took := make([]float64, 0, events)
	for i := range events {
		e := signAs(b, "somebody", nostr.Event{Kind: 1621, CreatedAt: nostr.Now() - events + nostr.Timestamp(i), Tags: nostr.Tags{{"a", address}}, Content: "now"})
		there.send(b, string(message(e)))
		there.mustNext(b, "OK")
		ok := time.Now()
		here.mustNext(b, "EVENT")
		took = append(took, float64(time.Since(ok).Microseconds())/1000)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
