package examples

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"talon/host"
	"talon/internal/race"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// readers is the program of sdk/c/testdata/readers.c, built with sanitizers where
// the compiler has them: it ends at the first read outside of a message.
type readers struct {
	mu  sync.Mutex // guards the fields below
	in  io.WriteCloser
	out io.Reader
	cmd *exec.Cmd
	say bytes.Buffer // what a sanitizer says
}

func startReaders(t testing.TB) *readers {
	t.Helper()
	var compiler string
	for _, name := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(name); err == nil && compiler == "" {
			compiler = name
		}
	}
	if compiler == "" {
		t.Skip("cc is missing: on Debian, apt install gcc")
	}
	testkit.Inputs(t, "../sdk/c")
	program := filepath.Join(t.TempDir(), "readers")
	build := func(options ...string) ([]byte, error) {
		options = append(options, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I", "../sdk/c", "-o", program, "../sdk/c/testdata/readers.c")
		return exec.Command(compiler, options...).CombinedOutput()
	}
	if text, err := build("-fsanitize=address,undefined", "-fno-sanitize-recover=all"); err != nil {
		t.Logf("%s has no sanitizers: %s", compiler, text)
		if text, err := build(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	r := &readers{cmd: exec.Command(program)}
	r.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
	r.cmd.Stderr = &r.say
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if r.out, err = r.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.in.Close()
		if err := r.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, r.say.String())
		}
	})
	return r
}

// read lets C read a message, and returns whether it could and the digest of it.
func (r *readers) read(t testing.TB, kind byte, message []byte) (bool, uint64) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	request := append(binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(message))), message...)
	var answer [9]byte
	_, err := r.in.Write(request)
	if err == nil {
		_, err = io.ReadFull(r.out, answer[:])
	}
	if err != nil {
		t.Fatalf("kind %d, %x: %v: the program ended", kind, message, err)
	}
	return answer[0] == 1, binary.LittleEndian.Uint64(answer[1:])
}

// compare lets both read a message, as kind chooses.
func (r *readers) compare(t testing.TB, kind byte, message []byte) {
	t.Helper()
	kind %= kinds
	d := digest{}
	want := digests[kind](&d, message)
	got, sum := r.read(t, kind, message)
	if d.none {
		return // it is enough that C stayed within the message
	}
	if got != want {
		t.Fatalf("kind %d, %x: C says that it is well-formed: %v, Go: %v", kind, message, got, want)
	}
	if want && sum != d.sum() {
		t.Fatalf("kind %d, %x: C reads other values than Go", kind, message)
	}
}

// TestReadersInC changes messages in all ways that come to mind.
func TestReadersInC(t *testing.T) {
	r := startReaders(t)
	random := rand.New(rand.NewPCG(1, 2))
	messages := samples()
	rounds := 20_000
	if testing.Short() || race.Detector {
		rounds = 2_000
	}
	for kind := range byte(kinds) {
		r.compare(t, kind, nil)
		for _, m := range messages {
			r.compare(t, kind, m)
			for n := range min(len(m), 300) {
				r.compare(t, kind, m[:n])
			}
		}
	}
	for range rounds {
		m := bytes.Clone(messages[random.IntN(len(messages))])
		for range 1 + random.IntN(4) {
			m = mutate(random, m, messages)
		}
		r.compare(t, byte(random.IntN(kinds)), m)
	}
}

func FuzzReadersInC(f *testing.F) {
	for kind := range byte(kinds) {
		for _, m := range samples() {
			f.Add(kind, m)
		}
	}
	r := startReaders(f)
	f.Fuzz(func(t *testing.T, kind byte, message []byte) { r.compare(t, kind, message) })
}

// mutate changes a message.
func mutate(random *rand.Rand, m []byte, others [][]byte) []byte {
	at := random.IntN(len(m) + 1)
	rest := m[at:]
	switch random.IntN(6) {
	case 0: // a byte
		if len(rest) > 0 {
			rest[0] = byte(random.Uint32())
		}
	case 1: // a bit
		if len(rest) > 0 {
			rest[0] ^= 1 << random.IntN(8)
		}
	case 2: // an end
		return m[:at:at]
	case 3: // something between
		return append(append(m[:at:at], 0xff, byte(random.Uint32()), 0x01), rest...)
	case 4: // a piece of another
		other := others[random.IntN(len(others))]
		from := random.IntN(len(other) + 1)
		return append(append(m[:at:at], other[from:from+random.IntN(len(other)-from+1)]...), rest...)
	case 5: // a hole
		return append(m[:at:at], rest[random.IntN(len(rest)+1):]...)
	}
	return m
}

