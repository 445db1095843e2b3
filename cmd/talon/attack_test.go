package main

import (
	"bytes"
	"compress/flate"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"
	"github.com/nbd-wtf/go-nostr"
)

// bystander is a client that behaves, and notices if it is not served.
type bystander struct {
	writer, reader *client
	n              int
}

func newBystander(t testing.TB, s *process) *bystander {
	t.Helper()
	b := &bystander{writer: connect(t, s), reader: connect(t, s)}
	b.reader.send(t, `["REQ","live",{"authors":["`+pubkey("bystander")+`"]}]`)
	b.reader.untilEOSE(t, "live")
	return b
}

// served publishes an event, hears of it on a connection that has been open all
// the time, and reads it on a new one.
func (b *bystander) served(t testing.TB, s *process) {
	t.Helper()
	// A machine that pauses does not pause each time.
	took := b.round(t, s)
	for tries := 0; took > stall && tries < 5; tries++ {
		took = b.round(t, s)
	}
	if took > stall {
		t.Errorf("the bystander was served after %v", took)
	}
}

func (b *bystander) round(t testing.TB, s *process) time.Duration {
	t.Helper()
	b.n++
	began := time.Now()
	e := signAs(t, "bystander", nostr.Event{Kind: 1, Content: strconv.Itoa(b.n)})
	if a := b.writer.publish(t, e); !a.ok {
		t.Fatalf("the bystander was refused: %s", a.reason)
	}
	if got := b.reader.mustNext(t, "EVENT", "CLOSED"); !strings.Contains(got, e.ID) {
		t.Errorf("the bystander heard %s, want %s", got, e)
	}
	fresh := connect(t, s)
	defer fresh.close()
	if len(fresh.query(t, `{"ids":["`+e.ID+`"]}`)) != 1 {
		t.Error("the bystander's event is not there")
	}
	return time.Since(began)
}

// answers of the server to what it cannot do
const (
	noticed    = `^\["NOTICE","(invalid|error): `
	refusedREQ = `^\["CLOSED","x","(invalid|error|blocked|rate-limited|unsupported): `
	refusedNEG = `^\["NEG-ERR","x","(invalid|error|blocked|closed): `
	refusedOK  = `^\["OK","[0-9a-f]{64}",false,"invalid: `
	notServed  = `^\["(NOTICE|OK|CLOSED)",.*(invalid|error): `
)

