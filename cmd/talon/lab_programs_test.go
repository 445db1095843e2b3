package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// TestDevnetPrograms runs one network in the lab, and with real programs: Talon as a process, khatru,
// and those that TALON_PEERS names (strfry=PATH ngit-grasp=PATH, with a space between). It logs a table
// of bytes, requests, latency and completeness, of the lab and of the programs.
//
// Roots are at all relays of their repository, since ngit-grasp takes no comment on a root that it does
// not have. It gets no pull requests, since it waits for their git data. It cannot sync from the others
// here: that would change which events are where.
func TestDevnetPrograms(t *testing.T) {
	if !largeNets() {
		t.Skip("takes two minutes for each strategy")
	}
	paths := peerPrograms(t)
	paths["khatru"] = "built by newPeers"
	var classes []string
	for _, name := range []string{"strfry", "khatru", "ngit-grasp"} {
		if paths[name] != "" {
			classes = append(classes, name)
		} else {
			t.Logf("%s does not take part: TALON_PEERS has no %s", name, name)
		}
	}
	s := programsScenario(t, classes)
	for _, name := range []string{"mirror", "layered-v5", "layered-v2"} {
		t.Run(name, func(t *testing.T) {
			plugins := modulesAnd(t, []string{"open"}, map[string]string{name: "", "polite": ""})
			drop(t, plugins, "open.toml", []byte(openRelay))
			w := world.Draw(s, 1)
			for _, e := range w.Events {
				placeForPrograms(w, e)
			}
			lab := inLab(t, w, plugins, name)
			programs := withPrograms(t, w, plugins)
			t.Logf("%s:\n%s", name, compareTables(lab, programs))
			if lab.completeness != 1 || programs.completeness != 1 {
				t.Errorf("completeness %v in the lab, %v with programs", lab.completeness, programs.completeness)
			}
			if a, b := lab.sum(), programs.sum(); a.down < b.down*2/3 || a.down > b.down*3/2 {
				t.Errorf("relays send %d bytes in the lab, %d with programs", a.down, b.down)
			}
		})
	}
}