// samples are messages with every field that there is.
func samples() [][]byte {
	key := host.PubKey{1, 2, 3}
	event := abi.Event[[]string]{
		ID: bytes.Repeat([]byte{7}, 32), PubKey: key[:], Sig: bytes.Repeat([]byte{8}, 64), CreatedAt: 1_700_000_000, Kind: 30023, Content: "größe 😀",
		Tags: [][]string{{"d", "x"}, {}, {""}, {"e", strings.Repeat("ab", 32), "wss://relay.example.com", "root"}, {"long", strings.Repeat("x", 200)}},
	}
	client := abi.Client[host.PubKey]{Address: []byte("192.0.2.1"), Authed: []host.PubKey{key, {9}}, UserAgent: "test", Origin: "https://example.com", Path: "/"}
	since := int64(-1)
	query := abi.AppendFilterOf(nil, &abi.QueryFilter[host.ID, host.PubKey, host.Kind, host.TagFilter]{
		IDs: []host.ID{{1}}, Authors: []host.PubKey{key}, Kinds: []host.Kind{0, 1, 30023}, Since: &since, Until: &since, Limit: 10,
		Tags: []host.TagFilter{{Name: 't', Values: []string{"nostr", ""}}},
	})
	// The same kinds, each in a field of its own, and some packed.
	loose := protowire.AppendBytes([]byte{0x0a}, []byte{0x18, 0, 0x1a, 4, 1, 0xc7, 0xea, 0x01, 0x18, 7, 0x1a, 0})
	list := abi.AppendMore(abi.AppendEventOf(abi.AppendEventOf(nil, &event), &event))
	return [][]byte{
		abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, host.PubKey]{
			Event: event, Origin: abi.OriginSync, Address: []byte("2001:db8::1"), Relay: "wss://relay.example.com", Authed: []host.PubKey{key}, Now: 1_700_000_000,
		}),
		abi.AppendQueryRequest(query, &abi.QueryRequest[host.PubKey]{Client: client, Verb: abi.VerbCount, Now: 1_700_000_000}),
		abi.AppendQueryRequest(loose, &abi.QueryRequest[host.PubKey]{Client: client, Verb: abi.VerbReq, Now: 1_700_000_000}),
		abi.AppendConnectRequest(nil, &abi.ConnectRequest[host.PubKey]{Client: client, Open: 300, FromAddress: 2, Now: 77}),
		abi.AppendPushRequest(nil, &abi.PushRequest[host.PubKey, host.RefUpdate]{
			Client: client, Repo: "30617:" + key.String() + ":x", Maintainers: []host.PubKey{key}, Bytes: 1 << 40, Stored: 5, PRs: true, Now: 77,
			Updates: []host.RefUpdate{{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: strings.Repeat("a", 40)}, {}},
		}),
		list,
		abi.AppendConfig(nil, &abi.Config{Settings: []abi.Setting{
			{Key: "allow", Strings: []string{key.String(), "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6", ""}},
			{Key: "n", Ints: []int64{-1, 1 << 62}}, {Key: "on", Bools: []bool{true, false}}, {Key: "f", Floats: []float64{0.5, -1}},
		}, Service: abi.Service{Domain: "relay.example.com", PRs: true, Operator: key}}),
		// Numbers of eleven bytes, fixed fields, groups, an endless length.
		{0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		{0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x1d, 1, 2, 3, 4, 0xf8, 0xff, 0xff, 0xff, 0x0f, 0x01},
		{0x0b, 0x0c}, {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	}
}

// digest sums up what package abi reads, as sdk/c/testdata/readers.c does.
type digest struct {
	b    []byte
	none bool // there is nothing to compare
}

func (d *digest) sum() uint64 {
	h := fnv.New64a()
	h.Write(d.b)
	return h.Sum64()
}

func (d *digest) number(v uint64) { d.b = binary.LittleEndian.AppendUint64(d.b, v) }