// TestBadMessages sends what no client should. Each message gets a clear answer,
// the connection goes on, and nobody else notices.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t))
	b := newBystander(t, s)
	good := signAs(t, "attacker", nostr.Event{Kind: 1, Content: "good", Tags: nostr.Tags{{"t", "x"}}})
	// event returns the text of the good event with one part replaced.
	event := func(old, new string) string {
		text := strings.Replace(good.String(), old, new, 1)
		if text == good.String() {
			t.Fatalf("%s is not in %s", old, text)
		}
		return `["EVENT",` + text + `]`
	}
	created := fmt.Sprintf(`"created_at":%d`, good.CreatedAt)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	tests := []struct {
		name string
		text string
		want string
	}{
		{"not JSON", `hello`, noticed},
		{"nothing", ``, noticed},
		{"white space", " \n\t", noticed},
		{"NUL", "\x00", noticed},
		{"not an array", `{"EVENT":1}`, noticed},
		{"a number", `17`, noticed},
		{"empty array", `[]`, noticed},
		{"unknown verb", `["HELLO","x"]`, noticed},
		{"empty verb", `["",{}]`, noticed},
		{"lower-case verb", `["req","x",{}]`, noticed},
		{"verb is a number", `[1,2]`, noticed},
		{"verb is null", `[null]`, noticed},
		{"verb alone", `["EVENT"]`, noticed},
		{"two messages", `["CLOSE","x"]["CLOSE","x"]`, noticed},
		{"text after the message", `["CLOSE","x"] x`, noticed},
		{"trailing comma", `["CLOSE","x",]`, noticed},
		{"unterminated string", `["REQ","x`, noticed},
		{"unterminated array", `["REQ","x",{}`, notServed},
		{"bad escape", `["REQ","\x",{}]`, noticed},
		{"lone surrogate is text", `["REQ","\ud800",{"limit":0}]`, `^\["(EOSE|CLOSED|NOTICE)"`},
		{"control character in a string", "[\"REQ\",\"a\nb\",{}]", noticed},
		{"5,000 deep", deep, noticed},
		{"5,000 deep in an event", `["EVENT",{"x":` + deep + `}]`, notServed},
		{"5,000 deep in tags", event(`[["t","x"]]`, deep), refusedOK},
		{"5,000 deep in a filter", `["REQ","x",{"#a":` + deep + `}]`, refusedREQ},
		{"5,000 deep objects", `["EVENT",` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000) + `]`, notServed},

		{"event is a number", `["EVENT",1]`, noticed},
		{"event is empty", `["EVENT",{}]`, noticed},
		{"over-long id", event(`"`+good.ID, `"`+strings.Repeat("a", 100_000)), notServed},
		{"short id", event(good.ID, good.ID[:62]), notServed},
		{"upper-case id", event(good.ID, strings.ToUpper(good.ID)), notServed},
		{"id is not hex", event(good.ID, strings.Repeat("g", 64)), notServed},
		{"over-long pubkey", event(good.PubKey, strings.Repeat(good.PubKey, 1000)), refusedOK},
		{"over-long signature", event(good.Sig, strings.Repeat(good.Sig, 1000)), refusedOK},
		{"empty signature", event(good.Sig, ""), refusedOK},
		{"upper-case pubkey", event(good.PubKey, strings.ToUpper(good.PubKey)), refusedOK},
		{"pubkey not on the curve", event(good.PubKey, strings.Repeat("f", 64)), refusedOK},
		{"kind 65536", event(`"kind":1`, `"kind":65536`), refusedOK},
		{"kind -1", event(`"kind":1`, `"kind":-1`), refusedOK},
		{"kind is a string", event(`"kind":1`, `"kind":"1"`), refusedOK},
		{"kind 1.5", event(`"kind":1`, `"kind":1.5`), refusedOK},
		{"created_at is negative", event(created, `"created_at":-1`), refusedOK},
		{"created_at is a fraction", event(created, created+`.5`), refusedOK},
		{"created_at is huge", event(created, `"created_at":99999999999999999999`), refusedOK},
		{"created_at is null", event(created, `"created_at":null`), refusedOK},
		{"tags is null", event(`[["t","x"]]`, `null`), refusedOK},
		{"a tag is a string", event(`["t","x"]`, `"t"`), refusedOK},
		{"a tag holds a number", event(`["t","x"]`, `["t",1]`), refusedOK},
		{"a tag holds null", event(`["t","x"]`, `["t",null]`), refusedOK},
		{"content is a number", event(`"content":"good"`, `"content":1`), refusedOK},
		{"a field twice", event(`"kind":1`, `"kind":1,"kind":2`), refusedOK},
		{"a field is missing", event(`"kind":1,`, ``), refusedOK},
		{"wrong id", event(`"good"`, `"evil"`), refusedOK},
		{"wrong signature", event(good.Sig, strings.Repeat("0", 128)), refusedOK},
		{"an AUTH event as EVENT", `["EVENT",` + signAs(t, "attacker", nostr.Event{Kind: 22242}).String() + `]`, refusedOK},
		{"AUTH without a challenge", `["AUTH",` + signAs(t, "attacker", nostr.Event{Kind: 22242}).String() + `]`, refusedOK},
		{"AUTH is a string", `["AUTH","challenge"]`, noticed},

		{"id is a number", `["REQ",1,{}]`, noticed},
		{"empty id", `["REQ","",{}]`, notServed},
		{"long id", `["REQ","` + strings.Repeat("x", 65) + `",{}]`, notServed},
		{"no filter", `["REQ","x"]`, refusedREQ},
		{"filter is a number", `["REQ","x",1]`, refusedREQ},
		{"filter is a list", `["REQ","x",[]]`, refusedREQ},
		{"filter is null", `["REQ","x",null]`, refusedREQ},
		{"one of the filters is bad", `["REQ","x",{},{"kinds":{}}]`, refusedREQ},
		{"kinds is a string", `["REQ","x",{"kinds":"1"}]`, refusedREQ},
		{"kinds of strings", `["REQ","x",{"kinds":["1"]}]`, refusedREQ},
		{"kinds beyond 65535", `["REQ","x",{"kinds":[70000]}]`, `^\["(CLOSED|EOSE)","x"`},
		{"ids are short", `["REQ","x",{"ids":["abcd"]}]`, refusedREQ},
		{"ids are over-long", `["REQ","x",{"ids":["` + strings.Repeat("a", 100_000) + `"]}]`, refusedREQ},
		{"authors are upper case", `["REQ","x",{"authors":["` + strings.ToUpper(good.PubKey) + `"]}]`, refusedREQ},
		{"tag values are numbers", `["REQ","x",{"#t":[1]}]`, refusedREQ},
		{"since is a string", `["REQ","x",{"since":"yesterday"}]`, refusedREQ},
		{"until is a fraction", `["REQ","x",{"until":1.5}]`, refusedREQ},
		{"limit is negative", `["REQ","x",{"limit":-1}]`, refusedREQ},
		{"limit is huge", `["REQ","x",{"limit":99999999999999999999,"kinds":[9]}]`, `^\["(CLOSED|EOSE)","x"`},
		{"101 filters", `["REQ","x"` + strings.Repeat(`,{"limit":0}`, 101) + `]`, refusedREQ},
		{"a million values", `["REQ","x",{"kinds":[1` + strings.Repeat(`,1`, 200_000) + `]}]`, refusedREQ},
		{"COUNT without a filter", `["COUNT","x"]`, refusedREQ},
		{"COUNT of nonsense", `["COUNT","x",{"kinds":1}]`, refusedREQ},
		{"CLOSE of a number", `["CLOSE",1]`, noticed},

		{"negentropy that is not hex", `["NEG-OPEN","x",{},"zz"]`, refusedNEG},
		{"negentropy of half a byte", `["NEG-OPEN","x",{},"6"]`, refusedNEG},
		{"empty negentropy", `["NEG-OPEN","x",{},""]`, refusedNEG},
		{"negentropy without a message", `["NEG-OPEN","x",{}]`, refusedNEG},
		{"negentropy with a bad filter", `["NEG-OPEN","x",{"kinds":1},"61"]`, refusedNEG},
		{"NEG-MSG without a session", `["NEG-MSG","x","61"]`, refusedNEG},
		{"a huge varint", `["NEG-OPEN","x",{},"61` + strings.Repeat("ff", 40) + `7f"]`, refusedNEG},
		{"a varint that never ends", `["NEG-OPEN","x",{},"61` + strings.Repeat("80", 1000) + `"]`, refusedNEG},
		{"a varint of -1", `["NEG-OPEN","x",{},"61` + `81ffffffffffffffff7f` + `0002` + `"]`, refusedNEG},
		{"50 million ids", `["NEG-OPEN","x",{},"61` + `000002` + varint(50_000_000) + strings.Repeat("00", 64) + `"]`, refusedNEG},
		{"an id prefix of 33 bytes", `["NEG-OPEN","x",{},"61` + `0121` + strings.Repeat("00", 33) + `00"]`, refusedNEG},
		{"an unknown mode", `["NEG-OPEN","x",{},"61` + `000009` + `"]`, refusedNEG},
		{"half a fingerprint", `["NEG-OPEN","x",{},"61` + `000001` + `0011` + `"]`, refusedNEG},
		{"another version is answered with ours", `["NEG-OPEN","x",{},"62"]`, `^\["NEG-MSG","x","61"\]`},
	}
	c := connect(t, s)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c.send(t, tt.text)
			got := c.mustNext(t, "NOTICE", "OK", "EOSE", "CLOSED", "NEG-MSG", "NEG-ERR", "COUNT")
			if !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("got %.300s\nwant %s", got, tt.want)
			}
			// The same connection goes on; this also keeps it from being cut off for
			// nothing but bad messages.
			c.send(t, `["CLOSE","x"]`)
			c.send(t, `["NEG-CLOSE","x"]`)
			c.send(t, `["COUNT","alive",{"ids":[]}]`)
			if got := c.mustNext(t, "COUNT", "CLOSED", "EVENT"); !strings.HasPrefix(got, `["COUNT","alive",{"count":0`) {
				t.Errorf("the connection does not go on: %s", got)
			}
		})
		b.served(t, s)
	}
	if n := s.metric(t, "talon_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// varint is a number as negentropy writes it, in hex.
func varint(n uint64) string {
	b := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		b = append([]byte{byte(n&0x7f) | 0x80}, b...)
	}
	return hex.EncodeToString(b)
}

