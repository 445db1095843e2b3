package abi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func key32(b byte) [32]byte { return [32]byte(bytes.Repeat([]byte{b}, 32)) }

func sampleEvent() *Event[[]string] {
	id, pubkey := key32(0xaa), key32(0xbb)
	return &Event[[]string]{
		ID: id[:], PubKey: pubkey[:], Sig: bytes.Repeat([]byte{0xcc}, 64), CreatedAt: 1_700_000_000, Kind: 30023,
		Tags: [][]string{{"d", ""}, {}, {"t", "größe", "x"}, {"-"}, {"long", string(bytes.Repeat([]byte("y"), 300))}}, Content: "hello",
	}
}

func sampleClient() Client[[32]byte] {
	return Client[[32]byte]{
		Address: []byte("192.0.2.7"), Authed: [][32]byte{key32(1), key32(2)}, UserAgent: "curl", Origin: "https://x", Path: "/y",
	}
}

// A writer's own types, as the host has them.
type (
	writerKind uint16
	writerTag  struct {
		Name   byte
		Values []string
	}
	writerFilter = QueryFilter[[32]byte, [32]byte, writerKind, writerTag]
	writerUpdate struct{ Ref, Old, New string }
)

func sampleFilters() []writerFilter {
	since, until := int64(-5), int64(0)
	return []writerFilter{
		{
			IDs: [][32]byte{key32(1)}, Authors: [][32]byte{key32(2), key32(3)}, Kinds: []writerKind{0, 1, 30023},
			Tags: []writerTag{{'t', []string{"x", ""}}, {'e', nil}}, Since: &since, Until: &until, Limit: 9,
		},
		{Limit: 0},
		{Limit: -1},
	}
}

func sampleQuery(b []byte) []byte {
	filters := sampleFilters()
	for i := range filters {
		b = AppendFilterOf(b, &filters[i])
	}
	return AppendQueryRequest(b, &QueryRequest[[32]byte]{Client: sampleClient(), Verb: VerbCount, Now: 77})
}

func samplePush(b []byte) []byte {
	return AppendPushRequest(b, &PushRequest[[32]byte, writerUpdate]{
		Client: sampleClient(), Repo: "30617:ab:x", Maintainers: [][32]byte{key32(4), key32(5)},
		Updates: []writerUpdate{{"refs/heads/main", "00", "ab"}, {}}, Bytes: 1000, Stored: 2000, Now: 77, PRs: true, Fetch: true,
	})
}

