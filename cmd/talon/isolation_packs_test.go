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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/sdk/nip19"
)

// bombPack is a pack with a chain of deltas, or with deltas that are all of one object:
// each copies it three times, 16 MB at a time, so that it stands for 50 MB. Before and
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

// BenchmarkIsolationPacks announces repositories, one at a time, beside 4 clients that
// push packs, each for a pull request that nobody has heard of: some stand for more than
// they may, and it reports how much of them is read until they are refused; others for as
// much as they may, and git inflates them, to find that what was pushed is not in them.
// Loopback has no budget of processor time: elsewhere it has ten minutes in an hour.
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
				secret := numbered('s', 1)
				public, err := nostr.GetPublicKey(hex.EncodeToString(secret[:]))
				if err != nil {
					b.Fatal(err)
				}
				key, err := nip19.ParsePubKey(public)
				if err != nil {
					b.Fatal(err)
				}
				url := "http://" + s.addr + "/" + nip19.EncodeNpub(key) + "/talon.git/git-receive-pack"
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
				p := dial(b, s, false)
				var times []time.Duration
				used := s.cpu()
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
				used = s.cpu() - used
				attackers.Wait()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(millis(quantile(times, 0.5)), "p50-ms")
				b.ReportMetric(millis(quantile(times, 0.99)), "p99-ms")
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
