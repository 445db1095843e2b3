package relayclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"talon/host"
)

func TestPublish(t *testing.T) {
	one, two := event(t, 1), event(t, 2)
	var notices []string
	c := connect(t, listen(t, func(f *fake) {
		f.say(`["AUTH","not needed"]`)
		if got, want := f.want(`["EVENT",{`), `["EVENT",`+string(one.JSON)+`]`; got != want {
			t.Errorf("the client sent %s, want %s", got, want)
		}
		// Unknown messages, and those for others, are skipped.
		f.say(`["NOTICE","slow today"]`)
		f.say(`["COUNT","x",{"count":1}]`)
		f.say(`["OK","%s",false,"invalid: not yours"]`, two.ID)
		f.say(`["OK","%s",true,"duplicate: seen"]`, one.ID)
		f.want(`["EVENT",{`)
		f.say(`["OK","%s",false,"blocked: no"]`, two.ID)
		f.gone()
	}), Options{Notice: func(s string) { notices = append(notices, s) }, Prove: func(_, _ string) (*host.Event, error) {
		t.Error("a key was proven to a relay that did not ask")
		return nil, errors.New("not asked")
	}})
	for _, tt := range []struct {
		e    *host.Event
		want Result
	}{{one, Result{true, "duplicate: seen"}}, {two, Result{false, "blocked: no"}}} {
		if got, err := c.Publish(soon(t), tt.e); err != nil || got != tt.want {
			t.Errorf("Publish: %+v, %v; want %+v", got, err, tt.want)
		}
	}
	if !slices.Equal(notices, []string{"slow today"}) {
		t.Errorf("notices: %q", notices)
	}
}

// A relay may say its challenge at the start or with its refusal, and a client that
// has proven itself once is not asked to do so again.
func TestPublishProves(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("challenge after the refusal %v", late), func(t *testing.T) {
			one, two, proof := event(t, 1), event(t, 2), event(t, 3)
			address := listen(t, func(f *fake) {
				if !late {
					f.say(`["AUTH","old"]`)
					f.say(`["AUTH","challenge"]`)
				}
				f.want(`["EVENT",`)
				f.say(`["OK","%s",false,"auth-required: who are you"]`, one.ID)
				if late {
					f.say(`["AUTH","challenge"]`)
				}
				if got, want := f.want(`["AUTH",`), `["AUTH",`+string(proof.JSON)+`]`; got != want {
					t.Errorf("the proof is %s, want %s", got, want)
				}
				f.say(`["OK","%s",true,""]`, proof.ID)
				f.want(`["EVENT",`)
				f.say(`["OK","%s",true,""]`, one.ID)
				f.want(`["EVENT",`)
				f.say(`["OK","%s",false,"auth-required: somebody else"]`, two.ID)
				f.gone()
			})
			c := connect(t, address, Options{Prove: func(relay, challenge string) (*host.Event, error) {
				if relay != address || challenge != "challenge" {
					t.Errorf("Prove(%q, %q)", relay, challenge)
				}
				return proof, nil
			}})
			if got, err := c.Publish(soon(t), one); err != nil || !got.OK {
				t.Errorf("Publish: %+v, %v", got, err)
			}
			if got, err := c.Publish(soon(t), two); err != nil || got.OK || got.Reason != "auth-required: somebody else" {
				t.Errorf("Publish again: %+v, %v", got, err)
			}
		})
	}
}

func TestProofRefused(t *testing.T) {
	one, proof := event(t, 1), event(t, 3)
	c := connect(t, listen(t, func(f *fake) {
		f.say(`["AUTH","c"]`)
		f.want(`["EVENT",`)
		f.say(`["OK","%s",false,"auth-required: who are you"]`, one.ID)
		f.want(`["AUTH",`)
		f.say(`["OK","%s",false,"restricted: not you"]`, proof.ID)
		f.gone()
	}), Options{Prove: func(_, _ string) (*host.Event, error) { return proof, nil }})
	if _, err := c.Publish(soon(t), one); err == nil || !strings.Contains(err.Error(), "restricted: not you") {
		t.Errorf("Publish: %v", err)
	}
}

