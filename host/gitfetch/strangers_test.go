package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitfetch/queue"
	"talon/internal/testkit"
)

// byStranger says that a held event names all URLs of the latest want of an identifier.
func (f *forge) byStranger(identifier string, event byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.wants[identifier][len(f.wants[identifier])-1]
	w.strangers = make(map[string][]Namer)
	for _, u := range w.urls {
		w.strangers[u] = []Namer{{Event: host.ID{event}, Author: host.PubKey{event}}}
	}
}

// origins gives each event the /24 of its first byte.
func origins(c *Config) {
	c.Namer = func(event host.ID, author host.PubKey) bound.Namer {
		return bound.Namer{Addr: netip.AddrFrom4([4]byte{198, 18, event[0], 1}), Author: string(author[:])}
	}
}

// TestStrangersServers has held events name 60 URLs of a victim. The search asks for as many as one
// network has visits, however often its rounds come. An honest event is served at the same time.
func TestStrangersServers(t *testing.T) {
	victim, f := newRemote(t), newForge(t)
	const most = 16 // bound.Visits of a network in an hour
	for i := range 3 {
		var urls []string
		for k := range 20 {
			urls = append(urls, fmt.Sprintf("%s/absent-%d-%d.git", victim.URL, i, k))
		}
		name := fmt.Sprint("junk", i)
		f.hold(alice, name, []string{object(i)}, urls...)
		f.byStranger(name, 1)
	}
	dir, id := work(t, "honest")
	home := newRemote(t)
	f.hold(bob, "x", []string{id}, home.add(t, "x", dir))
	f.byStranger("x", 2)
	h := hunt(t, f, inAHurry(), origins)
	for i := range 3 {
		h.Held(synced(fmt.Sprint("junk", i)))
	}
	testkit.Eventually(t, "rounds without visits", func() bool {
		s, _ := h.Search("junk2")
		return s.Rounds >= 8 && len(s.Refused) > 0
	})
	complete(t, f, h)
	if n := victim.asked(); n != most {
		t.Errorf("the victim was asked %d times, want %d", n, most)
	}
	if n := home.asked(); n != 1 {
		t.Errorf("the honest server was asked %d times, want once", n)
	}
	if s, _ := h.Search("junk0"); len(s.Refused) == 0 || s.Refused[0].Reason != errVisits.Error() {
		t.Errorf("the status names %v, want why URLs are not asked", s.Refused)
	}
}