// TestOddEvents publishes events that look strange and are right.
func TestOddEvents(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t))
	c := connect(t, s)
	for name, e := range map[string]nostr.Event{
		"a d tag without value": {Kind: 30000, Tags: nostr.Tags{{"d"}}},
		"empty tags":            {Kind: 1, Tags: nostr.Tags{{}, {""}, {"", ""}}},
		"control characters":    {Kind: 1, Content: "\x00\x01\x1f\x7f\u2028\"\\/\b\f\n\r\t"},
		"not a character":       {Kind: 1, Content: "\ufffd\U0010ffff"},
		"at the epoch":          {Kind: 1, CreatedAt: 1},
		"kind 65535":            {Kind: 65535},
		"many tags":             {Kind: 1, Tags: slicesRepeat(nostr.Tag{"t", "x"}, 2000)},
		"a long tag value":      {Kind: 1, Tags: nostr.Tags{{"t", strings.Repeat("x", 100_000)}}},
		"100 kB of content":     {Kind: 1, Content: strings.Repeat("é", 50_000)},
	} {
		t.Run(name, func(t *testing.T) {
			e := signAs(t, "odd", e)
			if a := c.publish(t, e); !a.ok {
				t.Fatalf("refused: %s", a.reason)
			}
			got := c.query(t, `{"ids":["`+e.ID+`"]}`)
			if len(got) != 1 || got[0].String() != e.String() {
				t.Errorf("got %.300v\nwant %.300s", got, e)
			}
		})
	}
}