// A challenge goes into an event that is signed: it must not be a way to have
// megabytes signed.
func TestLongChallenge(t *testing.T) {
	one := event(t, 1)
	c := connect(t, listen(t, func(f *fake) {
		f.say(`["AUTH","%s"]`, strings.Repeat("x", challengeBytes+1))
		f.want(`["EVENT",`)
		f.say(`["OK","%s",false,"auth-required: who are you"]`, one.ID)
		f.gone()
	}), Options{Prove: func(_, _ string) (*host.Event, error) {
		t.Error("it was signed")
		return nil, errors.New("it was signed")
	}})
	if _, err := c.Publish(soon(t), one); err == nil || !strings.Contains(err.Error(), "challenge") {
		t.Errorf("Publish: %v", err)
	}
}

func TestQuery(t *testing.T) {
	c := connect(t, listen(t, func(f *fake) {
		f.want(`["REQ","q1",{"kinds":[1]}]`)
		f.say(`["EVENT","q1",%s]`, event(t, 1).JSON)
		f.say(`["EVENT","q0",%s]`, event(t, 9).JSON)
		f.say(`["EOSE","q0"]`)
		f.say(`["EVENT","q1",%s]`, event(t, 2).JSON)
		f.say(`["EOSE","q1"]`)
		f.want(`["CLOSE","q1"]`)
		// The caller has enough after one.
		f.want(`["REQ","q2",{}]`)
		f.say(`["EVENT","q2",%s]`, event(t, 3).JSON)
		f.want(`["CLOSE","q2"]`)
		f.want(`["REQ","q3",{}]`)
		f.say(`["CLOSED","q3","error: no"]`)
		f.want(`["REQ","q4",{}]`)
		f.say(`["CLOSED","q4"]`)
		f.gone()
	}), Options{})
	var got []int64
	ask := func(filter string, more bool) error {
		return c.Query(soon(t), []byte(filter), func(e *host.Event) bool {
			got = append(got, e.CreatedAt)
			return more
		})
	}
	if err := ask(`{"kinds":[1]}`, true); err != nil {
		t.Error(err)
	}
	if err := ask(`{}`, false); err != nil {
		t.Error(err)
	}
	if !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("got the events %v", got)
	}
	if err := ask(`{}`, true); err == nil || !strings.Contains(err.Error(), "error: no") {
		t.Errorf("a refused query: %v", err)
	}
	if err := ask(`{}`, true); err == nil {
		t.Error("a query that was closed without a reason succeeded")
	}
}

func TestQueryProves(t *testing.T) {
	proof := event(t, 3)
	c := connect(t, listen(t, func(f *fake) {
		f.say(`["AUTH","c"]`)
		f.want(`["REQ","q1",`)
		f.say(`["CLOSED","q1","auth-required: members only"]`)
		f.want(`["AUTH",`)
		f.say(`["OK","%s",true,""]`, proof.ID)
		f.want(`["REQ","q2",`)
		f.say(`["EOSE","q2"]`)
		f.want(`["CLOSE","q2"]`)
	}), Options{Prove: func(_, _ string) (*host.Event, error) { return proof, nil }})
	if err := c.Query(soon(t), []byte(`{}`), func(*host.Event) bool { return true }); err != nil {
		t.Error(err)
	}
}

// Fragments, pings in the midst of them, and empty frames are all of the protocol.
func TestFrames(t *testing.T) {
	one := event(t, 1)
	c := connect(t, listen(t, func(f *fake) {
		f.want(`["EVENT",`)
		ok := fmt.Appendf(nil, `["OK","%s",true,"%s"]`, one.ID, strings.Repeat("é", 50_000))
		for i := 0; i < len(ok); i += 1000 {
			op := ws.OpContinuation
			if i == 0 {
				op = ws.OpText
			}
			_ = ws.WriteFrame(f.net, ws.NewFrame(op, false, ok[i:min(i+1000, len(ok))]))
			_ = ws.WriteFrame(f.net, ws.NewPingFrame([]byte("there?")))
		}
		_ = ws.WriteFrame(f.net, ws.NewFrame(ws.OpContinuation, true, nil))
		h, err := ws.ReadFrame(f.net)
		if err != nil || h.Header.OpCode != ws.OpPong || string(ws.UnmaskFrame(h).Payload) != "there?" {
			t.Errorf("the client answers a ping with %v, %v", h.Header, err)
		}
		f.gone()
	}), Options{})
	if got, err := c.Publish(soon(t), one); err != nil || !got.OK || len(got.Reason) != 100_000 {
		t.Errorf("Publish: %v, %d bytes, %v", got.OK, len(got.Reason), err)
	}
}

