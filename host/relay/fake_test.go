package relay

import (
	"bufio"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/bound"
	"talon/host/inflate"
	"talon/host/wire"
	"talon/internal/testkit"
)

// fakeStore holds events in memory, in the order of commits: an event's row and
// sequence number are its place, from 1.
type fakeStore struct {
	mu     sync.Mutex
	events []*host.Event
	gone   map[int64]bool

	selecting func() // called by Select after it has read, before it returns
	fetching  func()
	counting  func() // called by Count before it has read
	scanning  func() // called by Scan
	err       error
	selects   int
	scans     int
	counts    int
}

func (s *fakeStore) put(e *host.Event) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	return int64(len(s.events))
}

func (s *fakeStore) drop(row int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		s.gone = map[int64]bool{}
	}
	s.gone[row] = true
}

func (s *fakeStore) RemovedTotal() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.gone))
}

func (s *fakeStore) NextExpiry() (first int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.events {
		if at, dated := e.Expiration(); dated && !s.gone[int64(i+1)] && (!ok || at < first) {
			first, ok = at, true
		}
	}
	return first, ok
}

// rows returns the rows that match, newest first. REQUIRES: s.mu.
func (s *fakeStore) rows(f *host.Filter, now int64) []int64 {
	var rows []int64
	for i, e := range s.events {
		at, expires := e.Expiration()
		if f.Matches(e) && !s.gone[int64(i+1)] && (!expires || at > now) {
			rows = append(rows, int64(i+1))
		}
	}
	slices.SortStableFunc(rows, func(a, b int64) int {
		if s.events[a-1].Before(s.events[b-1]) {
			return -1
		}
		return 1
	})
	return rows
}

func (s *fakeStore) any(filters []host.Filter, now int64) []int64 {
	var all []int64
	for i := range filters {
		rows := s.rows(&filters[i], now)
		if n := filters[i].Limit; n >= 0 && n < len(rows) {
			rows = rows[:n]
		}
		for _, row := range rows {
			if !slices.Contains(all, row) {
				all = append(all, row)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b int64) int {
		if s.events[a-1].Before(s.events[b-1]) {
			return -1
		}
		return 1
	})
	return all
}

func (s *fakeStore) Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error) {
	s.mu.Lock()
	s.selects++
	sel := host.Selection{Rows: s.any(filters, now), Seq: int64(len(s.events))}
	err := s.err
	s.mu.Unlock()
	if s.selecting != nil {
		s.selecting()
	}
	return sel, err
}