func slicesRepeat(tag nostr.Tag, n int) nostr.Tags {
	tags := make(nostr.Tags, n)
	for i := range tags {
		tags[i] = tag
	}
	return tags
}

// TestBadFrames breaks the websocket protocol. The connection is closed with the
// code that says why, and nobody else notices.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t))
	b := newBystander(t, s)
	raw := func(h ws.Header, payload []byte) func(*client) error {
		return func(c *client) error {
			h.Masked = true
			if h.Length == 0 {
				h.Length = int64(len(payload))
			}
			if err := ws.WriteHeader(c.net, h); err != nil {
				return err
			}
			_, err := c.net.Write(payload)
			return err
		}
	}
	tests := []struct {
		name   string
		attack func(*client) error
		code   ws.StatusCode // 0 for any end of the connection
	}{
		{"binary frame", raw(ws.Header{Fin: true, OpCode: ws.OpBinary}, []byte("[]")), ws.StatusUnsupportedData},
		{"invalid UTF-8", raw(ws.Header{Fin: true, OpCode: ws.OpText}, []byte("[\"REQ\",\"\xff\xfe\",{}]")), ws.StatusInvalidFramePayloadData},
		{"surrogate in UTF-8", raw(ws.Header{Fin: true, OpCode: ws.OpText}, []byte("[\"\xed\xa0\x80\"]")), ws.StatusInvalidFramePayloadData},
		{"50 MB in one frame", raw(ws.Header{Fin: true, OpCode: ws.OpText, Length: 50 << 20}, bytes.Repeat([]byte("["), 64<<10)), ws.StatusMessageTooBig},
		{"a length of 2^63-1", raw(ws.Header{Fin: true, OpCode: ws.OpText, Length: 1<<63 - 1}, []byte("[")), 0},
		{"50 MB in many frames", floodFragments, ws.StatusMessageTooBig},
		{"not masked", func(c *client) error { return ws.WriteFrame(c.net, ws.NewTextFrame([]byte("[]"))) }, ws.StatusProtocolError},
		{"reserved bits", raw(ws.Header{Fin: true, OpCode: ws.OpText, Rsv: ws.Rsv(false, true, true)}, []byte("[]")), ws.StatusProtocolError},
		{"compressed without agreement", raw(ws.Header{Fin: true, OpCode: ws.OpText, Rsv: ws.Rsv(true, false, false)}, []byte("[]")), ws.StatusProtocolError},
		{"reserved opcode", raw(ws.Header{Fin: true, OpCode: 3}, []byte("[]")), ws.StatusProtocolError},
		{"continuation of nothing", raw(ws.Header{Fin: true, OpCode: ws.OpContinuation}, []byte("[]")), ws.StatusProtocolError},
		{"a fragmented ping", raw(ws.Header{OpCode: ws.OpPing}, nil), ws.StatusProtocolError},
		{"a long ping", raw(ws.Header{Fin: true, OpCode: ws.OpPing}, make([]byte, 126)), ws.StatusProtocolError},
		{"a close frame with a code that is none", raw(ws.Header{Fin: true, OpCode: ws.OpClose}, []byte{0x03, 0xe7}), ws.StatusProtocolError},
		{"a new message within a message", func(c *client) error {
			if err := raw(ws.Header{OpCode: ws.OpText}, []byte("["))(c); err != nil {
				return err
			}
			return raw(ws.Header{Fin: true, OpCode: ws.OpText}, []byte("]"))(c)
		}, ws.StatusProtocolError},
		{"nothing but messages that are not understood", func(c *client) error {
			for range 1000 {
				if err := c.write([]byte("spam")); err != nil {
					return err
				}
			}
			return nil
		}, ws.StatusPolicyViolation},
		{"half a frame and gone", func(c *client) error {
			_ = raw(ws.Header{Fin: true, OpCode: ws.OpText, Length: 1000}, []byte("["))(c)
			return c.net.Close()
		}, 0},
		{"TCP after the handshake", func(c *client) error {
			_, err := c.net.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n\r\n"), 1000))
			return err
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, s)
			// The server may close before it has read everything.
			_ = tt.attack(c)
			wantEnd(t, c, tt.code)
		})
		b.served(t, s)
	}
}

