package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip77"

	"talon/internal/race"
)

// TestGoNostr talks to the relay with go-nostr's client, the policy chain on.
func TestGoNostr(t *testing.T) {
	t.Parallel()
	if race.Detector {
		t.Skip("go-nostr's client has data races of its own when it closes a connection")
	}
	s := start(t, newData(t), "--name", "e2e", "--max-limit", "5000")
	for name, test := range map[string]func(*testing.T, context.Context, *process, *nostr.Relay){
		"publish and subscribe": goNostrLive,
		"count":                 goNostrCount,
		"delete":                goNostrDelete,
		"replace":               goNostrReplace,
		"expire":                goNostrExpire,
		"page":                  goNostrPage,
		"authenticate":          goNostrAuth,
		"information":           goNostrInfo,
		"reconcile":             goNostrReconcile,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			test(t, ctx, s, goNostr(t, s))
		})
	}
}

// goNostr connects go-nostr's client for as long as the test lasts.
func goNostr(t testing.TB, s *process) *nostr.Relay {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := nostr.RelayConnect(ctx, s.url, nostr.WithNoticeHandler(func(text string) { t.Errorf("NOTICE %s", text) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func mustPublish(t testing.TB, ctx context.Context, r *nostr.Relay, events ...*nostr.Event) {
	t.Helper()
	for _, e := range events {
		if err := r.Publish(ctx, *e); err != nil {
			t.Fatalf("publish %s: %v", e, err)
		}
	}
}

// mustRefuse publishes an event that must be refused with a reason.
func mustRefuse(t testing.TB, ctx context.Context, r *nostr.Relay, e *nostr.Event, prefix string) {
	t.Helper()
	err := r.Publish(ctx, *e)
	if err == nil {
		t.Fatalf("accepted, want %q: %s", prefix, e)
	}
	if !strings.Contains(err.Error(), prefix) {
		t.Fatalf("refused with %q, want %q: %s", err, prefix, e)
	}
}

// mustQuery returns the stored answer to a filter.
func mustQuery(t testing.TB, ctx context.Context, r *nostr.Relay, f nostr.Filter) []*nostr.Event {
	t.Helper()
	sub, err := r.Subscribe(ctx, nostr.Filters{f})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsub()
	var events []*nostr.Event
	for {
		select {
		case e := <-sub.Events:
			events = append(events, e)
		case reason := <-sub.ClosedReason:
			t.Fatalf("query %s: CLOSED %s", f, reason)
		case <-sub.EndOfStoredEvents:
			return events
		case <-ctx.Done():
			t.Fatalf("query %s: %v", f, ctx.Err())
		}
	}
}

func goNostrLive(t *testing.T, ctx context.Context, s *process, r *nostr.Relay) {
	before := signAs(t, "live", nostr.Event{Kind: 1, Content: "before"})
	mustPublish(t, ctx, r, before)
	sub, err := goNostr(t, s).Subscribe(ctx, nostr.Filters{{Authors: []string{before.PubKey}, Kinds: []int{1, 20001}}})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *nostr.Event {
		select {
		case e := <-sub.Events:
			return e
		case <-ctx.Done():
			t.Fatal("no event")
			return nil
		}
	}
	if e := next(); e.ID != before.ID {
		t.Errorf("got %s, want the stored event", e)
	}
	<-sub.EndOfStoredEvents
	for i := range 20 {
		mustPublish(t, ctx, r,
			signAs(t, "somebody else", nostr.Event{Kind: 1, Content: strconv.Itoa(i)}),
			signAs(t, "live", nostr.Event{Kind: 7, Content: strconv.Itoa(i)}))
		kind := 1 + i%2*20000 // every second one is ephemeral
		e := signAs(t, "live", nostr.Event{Kind: kind, Content: strconv.Itoa(i), Tags: nostr.Tags{{"t", "ü\"\n"}}})
		mustPublish(t, ctx, r, e)
		if got := next(); got.String() != e.String() {
			t.Errorf("got %s\nwant %s", got, e)
		}
	}
	// The ephemeral ones were not kept.
	if n := len(mustQuery(t, ctx, r, nostr.Filter{Authors: []string{before.PubKey}, Kinds: []int{1, 20001}})); n != 11 {
		t.Errorf("%d events are stored, want 11", n)
	}
}

func goNostrCount(t *testing.T, ctx context.Context, _ *process, r *nostr.Relay) {
	target := signAs(t, "popular", nostr.Event{Kind: 1, Content: "like me"})
	mustPublish(t, ctx, r, target)
	for i := range 37 {
		mustPublish(t, ctx, r, signAs(t, "fan "+strconv.Itoa(i), nostr.Event{Kind: 7, Content: "+", Tags: nostr.Tags{{"e", target.ID}}}))
	}
	n, registers, err := r.Count(ctx, nostr.Filters{{Kinds: []int{7}, Tags: nostr.TagMap{"e": {target.ID}}}})
	if err != nil {
		t.Fatal(err)
	}
	if n != 37 {
		t.Errorf("got %d, want 37", n)
	}
	if len(registers) != 256 {
		t.Errorf("got %d HyperLogLog registers, want 256", len(registers))
	}
}

func goNostrDelete(t *testing.T, ctx context.Context, _ *process, r *nostr.Relay) {
	mine := signAs(t, "owner", nostr.Event{Kind: 1, Content: "a mistake"})
	early := signAs(t, "owner", nostr.Event{Kind: 1, Content: "not sent yet"})
	article := signAs(t, "owner", nostr.Event{Kind: 30023, CreatedAt: nostr.Now() - 5, Tags: nostr.Tags{{"d", "x"}}})
	other := signAs(t, "other", nostr.Event{Kind: 1, Content: "of somebody else"})
	mustPublish(t, ctx, r, mine, article, other)
	deletion := signAs(t, "owner", nostr.Event{Kind: 5, Tags: nostr.Tags{
		{"e", mine.ID}, {"e", early.ID}, {"e", other.ID}, {"a", "30023:" + mine.PubKey + ":x"},
	}})
	mustPublish(t, ctx, r, deletion)
	var left []string
	for _, e := range mustQuery(t, ctx, r, nostr.Filter{IDs: []string{mine.ID, early.ID, article.ID, other.ID, deletion.ID}}) {
		left = append(left, e.ID)
	}
	if !sameSet(left, []string{other.ID, deletion.ID}) {
		t.Errorf("left are %v", left)
	}
	for _, e := range []*nostr.Event{mine, early, article} {
		mustRefuse(t, ctx, r, e, "blocked: ")
	}
	// A version that is newer than the deletion is a new article.
	mustPublish(t, ctx, r, signAs(t, "owner", nostr.Event{Kind: 30023, CreatedAt: deletion.CreatedAt + 1, Tags: nostr.Tags{{"d", "x"}}}))
}

func goNostrReplace(t *testing.T, ctx context.Context, s *process, r *nostr.Relay) {
	now := nostr.Now()
	sub, err := goNostr(t, s).Subscribe(ctx, nostr.Filters{{Authors: []string{pubkey("replacer")}, Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	<-sub.EndOfStoredEvents
	profile := func(age int, content string) *nostr.Event {
		return signAs(t, "replacer", nostr.Event{Kind: 0, CreatedAt: now - nostr.Timestamp(age), Content: content})
	}
	newest, older := profile(10, "newest"), profile(20, "older")
	mustPublish(t, ctx, r, profile(30, "oldest"), newest)
	mustRefuse(t, ctx, r, older, "replaced: have newer event")
	mustPublish(t, ctx, r, newest)
	// Missing and empty d are one address; "mylib" is not "mylib-extra".
	at := func(tags nostr.Tags, content string, age int) *nostr.Event {
		return signAs(t, "replacer", nostr.Event{Kind: 30001, CreatedAt: now - nostr.Timestamp(age), Tags: tags, Content: content})
	}
	mustPublish(t, ctx, r,
		at(nostr.Tags{}, "none", 9), at(nostr.Tags{{"d", ""}}, "empty", 8), at(nostr.Tags{{"d"}}, "no value", 7),
		at(nostr.Tags{{"d", "mylib-extra"}}, "extra", 6), at(nostr.Tags{{"d", "mylib"}}, "mylib 1", 5), at(nostr.Tags{{"d", "mylib"}}, "mylib 2", 4))
	var contents []string
	for _, e := range mustQuery(t, ctx, r, nostr.Filter{Authors: []string{newest.PubKey}}) {
		contents = append(contents, e.Content)
	}
	// This client hands on each event by a goroutine of its own: others look at the order.
	if want := []string{"mylib 2", "extra", "no value", "newest"}; !sameSet(contents, want) {
		t.Errorf("stored are %q, want %q", contents, want)
	}
	// The older version that came late was never broadcast.
	var heard []string
	for len(heard) < 8 {
		select {
		case e := <-sub.Events:
			heard = append(heard, e.Content)
		case <-ctx.Done():
			t.Fatalf("heard only %q", heard)
		}
	}
	want := []string{"oldest", "newest", "none", "empty", "no value", "extra", "mylib 1", "mylib 2"}
	if !sameSet(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func goNostrExpire(t *testing.T, ctx context.Context, _ *process, r *nostr.Relay) {
	expiring := func(at nostr.Timestamp) *nostr.Event {
		return signAs(t, "expiring", nostr.Event{Kind: 1, Tags: nostr.Tags{{"expiration", strconv.FormatInt(int64(at), 10)}}})
	}
	mustRefuse(t, ctx, r, expiring(nostr.Now()-1), "invalid: ")
	later := expiring(nostr.Now() + 3600)
	mustPublish(t, ctx, r, later)
	// On a machine that pauses, one may have expired before it arrives.
	for r.Publish(ctx, *expiring(nostr.Now() + 4)) != nil && ctx.Err() == nil {
	}
	filter := nostr.Filter{Authors: []string{later.PubKey}}
	// The clock is the server's.
	until(t, "one of the two expires", func() bool {
		left := mustQuery(t, ctx, r, filter)
		return len(left) == 1 && left[0].ID == later.ID
	})
	if n, _, err := r.Count(ctx, nostr.Filters{filter}); err != nil || n != 1 {
		t.Errorf("counted %d, want 1 (%v)", n, err)
	}
}

func goNostrPage(t *testing.T, ctx context.Context, s *process, r *nostr.Relay) {
	// Up to 40 in one second.
	const total = 600
	now := nostr.Now()
	sent := make(map[string]bool, total)
	c := connect(t, s)
	go func() {
		for i := 0; len(sent) < total; i++ {
			e := nostr.Event{Kind: 1, CreatedAt: now - nostr.Timestamp(i/40*(1+i%3)), Content: strconv.Itoa(i)}
			_ = e.Sign(key("pager"))
			sent[e.ID] = true
			_ = c.write(message(&e))
		}
	}()
	for range total {
		if a, err := parseOK(c.mustNext(t, "OK")); err != nil || !a.ok {
			t.Fatalf("publish: %+v %v", a, err)
		}
	}
	seen := map[string]bool{}
	until := now + 100
	for pages := 1; ; pages++ {
		page := mustQuery(t, ctx, r, nostr.Filter{Authors: []string{pubkey("pager")}, Until: &until, Limit: 150})
		fresh := 0
		for _, e := range page {
			if !seen[e.ID] {
				seen[e.ID] = true
				fresh++
			}
			until = min(until, e.CreatedAt)
		}
		if fresh == 0 {
			break
		}
		if pages > total {
			t.Fatal("paging does not end")
		}
	}
	if !maps.Equal(seen, sent) {
		t.Errorf("paging found %d events, want %d", len(seen), len(sent))
	}
}

func goNostrAuth(t *testing.T, ctx context.Context, s *process, r *nostr.Relay) {
	protected := signAs(t, "author", nostr.Event{Kind: 1, Content: "only from me", Tags: nostr.Tags{{"-"}}})
	mustRefuse(t, ctx, r, protected, "auth-required: ")
	if err := r.Auth(ctx, func(e *nostr.Event) error { return e.Sign(key("courier")) }); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, ctx, r, protected, "restricted: ")
	// A second key of the same connection.
	if err := r.Auth(ctx, func(e *nostr.Event) error { return e.Sign(key("author")) }); err != nil {
		t.Fatal(err)
	}
	mustPublish(t, ctx, r, protected)
	if len(mustQuery(t, ctx, goNostr(t, s), nostr.Filter{IDs: []string{protected.ID}})) != 1 {
		t.Error("a protected event may be read by anybody")
	}
	// An event that was signed for another relay, or long ago, proves nothing here.
	for what, change := range map[string]func(*nostr.Event){
		"another relay":     func(e *nostr.Event) { e.Tags[0][1] = "wss://relay.example.com" },
		"another challenge": func(e *nostr.Event) { e.Tags[1][1] = strings.Repeat("0", 64) },
		"long ago":          func(e *nostr.Event) { e.CreatedAt -= 3600 },
		"another kind":      func(e *nostr.Event) { e.Kind = 1 },
	} {
		fresh := goNostr(t, s)
		// A round trip, so that the challenge is here.
		mustRefuse(t, ctx, fresh, signAs(t, "author", nostr.Event{Kind: 1, Content: what, Tags: nostr.Tags{{"-"}}}), "auth-required: ")
		err := fresh.Auth(ctx, func(e *nostr.Event) error {
			change(e)
			return e.Sign(key("author"))
		})
		if err == nil || !strings.Contains(err.Error(), "invalid: ") {
			t.Errorf("AUTH for %s: got %v", what, err)
		}
	}
}

func goNostrInfo(t *testing.T, _ context.Context, s *process, _ *nostr.Relay) {
	resp, err := fetchInfo(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var info struct {
		Name          string
		SupportedNIPs []int `json:"supported_nips"`
		Limitation    map[string]any
	}
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("Access-Control-Allow-Origin is %q", got)
	}
	if info.Name != "e2e" || info.Limitation["max_limit"] != 5000.0 || info.Limitation["default_limit"] != 500.0 {
		t.Errorf("got %+v", info)
	}
	for _, nip := range []int{1, 9, 11, 40, 42, 45, 50, 59, 62, 67, 70, 77} {
		if !slices.Contains(info.SupportedNIPs, nip) {
			t.Errorf("NIP-%d is missing", nip)
		}
	}
}

// memory is the other side of a reconciliation.
type memory struct {
	mu     sync.Mutex // guards events
	events map[string]*nostr.Event
}

func (m *memory) Publish(_ context.Context, e nostr.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[e.ID] = &e
	return nil
}

func (m *memory) QuerySync(_ context.Context, f nostr.Filter) ([]*nostr.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*nostr.Event
	for _, e := range m.events {
		if f.Matches(e) {
			list = append(list, e)
		}
	}
	return list, nil
}

func (m *memory) QueryEvents(ctx context.Context, f nostr.Filter) (chan *nostr.Event, error) {
	list, err := m.QuerySync(ctx, f)
	events := make(chan *nostr.Event, len(list))
	for _, e := range list {
		events <- e
	}
	close(events)
	return events, err
}

func goNostrReconcile(t *testing.T, ctx context.Context, s *process, r *nostr.Relay) {
	const total = 600
	ours := &memory{events: map[string]*nostr.Event{}}
	var all []string
	c := connect(t, s)
	sent := 0
	for i := range total {
		e := signAs(t, "reconciler", nostr.Event{Kind: 1, CreatedAt: nostr.Now() - nostr.Timestamp(i/3), Content: strconv.Itoa(i)})
		all = append(all, e.ID)
		if i%7 != 0 { // theirs
			c.send(t, string(message(e)))
			sent++
		}
		if i%5 != 0 {
			ours.events[e.ID] = e
		}
	}
	for range sent {
		c.mustNext(t, "OK")
	}
	filter := nostr.Filter{Authors: []string{pubkey("reconciler")}}
	if err := nip77.NegentropySync(ctx, ours, s.url, filter, nip77.Both); err != nil {
		t.Fatal(err)
	}
	filter.Limit = 5000
	if got := ids(mustQuery(t, ctx, r, filter)); !sameSet(got, both(all, 7, 5)) {
		t.Errorf("the relay has %d events after the sync, want %d", len(got), len(both(all, 7, 5)))
	}
	if got := slices.Collect(maps.Keys(ours.events)); !sameSet(got, both(all, 7, 5)) {
		t.Errorf("we have %d events after the sync, want %d", len(got), len(both(all, 7, 5)))
	}
}

// both returns the ids that at least one side had: those left out of every n-th and
// every m-th were nowhere.
func both(all []string, n, m int) []string {
	var list []string
	for i, id := range all {
		if i%n != 0 || i%m != 0 {
			list = append(list, id)
		}
	}
	return list
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