func (s *fakeStore) Fetch(ctx context.Context, rows []int64, yield func(int64, []byte) error) error {
	if s.fetching != nil {
		s.fetching()
	}
	var text []byte // used again, as a database would
	for _, row := range rows {
		s.mu.Lock()
		e, gone := s.events[row-1], s.gone[row]
		s.mu.Unlock()
		if gone {
			continue
		}
		text = append(text[:0], e.JSON...)
		if err := yield(row, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeStore) Count(ctx context.Context, filters []host.Filter, now int64) (int64, error) {
	if s.counting != nil {
		s.counting()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts++
	return int64(len(s.any(filters, now))), s.err
}

func (s *fakeStore) Authors(ctx context.Context, filters []host.Filter, now int64, yield func(host.PubKey)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.any(filters, now) {
		yield(s.events[row-1].PubKey)
	}
	return s.err
}

func (s *fakeStore) Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(int64, host.ID)) (int64, int, error) {
	if s.scanning != nil {
		s.scanning()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans++
	rows := s.rows(&f, now)
	rows = rows[:min(len(rows), limit)]
	for _, row := range rows {
		yield(s.events[row-1].CreatedAt, s.events[row-1].ID)
	}
	return int64(len(s.events)), len(rows), s.err
}

// fakeIngest stores and publishes what it is given, in a goroutine of its own.
type fakeIngest struct {
	store  *fakeStore
	relay  *Relay
	items  chan *host.Item
	decide func(*host.Item) (host.Verdict, error)
	held   chan struct{} // if not nil, each item waits for a value
}

func (g *fakeIngest) Submit(ctx context.Context, it *host.Item) error {
	select {
	case g.items <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *fakeIngest) run() {
	for it := range g.items {
		if g.held != nil {
			<-g.held
		}
		var v host.Verdict
		var err error
		if g.decide != nil {
			v, err = g.decide(it)
		}
		var news []host.Published
		if err == nil {
			switch {
			case v.Code == host.Stored && it.Event.Kind.Class() == host.Ephemeral:
				v.Code = host.Relayed
				news = append(news, host.Published{Event: it.Event})
			case v.Code == host.Stored:
				news = append(news, host.Published{Event: it.Event, Seq: g.store.put(it.Event)})
			}
		}
		it.Done(v, err)
		if news != nil {
			g.relay.Publish(news)
		}
	}
}

// world is a relay that serves, and what stands behind it.
type world struct {
	t      testing.TB
	relay  *Relay
	store  *fakeStore
	ingest *fakeIngest
	policy Policy // nil but for tests of it
	holder func(netip.Addr, []host.PubKey) bound.Holder
	server *httptest.Server
	linger time.Duration
	stop   func() // ends Run and waits for it
}

type option func(*Config, *world)

func limit(set func(*Limits)) option { return func(c *Config, _ *world) { set(&c.Limits) } }

// behindProxy has clients say which address they have.
func behindProxy(c *Config, _ *world) {
	c.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// ticking is the time of this machine, for what measures it.
func ticking(c *Config, w *world) { c.Now, w.linger = time.Now, lingerTime }

// newWorld serves. Its clock stands still, and nothing ends because the machine pauses, unless
// an option says otherwise.
func newWorld(t testing.TB, options ...option) *world {
	t.Helper()
	w := &world{t: t, store: &fakeStore{}, linger: time.Hour}
	w.ingest = &fakeIngest{store: w.store, items: make(chan *host.Item, 1024)}
	start := time.Now()
	cfg := Config{Limits: DefaultLimits, Info: Info{Name: "test"}, ChallengeOnConnect: true, Now: func() time.Time { return start }}
	cfg.CORS = func(h http.Header) {
		for _, name := range []string{"Origin", "Headers", "Methods"} {
			h.Set("Access-Control-Allow-"+name, "*")
		}
	}
	cfg.Limits.QueryTime, cfg.Limits.WriteTime, cfg.Limits.DrainTime = time.Hour, time.Hour, time.Hour
	for _, set := range options {
		set(&cfg, w)
	}
	verify := func(e *host.Event) error { return e.CheckID() }
	relay, err := New(cfg, Deps{Ingest: w.ingest, Store: w.store, Policy: w.policy, Verify: verify, Holder: w.holder})
	if err != nil {
		t.Fatal(err)
	}
	relay.linger = w.linger
	w.relay, w.ingest.relay = relay, relay
	ingested := make(chan struct{})
	go func() { w.ingest.run(); close(ingested) }()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = relay.Run(ctx); close(ended) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-ended })
	w.server = httptest.NewServer(relay)
	t.Cleanup(func() {
		if w.ingest.held != nil {
			close(w.ingest.held) // a test that failed may have let none go
		}
		w.stop()
		w.server.Close()
		close(w.ingest.items)
		<-ingested
	})
	return w
}

// now is the time by the relay's clock.
func (w *world) now() time.Time { return w.relay.cfg.Now() }

// publish stores events and publishes them, as the pipeline does.
func (w *world) publish(events ...*host.Event) {
	for _, e := range events {
		w.relay.Publish([]host.Published{{Event: e, Seq: w.store.put(e)}})
	}
}

// client is the other end of a connection, without any library's opinion of what
// may be sent.
type client struct {
	t    testing.TB
	net  net.Conn
	in   *bufio.Reader
	auth string // the challenge
}

// dial connects, and reads the challenge.
func (w *world) dial() *client {
	w.t.Helper()
	c := w.connect(nil)
	c.auth = c.list()[1].(string)
	return c
}

func (w *world) connect(header http.Header) *client {
	w.t.Helper()
	c, answer := w.request(header)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatal(answer.Status)
	}
	return c
}

// request asks for a websocket and returns whatever is answered.
func (w *world) request(header http.Header) (*client, *http.Response) {
	w.t.Helper()
	nc, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { nc.Close() })
	req, err := http.NewRequest(http.MethodGet, w.server.URL, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
	maps.Copy(req.Header, header)
	if err := req.Write(nc); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(nc)
	answer, err := http.ReadResponse(in, req)
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, net: nc, in: in}, answer
}

// dialRaw writes a request as it is, with whatever follows it, and reads the answer.
func (w *world) dialRaw(text string) *client {
	w.t.Helper()
	nc, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { nc.Close() })
	c := &client{t: w.t, net: nc, in: bufio.NewReader(nc)}
	c.write([]byte(text))
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("%v, %v", answer, err)
	}
	return c
}

