package main

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(trust)) }

// person is a key whose bytes are not as random as others.
func person(n int) (key policy.PubKey) {
	binary.BigEndian.PutUint32(key[12:], uint32(n)+1)
	return key
}

// list is the follow list of a person.
func list(n int, follows ...int) policytest.Event {
	e := policytest.Event{ID: policy.ID{byte(n), byte(n >> 8), 1}, PubKey: person(n), Kind: 3, CreatedAt: policytest.Now}
	e.Tags = make([][]string, 0, len(follows))
	for _, f := range follows {
		e.Tags = append(e.Tags, []string{"p", person(f).String()})
	}
	return e
}

func upTo(first, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i
	}
	return list
}

func start(t testing.TB, config map[string]any, anchors ...int) *policytest.Harness {
	t.Helper()
	var keys []any
	for _, n := range anchors {
		keys = append(keys, person(n).String())
	}
	if config == nil {
		config = map[string]any{}
	}
	config["anchors"], config["known"] = keys, "accept"
	return policytest.New(t, manifest, new(trust), config)
}

// readAll lets a stranger write until the lists are read, and returns how often.
func readAll(t testing.TB, h *policytest.Harness) (events int) {
	t.Helper()
	stranger := policytest.Event{PubKey: policy.PubKey{0xff}, Kind: 1}
	for events = 1; ; events++ {
		switch v := h.Admit(stranger); {
		case v.Rule == "unknown":
			return events
		case v.Rule != "not-ready" || v.Prefix != "error":
			t.Fatalf("a stranger: %+v", v)
		case events == 10_000:
			t.Fatal("the lists are never read")
		}
	}
}

func wantKnown(t testing.TB, h *policytest.Harness, known bool, people ...int) {
	t.Helper()
	action, rule := policy.ActionReject, "unknown"
	if known {
		action, rule = policy.ActionAccept, "known"
	}
	for _, n := range people {
		if v := h.Admit(policytest.Event{PubKey: person(n), Kind: 1}); v.Action != action || v.Rule != rule {
			t.Errorf("person %d: %v by %q, want %v by %q", n, v.Action, v.Rule, action, rule)
			return
		}
	}
}

func TestHops(t *testing.T) {
	for hops, last := range []int{1: 2, 2: 3, 3: 4} {
		if hops == 0 {
			continue
		}
		h := start(t, map[string]any{"hops": hops}, 0, 1)
		// 0 follows 2, 2 follows 3 and so on; 3 follows back.
		h.Stored = []policytest.Event{list(0, 2), list(2, 3), list(3, 4, 0), list(4, 5), list(9, 0, 1, 9)}
		readAll(t, h)
		wantKnown(t, h, true, upTo(0, last+1)...)
		wantKnown(t, h, false, last+1, last+2, 9)
		if n := h.Metrics["authors"]; n != float64(last+1) {
			t.Errorf("%d hops: %v authors are known, want %d", hops, n, last+1)
		}
	}
}

// TestListsAreReadAgain: what was followed is known until the lists are read again,
// and who is followed since then is known as soon as it is read.
func TestListsAreReadAgain(t *testing.T) {
	h := start(t, map[string]any{"hops": 1, "refresh_minutes": 10}, 0)
	h.Stored = []policytest.Event{list(0, 1, 2)}
	readAll(t, h)
	wantKnown(t, h, true, 1, 2)
	h.Stored = []policytest.Event{list(0, 2, 3)}
	h.Now += 599
	wantKnown(t, h, true, 1, 2)
	wantKnown(t, h, false, 3)
	h.Now++
	wantKnown(t, h, true, 2, 3)
	wantKnown(t, h, false, 1)
	h.Stored = nil
	h.Now -= 3600
	wantKnown(t, h, true, 2) // to forget what was known takes an event
	wantKnown(t, h, false, 2)
}

// TestOldCircleAnswersWhileTheNewIsRead: reading takes many events.
func TestOldCircleAnswersWhileTheNewIsRead(t *testing.T) {
	h := start(t, nil, 0)
	h.Stored = []policytest.Event{list(0, upTo(1, 300)...)}
	for n := range 300 {
		h.Stored = append(h.Stored, list(1+n, 1000+n))
	}
	if n := readAll(t, h); n < 3 {
		t.Fatalf("301 lists are read with %d events: the test says nothing", n)
	}
	h.Now += 3600
	wantKnown(t, h, true, 1299)
	wantKnown(t, h, false, 2000)
	wantKnown(t, h, true, upTo(1000, 300)...)
}

