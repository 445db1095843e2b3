//go:build linux

package main_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

// started is what a start took.
type started struct {
	*server
	wall time.Duration // until the first query was answered
	cpu  time.Duration // of the server and of what it started and waited for
}

func start(b *testing.B, data, plugins string, flags ...string) started {
	b.Helper()
	began := time.Now()
	s := serve(b, data, append([]string{"--plugins", plugins}, flags...)...)
	expectEOSE(b, dial(b, s, false), string(appendFrame(nil, `["REQ","s",{"limit":1}]`)), 1)
	return started{s, time.Since(began), s.cpu() + s.childrenCPU()}
}

// childrenCPU is the processor time of the processes that the server has waited for.
func (s *server) childrenCPU() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.tb.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(text), ") ") // the name may have spaces
	var user, system int64
	list := strings.Fields(fields)
	if _, err := fmt.Sscan(list[13]+" "+list[14], &user, &system); err != nil { // cutime and cstime of proc(5)
		s.tb.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / 100
}

// anonymous returns the memory of the server that belongs to no file, in MB, when it has
// had nothing to do for a while.
func (s *server) anonymous() float64 {
	time.Sleep(5 * time.Second)
	return s.proc("status", "RssAnon") * 1024 / 1e6
}

// unloadTime is the time after which the modules that nobody calls have left the memory: a
// minute without calls, and two until the garbage collector runs by itself.
const unloadTime = 190 * time.Second

// BenchmarkLight starts servers with the chain that Talon comes with: where it never ran,
// where it has, and under other addresses.
func BenchmarkLight(b *testing.B) {
	median := func(list []started, of func(started) time.Duration) float64 {
		slices.SortFunc(list, func(x, y started) int { return int(of(x) - of(y)) })
		return of(list[len(list)/2]).Seconds()
	}
	cpu, wall := func(s started) time.Duration { return s.cpu }, func(s started) time.Duration { return s.wall }
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			plugins := bundled(b)
			var first, warm, moved []started
			for i := range 3 {
				data := b.TempDir()
				for _, run := range []struct {
					list   *[]started
					domain string
				}{{&first, "relay.example.com"}, {&warm, "relay.example.com"}, {&moved, fmt.Sprint("other-", i, ".example.com")}} {
					s := start(b, data, plugins, "--domain", run.domain)
					*run.list = append(*run.list, s)
					s.stop()
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(first, wall), "first-s")
			b.ReportMetric(median(first, cpu), "first-cpu-s")
			b.ReportMetric(median(warm, wall), "warm-s")
			b.ReportMetric(median(warm, cpu), "warm-cpu-s")
			b.ReportMetric(median(moved, wall), "moved-s")
			b.ReportMetric(median(moved, cpu), "moved-cpu-s")
		}
	})
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(0, "ns/op")
			// All are idle at the same time, since that takes minutes.
			idle := func(plugins string, flags ...string) started {
				data := b.TempDir()
				start(b, data, plugins, flags...).stop()
				return start(b, data, plugins, flags...)
			}
			s, little := idle(bundled(b)), idle(bundled(b), "--cache", "16MiB")
			extra := make(map[string]started)
			for unit, module := range extraPolicies(b) {
				plugins := bundled(b)
				wasm, err := os.ReadFile(module)
				if err == nil {
					err = os.WriteFile(filepath.Join(plugins, "extra.wasm"), wasm, 0o600)
				}
				if err != nil {
					b.Fatal(err)
				}
				extra[unit] = idle(plugins)
			}
			b.ReportMetric(s.anonymous(), "started-anonymous-MB")
			time.Sleep(unloadTime)
			most := s.anonymous()
			b.ReportMetric(most, "anonymous-MB")
			b.ReportMetric(s.proc("status", "VmRSS")*1024/1e6, "resident-MB")
			b.ReportMetric(little.anonymous(), "cache-16MiB-anonymous-MB")
			for unit, other := range extra {
				b.ReportMetric(other.anonymous()-most, unit)
				other.stop()
			}
			client, cpu := dial(b, s.server, false), s.server.cpu()
			for i, unit := range []string{"again", "then"} {
				answer, took := client.put(b, sign(b, i, i+1)[0])
				if !bytes.HasPrefix(answer.text, okPrefix) {
					b.Fatalf("an event after that is answered with %.200q", answer.text)
				}
				b.ReportMetric(took.Seconds()*1000, unit+"-ms")
				b.ReportMetric((s.server.cpu()-cpu).Seconds()*1000, unit+"-cpu-ms")
				cpu = s.server.cpu()
			}
			b.ReportMetric(s.anonymous(), "again-anonymous-MB")
			s.stop()
			little.stop()
		}
	})
	b.Run("work", func(b *testing.B) {
		events := sign(b, 0, 30_000)
		for b.Loop() {
			plugins := generalRelay(b)
			b.ReportMetric(0, "ns/op")
			for _, cache := range []string{"", "16MiB", "64MiB"} {
				data, flags := b.TempDir(), []string(nil)
				if cache != "" {
					flags = []string{"--cache", cache}
				}
				s := start(b, data, plugins, flags...).server
				publish(b, s, slices.Clone(events), publishers, 16)
				for i := range 3 {
					p := dial(b, s, false)
					for _, frame := range crowd() {
						if _, err := p.query([]byte(frame)); err != nil && !errors.Is(err, errRefused) {
							b.Fatalf("round %d: %v", i, err)
						}
					}
					p.Close()
				}
				b.ReportMetric(s.anonymous(), "cache-"+cmp.Or(cache, "default")+"-anonymous-MB")
				s.stop()
			}
		}
	})
	b.Run("size", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(0, "ns/op")
			info, err := os.Stat(*program)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(info.Size())/1e6, "MB")
		}
	})
}

