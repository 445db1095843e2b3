//go:build linux

package main_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

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