func TestEventViewReadsInPlace(t *testing.T) {
	want := sampleEvent()
	var v EventView
	if err := v.Decode(AppendEvent(nil, want)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(v.ID(), want.ID) || !bytes.Equal(v.PubKey(), want.PubKey) || !bytes.Equal(v.Sig(), want.Sig) ||
		v.CreatedAt() != want.CreatedAt || v.Kind() != want.Kind || v.Content() != want.Content {
		t.Errorf("%+v, want %+v", v, want)
	}
	var tags [][]string
	size := 0
	for it := v.Tags(); it.Next(); {
		tag := it.Tag()
		items := []string{}
		for i := range tag.Len() {
			items = append(items, tag.Item(i))
		}
		tags = append(tags, items)
		size += tag.Size()
		if len(items) > 1 && (tag.Name() != items[0] || tag.Value() != items[1]) {
			t.Errorf("tag %q: name %q, value %q", items, tag.Name(), tag.Value())
		}
		if tag.Item(tag.Len()) != "" || tag.Item(-1) != "" {
			t.Errorf("tag %q has items outside of it", items)
		}
	}
	if !reflect.DeepEqual(tags, want.Tags) {
		t.Errorf("tags %q, want %q", tags, want.Tags)
	}
	if size > v.TagBytes() || 2*len(tags) > v.TagBytes() {
		t.Errorf("%d bytes in %d tags, but %d encoded", size, len(tags), v.TagBytes())
	}
	if n := v.TagCount(); n != len(tags) {
		t.Errorf("%d tags are counted, want %d", n, len(tags))
	}
}

// appendTag returns the tag of a field.
func appendTag(number, wireType uint64) []byte { return binary.AppendUvarint(nil, number<<3|wireType) }

// TestTagsOfAnyLength: lengths take one byte, two or three.
func TestTagsOfAnyLength(t *testing.T) {
	lengths := []int{0, 1, 63, 64, 123, 124, 125, 126, 127, 128, 129, 8190, 16_379, 16_380, 16_383, 16_384, 16_385, 40_000}
	want := [][]string{{}}
	for _, n := range lengths {
		for _, m := range lengths {
			want = append(want, []string{strings.Repeat("n", n)}, []string{strings.Repeat("n", n), strings.Repeat("v", m)}, []string{"e", strings.Repeat("v", n), strings.Repeat("x", m)})
		}
	}
	var v EventView
	if err := v.Decode(AppendEvent(nil, &Event[[]string]{Tags: want})); err != nil {
		t.Fatal(err)
	}
	i := 0
	for it := v.Tags(); it.Next(); i++ {
		checkTag(t, &it)
		items := []string{}
		for j := range it.Tag().Len() {
			items = append(items, it.Tag().Item(j))
		}
		if i >= len(want) || !slices.Equal(items, want[i]) {
			t.Fatalf("tag %d is another one", i)
		}
	}
	if i != len(want) || v.TagCount() != len(want) {
		t.Errorf("%d tags, %d counted; want %d", i, v.TagCount(), len(want))
	}
}

// TestFieldsMayBeUnknownAndOutOfOrder reads an event as a newer host might write
// it.
func TestFieldsMayBeUnknownAndOutOfOrder(t *testing.T) {
	tag := func(name string) []byte { return AppendEvent(nil, &Event[[]string]{Tags: [][]string{{name}}}) }
	encoded := slices.Concat(
		tag("a"), AppendEvent(nil, &Event[[]string]{Content: "x"}),
		binary.AppendUvarint(appendTag(99, wireVarint), 1<<40),
		tag("b"),
		append(appendTag(100, wireFixed32), 7, 0, 0, 0),
		append(appendTag(1<<29-1, wireFixed64), 7, 0, 0, 0, 0, 0, 0, 0),
		append(binary.AppendUvarint(appendTag(2000, wireBytes), 200), make([]byte, 200)...),
		append(appendTag(4, wireBytes), 0), // a known number, another type
		AppendEvent(nil, &Event[[]string]{Kind: 7}), tag("c"),
	)
	var v EventView
	if err := v.Decode(encoded); err != nil {
		t.Fatal(err)
	}
	names := ""
	for it := v.Tags(); it.Next(); {
		names += it.Tag().Name()
	}
	if names != "abc" || v.Content() != "x" || v.Kind() != 7 {
		t.Errorf("tags %q, content %q, kind %d; want abc, x, 7", names, v.Content(), v.Kind())
	}
}

func TestRequestView(t *testing.T) {
	encoded := AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{
		Event: *sampleEvent(), Origin: OriginClient, Address: []byte("192.0.2.7"), Relay: "wss://r",
		Authed: [][32]byte{key32(1), key32(2)}, Now: 77,
	})
	var v AdmitRequestView
	if err := v.Decode(encoded); err != nil {
		t.Fatal(err)
	}
	if v.Event.Content() != "hello" || v.Now != 77 || v.Source.Origin() != OriginClient || v.Source.Address() != "192.0.2.7" ||
		v.Source.Relay() != "wss://r" || !bytes.Equal(v.Source.Authed(1), bytes.Repeat([]byte{2}, 32)) || v.Source.Authed(2) != nil {
		t.Errorf("%+v", v)
	}
}

// collect returns the values of an iterator as text, a key as its first byte.
func collect(it BytesIter) (values []string) {
	for it.Next() {
		if len(it.Bytes()) == 32 {
			values = append(values, fmt.Sprintf("%x", it.Bytes()[:1]))
		} else {
			values = append(values, it.Text())
		}
	}
	return values
}