// BenchmarkSmall is for a server with little memory (scripts/small): 1,000 connections that
// subscribe, 100,000 events, broad questions of 30 more connections, and pushes, all at
// the same time. It fails if the server does not live to answer afterwards.
func BenchmarkSmall(b *testing.B) {
	const subscribers, questions, events, pushes = 1000, 30, 100_000, 5
	raiseFileLimit(b, subscribers+1000)
	for b.Loop() {
		s := serve(b, b.TempDir(), "--listen", testkit.FreeAddress(b))
		before := s.proc("status", "RssAnon")
		for i := range subscribers {
			p := dial(b, s, false)
			expectEOSE(b, p, string(appendFrame(nil, fmt.Sprintf(`["REQ","s",{"kinds":[1],"authors":["%s"],"limit":10}]`, authorHex(i)))), 1)
			go func() { // what it is sent, until the server ends
				for err := error(nil); err == nil; {
					_, err = p.next()
				}
			}()
		}
		var stop atomic.Bool
		var others sync.WaitGroup
		frames := crowd()
		var refused, cut atomic.Int64
		for i := range questions {
			p := dial(b, s, false)
			others.Go(func() {
				for n := i; !stop.Load(); n++ {
					_, err := p.query([]byte(frames[n%len(frames)]))
					switch {
					case errors.Is(err, errRefused):
						refused.Add(1)
					case err != nil && !stop.Load():
						// Its subscription is sent what is published, faster than the processors
						// that it shares let it read. It comes again, as a client does.
						cut.Add(1)
						p.Close()
						p = dial(b, s, false)
					}
				}
			})
		}
		again := 0
		others.Go(func() { again = pushTo(b, s, pushes) })
		var limit float64
		others.Go(func() {
			for !stop.Load() {
				limit = max(limit, s.proc("status", "RssAnon"))
				time.Sleep(50 * time.Millisecond)
			}
		})
		const part = 10_000
		var took []time.Duration
		for from := 0; from < events; from += part {
			took = append(took, publish(b, s, sign(b, from, from+part), publishers, 16).times...)
		}
		stop.Store(true)
		others.Wait()
		// Events that were held for a push may still come.
		if _, err := dial(b, s, false).query(appendFrame(nil, `["REQ","s",{"limit":1}]`)); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(before*1024/1e6, "before-anonymous-MB")
		b.ReportMetric(limit*1024/1e6, "most-anonymous-MB")
		b.ReportMetric(s.proc("status", "RssAnon")*1024/1e6, "after-anonymous-MB")
		reportTimes(b, "", took)
		b.ReportMetric(float64(again), "pushes-again")
		b.ReportMetric(float64(refused.Load()), "questions-refused")
		b.ReportMetric(float64(cut.Load()), "questions-cut")
		s.stop()
	}
}