// programsScenario is a network with a relay of each program.
func programsScenario(t *testing.T, classes []string) *scenario.Scenario {
	t.Helper()
	text := fmt.Sprintf("duration = \"80s\"\nquiet = \"30s\"\nstart = %d\n", time.Now().Unix())
	for i, class := range classes {
		text += fmt.Sprintf("[relays.%s]\ncount = 1\nprofile = %q\nlatency-ms = 0.5\nlatency-sigma = 0\njitter = 0\nbandwidth = 0\nkeys = \"connection.compression = false\"\n", class, class)
		if i == 0 {
			text += "bootstrap = 1\n"
		}
	}
	text += fmt.Sprintf("[repositories]\ncount = 8\nowners = 4\nrelays-min = 2\nrelays-max = %d\nroots = 100\nhistory = \"60d\"\ncopies = [40, 30, 30]\n", len(classes)) +
		"[publishers]\nroots-per-day = 60000\ncomments-per-day = 150000\nstates-per-day = 0\ndiurnal = 0\nspread-s = 0\ncopies = [40, 30, 30]\n"
	s, err := scenario.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

// placeForPrograms has a root reach all relays that its repository lists. ngit-grasp gets no pull
// request, and nothing in its thread. These get another relay if they have none.
func placeForPrograms(w *world.World, e *world.Event) {
	root := cmp.Or(e.Thread, e)
	pull := root.Kind == grasp.KindPullRequest
	if pull {
		e.Copies = slices.DeleteFunc(e.Copies, func(c world.Copy) bool { return w.Relays[c.Place].Class == "ngit-grasp" })
	}
	isRoot := e.Thread == nil && e.Kind != grasp.KindAnnouncement && e.Kind != grasp.KindState
	for i, r := range w.Relays {
		there := slices.ContainsFunc(e.Copies, func(c world.Copy) bool { return int(c.Place) == i })
		if (isRoot || len(e.Copies) == 0) && !there && e.Repo.Lists(i, e.At) && !(pull && r.Class == "ngit-grasp") {
			e.Copies = append(e.Copies, world.Copy{Place: world.Place(i), At: e.At})
		}
	}
}

// outcome is what a run measured.
type outcome struct {
	relays       []relayTraffic // as in the world
	names        []string
	p50, p99     time.Duration // from the publication of an event until it is here
	completeness float64
}

// relayTraffic is what went between Talon and a relay.
type relayTraffic struct{ up, down, reqs, negOpens, connections int64 }

func (o *outcome) sum() (all relayTraffic) {
	for _, r := range o.relays {
		all = relayTraffic{all.up + r.up, all.down + r.down, all.reqs + r.reqs, all.negOpens + r.negOpens, all.connections + r.connections}
	}
	return all
}

// compareTables writes the figures of the lab and of the programs.
func compareTables(lab, programs outcome) string {
	var b strings.Builder
	b.WriteString("| | bytes sent by the relay: lab | programs | | bytes sent to it: lab | programs | | REQs: lab | programs | NEG-OPENs: lab | programs |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	row := func(name string, x, y relayTraffic) {
		change := func(a, b int64) string { return fmt.Sprintf("%+.1f %%", 100*(float64(a)/float64(b)-1)) }
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %d | %d | %s | %d | %d | %d | %d |\n", name, x.down, y.down, change(x.down, y.down), x.up, y.up, change(x.up, y.up), x.reqs, y.reqs, x.negOpens, y.negOpens)
	}
	for i, name := range lab.names {
		row(name, lab.relays[i], programs.relays[i])
	}
	row("all", lab.sum(), programs.sum())
	fmt.Fprintf(&b, "latency p50 %v in the lab, %v with programs; p99 %v, %v; completeness %.4f, %.4f\n", lab.p50, programs.p50, lab.p99, programs.p99, lab.completeness, programs.completeness)
	return b.String()
}

// inLab runs a world at the level of the wire.
func inLab(t *testing.T, w *world.World, plugins, name string) (o outcome) {
	t.Helper()
	var open [2]*module.Wasm
	for i, one := range [][2]string{{name, manifest.WorldStrategy}, {"polite", manifest.WorldThrottle}} {
		m, err := module.Open(t.Context(), filepath.Join(plugins, one[0]+".wasm"), module.Options{World: one[1]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		open[i] = m
	}
	r, err := engine.Run(t.Context(), engine.Config{World: w, Level: result.Wire, Strategy: open[0], Throttle: open[1], Relays: true})
	if err != nil || r.End.How != result.Finished {
		t.Fatalf("%v, %+v", err, r.End)
	}
	for _, row := range r.Relays[:len(w.Relays)] {
		o.names = append(o.names, row.Class)
		o.relays = append(o.relays, relayTraffic{row.BytesUp, row.BytesDown, row.REQs, row.NegOpens, row.Connections})
	}
	o.completeness, _ = r.Measures.Get(result.Completeness)
	o.p50, _ = r.Staleness.Quantile(0.5)
	o.p99, _ = r.Staleness.Quantile(0.99)
	return o
}

// withPrograms runs a world in real time: its relays are programs, and so is Talon.
func withPrograms(t *testing.T, w *world.World, plugins string) (o outcome) {
	t.Helper()
	work := gitWork(t, filepath.Join(t.TempDir(), "work"))
	commit := strings.TrimSpace(mustGit(t, work, "rev-parse", "HEAD"))
	var programs []*peer
	var meters []*meter
	var urls, first []string
	for _, r := range w.Relays {
		name := map[string]string{"strfry": "strfry-1", "khatru": "khatru-badger", "ngit-grasp": "ngit-grasp"}[r.Class]
		programs = append(programs, newPeers(t, func(t *testing.T, p *peer) {
			m := newMeter(t, p.address)
			p.front, meters = m.address(), append(meters, m)
		}, name)...)
		urls = append(urls, "ws://"+programs[len(programs)-1].front)
		if r.Bootstrap {
			first = append(first, urls[len(urls)-1])
		}
	}
	publish := func(p *peer, e *host.Event) {
		ctx, cancel := context.WithTimeout(t.Context(), stall)
		defer cancel()
		if err := p.publish(ctx, e); err != nil {
			t.Errorf("publish an event of kind %d at %s: %v", e.Kind, p.name, err)
		}
	}
	// The names of repositories and their state are real: ngit-grasp waits for their git data.
	npubs := map[*world.Repo]string{}
	for _, e := range w.Events {
		switch e.Kind {
		case grasp.KindAnnouncement:
			sum := sha256.Sum256([]byte(e.PubKey.String()))
			public, err := nostr.GetPublicKey(hex.EncodeToString(sum[:]))
			var key host.PubKey
			if err != nil || !host.ParseHex(key[:], public) {
				t.Fatal(err)
			}
			npubs[e.Repo] = nip19.EncodeNpub(key)
			for _, tag := range e.Tags {
				for i := range tag {
					tag[i] = strings.Replace(tag[i], "/x/", "/"+npubs[e.Repo]+"/", 1)
				}
			}
		case grasp.KindState:
			for _, tag := range e.Tags {
				if tag[0] == "refs/heads/main" {
					tag[1] = commit
				}
			}
		}
	}
	events := signed(t, w, urls)
	for _, first := range []bool{true, false} {
		for i, e := range w.Events {
			for _, c := range e.Copies {
				if c.At <= 0 && first == (e.Thread == nil && (e.Kind == grasp.KindAnnouncement || e.Kind == grasp.KindState)) {
					publish(programs[c.Place], events[i])
				}
			}
		}
		for _, repo := range w.Repos {
			for i, r := range w.Relays {
				if first && r.Class == "ngit-grasp" && repo.Lists(i, 0) {
					mustGit(t, work, "push", "-q", "http://"+programs[i].address+"/"+npubs[repo]+"/"+repo.D+".git", "main")
				}
			}
		}
	}
	data := newMiddleData(t)
	args := serveArgs(t, data, "--plugins", plugins, "--domain", serviceDomain, "--hunt", "false", "--allow-private", "true", "--bootstrap", strings.Join(first, ","))
	s := startAs(t, exec.Command("talon", args...), data)
	t.Cleanup(func() { s.mustStop(t) })
	begun := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex // guards the two maps
	sent, seen := map[host.ID]time.Time{}, map[host.ID]time.Time{}
	var listening sync.WaitGroup
	listening.Go(func() {
		conn, err := relayclient.Dial(ctx, s.url, relayclient.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.Follow(ctx, []byte(`{"limit":0}`), func(e *host.Event) {
			mu.Lock()
			defer mu.Unlock()
			if seen[e.ID].IsZero() {
				seen[e.ID] = time.Now()
			}
		}, nil)
	})
	var publishing sync.WaitGroup
	for place, p := range programs {
		publishing.Go(func() {
			for i, e := range w.Events {
				for _, c := range e.Copies {
					if c.At <= 0 || int(c.Place) != place {
						continue
					}
					time.Sleep(time.Until(begun.Add(time.Duration(c.At) * time.Millisecond)))
					mu.Lock()
					if sent[events[i].ID].IsZero() {
						sent[events[i].ID] = time.Now()
					}
					mu.Unlock()
					publish(p, events[i])
				}
			}
		})
	}
	publishing.Wait()
	time.Sleep(time.Until(begun.Add(time.Duration(w.End) * time.Millisecond)))
	var wanted negentropy.Builder
	for i, e := range w.Events {
		if e.Ended == 0 {
			wanted.Add(negentropy.Item{CreatedAt: uint64(events[i].CreatedAt), ID: events[i].ID})
		}
	}
	set := wanted.Build()
	conn, err := relayclient.Dial(t.Context(), s.url, relayclient.Options{MessageBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	lacks, beside, err := conn.Reconcile(t.Context(), []byte("{}"), set, negentropy.ClientLimits{IDs: 1_000_000, Rounds: 1000})
	if err != nil || len(beside) > 0 {
		t.Fatalf("%v, Talon has %d events that nobody published", err, len(beside))
	}
	o.completeness = 1 - float64(len(lacks))/float64(set.Len())
	for _, m := range meters {
		o.relays = append(o.relays, m.read())
	}
	stop()
	listening.Wait()
	var late []time.Duration
	for id, at := range sent {
		if !seen[id].IsZero() {
			late = append(late, seen[id].Sub(at))
		}
	}
	if slices.Sort(late); len(late) < 50 {
		t.Fatalf("Talon sent %d of %d new events to a subscriber", len(late), len(sent))
	}
	o.p50, o.p99 = late[len(late)/2].Round(time.Millisecond), late[len(late)*99/100].Round(time.Millisecond)
	return o
}

// meter is a proxy before a relay that lets Talon through, and counts. Messages are not compressed
// there, as in the lab.
type meter struct {
	listener net.Listener
	target   string
	mu       sync.Mutex // guards the field below
	traffic  relayTraffic
}

func newMeter(t *testing.T, target string) *meter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	m := &meter{listener: l, target: target}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(c)
		}
	}()
	return m
}

func (m *meter) address() string { return m.listener.Addr().String() }

func (m *meter) read() relayTraffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.traffic
}

func (m *meter) count(change func(*relayTraffic)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.traffic)
}

// serve passes on a connection.
func (m *meter) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	var head strings.Builder
	ours, websocket := false, false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		lower := strings.ToLower(line)
		ours = ours || strings.HasPrefix(lower, "user-agent: talon")
		websocket = websocket || strings.HasPrefix(lower, "upgrade: websocket")
		if !strings.HasPrefix(lower, "sec-websocket-extensions:") {
			head.WriteString(line)
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	if !ours {
		return
	}
	out, err := net.Dial("tcp", m.target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	if _, err := io.WriteString(out, head.String()); err != nil {
		return
	}
	m.count(func(x *relayTraffic) {
		x.up += int64(head.Len())
		if websocket {
			x.connections++
		}
	})
	go func() {
		_, _ = io.Copy(c, countingReader{out, m})
		_ = c.Close()
	}()
	if !websocket {
		_, _ = io.Copy(out, in)
		return
	}
	for m.frame(in, out) == nil {
	}
}

// countingReader counts what a relay sends.
type countingReader struct {
	io.Reader
	m *meter
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.m.count(func(x *relayTraffic) { x.down += int64(n) })
	return n, err
}

// frame passes on a frame of Talon (RFC 6455).
func (m *meter) frame(in *bufio.Reader, out io.Writer) error {
	head := make([]byte, 2, 14)
	if _, err := io.ReadFull(in, head); err != nil {
		return err
	}
	more := map[byte]int{126: 2, 127: 8}[head[1]&127]
	if head[1]&128 != 0 {
		more += 4
	}
	head = head[:2+more]
	if _, err := io.ReadFull(in, head[2:]); err != nil {
		return err
	}
	n := uint64(head[1] & 127)
	switch n {
	case 126:
		n = uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		n = binary.BigEndian.Uint64(head[2:])
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	begin := slices.Clone(body[:min(len(body), 12)])
	if head[1]&128 != 0 {
		for i := range begin {
			begin[i] ^= head[len(head)-4+i%4]
		}
	}
	m.count(func(x *relayTraffic) {
		x.up += int64(len(head)) + int64(n)
		switch {
		case head[0]&15 != 1:
		case strings.HasPrefix(string(begin), `["REQ"`):
			x.reqs++
		case strings.HasPrefix(string(begin), `["NEG-OPEN"`):
			x.negOpens++
		}
	})
	_, err := out.Write(append(head, body...))
	return err
}