func checkSampleClient(t *testing.T, v ClientView) {
	t.Helper()
	if v.Address() != "192.0.2.7" || v.UserAgent() != "curl" || v.Origin() != "https://x" || v.Path() != "/y" ||
		!slices.Equal(collect(v.Authed()), []string{"01", "02"}) {
		t.Errorf("client %q %q %q %q %q", v.Address(), v.UserAgent(), v.Origin(), v.Path(), collect(v.Authed()))
	}
}

func TestQueryView(t *testing.T) {
	var v QueryRequestView
	if err := v.Decode(sampleQuery(nil)); err != nil {
		t.Fatal(err)
	}
	checkSampleClient(t, v.Client)
	if v.Verb != VerbCount || v.Now != 77 {
		t.Errorf("verb %d, now %d", v.Verb, v.Now)
	}
	var got []string
	for it := v.Filters(); it.Next(); {
		f := it.Filter()
		var kinds []uint32
		for it := f.Kinds(); it.Next(); {
			kinds = append(kinds, it.Kind())
		}
		tags := ""
		for it := f.Tags(); it.Next(); {
			tags += fmt.Sprintf("%s%q", it.Name(), collect(it.Values()))
		}
		since, hasSince := f.Since()
		until, hasUntil := f.Until()
		limit, hasLimit := f.Limit()
		got = append(got, fmt.Sprintln(f.NumIDs(), collect(f.IDs()), f.NumAuthors(), collect(f.Authors()), f.NumKinds(), kinds,
			f.NumTags(), tags, since, hasSince, until, hasUntil, limit, hasLimit))
	}
	want := []string{
		`1 [01] 2 [02 03] 3 [0 1 30023] 2 t["x" ""]e[] -5 true 0 true 9 true` + "\n",
		"0 [] 0 [] 0 [] 0  0 false 0 false 0 true\n",
		"0 [] 0 [] 0 [] 0  0 false 0 false 0 false\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

func TestKindsMayBeUnpacked(t *testing.T) {
	var v FilterView
	if err := v.Decode([]byte{3 << 3, 1, 3<<3 | wireBytes, 3, 2, 0x87, 0x01, 3<<3 | wireBytes, 0, 3 << 3, 4}); err != nil {
		t.Fatal(err)
	}
	var kinds []uint32
	for it := v.Kinds(); it.Next(); {
		kinds = append(kinds, it.Kind())
	}
	if !slices.Equal(kinds, []uint32{1, 2, 135, 4}) || v.NumKinds() != 4 {
		t.Errorf("%d kinds %v, want 1 2 135 4", v.NumKinds(), kinds)
	}
}

func TestConnectView(t *testing.T) {
	var v ConnectRequestView
	if err := v.Decode(AppendConnectRequest(nil, &ConnectRequest[[32]byte]{Client: sampleClient(), Open: 300, FromAddress: 2, Now: 77})); err != nil {
		t.Fatal(err)
	}
	checkSampleClient(t, v.Client)
	if v.Open != 300 || v.FromAddress != 2 || v.Now != 77 {
		t.Errorf("%+v", v)
	}
}

func TestPushView(t *testing.T) {
	var v PushRequestView
	if err := v.Decode(samplePush(nil)); err != nil {
		t.Fatal(err)
	}
	checkSampleClient(t, v.Client)
	var updates []RefUpdate
	for it := v.Updates(); it.Next(); {
		updates = append(updates, it.Update())
	}
	if v.Repo != "30617:ab:x" || !slices.Equal(collect(v.Maintainers()), []string{"04", "05"}) || v.Bytes != 1000 || v.Stored != 2000 ||
		v.Now != 77 || !v.PRs || !slices.Equal(updates, []RefUpdate{{"refs/heads/main", "00", "ab"}, {}}) {
		t.Errorf("%q %q %d %d %d %q", v.Repo, collect(v.Maintainers()), v.Bytes, v.Stored, v.Now, updates)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	query, push := sampleQuery(nil), samplePush(nil)
	connect := AppendConnectRequest(nil, &ConnectRequest[[32]byte]{Client: sampleClient()})
	var qv QueryRequestView
	var pv PushRequestView
	var cv ConnectRequestView
	if n := testing.AllocsPerRun(100, func() {
		qv.Decode(query)
		for it := qv.Filters(); it.Next(); {
			f := it.Filter()
			for it := f.Kinds(); it.Next(); {
			}
			for it := f.Tags(); it.Next(); {
				for it := it.Values(); it.Next(); {
				}
			}
		}
		pv.Decode(push)
		for it := pv.Updates(); it.Next(); {
			_ = it.Update()
		}
		cv.Decode(connect)
		for it := cv.Client.Authed(); it.Next(); {
		}
	}); n != 0 {
		t.Errorf("reading: %v allocations, want 0", n)
	}
	buf, client, filters := make([]byte, 0, 4096), sampleClient(), sampleFilters()
	updates := []writerUpdate{{"refs/heads/main", "00", "ab"}}
	if n := testing.AllocsPerRun(100, func() {
		out := buf
		for i := range filters {
			out = AppendFilterOf(out, &filters[i])
		}
		AppendQueryRequest(out, &QueryRequest[[32]byte]{Client: client, Verb: VerbReq, Now: 1})
		AppendConnectRequest(buf, &ConnectRequest[[32]byte]{Client: client, Open: 1})
		AppendPushRequest(buf, &PushRequest[[32]byte, writerUpdate]{Client: client, Repo: "x", Maintainers: client.Authed, Updates: updates})
		AppendAdmitRequest(buf, &AdmitRequest[[]string, [32]byte]{Authed: client.Authed})
	}); n != 0 {
		t.Errorf("writing: %v allocations, want 0", n)
	}
	request := AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{Event: *sampleEvent(), Authed: [][32]byte{key32(1)}})
	var v AdmitRequestView
	verdict := AppendVerdict(nil, ActionReject, "spam", "blocked", "no")
	var vv VerdictView
	if n := testing.AllocsPerRun(100, func() {
		v.Decode(request)
		for it := v.Event.Tags(); it.Next(); {
			_ = it.Tag().Value()
		}
		_ = v.Source.Authed(0)
		vv.Decode(verdict)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	event, b := sampleEvent(), make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { AppendEventOf(b, event) }); n != 0 {
		t.Errorf("writing an event: %v allocations, want 0", n)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	want := Config{Settings: []Setting{
		{Key: "s", Strings: []string{"a", ""}}, {Key: "i", Ints: []int64{-1, math.MinInt64}},
		{Key: "b", Bools: []bool{true, false}}, {Key: "f", Floats: []float64{math.Inf(1), -0.5}},
	}, Service: Service{Domain: "[::1]:80", PRs: true, Operator: [32]byte{1, 31: 2}}}
	got, err := DecodeConfig(AppendConfig(nil, &want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	unpacked := slices.Concat([]byte{0x18, 5, 0x20, 1, 0x29}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(2)))
	got, err = DecodeConfig(append([]byte{0x0a, byte(len(unpacked))}, unpacked...))
	if want := (Config{Settings: []Setting{{Ints: []int64{5}, Bools: []bool{true}, Floats: []float64{2}}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("unpacked: %+v, %v; want %+v", got, err, want)
	}
}

func TestConfiguredRoundTrip(t *testing.T) {
	want := Configured{Idle: []string{"admit"}, About: About{Grasps: []string{"GRASP-01"}, Criteria: "all", Curation: "none", Writes: WritesRestricted}}
	if got, err := DecodeConfigured(AppendConfigured(nil, &want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	many := make([]string, 17)
	for name, b := range map[string][]byte{
		"too many functions": AppendConfigured(nil, &Configured{Idle: many}),
		"too many GRASPs":    AppendConfigured(nil, &Configured{About: About{Grasps: many}}),
		"not UTF-8":          AppendConfigured(nil, &Configured{About: About{Criteria: "\xff"}}),
	} {
		if _, err := DecodeConfigured(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestEndOfAnEventList(t *testing.T) {
	for _, more := range []bool{false, true} {
		b := AppendEventOf(nil, &Event[[]string]{Kind: 7})
		if more {
			b = AppendMore(b)
		}
		var e EventView
		n := 0
		list := ReadEventList(b)
		for list.Next(&e) {
			n++
		}
		if n != 1 || list.More() != more {
			t.Errorf("%d events, more: %v, want %v", n, list.More(), more)
		}
	}
}

func TestFilterRoundTrip(t *testing.T) {
	since := int64(5)
	want := Filter{
		IDs: [][32]byte{key32(1)}, Authors: [][32]byte{key32(2)}, Kinds: []uint32{0, 65535},
		Tags: []TagFilter{{"t", []string{"x"}}}, Since: &since, Limit: 9,
	}
	got, err := DecodeFilter(AppendFilter(nil, &want), 100)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestFilterIsBounded(t *testing.T) {
	kinds := make([]uint32, 101)
	for name, f := range map[string]Filter{
		"ids":    {IDs: make([][32]byte, 101)},
		"kinds":  {Kinds: kinds},
		"tags":   {Tags: make([]TagFilter, 101)},
		"values": {Tags: []TagFilter{{"t", make([]string, 60)}, {"e", make([]string, 60)}}},
		"mixed":  {IDs: make([][32]byte, 60), Kinds: kinds[:60]},
	} {
		if _, err := DecodeFilter(AppendFilter(nil, &f), 100); err == nil {
			t.Errorf("%s: more than 100 values were read", name)
		}
	}
	if _, err := DecodeFilter(AppendFilter(nil, &Filter{IDs: make([][32]byte, 50), Kinds: kinds[:50]}), 100); err != nil {
		t.Errorf("100 values: %v", err)
	}
}

func TestMalformed(t *testing.T) {
	for name, b := range map[string][]byte{
		"key only":           {0x0a},
		"length too long":    {0x0a, 0x05, 1},
		"huge length":        {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"endless varint":     bytes.Repeat([]byte{0xff}, 20),
		"value too large":    {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
		"field zero":         {0x02, 0x00},
		"group":              {0x0b},
		"short fixed64":      {0x09, 1, 2, 3},
		"field number 1<<29": binary.AppendUvarint(nil, 1<<32),
	} {
		var event EventView
		var request AdmitRequestView
		var verdict VerdictView
		var query QueryRequestView
		var connect ConnectRequestView
		var push PushRequestView
		var filter FilterView
		if event.Decode(b) == nil || request.Decode(b) == nil || verdict.Decode(b) == nil || query.Decode(b) == nil ||
			connect.Decode(b) == nil || push.Decode(b) == nil || filter.Decode(b) == nil {
			t.Errorf("%s is accepted", name)
		}
		if _, err := DecodeConfig(b); err == nil {
			t.Errorf("%s is accepted as a Config", name)
		}
		if _, err := DecodeFilter(b, 10); err == nil {
			t.Errorf("%s is accepted as a Filter", name)
		}
		if _, err := DecodeConfigured(b); err == nil {
			t.Errorf("%s is accepted as a Configured", name)
		}
	}
}

func TestPack(t *testing.T) {
	if addr, length := Unpack(uint64(Pack(0xfffffff0, 0x80000001))); addr != 0xfffffff0 || length != 0x80000001 {
		t.Errorf("%x %x", addr, length)
	}
}

func TestHexes(t *testing.T) {
	var h Hexes
	var all []string
	for i := range 100 {
		all = append(all, h.Add(&[32]byte{byte(i), 0xab}))
	}
	for i, s := range all {
		if want := string("0123456789abcdef"[i>>4]) + string("0123456789abcdef"[i&15]) + "ab" + strings.Repeat("0", 60); s != want {
			t.Errorf("%d is written %s, want %s", i, s, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		h.Reset()
		for range 100 {
			h.Add(&[32]byte{1})
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