// pushTo announces a repository, and pushes commits to it. It repeats a push that is
// refused because of all the other work, and returns how often.
func pushTo(b *testing.B, s *server, pushes int) (again int) {
	dir, key, path := b.TempDir(), filepath.Join(b.TempDir(), "me.key"), programPath(b)
	run := func(tries int, name string, args ...string) string {
		for {
			cmd := exec.Command(name, args...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err == nil || b.Failed() {
				return string(out)
			}
			if tries--; tries == 0 {
				b.Errorf("%s %s: %v: %s", name, args, err, out)
				return ""
			}
			again++
			time.Sleep(time.Second)
		}
	}
	const tries = 60
	run(1, path, "event", "key", "--out", key)
	run(1, "git", "init", "--quiet")
	url := regexp.MustCompile(`http\S+\.git`).FindString(run(tries, path, "event", "announce", "--key", key, "--name", "small", "--server", "ws://"+s.addr))
	for i := range pushes {
		run(1, "git", "-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "--quiet", "--allow-empty", "-m", fmt.Sprint("commit ", i))
		run(tries, path, "event", "push", "--key", key, url, "--all")
	}
	return again
}

// extraPolicies are modules that enforce one more policy, each in a folder of its own, by
// the name of what is measured with them.
func extraPolicies(b *testing.B) map[string]string {
	list := map[string]string{"go-policy-MB": plugintest.Build(b, "examples/hello-policy") + "/hello-policy.wasm"}
	for _, tool := range []string{"clang", "wasm-ld", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			return list
		}
	}
	dir := b.TempDir()
	root, err := filepath.Abs("../..")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples/hello-policy-c")))
	}
	if err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command("make", "--silent", "-C", dir, "TALON="+root, "hello-policy.wasm").CombinedOutput(); err != nil {
		b.Fatalf("build the policy in C: %v: %s", err, out)
	}
	list["c-policy-MB"] = filepath.Join(dir, "hello-policy.wasm")
	return list
}

var soak = flag.Duration("soak", 2*time.Minute, "how long BenchmarkSoak lasts")

// BenchmarkSoak has a server work for a long time (scripts/soak): events, broad questions,
// clients that come and go, new repositories and pushes, and plugins whose side-cars change.
// It fails if anonymous memory grows: the last quarter of the time may use only as much as
// the second, apart from changes by the garbage collector.
func BenchmarkSoak(b *testing.B) {
	const (
		events, clients = 1000, 50 // of a round
		round           = 10 * time.Second
		seldom          = 6 // rounds
	)
	raiseFileLimit(b, 1000)
	for b.Loop() {
		plugins := generalRelay(b)
		// The caches are full in a few minutes.
		s := serve(b, b.TempDir(), "--plugins", plugins, "--listen", testkit.FreeAddress(b), "--cache", "16MiB", "--memory", "192MiB")
		frames := crowd()
		began := time.Now()
		var anonymous []float64
		rounds, refused, again := 0, 0, 0
		for ; time.Since(began) < *soak; rounds++ {
			next := time.Now().Add(round)
			publish(b, s, sign(b, rounds*events, (rounds+1)*events), publishers, 4)
			for i := range clients {
				p := dial(b, s, false)
				_, err := p.query([]byte(frames[(rounds+i)%len(frames)]))
				if errors.Is(err, errRefused) {
					refused++
				} else if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
			if rounds%seldom == 0 {
				again += pushTo(b, s, 2)
				side := fmt.Sprintf("[config]\ndeny_words = [\"word of round %d\"]\n", rounds)
				if err := os.WriteFile(filepath.Join(plugins, "lists.toml"), []byte(side), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			time.Sleep(time.Until(next))
			anonymous = append(anonymous, s.proc("status", "RssAnon")*1024/1e6)
		}
		quarter := func(n int) float64 {
			part := slices.Clone(anonymous[len(anonymous)*(n-1)/4 : len(anonymous)*n/4])
			if len(part) == 0 {
				b.Fatalf("%d rounds are too few: give it more time", len(anonymous))
			}
			slices.Sort(part)
			return part[len(part)/2]
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(rounds), "rounds")
		for n := 1; n <= 4; n++ {
			b.ReportMetric(quarter(n), fmt.Sprintf("quarter-%d-MB", n))
		}
		b.ReportMetric(slices.Max(anonymous), "most-MB")
		b.ReportMetric(float64(refused), "refused")
		b.ReportMetric(float64(again), "pushes-again")
		b.Logf("every %v, MB: %.0f", round, anonymous)
		if before, after := quarter(2), quarter(4); after > 1.1*before+8 {
			b.Errorf("%.1f MB in the second quarter, %.1f in the last", before, after)
		}
		s.stop()
	}
}
