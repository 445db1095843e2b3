//go:build linux

package main_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/sdk/nip19"
)

// repositoryEvents are n events about repositories at relay.test by throwaway keys: an
// announcement, or a state that nobody let its author sign.
func repositoryEvents(tb testing.TB, kind, from, n int, identifier string) []signed {
	tb.Helper()
	list := make([]signed, n)
	for i := range list {
		secret := numbered('s', from+i)
		e := nostr.Event{CreatedAt: nostr.Now(), Kind: kind, Tags: nostr.Tags{{"d", identifier}}}
		if kind == 30617 {
			public, err := nostr.GetPublicKey(hex.EncodeToString(secret[:]))
			if err != nil {
				tb.Fatal(err)
			}
			key, err := nip19.ParsePubKey(public)
			if err != nil {
				tb.Fatal(err)
			}
			clone := "https://relay.test/" + nip19.EncodeNpub(key) + "/" + identifier + ".git"
			e.Tags = append(e.Tags, nostr.Tag{"clone", clone}, nostr.Tag{"relays", "wss://relay.test"})
		} else {
			e.Tags = append(e.Tags, nostr.Tag{"refs/heads/main", fmt.Sprintf("%040x", i+1)})
		}
		if err := e.Sign(hex.EncodeToString(secret[:])); err != nil {
			tb.Fatal(err)
		}
		list[i] = signed{e.ID, []byte(e.String())}
	}
	return list
}

// BenchmarkIsolationStrangers announces repositories, one at a time, beside 8 clients
// whose states of one identifier are refused, while many others announce it.
func BenchmarkIsolationStrangers(b *testing.B) {
	const announced, mine = 800, 100
	for _, attacked := range []bool{false, true} {
		b.Run(fmt.Sprintf("attacked=%v", attacked), func(b *testing.B) {
			for b.Loop() {
				s := serve(b, b.TempDir(), "--policy", "lists,grasp", "--domain", "relay.test")
				publish(b, s, repositoryEvents(b, 30617, 1, announced, "talon"), 4, 16)
				var stop atomic.Bool
				var attackers sync.WaitGroup
				for c := range 8 {
					if attacked {
						p := dial(b, s, false)
						events := slices.Repeat(repositoryEvents(b, 30618, 10_000*(c+1), 100, "talon"), 100)
						attackers.Go(func() { storm(p, events, &stop) })
					}
				}
				p := dial(b, s, false)
				var times []time.Duration
				for i := range mine {
					e := repositoryEvents(b, 30617, 900_000+i, 1, fmt.Sprint("mine-", i))[0]
					began := time.Now()
					p.send(b, `["EVENT",`+string(e.json)+`]`)
					f, err := p.next()
					if err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(began))
					if string(f.text[72:77]) != ",true" {
						b.Fatalf("refused: %s", f.text)
					}
				}
				stop.Store(true)
				attackers.Wait()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(millis(quantile(times, 0.5)), "p50-ms")
				b.ReportMetric(millis(quantile(times, 0.99)), "p99-ms")
				s.stop()
			}
		})
	}
}

// BenchmarkIsolationIdentifier publishes states that are refused, of an identifier that one
// stranger announces, or 100,000: what one costs does not depend on that.
func BenchmarkIsolationIdentifier(b *testing.B) {
	const states = 500
	for _, announced := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("announced=%d", announced), func(b *testing.B) {
			folder := fixture(b, "identifier", announced, func(i int) *host.Event {
				e := &host.Event{Kind: host.KindAnnouncement, CreatedAt: epoch - int64(i), PubKey: numbered('p', i), ID: numbered('i', i)}
				lists := numbered('p', i+1)
				e.Tags = []host.Tag{
					{"d", "talon"}, {"clone", "https://elsewhere.test/talon.git"}, {"relays", "wss://elsewhere.test"},
					{"maintainers", hex.EncodeToString(lists[:])},
				}
				e.JSON = e.AppendJSON(nil)
				return e
			})
			for b.Loop() {
				dir := b.TempDir()
				if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
					b.Fatal(err)
				}
				s := serve(b, dir, "--policy", "lists,grasp", "--domain", "relay.test")
				p := dial(b, s, false)
				refuse := func(events []signed) (times []time.Duration) {
					for _, e := range events {
						began := time.Now()
						p.send(b, `["EVENT",`+string(e.json)+`]`)
						f, err := p.next()
						if err != nil || !bytes.Contains(f.text, []byte("author not authorized")) {
							b.Fatalf("%s %v", f.text, err)
						}
						times = append(times, time.Since(began))
					}
					return times
				}
				refuse(repositoryEvents(b, 30618, 700_000, states, "talon")) // what is cold becomes warm
				events := repositoryEvents(b, 30618, 800_000, states, "talon")
				m, used := s.metrics(), s.cpu()
				times := refuse(events)
				used = s.cpu() - used
				const fuel, reads = `talon_plugin_decision_fuel_sum{function="admit",module="grasp"}`, `talon_store_query_seconds_count{operation="select"}`
				after := s.metrics()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(micros(used)/states, "cpu-µs/state")
				b.ReportMetric((after[fuel]-m[fuel])/states, "fuel/state")
				b.ReportMetric((after[reads]-m[reads])/states, "selects/state")
				b.ReportMetric(millis(quantile(times, 0.5)), "p50-ms")
				b.ReportMetric(millis(quantile(times, 0.99)), "p99-ms")
				s.stop()
			}
		})
	}
}
