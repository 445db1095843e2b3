package guest

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"talon/host"
	"talon/sdk/abi"
)

var client = &host.Client{
	Addr: netip.MustParseAddr("2001:db8::1"), Authed: []host.PubKey{{1}, {2}}, UserAgent: "agent", Origin: "https://example.com", Path: "/x",
}

func checkClient(t *testing.T, c abi.ClientView) {
	t.Helper()
	var keys []byte
	for it := c.Authed(); it.Next(); {
		keys = append(keys, it.Bytes()[0])
	}
	if c.Address() != "2001:db8::1" || c.UserAgent() != "agent" || c.Origin() != "https://example.com" || c.Path() != "/x" || !bytes.Equal(keys, []byte{1, 2}) {
		t.Errorf("client %q %q %q %q with keys %v", c.Address(), c.UserAgent(), c.Origin(), c.Path(), keys)
	}
}

func TestQueryRequest(t *testing.T) {
	var q Request
	var v abi.QueryRequestView
	if err := v.Decode(q.Query(&host.Query{Client: client, Verb: host.QueryNeg, Filters: []host.Filter{
		{IDs: []host.ID{}, Limit: -1},
		{Kinds: []host.Kind{7, 30617}, Authors: []host.PubKey{{9}}, Limit: 5},
	}}, now)); err != nil {
		t.Fatal(err)
	}
	checkClient(t, v.Client)
	if v.Verb != abi.VerbNeg || v.Now != now {
		t.Errorf("verb %d at %d", v.Verb, v.Now)
	}
	n := 0
	for it := v.Filters(); it.Next(); n++ {
	}
	if n != 1 {
		t.Errorf("%d filters, want the one that can match", n)
	}
	for verb, want := range map[host.QueryVerb]uint32{host.QueryReq: abi.VerbReq, host.QueryCount: abi.VerbCount} {
		if err := v.Decode(q.Query(&host.Query{Verb: verb}, now)); err != nil || v.Verb != want {
			t.Errorf("%v: verb %d, %v; want %d", verb, v.Verb, err, want)
		}
	}
}

func TestConnectRequest(t *testing.T) {
	var q Request
	var v abi.ConnectRequestView
	if err := v.Decode(q.Connect(&host.Connection{Client: *client, Open: 70_000, FromAddr: 3}, now)); err != nil {
		t.Fatal(err)
	}
	checkClient(t, v.Client)
	if v.Open != 70_000 || v.FromAddress != 3 || v.Now != now {
		t.Errorf("%d open, %d from the address, at %d", v.Open, v.FromAddress, v.Now)
	}
}

func TestPushRequest(t *testing.T) {
	update := host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: object}
	var q Request
	var v abi.PushRequestView
	if err := v.Decode(q.Push(&host.Push{
		Client: client, Repo: repo, Maintainers: []host.PubKey{{5}}, Updates: []host.RefUpdate{update}, Bytes: 10, Stored: 20,
	}, now)); err != nil {
		t.Fatal(err)
	}
	checkClient(t, v.Client)
	updates := v.Updates()
	if !updates.Next() || host.RefUpdate(updates.Update()) != update || updates.Next() {
		t.Errorf("updates are not %+v", update)
	}
	if v.Repo != repo.String() || v.Bytes != 10 || v.Stored != 20 || v.Now != now {
		t.Errorf("%+v", v)
	}
}

func TestAdmitRequest(t *testing.T) {
	for origin, want := range map[host.Origin]uint32{host.FromClient: abi.OriginClient, host.FromImport: abi.OriginImport, host.FromSync: abi.OriginSync} {
		it := item(1, "hello")
		it.Source.Origin, it.Source.Relay, it.Authed = origin, "wss://relay.example.com", []host.PubKey{{8}}
		var q Request
		var v abi.AdmitRequestView
		if err := v.Decode(q.Admit(it, now)); err != nil {
			t.Fatal(err)
		}
		if v.Source.Origin() != want || v.Source.Address() != "192.0.2.7" || v.Source.Relay() != "wss://relay.example.com" ||
			v.Source.Authed(0)[0] != 8 || v.Event.Content() != "hello" || v.Now != now {
			t.Errorf("%v: %+v", origin, v)
		}
	}
}

func TestLargeRequestsAreNotKept(t *testing.T) {
	var q Request
	q.Admit(item(1, strings.Repeat("x", 2*keepRequest)), now)
	q.Admit(item(1, "small"), now)
	if cap(q.b) > keepRequest {
		t.Errorf("a buffer of %d bytes is kept", cap(q.b))
	}
}

func TestRequestsAllocateNothing(t *testing.T) {
	var q Request
	query := &host.Query{Client: client, Filters: []host.Filter{{Kinds: []host.Kind{1}, Tags: []host.TagFilter{{Name: 't', Values: []string{"x"}}}, Limit: -1}}}
	connection, it := &host.Connection{Client: *client}, item(1, "hello")
	for name, encode := range map[string]func(){
		"admit": func() { q.Admit(it, now) }, "query": func() { q.Query(query, now) }, "connect": func() { q.Connect(connection, now) },
	} {
		if n := testing.AllocsPerRun(100, encode); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func FuzzReason(f *testing.F) {
	f.Add("blocked: no")
	f.Add("no prefix")
	f.Add("blocked: \r\n\x00\u202e" + strings.Repeat("é", 600))
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		for action, prefix := range map[host.Action]string{host.Reject: "", host.Hold: "purgatory", host.RequireAuth: "auth-required"} {
			got := Reason(action, text)
			before, _, ok := strings.Cut(got, ": ")
			if !ok || prefix != "" && before != prefix || !isPrefix(before) {
				t.Errorf("%v %q becomes %q: no standard prefix", action, text, got)
			}
			if len(got) > maxReason || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
				t.Errorf("%v %q becomes %q: not one line of UTF-8, at most %d bytes", action, text, got, maxReason)
			}
		}
	})
}
