//go:build linux

package main_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/plugin/plugintest"
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
			clone := "https://relay.test/" + npubOf(tb, secret) + "/" + identifier + ".git"
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

// npubOf is who signs with a key.
func npubOf(tb testing.TB, secret [32]byte) string {
	tb.Helper()
	public, err := nostr.GetPublicKey(hex.EncodeToString(secret[:]))
	if err != nil {
		tb.Fatal(err)
	}
	key, err := nip19.ParsePubKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	return nip19.EncodeNpub(key)
}

// announceAll announces n repositories, one at a time, and returns what each took.
func announceAll(b *testing.B, s *server, n int) (times []time.Duration) {
	b.Helper()
	p := dial(b, s, false)
	for i := range n {
		f, took := p.put(b, repositoryEvents(b, 30617, 900_000+i, 1, fmt.Sprint("mine-", i))[0])
		if !f.stored() {
			b.Fatalf("refused: %s", f.text)
		}
		times = append(times, took)
	}
	return times
}

// BenchmarkIsolationStrangers announces repositories, one at a time. At the same time 8
// clients send states of one identifier, which are refused, while many others announce it.
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
				times := announceAll(b, s, mine)
				stop.Store(true)
				attackers.Wait()
				b.ReportMetric(0, "ns/op")
				reportTimes(b, "", times)
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
						f, took := p.put(b, e)
						if !bytes.Contains(f.text, []byte("author not authorized")) {
							b.Fatalf("%s", f.text)
						}
						times = append(times, took)
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
				reportTimes(b, "", times)
				s.stop()
			}
		})
	}
}

// saying makes notes whose content begins with a word, which tells the policy of
// testdata/isolation what to do.
func saying(tb testing.TB, word string, from, n int) []signed {
	tb.Helper()
	list := make([]signed, n)
	secret := numbered('s', from%authors)
	for i := range list {
		e := nostr.Event{CreatedAt: nostr.Now(), Kind: 1, Tags: nostr.Tags{}, Content: fmt.Sprintf("%s %d", word, from+i)}
		if err := e.Sign(hex.EncodeToString(secret[:])); err != nil {
			tb.Fatal(err)
		}
		list[i] = signed{e.ID, []byte(e.String())}
	}
	return list
}

// isolationRelay starts a relay whose first policy is that of testdata/isolation.
func isolationRelay(b *testing.B, flags ...string) *server {
	b.Helper()
	dir := generalRelay(b)
	built := plugintest.Build(b, "cmd/talon/testdata/isolation")
	if err := os.Rename(filepath.Join(built, "isolation.wasm"), filepath.Join(dir, "isolation.wasm")); err != nil {
		b.Fatal(err)
	}
	return serve(b, b.TempDir(), append([]string{"--plugins", dir, "--policy", "isolation,lists,open"}, flags...)...)
}

// BenchmarkIsolationContention publishes events about which a policy decides by what all
// others have published, and plain ones.
func BenchmarkIsolationContention(b *testing.B) {
	const n = 400
	for _, word := range []string{"repeats", "plain"} {
		for _, load := range []struct{ conns, window int }{{1, 1}, {1, 16}, {8, 8}} {
			b.Run(fmt.Sprintf("%s/%dx%d", word, load.conns, load.window), func(b *testing.B) {
				for b.Loop() {
					s := isolationRelay(b)
					events := saying(b, word, 1, n)
					used := s.cpu()
					got := publish(b, s, events, load.conns, load.window)
					used = s.cpu() - used
					m := s.metrics()
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(n/got.wall.Seconds(), "events/s")
					reportTimes(b, "", got.times)
					b.ReportMetric(m["talon_redecided_total"]/n, "again/event")
					b.ReportMetric(micros(used)/n, "cpu-µs/event")
					s.stop()
				}
			})
		}
	}
}

// BenchmarkIsolationBystander publishes plain notes, one at a time, while events of other
// clients make decisions slow or fail.
func BenchmarkIsolationBystander(b *testing.B) {
	const notes = 300
	for _, word := range []string{"", "broad", "loop", "repeats"} {
		name := word
		if name == "" {
			name = "alone"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := isolationRelay(b)
				publish(b, s, saying(b, "before", 7, 2000), 4, 16)
				var stop atomic.Bool
				var attackers sync.WaitGroup
				if word != "" {
					for c := range 4 {
						p := dial(b, s, false)
						events := saying(b, word, 100_000*(c+1)+c, 2000)
						attackers.Go(func() { storm(p, events, &stop) })
					}
				}
				time.Sleep(200 * time.Millisecond)
				p := dial(b, s, false)
				var times []time.Duration
				refused := 0
				for _, e := range saying(b, "plain", 5_000_123, notes) {
					f, took := p.put(b, e)
					times = append(times, took)
					if !f.stored() {
						refused++
					}
					time.Sleep(2 * time.Millisecond)
				}
				stop.Store(true)
				attackers.Wait()
				b.ReportMetric(0, "ns/op")
				reportTimes(b, "", times)
				b.ReportMetric(millis(quantile(times, 1)), "max-ms")
				b.ReportMetric(100*float64(refused)/notes, "%refused")
				s.stop()
			}
		})
	}
}