func TestNearestAreKnown(t *testing.T) {
	h := start(t, map[string]any{"max_authors": 50}, 0)
	h.Stored = []policytest.Event{list(0, upTo(1, 40)...), list(1, upTo(1000, 2000)...), list(2, 9000)}
	readAll(t, h)
	wantKnown(t, h, true, upTo(0, 41)...)
	wantKnown(t, h, true, upTo(1000, 9)...)
	wantKnown(t, h, false, 1009, 1010, 9000)
}

func TestManyPeople(t *testing.T) {
	h := start(t, nil, 0)
	h.Stored = []policytest.Event{list(0, upTo(1, 500)...)}
	for n := range 500 {
		h.Stored = append(h.Stored, list(1+n, upTo(1000+200*n, 200)...))
	}
	t.Logf("501 lists of 100,500 follows are read with %d events", readAll(t, h))
	wantKnown(t, h, true, upTo(1000, 2000)...)
	wantKnown(t, h, true, upTo(98_000, 2000)...)
	if n := h.Metrics["authors"]; n != 100_000 {
		t.Errorf("%v authors are known", n)
	}
	h.WantNoAllocations(policytest.Event{PubKey: person(77_000), Kind: 1})
	h.WantNoAllocations(policytest.Event{PubKey: person(1 << 24), Kind: 1})
}

// TestHostileLists checks lists with hostile content of an author who is followed.
func TestHostileLists(t *testing.T) {
	good := person(7).String()
	for name, tags := range map[string][][]string{
		"empty tags":          append(make([][]string, tagsPerList-1), []string{"p", good}),
		"odd values":          {{"p"}, {"p", ""}, {"p", "é"}, {"p", good[:63]}, {"p", good + "0"}, {"p", strings.Repeat("0", 64)}, {"P", person(8).String()}, {"p", strings.ToUpper(good), "x"}},
		"the same very often": append(slices.Repeat([][]string{{"p", person(0).String()}}, tagsPerList-1), []string{"p", good}),
	} {
		h := start(t, nil, 0)
		h.Stored = []policytest.Event{list(0, 1, 2), {ID: policy.ID{1}, PubKey: person(1), Kind: 3, Tags: tags}, list(2, 5)}
		readAll(t, h)
		wantKnown(t, h, true, 0, 1, 2, 5, 7)
		wantKnown(t, h, false, 8)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	// A list that is too large for the store's answers does not keep others from being read.
	h := start(t, nil, 0)
	h.Stored = []policytest.Event{list(0, upTo(1, 40)...), {ID: policy.ID{1}, PubKey: person(1), Kind: 3, Content: strings.Repeat("x", 600<<10)}}
	for n := range 39 {
		h.Stored = append(h.Stored, list(2+n, 100+n))
	}
	readAll(t, h)
	wantKnown(t, h, true, upTo(100, 39)...)
	// A list that is longer than what one event reads.
	h = start(t, nil, 0)
	h.Stored = []policytest.Event{list(0, upTo(1, tagsPerList+1)...), list(tagsPerList, 9000), list(3, upTo(10_000, tagsPerList-1)...), list(4, upTo(20_000, tagsPerList)...)}
	readAll(t, h)
	wantKnown(t, h, true, 1, tagsPerEvent, tagsPerEvent+1, tagsPerList, 9000, 10_000, 10_000+tagsPerList-2, 20_000, 20_000+tagsPerList-1)
	wantKnown(t, h, false, tagsPerList+1)
	// Of a list with very many tags, some count.
	h = start(t, nil, 0)
	h.Stored = []policytest.Event{list(0, 1, 2), {ID: policy.ID{1}, PubKey: person(1), Kind: 3, Tags: append(make([][]string, 100_000), []string{"p", good})}, list(2, 5)}
	readAll(t, h)
	wantKnown(t, h, true, 5)
	wantKnown(t, h, false, 7)
}

// TestStoreThatDoesNotAnswer: a failure is no empty list.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	h := start(t, nil, 0)
	h.Stored, h.Failing = []policytest.Event{list(0, 1), list(1, 2)}, true
	for range 5 {
		if v := h.Admit(policytest.Event{PubKey: person(2), Kind: 1}); v.Rule != "not-ready" {
			t.Fatalf("%+v, want not-ready", v)
		}
	}
	h.Failing = false
	wantKnown(t, h, true, 2)
}