// floodFragments sends 50 MB as one message of many frames.
func floodFragments(c *client) error {
	part := bytes.Repeat([]byte("["), 64<<10)
	for i := range 800 {
		op := ws.OpContinuation
		if i == 0 {
			op = ws.OpText
		}
		if err := c.frame(ws.NewFrame(op, false, part)); err != nil {
			return err
		}
	}
	return nil
}

// wantEnd reads until the server closes the connection.
func wantEnd(t *testing.T, c *client, code ws.StatusCode) {
	t.Helper()
	for {
		_, err := c.read()
		var end closed
		switch {
		case err == nil:
			continue
		case errors.As(err, &end):
			if code != 0 && end.code != code {
				t.Errorf("closed with %d %s, want %d", end.code, end.reason, code)
			}
			if code != 0 && end.reason == "" {
				t.Errorf("closed with %d and no reason", end.code)
			}
		case isTimeout(err):
			t.Error("the connection is still open")
		case code != 0:
			t.Errorf("ended with %v, want a close frame with %d", err, code)
		}
		return
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// TestCompression speaks permessage-deflate, honestly and as an attack.
func TestCompression(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t))
	b := newBystander(t, s)
	connectDeflate := func(t *testing.T) *client {
		c, err := openWith(s.url, ws.Dialer{Extensions: []httphead.Option{wsflate.DefaultParameters.Option()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.close)
		return c
	}
	sendCompressed := func(c *client, data []byte) {
		f := ws.NewTextFrame(data)
		f.Header.Rsv = ws.Rsv(true, false, false)
		_ = c.frame(f)
	}
	t.Run("an honest message", func(t *testing.T) {
		c := connectDeflate(t)
		sendCompressed(c, deflate(t, `["COUNT","x",{"ids":[]}]`))
		if got := c.mustNext(t, "COUNT", "NOTICE"); !strings.HasPrefix(got, `["COUNT","x"`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a bomb", func(t *testing.T) {
		c := connectDeflate(t)
		sendCompressed(c, deflate(t, strings.Repeat("[", 16<<20)))
		wantEnd(t, c, ws.StatusMessageTooBig)
	})
	b.served(t, s)
	t.Run("damaged data", func(t *testing.T) {
		c := connectDeflate(t)
		sendCompressed(c, []byte{0xff, 0xff, 0xff, 0xff, 0x00})
		wantEnd(t, c, ws.StatusInvalidFramePayloadData)
	})
	b.served(t, s)
}

// deflate compresses a message as permessage-deflate does: without the last four
// bytes (RFC 7692, 7.2.1).
func deflate(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{0, 0, 0xff, 0xff})
}