// A relay that misbehaves costs an error and the connection, not memory or time.
func TestHostileRelay(t *testing.T) {
	raw := func(frames ...ws.Frame) func(*fake) {
		return func(f *fake) {
			for _, frame := range frames {
				_ = ws.WriteFrame(f.net, frame)
			}
		}
	}
	for name, tt := range map[string]struct {
		play func(*fake)
		want string
	}{
		"a message too long":       {func(f *fake) { f.say(`["NOTICE","%s"]`, strings.Repeat("x", 2000)) }, "more than 1000 bytes"},
		"one of 2^62 bytes":        {func(f *fake) { _ = ws.WriteHeader(f.net, ws.Header{Fin: true, OpCode: ws.OpText, Length: 1 << 62}) }, "more than 1000 bytes"},
		"one in many fragments":    {raw(ws.NewFrame(ws.OpText, false, make([]byte, 600)), ws.NewFrame(ws.OpContinuation, false, make([]byte, 600))), "more than 1000 bytes"},
		"no JSON":                  {func(f *fake) { f.say("hello") }, "not understood"},
		"an event that is none":    {func(f *fake) { f.say(`["EVENT","q1",{}]`) }, "not understood"},
		"not UTF-8":                {raw(ws.NewTextFrame([]byte("[\"NOTICE\",\"\xff\"]"))), "not understood"},
		"a binary message":         {raw(ws.NewBinaryFrame([]byte("[]"))), "binary"},
		"a masked frame":           {raw(ws.MaskFrame(ws.NewTextFrame([]byte("[]")))), "websocket protocol"},
		"a long ping":              {raw(ws.NewPingFrame(make([]byte, 126))), "websocket protocol"},
		"a reserved opcode":        {raw(ws.NewFrame(3, true, nil)), "websocket protocol"},
		"a continuation":           {raw(ws.NewFrame(ws.OpContinuation, true, nil)), "websocket protocol"},
		"a goodbye with a reason":  {raw(ws.NewCloseFrame(ws.NewCloseFrameBody(1013, "come again later"))), "come again later"},
		"a goodbye":                {raw(ws.NewCloseFrame(nil)), "closed the connection"},
		"a goodbye of one byte":    {raw(ws.NewCloseFrame([]byte{3})), "closed the connection"},
		"an end in the midst of":   {func(f *fake) { _ = ws.WriteHeader(f.net, ws.Header{Fin: true, OpCode: ws.OpText, Length: 10}) }, "closed the connection"},
		"an end":                   {func(*fake) {}, "closed the connection"},
		"an end after a ping half": {func(f *fake) { _ = ws.WriteHeader(f.net, ws.Header{Fin: true, OpCode: ws.OpPing, Length: 10}) }, "closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, listen(t, func(f *fake) {
				f.want(`["EVENT",`)
				tt.play(f)
			}), Options{MessageBytes: 1000})
			_, err := c.Publish(soon(t), event(t, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if _, again := c.Publish(soon(t), event(t, 2)); again != err {
				t.Errorf("after the error the connection goes on: %v", again)
			}
		})
	}
}