func TestWhatIsDoneWithOthers(t *testing.T) {
	h := policytest.New(t, manifest, new(trust), map[string]any{"anchors": []any{person(0).String()}, "unknown": "pass"})
	h.Want(policytest.Event{PubKey: person(0)}, policy.ActionPass, "")
	h.Want(policytest.Event{PubKey: person(1)}, policy.ActionPass, "")
}

func TestWrongValues(t *testing.T) {
	for key, value := range map[string]any{"anchors": []any{"npub1nope"}, "kinds": []any{"x"}, "except_kinds": []any{"70000"}, "hops": 4, "known": "reject"} {
		if _, err := policytest.Configure(t, manifest, new(trust), map[string]any{key: value}); err == nil || !strings.Contains(err.Error(), "config "+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestKeysThatFallOnOneAnother: a set of keys with one place answers fast, and other keys
// are found in it.
func TestKeysThatFallOnOneAnother(t *testing.T) {
	s := newKeySet(5000, 1)
	s.empty(1)
	mask := uint64(len(s.slots) - 1)
	added := 0
	for n := 0; added < 400; n++ {
		if key := person(n); s.place(slotOf(&key))&mask < 4 {
			s.add(&key)
			added++
		}
	}
	if s.n < maxProbe || s.n > maxProbe+4 {
		t.Errorf("%d of %d keys in one place are in the set, want about %d", s.n, added, maxProbe)
	}
	other := policy.PubKey{9, 9, 9}
	if s.has(&other) || !s.add(&other) || !s.has(&other) {
		t.Error("a key of another place is not found")
	}
	var zero policy.PubKey
	if s.add(&zero) || s.has(&zero) {
		t.Error("the zero key is in the set")
	}
}

func BenchmarkWarm(b *testing.B) {
	h := start(b, nil, 0)
	h.Stored = []policytest.Event{list(0, upTo(1, 100)...)}
	readAll(b, h)
	request := h.Request(policytest.Event{PubKey: person(1 << 20), Kind: 1})
	for b.Loop() {
		h.Decide(request)
	}
}

func TestDecode(t *testing.T) {
	text := "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"
	var key policy.PubKey
	if decode(key[:], text); key.String() != strings.ToLower(text) {
		t.Errorf("%s is read as %v", text, key)
	}
}

// TestMinFollowers: one list is not enough, and one that names a key often is still one list.
func TestMinFollowers(t *testing.T) {
	h := policytest.New(t, manifest, new(trust), map[string]any{"anchors": []any{person(0).String(), person(1).String()}, "hops": 2, "min_followers": 2})
	h.Stored = []policytest.Event{list(0, 2, 3, 3, 3), list(1, 2, 4), list(2, 5), list(4, 5, 6), list(3, 5, 6)}
	readAll(t, h)
	for n, known := range map[int]bool{0: true, 1: true, 2: true, 3: false, 4: false, 5: false, 6: false} {
		if v := h.Admit(policytest.Event{PubKey: person(n), Kind: 1}); (v.Action == policy.ActionPass) != known {
			t.Errorf("person %d: %+v, want known %v", n, v, known)
		}
	}
	h = policytest.New(t, manifest, new(trust), map[string]any{"anchors": []any{person(0).String(), person(1).String()}, "hops": 2, "min_followers": 2})
	h.Stored = []policytest.Event{list(0, 2, 7), list(1, 2, 7), list(2, 5), list(7, 5)}
	readAll(t, h)
	if v := h.Admit(policytest.Event{PubKey: person(5), Kind: 1}); v.Action != policy.ActionPass {
		t.Errorf("followed by two who are followed by two: %+v", v)
	}
}