// send writes a text message.
func (c *client) send(text string) {
	c.t.Helper()
	c.frame(ws.NewTextFrame([]byte(text)))
}

func (c *client) frame(f ws.Frame) {
	c.t.Helper()
	c.write(ws.MustCompileFrame(ws.MaskFrame(f)))
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.net.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// next reads a frame.
func (c *client) next() (ws.Frame, error) {
	c.net.SetReadDeadline(testkit.Deadline(c.t))
	return ws.ReadFrame(c.in)
}

// recv reads a text message.
func (c *client) recv() string {
	c.t.Helper()
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		switch f.Header.OpCode {
		case ws.OpText:
			return plainText(c.t, &f)
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(f.Payload)
			c.t.Fatalf("closed: %d %s", code, reason)
		}
	}
}

// plainText returns the text of a message, which may be compressed.
func plainText(t testing.TB, f *ws.Frame) string {
	t.Helper()
	if !f.Header.Rsv1() {
		return string(f.Payload)
	}
	plain, err := io.ReadAll(flate.NewReader(strings.NewReader(string(f.Payload) + inflate.SyncTail + "\x01\x00\x00\xff\xff")))
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func (c *client) list() []any {
	c.t.Helper()
	var list []any
	text := c.recv()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	return list
}

// withoutHint returns an EOSE without the hint of NIP-67, and any other message as it is.
func withoutHint(text string) string {
	for _, hint := range []string{wire.HintFinish, wire.HintMore} {
		if short, ok := strings.CutSuffix(text, `,["`+hint+`"]]`); ok && strings.HasPrefix(text, `["EOSE",`) {
			return short + "]"
		}
	}
	return text
}

// expect reads messages and compares each. "…" in what is wanted matches anything. An EOSE
// without a hint matches one with any hint.
func (c *client) expect(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.recv(); !like(got, w) && !like(withoutHint(got), w) {
			c.t.Fatalf("got  %s\nwant %s", got, w)
		}
	}
}

func like(got, want string) bool {
	parts := strings.Split(want, "…")
	if !strings.HasPrefix(got, parts[0]) || !strings.HasSuffix(got, parts[len(parts)-1]) {
		return false
	}
	for _, p := range parts {
		i := strings.Index(got, p)
		if i < 0 {
			return false
		}
		got = got[i+len(p):]
	}
	return true
}

// ask sends a message and expects messages.
func (c *client) ask(message string, want ...string) {
	c.t.Helper()
	c.send(message)
	c.expect(want...)
}

// publish sends an event and expects the rest of its OK.
func (c *client) publish(e *host.Event, want string) {
	c.t.Helper()
	c.ask(eventMessage(e), okMessage(e, want))
}

// closed reads until the close frame, checks that the connection ends, and leaves.
func (c *client) closed() (ws.StatusCode, string) {
	c.t.Helper()
	defer c.net.Close()
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("no close frame: %v", err)
		}
		if f.Header.OpCode != ws.OpClose {
			continue
		}
		if _, err := c.next(); err != io.EOF {
			c.t.Fatalf("after the close frame: %v", err)
		}
		return ws.ParseCloseFrameData(f.Payload)
	}
}

// event makes an event with a right id.
func event(author byte, kind host.Kind, createdAt int64, content string, tags ...host.Tag) *host.Event {
	return testkit.Unsigned(host.PubKey{0: author, 31: author}, kind, createdAt, content, tags...)
}

func authMessage(e *host.Event) string { return fmt.Sprintf(`["AUTH",%s]`, e.JSON) }

func eventMessage(e *host.Event) string { return fmt.Sprintf(`["EVENT",%s]`, e.JSON) }

func okMessage(e *host.Event, rest string) string { return fmt.Sprintf(`["OK","%s",%s]`, e.ID, rest) }

func subMessage(id string, e *host.Event) string { return fmt.Sprintf(`["EVENT","%s",%s]`, id, e.JSON) }