// TestKnownServers shows that a server which a stored announcement names has no limit of strangers,
// nor has one that had what was asked for, and that announcements are not read for each question.
func TestKnownServers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := newForge(t)
	f.servers = []string{"https://stored.example/any/path.git"}
	h := newHunter(t, f, nil, func(c *Config) {
		origins(c)
		c.Now = func() time.Time { return now }
	})
	by := func(url string) []Namer {
		list, err := h.namers(t.Context(), []Want{{URLs: []string{url}, Strangers: map[string][]Namer{url: {{Event: host.ID{1}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return list[url]
	}
	if by("https://stored.example/x.git") != nil || by("https://strange.example/x.git") == nil {
		t.Error("the server of a stored announcement is a stranger's, or another one is not")
	}
	h.strangers.proven("strange.example")
	if by("https://strange.example/x.git") != nil {
		t.Error("a server that had what was asked for is a stranger's")
	}
	f.servers = append(f.servers, "https://new.example/x.git")
	for range 100 {
		_ = by("https://new.example/x.git")
	}
	if f.reads != 1 {
		t.Errorf("the announcements were read %d times, want once", f.reads)
	}
	now = now.Add(serversEvery)
	if by("https://new.example/x.git") != nil || f.reads != 2 {
		t.Errorf("the server of a new announcement is a stranger's; they were read %d times, want twice", f.reads)
	}
	f.servers = append(f.servers, "https://released.example/x.git")
	now = now.Add(serversSoon)
	if by("https://released.example/x.git") == nil {
		t.Error("the announcements were read again although nothing was stored")
	}
	h.NoLongerHeld(synced("x"), true)
	if by("https://released.example/x.git") != nil || f.reads != 3 {
		t.Errorf("the server of an announcement that was just stored is a stranger's; they were read %d times, want 3 times", f.reads)
	}
	// Another event of the repository, stored, names the same URL in another form.
	list, err := h.namers(t.Context(), []Want{
		{URLs: []string{"https://both.example/x"}, Strangers: map[string][]Namer{"https://both.example/x": {{Event: host.ID{1}}}}},
		{URLs: []string{"https://BOTH.example/x/"}},
	})
	if err != nil || len(list) != 0 {
		t.Errorf("%v, %v: a URL that a stored announcement names is a stranger's", list, err)
	}
}

// TestStrangersNames shows that 1,000 names of one address get one part, that requests beyond it
// are no fault of the server, and that redirects count for those who named the first URL.
func TestStrangersNames(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := newForge(t)
	h := newHunter(t, f, nil, func(c *Config) {
		origins(c)
		c.Now = func() time.Time { return now }
	})
	victim := netip.MustParseAddr("192.0.2.80")
	charged := 0
	dial := h.guard.charging(func(to netip.Addr) error {
		if err := h.strangers.charge(to); err != nil {
			return err
		}
		charged++
		return errors.New("this test connects to nothing")
	})
	h.guard.lookup = func(_ context.Context, _ string) ([]netip.Addr, error) { return []netip.Addr{victim}, nil }
	var last error
	for i := range 1000 {
		_, last = dial(t.Context(), "tcp", fmt.Sprintf("name-%d.example:443", i))
	}
	if charged > 36 || !errors.As(last, new(*laterError)) {
		t.Errorf("1,000 names led to %d connections, and then to %v", charged, last)
	}
	const url = "http://one-more.example/x.git"
	f.hold(alice, "x", []string{object(1)}, url)
	f.byStranger("x", 1)
	if r := ask(t, h, url); !r.Skipped || r.Missing != 1 {
		t.Errorf("a request that may not be sent ends with %+v, want that it is skipped", r)
	}
	h.moved[redirect{"x", "http://target.example/x.git"}] = url
	left := h.strangers.left([]Namer{{Event: host.ID{1}, Author: host.PubKey{1}}})
	work := queue.Work{Key: "x", URL: queue.URL{Text: "http://target.example/x.git", Domain: "target.example"}}
	list, err := f.Wanted(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if charged, ok := h.visit(t.Context(), work, list, url); !charged || !ok {
		t.Error("the target of a redirect is not charged to those who named the URL")
	}
	if now := h.strangers.left([]Namer{{Event: host.ID{1}, Author: host.PubKey{1}}}); now != left-1 {
		t.Errorf("they have %d visits left, want %d", now, left-1)
	}
}

// TestStrangersConnections shows that the connections of strangers' requests are not shared with
// those of others, which nobody charged.
func TestStrangersConnections(t *testing.T) {
	dir, id := work(t, "one")
	r, f := newRemote(t), newForge(t)
	url := r.add(t, "x", dir)
	var seen []string
	r.misbehave(func(_ http.ResponseWriter, req *http.Request) bool {
		if !slices.Contains(seen, req.RemoteAddr) {
			seen = append(seen, req.RemoteAddr)
		}
		return false
	})
	f.hold(alice, "x", []string{id, object(1)}, url)
	f.byStranger("x", 1)
	h := newHunter(t, f, nil, origins)
	for range 2 {
		h.strangers.domains = map[string]bool{} // the first request proves the server
		if result := ask(t, h, url); result.Skipped {
			t.Fatalf("%+v", result)
		}
	}
	if len(seen) != 2 {
		t.Errorf("two requests of strangers came over %d connections, want 2", len(seen))
	}
}