func (d *digest) flag(yes bool) {
	if yes {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d *digest) text(s string) {
	d.number(uint64(len(s)))
	d.b = append(d.b, s...)
}

func (d *digest) key(k []byte) {
	if len(k) != 32 {
		k = make([]byte, 32)
	}
	d.b = append(d.b, k...)
}

func (d *digest) keys(it abi.BytesIter) {
	for it.Next() {
		d.key(it.Bytes())
	}
}

func (d *digest) texts(it abi.BytesIter) {
	for it.Next() {
		d.text(it.Text())
	}
}

func (d *digest) event(e *abi.EventView) {
	d.key(e.ID())
	d.key(e.PubKey())
	d.text(string(e.Sig()))
	d.number(uint64(e.CreatedAt()))
	d.number(uint64(e.Kind()))
	d.text(e.Content())
	named, value := false, ""
	for it := e.Tags(); it.Next(); {
		d.text(it.Name())
		d.text(it.Value())
		d.texts(it.Tag().Items())
		if it.Name() == "d" && !named {
			named, value = true, it.Value()
		}
	}
	if named {
		d.text(value)
	}
}

func (d *digest) client(c abi.ClientView) {
	for _, s := range []string{c.Address(), c.UserAgent(), c.Origin(), c.Path()} {
		d.text(s)
	}
	d.keys(c.Authed())
}

const kinds = 6

var digests = [kinds]func(d *digest, b []byte) bool{
	func(d *digest, b []byte) bool {
		// Of several events the last one counts. Go looks at each.
		events, bad := 0, false
		each(b, 1, func(event []byte) { events, bad = events+1, bad || !wellFormed(event) })
		d.none = events > 1 && bad
		var v abi.AdmitRequestView
		if v.Decode(b) != nil || !wellFormed(last(b, 2)) {
			return false
		}
		d.event(&v.Event)
		d.number(uint64(v.Source.Origin()))
		d.text(v.Source.Address())
		d.text(v.Source.Relay())
		d.keys(v.Source.Keys())
		d.number(uint64(v.Now))
		return true
	},
	func(d *digest, b []byte) bool {
		var v abi.QueryRequestView
		if v.Decode(b) != nil || !wellFormed(last(b, 2)) {
			return false
		}
		d.client(v.Client)
		d.number(uint64(v.Verb))
		d.number(uint64(v.Now))
		for it := v.Filters(); it.Next(); {
			d.filter(it.Filter())
		}
		// Go ends with the first filter that is malformed.
		each(b, 1, func(filter []byte) { d.none = d.none || !wellFormed(filter) })
		return true
	},
	func(d *digest, b []byte) bool {
		var v abi.ConnectRequestView
		if v.Decode(b) != nil || !wellFormed(last(b, 1)) {
			return false
		}
		d.client(v.Client)
		d.number(uint64(v.Open))
		d.number(uint64(v.FromAddress))
		d.number(uint64(v.Now))
		return true
	},
	func(d *digest, b []byte) bool {
		var v abi.PushRequestView
		if v.Decode(b) != nil || !wellFormed(last(b, 1)) {
			return false
		}
		d.client(v.Client)
		d.text(v.Repo)
		d.flag(v.PRs)
		d.number(uint64(v.Bytes))
		d.number(uint64(v.Stored))
		d.number(uint64(v.Now))
		d.keys(v.Maintainers())
		for it := v.Updates(); it.Next(); {
			u := it.Update()
			d.text(u.Ref)
			d.text(u.Old)
			d.text(u.New)
		}
		return true
	},
	func(d *digest, b []byte) bool {
		var e abi.EventView
		for list := abi.ReadEventList(b); list.Next(&e); {
			d.event(&e)
		}
		return true
	},
	func(d *digest, b []byte) bool {
		d.none = true // abi reads all settings at once
		return true
	},
}

func (d *digest) filter(f abi.FilterView) {
	d.keys(f.IDs())
	d.keys(f.Authors())
	for it := f.Kinds(); it.Next(); {
		d.number(uint64(it.Kind()))
	}
	for it := f.Tags(); it.Next(); {
		d.text(it.Name())
		d.texts(it.Values())
	}
	since, ok := f.Since()
	d.optional(since, ok)
	until, ok := f.Until()
	d.optional(until, ok)
	limit, ok := f.Limit()
	d.optional(int64(limit), ok)
}

func (d *digest) optional(v int64, ok bool) {
	if !ok {
		v = 1
	}
	d.number(uint64(v))
}

// wellFormed is what another implementation says of the fields of a message.
func wellFormed(b []byte) bool {
	for len(b) > 0 {
		n := fieldLen(b)
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// fieldLen is the length of the first field, below zero if there is none.
func fieldLen(b []byte) int {
	number, typ, n := protowire.ConsumeTag(b)
	if n < 0 || number > protowire.MaxValidNumber || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
		return -1
	}
	m := protowire.ConsumeFieldValue(number, typ, b[n:])
	if m < 0 {
		return -1
	}
	return n + m
}

// each calls f with each value of a field of bytes.
func each(b []byte, field protowire.Number, f func([]byte)) {
	for len(b) > 0 {
		n := fieldLen(b)
		if n < 0 {
			return
		}
		if number, typ, m := protowire.ConsumeTag(b); number == field && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[m:])
			f(value)
		}
		b = b[n:]
	}
}

// last is the last value of a field of bytes.
func last(b []byte, field protowire.Number) (value []byte) {
	each(b, field, func(v []byte) { value = v })
	return value
}