// storm sends events, some at a time, until stop is set.
func storm(p *peer, events []signed, stop *atomic.Bool) {
	const window = 8
	flying := 0
	for _, e := range events {
		if stop.Load() {
			break
		}
		if _, err := p.Write(appendFrame(nil, `["EVENT",`+string(e.json)+`]`)); err != nil {
			return
		}
		if flying++; flying == window {
			if _, err := p.next(); err != nil {
				return
			}
			flying--
		}
	}
	_ = p.Close()
}

// bombPack is a pack with a chain of deltas, or with deltas that are all of one object.
// Each delta copies it three times, 16 MB at a time, and so expands to 50 MB. Before and
// after them are bytes that do not compress.
func bombPack(before, deltas int, wide bool, after int) []byte {
	const piece = 0xffffff // the longest that an instruction of a delta copies
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02")
	_ = binary.Write(&b, binary.BigEndian, uint32(deltas+3))
	object := func(kind byte, between, content []byte) {
		size := len(content)
		c := kind<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(size & 0x7f)
		}
		b.WriteByte(c)
		b.Write(between)
		z := zlib.NewWriter(&b)
		_, _ = z.Write(content)
		_ = z.Close()
	}
	noise := make([]byte, before+after)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	object(3, nil, noise[:before])
	base := b.Len()
	object(3, nil, make([]byte, piece))
	for i, from := 0, uint64(piece); i < deltas; i++ {
		made := uint64(3*piece + 4)
		delta := binary.AppendUvarint(binary.AppendUvarint(nil, from), made)
		delta = append(delta, strings.Repeat("\xf0\xff\xff\xff", 3)...)
		delta = binary.BigEndian.AppendUint32(append(delta, 4), uint32(i))
		at := b.Len()
		distance := at - base
		place := []byte{byte(distance & 0x7f)}
		for distance >>= 7; distance > 0; distance >>= 7 {
			distance--
			place = append([]byte{0x80 | byte(distance&0x7f)}, place...)
		}
		object(6, place, delta)
		if !wide {
			base, from = at, made
		}
	}
	object(3, nil, noise[before:])
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// BenchmarkIsolationPacks announces repositories, one at a time, while 4 clients push
// packs, each for an unknown pull request. Some packs expand to more than the limit, and it
// reports how much of them is read until they are refused. Others expand to just the limit:
// git inflates them, and finds that they lack the pushed commit. Loopback has no budget of
// processor time: elsewhere it has ten minutes in an hour.
func BenchmarkIsolationPacks(b *testing.B) {
	const mine = 300
	for _, attack := range []struct {
		name string
		pack []byte
	}{
		{"none", nil},
		{"deep-10GB", bombPack(0, 200, false, 0)},
		{"wide-10GB", bombPack(0, 200, true, 0)},
		{"deep-10GB-before-64MB", bombPack(0, 200, false, 64<<20)},
		{"4.6GB-after-1MB", bombPack(1<<20, 92, false, 0)},
		{"deep-500MB-allowed", bombPack(0, 9, false, 0)},
		{"deep-4.6GB-allowed", bombPack(2300<<10, 92, false, 0)},
		{"wide-4.6GB-allowed", bombPack(2300<<10, 92, true, 0)},
	} {
		pack := attack.pack
		b.Run(attack.name, func(b *testing.B) {
			for b.Loop() {
				s := serve(b, b.TempDir(), "--policy", "lists,grasp", "--domain", "relay.test")
				publish(b, s, repositoryEvents(b, 30617, 1, 1, "talon"), 1, 1)
				url := "http://" + s.addr + "/" + npubOf(b, numbered('s', 1)) + "/talon.git/git-receive-pack"
				var stop atomic.Bool
				var pushed, refused, sent atomic.Int64
				var attackers sync.WaitGroup
				for c := range 4 {
					if pack == nil {
						break
					}
					attackers.Go(func() {
						for i := 0; !stop.Load(); i++ {
							line := fmt.Sprintf("%040d %040x refs/nostr/%064x\x00report-status", 0, i+1, c*1_000_000+i)
							head := strings.NewReader(fmt.Sprintf("%04x%s0000", len(line)+4, line))
							read := bytes.NewReader(pack)
							resp, err := http.Post(url, "application/x-git-receive-pack-request", struct{ io.Reader }{io.MultiReader(head, read)})
							if err != nil {
								b.Error(err)
								return
							}
							sent.Add(read.Size() - int64(read.Len()))
							answer, _ := io.ReadAll(resp.Body)
							_ = resp.Body.Close()
							pushed.Add(1)
							if bytes.Contains(answer, []byte("more work than it may")) {
								refused.Add(1)
							}
						}
					})
				}
				used := s.cpu()
				times := announceAll(b, s, mine)
				stop.Store(true)
				used = s.cpu() - used
				attackers.Wait()
				b.ReportMetric(0, "ns/op")
				reportTimes(b, "", times)
				b.ReportMetric(float64(refused.Load()), "refused")
				b.ReportMetric(used.Seconds(), "talon-cpu-s")
				if n := float64(pushed.Load()); n > 0 {
					b.ReportMetric(n, "pushes")
					b.ReportMetric(float64(sent.Load())/n/1e3, "kB-sent/push")
					b.ReportMetric(1e3*s.metrics()["talon_git_push_cpu_seconds_sum"]/n, "git-cpu-ms/push")
				}
				s.stop()
			}
		})
	}
}