// Silence, and chatter that is no answer, end with the context: while the answer is waited for.
func TestNoAnswer(t *testing.T) {
	for name, play := range map[string]func(f *fake, cancel func()){
		"silence": func(f *fake, cancel func()) {
			cancel()
			f.gone()
		},
		"chatter": func(f *fake, cancel func()) {
			for n := 0; ; n++ {
				if err := ws.WriteFrame(f.net, ws.NewTextFrame([]byte(`["NOTICE","wait"]`))); err != nil {
					f.ended(err)
					return
				}
				if n == 100 {
					cancel()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			c := connect(t, listen(t, func(f *fake) {
				f.want(`["EVENT",`)
				play(f, cancel)
			}), Options{})
			if _, err := c.Publish(ctx, event(t, 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("Publish: %v", err)
			}
		})
	}
}

func TestDialRefuses(t *testing.T) {
	answer := func(text string, endless bool) string {
		return listenRaw(t, func(c net.Conn) {
			buf := make([]byte, 4096)
			if _, err := c.Read(buf); err != nil {
				t.Error(err)
			}
			_, err := io.WriteString(c, text)
			for endless && err == nil {
				_, err = io.WriteString(c, strings.Repeat("x", 4096))
			}
		})
	}
	for name, tt := range map[string]struct{ address, want string }{
		"a web page":          {answer("HTTP/1.1 200 OK\r\n\r\n", false), "HTTP status 200"},
		"a redirect":          {answer("HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n", false), "HTTP status 302"},
		"no HTTP":             {answer("SSH-2.0-OpenSSH_9.9\r\n", false), "connect"},
		"an end":              {answer("", false), "connect"},
		"an endless line":     {answer("HTTP/1.1 101 ", true), "more than 65536 bytes"},
		"an endless header":   {answer("HTTP/1.1 101 Switching Protocols\r\nX: ", true), "more than 65536 bytes"},
		"no TLS":              {"wss" + strings.TrimPrefix(answer("HTTP/1.1 400 Bad Request\r\n\r\n", false), "ws"), "tls"},
		"http":                {"http://127.0.0.1:1", "ws://host:port"},
		"no scheme":           {"127.0.0.1:1", "ws://host:port"},
		"no host":             {"ws://", "ws://host:port"},
		"nothing":             {"", "ws://host:port"},
		"a line end":          {"ws://127.0.0.1:1/\r\nX: y", "ws://host:port"},
		"a password":          {"ws://a:b@127.0.0.1:1", "password"},
		"a fragment":          {"ws://127.0.0.1:1/#x", "fragment"},
		"nobody listens":      {"ws://127.0.0.1:1", "connect"},
		"a port that is none": {"ws://127.0.0.1:99999", "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(soon(t), tt.address, Options{})
			if err == nil {
				_ = c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// A server that takes the connection and says nothing is left when the context ends.
func TestDialSilence(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address := listenRaw(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		cancel()
		(&fake{t, c}).gone()
	})
	if _, err := Dial(ctx, address, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial: %v", err)
	}
}

// A message that comes in one packet with the handshake is not lost.
func TestEarlyMessage(t *testing.T) {
	one := event(t, 1)
	c := connect(t, listenRaw(t, func(c net.Conn) {
		var handshake strings.Builder
		if _, err := ws.Upgrade(struct {
			io.Reader
			io.Writer
		}{c, &handshake}); err != nil {
			t.Error(err)
		}
		early := fmt.Sprintf(`["OK","%s",true,"early"]`, one.ID)
		_ = ws.WriteFrame(&handshake, ws.NewTextFrame([]byte(early)))
		_, _ = io.WriteString(c, handshake.String())
		(&fake{t, c}).gone()
	}), Options{})
	if got, err := c.Publish(soon(t), one); err != nil || got.Reason != "early" {
		t.Errorf("Publish: %+v, %v", got, err)
	}
}

// TestHeader sends fields of the caller and the user agent in the handshake.
func TestHeader(t *testing.T) {
	var got []string
	address := listenRaw(t, func(c net.Conn) {
		u := ws.Upgrader{OnHeader: func(key, value []byte) error {
			if name := string(key); name == "X-Forwarded-For" || name == "User-Agent" {
				got = append(got, name+": "+string(value))
			}
			return nil
		}}
		if _, err := u.Upgrade(c); err != nil {
			t.Errorf("upgrade: %v", err)
		}
		(&fake{t, c}).gone()
	})
	header := http.Header{"X-Forwarded-For": {"192.0.2.1"}}
	s, err := DialSocket(soon(t), address, SocketOptions{UserAgent: "talon", Header: header})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	slices.Sort(got)
	if want := []string{"User-Agent: talon", "X-Forwarded-For: 192.0.2.1"}; !slices.Equal(got, want) {
		t.Errorf("the handshake has %q, want %q", got, want)
	}
	if len(header) != 1 {
		t.Errorf("the header of the caller became %v", header)
	}
}

// FuzzRelay gives the client any bytes in place of a relay's frames.
func FuzzRelay(f *testing.F) {
	f.Add([]byte("\x81\x02[]"))
	f.Add([]byte("\x01\x01[\x89\x00\x80\x01]"))
	f.Add([]byte("\x88\x02\x03\xe8"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(data)
			_ = theirs.Close()
		}()
		c := &Conn{url: "ws://fuzz", opts: Options{MessageBytes: 1000}, socket: newSocket(ours, nil, 1000)}
		if _, err := c.Publish(context.Background(), &host.Event{JSON: []byte("{}")}); err == nil && !strings.Contains(string(data), "OK") {
			t.Error("an answer out of nothing")
		}
		_ = c.Close()
	})
}

// FuzzHandshake gives the client any bytes in place of a server's handshake.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 101 x\r\nSec-WebSocket-Extensions: a; b=\"c\", ,\r\nSec-WebSocket-Protocol: \r\n\r\n"))
	f.Add([]byte("HTTP/1.1 302 Found\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(data)
			_ = theirs.Close()
		}()
		defer ours.Close()
		u, err := parseURL("ws://fuzz")
		if err != nil {
			t.Fatal(err)
		}
		d := ws.Dialer{}
		if _, _, err := d.Upgrade(&handshake{ours, handshakeBytes}, u); err == nil {
			t.Error("a handshake with no answer to our nonce passed")
		}
	})
}

// A client that follows gets what is stored, and what comes later until it ends. A relay that
// asks who it is gets its proof.
func TestFollow(t *testing.T) {
	one, two, proof := event(t, 1), event(t, 2), event(t, 3)
	later := make(chan struct{})
	c := connect(t, listen(t, func(f *fake) {
		f.want(`["REQ","q1",{"kinds":[1]},{"kinds":[2]}]`)
		f.say(`["AUTH","challenge"]`)
		f.say(`["CLOSED","q1","auth-required: who are you"]`)
		f.want(`["AUTH",`)
		f.say(`["OK","%s",true,""]`, proof.ID)
		f.want(`["REQ","q2",`)
		f.say(`["EVENT","q1",%s]`, two.JSON) // of another subscription
		f.say(`["EVENT","q2",%s]`, one.JSON)
		f.say(`["EOSE","q2"]`)
		<-later
		f.say(`["EOSE","q2"]`)
		f.say(`["EVENT","q2",%s]`, two.JSON)
		f.gone()
	}), Options{Prove: func(_, _ string) (*host.Event, error) { return proof, nil }})
	ctx, stop := context.WithCancel(soon(t))
	defer stop()
	var got []string
	err := c.Follow(ctx, []byte(`{"kinds":[1]},{"kinds":[2]}`), func(e *host.Event) {
		got = append(got, e.ID.String()[:2])
		if e.ID == two.ID {
			stop()
		}
	}, func() {
		got = append(got, "live")
		close(later)
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(got, []string{"01", "live", "02"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// A relay that closes the subscription says why, before and after it was live.
func TestFollowClosed(t *testing.T) {
	c := connect(t, listen(t, func(f *fake) {
		f.want(`["REQ","q1",`)
		f.say(`["EOSE","q1"]`)
		f.say(`["CLOSED","q1","error: shutting down"]`)
		f.gone()
	}), Options{})
	err := c.Follow(soon(t), []byte(`{}`), func(*host.Event) {}, func() {})
	if err == nil || !strings.Contains(err.Error(), "ends the subscription: error: shutting down") {
		t.Error(err)
	}
}
