package abi

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func sampleInit() *StepInit {
	since := int64(-5)
	return &StepInit{
		Part: 1, More: true, Seed: -7, Limits: StepLimits{1, 2, 3, 4, 5, 6, 7, 8}, Own: []string{"wss://own", "ws://own"},
		Relays: []RelayState{
			{
				URL: "wss://a", Bootstrap: true, Wanted: true, Connected: true, Capabilities: Capabilities{SupportYes, 2, 3, 4, 5, true, 6},
				LastConnected: 8, DisconnectedAt: 9,
				Subscriptions: []OpenSubscription{
					{ID: "s", Filters: []Filter{{Kinds: []uint32{1, 30617}, Since: &since}, {}}, Live: true, Eose: true}, {},
				},
				Historics: []RunningHistoric{
					{ID: "h", Filter: Filter{Tags: []TagFilter{{"e", []string{strings.Repeat("ab", 100)}}}}, Method: MethodREQ, Purpose: PurposeDaily},
				},
			},
			{},
		},
		Repositories: []KnownRepository{
			{Address: "30617:ab:x", Level: SyncLevelState, Relays: []string{"wss://a", "wss://b"}, Roots: [][32]byte{key32(1), key32(2)}, Active: []uint32{5, 1 << 31}, Authors: [][32]byte{key32(3)}, AuthorLatest: []uint32{6}}, {},
		},
	}
}

// sampleInputs holds each input.
var sampleInputs = []Input{
	&StepInit{}, sampleInit(),
	&LocalEvent{
		ID: key32(1), PubKey: key32(2), Kind: 30617, CreatedAt: 3, Repositories: []string{"r", "s"}, Relays: []string{"wss://a"},
		Level: SyncLevelFull, Origin: OriginSync, Relay: "wss://b",
	},
	&RepoGone{"30617:ab:x"},
	&RelayConnected{"wss://a", Capabilities{Negentropy: SupportNo}, 5, 6, true},
	&RelayDisconnected{"wss://a", ClassLost, "bye", true, 3, 4},
	&Eose{"wss://a", "s", 1, 2, -3},
	&Closed{"wss://a", "s", ClassLimit, "no"},
	&HistoricDone{"wss://a", "h", MethodNegentropy, true, ClassForbidden, "x", 1, 2, 3, 1 << 40, 5, 6, 7, 8, 9},
	&Notice{"wss://a", ClassRateLimited, "slow down"},
	&TimerFired{"t", 7},
	&RootActivity{Roots: [][32]byte{key32(1), key32(2)}, Latest: []uint32{7, 8}, Authors: [][32]byte{key32(3), key32(4)}, AuthorRoots: []uint32{1, 0}},
	&Repeats{"wss://a", 8, 1 << 40},
}

// read returns the input that a view holds, built again from the view.
func read(v *StepView) Input {
	switch v.Kind {
	case InputInit:
		return readInit(v.Init())
	case InputLocalEvent:
		e := v.LocalEvent()
		return &LocalEvent{
			ID: [32]byte(e.ID), PubKey: [32]byte(e.PubKey), Kind: e.Kind, CreatedAt: e.CreatedAt, Repositories: texts(e.Repositories()),
			Relays: texts(e.Relays()), Level: e.Level, Origin: e.Origin, Relay: e.Relay,
		}
	case InputRepoGone:
		return ref(v.RepoGone())
	case InputRelayConnected:
		return ref(v.RelayConnected())
	case InputRelayDisconnected:
		return ref(v.RelayDisconnected())
	case InputEose:
		return ref(v.Eose())
	case InputClosed:
		return ref(v.Closed())
	case InputHistoricDone:
		return ref(v.HistoricDone())
	case InputNotice:
		return ref(v.Notice())
	case InputTimerFired:
		return ref(v.TimerFired())
	case InputRootActivity:
		a := v.RootActivity()
		m := new(RootActivity)
		for it := a.Latest(); it.Next(); {
			m.Latest = append(m.Latest, it.Latest())
		}
		for i := range a.NumRoots() {
			m.Roots = append(m.Roots, a.Root(i))
		}
		for it := a.AuthorRoots(); it.Next(); {
			m.AuthorRoots = append(m.AuthorRoots, it.AuthorRoot())
		}
		for i := range a.NumAuthors() {
			m.Authors = append(m.Authors, a.Author(i))
		}
		return m
	case InputRepeats:
		return ref(v.Repeats())
	}
	return nil
}

func readInit(v StepInitView) *StepInit {
	m := &StepInit{Part: v.Part, More: v.More, Seed: v.Seed, Limits: v.Limits, Own: texts(v.Own())}
	for it := v.Relays(); it.Next(); {
		r := it.Relay()
		relay := RelayState{
			URL: r.URL, Bootstrap: r.Bootstrap, Wanted: r.Wanted, Connected: r.Connected, Capabilities: r.Capabilities,
			LastConnected: r.LastConnected, DisconnectedAt: r.DisconnectedAt,
		}
		for it := r.Subscriptions(); it.Next(); {
			s := it.Subscription()
			sub := OpenSubscription{ID: s.ID, Live: s.Live, Eose: s.Eose}
			for it := s.Filters(); it.Next(); {
				f := it.Filter()
				sub.Filters = append(sub.Filters, readFilter(&f))
			}
			relay.Subscriptions = append(relay.Subscriptions, sub)
		}
		for it := r.Historics(); it.Next(); {
			h := it.Historic()
			relay.Historics = append(relay.Historics, RunningHistoric{ID: h.ID, Filter: readFilter(&h.Filter), Method: h.Method, Purpose: h.Purpose})
		}
		m.Relays = append(m.Relays, relay)
	}
	for it := v.Repositories(); it.Next(); {
		r := it.Repository()
		repo := KnownRepository{Address: r.Address, Level: r.Level, Relays: texts(r.Relays())}
		for i := range r.NumRoots() {
			repo.Roots = append(repo.Roots, r.Root(i))
		}
		for it := r.Active(); it.Next(); {
			repo.Active = append(repo.Active, it.Active())
		}
		for i := range r.NumAuthors() {
			repo.Authors = append(repo.Authors, r.Author(i))
		}
		for it := r.AuthorLatest(); it.Next(); {
			repo.AuthorLatest = append(repo.AuthorLatest, it.AuthorLatest())
		}
		m.Repositories = append(m.Repositories, repo)
	}
	return m
}

// readFilter builds the conditions that the samples use.
func readFilter(v *FilterView) Filter {
	var f Filter
	for it := v.Kinds(); it.Next(); {
		f.Kinds = append(f.Kinds, it.Kind())
	}
	for it := v.Tags(); it.Next(); {
		f.Tags = append(f.Tags, TagFilter{it.Name(), texts(it.Values())})
	}
	if since, ok := v.Since(); ok {
		f.Since = &since
	}
	return f
}

func texts(it BytesIter) (list []string) {
	for it.Next() {
		list = append(list, it.Text())
	}
	return list
}

func TestStepsRoundTrip(t *testing.T) {
	for _, input := range sampleInputs {
		var v StepView
		if err := v.Decode(AppendStep(nil, 77, input)); err != nil {
			t.Fatal(err)
		}
		if got := read(&v); v.Now != 77 || !reflect.DeepEqual(got, input) {
			t.Errorf("%+v is read as %+v", input, got)
		}
	}
}

func TestOnlyTheInputOfItsKindIsRead(t *testing.T) {
	var v StepView
	if err := v.Decode(AppendStep(nil, 1, &Eose{Relay: "wss://a", ID: "s"})); err != nil {
		t.Fatal(err)
	}
	if v.Closed() != (Closed{}) || v.HistoricDone() != (HistoricDone{}) || v.LocalEvent().Relay != "" {
		t.Error("an input is read as another")
	}
	newer := append([]byte{0x08, 5}, 15<<3|wireBytes, 2, 1, 1)
	if err := v.Decode(newer); err != nil || v.Kind != InputNone || v.Now != 5 || read(&v) != nil {
		t.Errorf("an input that this package does not know: %v, kind %d", err, v.Kind)
	}
	if v.Decode([]byte{InputEose<<3 | wireBytes, 1, 0xff}) == nil {
		t.Error("a malformed input is accepted")
	}
}

func sampleActions() []StepAction {
	since := int64(5)
	return []StepAction{
		{Do: DoConnect, Relay: "wss://a", Priority: 3, Reason: "named"},
		{Do: DoDisconnect, Relay: "wss://a", Reason: "done"},
		{Do: DoSubscribe, Relay: "wss://a", ID: "s", Filters: []Filter{{Kinds: []uint32{30617}, Since: &since}, {IDs: [][32]byte{key32(1)}}}, Live: true, Purpose: PurposeReconnect},
		{Do: DoUnsubscribe, Relay: "wss://a", ID: "s"},
		{Do: DoHistoric, Relay: "wss://a", ID: "h", Filters: []Filter{{Tags: []TagFilter{{"e", []string{strings.Repeat("ab", 100)}}}}},
			Method: MethodNegentropy, Purpose: PurposeDaily, Page: 500, Push: true, Holdings: true},
		{Do: DoSetTimer, ID: "t", At: 7},
		{Do: DoSetTimer, ID: "t"},
		{Do: DoUncovered, Relay: "wss://a", Repositories: 1, Roots: 2, Authors: 3},
		{Do: DoProgress, Relay: "wss://a", Past: true, Closed: true, OldDates: true, Anew: true, NextCheck: 1700000000000},
	}
}

func appendActions(actions ...StepAction) (b []byte) {
	for i := range actions {
		b = AppendAction(b, &actions[i])
	}
	return b
}

var someLimits = ActionLimits{Actions: 9, Filters: 2, Values: 10, AllValues: 25}

func TestActionsRoundTrip(t *testing.T) {
	want := sampleActions()
	got, err := DecodeActions(appendActions(want...), someLimits)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := DecodeActions(nil, someLimits); len(got) != 0 || err != nil {
		t.Errorf("no actions: %+v, %v", got, err)
	}
}

func TestWrongActionsAreNamed(t *testing.T) {
	long := strings.Repeat("x", 65)
	kinds := func(n int) []Filter { return []Filter{{Kinds: make([]uint32, n)}} }
	connect := StepAction{Do: DoConnect, Relay: "wss://a"}
	for _, test := range []struct {
		want    string
		actions []StepAction
	}{
		{"action 9: an answer has at most 9 actions", slices.Repeat([]StepAction{connect}, 10)},
		{"action 1: connect: no relay", []StepAction{connect, {Do: DoConnect}}},
		{"action 0: disconnect: no relay", []StepAction{{Do: DoDisconnect}}},
		{"action 0: connect: relay has 513 bytes; the limit is 512", []StepAction{{Do: DoConnect, Relay: strings.Repeat("x", 513)}}},
		{"action 0: connect: relay is not UTF-8", []StepAction{{Do: DoConnect, Relay: "\xff"}}},
		{"action 0: connect: reason has 257 bytes; the limit is 256", []StepAction{{Do: DoConnect, Relay: "r", Reason: strings.Repeat("x", 257)}}},
		{"action 0: unsubscribe: id is not 1 to 64 bytes from ! to ~", []StepAction{{Do: DoUnsubscribe, Relay: "r"}}},
		{"action 0: unsubscribe: id is not 1 to 64 bytes from ! to ~", []StepAction{{Do: DoUnsubscribe, Relay: "r", ID: "a b"}}},
		{"action 0: unsubscribe: id has 65 bytes; the limit is 64", []StepAction{{Do: DoUnsubscribe, Relay: "r", ID: long}}},
		{"action 0: uncovered: no relay", []StepAction{{Do: DoUncovered, Roots: 1}}},
		{"action 0: progress: no relay", []StepAction{{Do: DoProgress, Past: true}}},
		{"action 0: progress: a time before 1970", []StepAction{{Do: DoProgress, Relay: "wss://a", NextCheck: -1}}},
		{"action 0: timer: id has 65 bytes; the limit is 64", []StepAction{{Do: DoSetTimer, ID: long}}},
		{"action 0: timer: a time before 1970", []StepAction{{Do: DoSetTimer, ID: "t", At: -1}}},
		{"action 0: subscribe: no filter", []StepAction{{Do: DoSubscribe, Relay: "r", ID: "s"}}},
		{"action 0: subscribe: a subscription has at most 2 filters", []StepAction{{Do: DoSubscribe, Relay: "r", ID: "s", Filters: make([]Filter, 3)}}},
		{"action 0: subscribe: a filter is malformed, or has more than 10 values", []StepAction{{Do: DoSubscribe, Relay: "r", ID: "s", Filters: kinds(11)}}},
		{"action 2: subscribe: a filter is malformed, or has more than 5 values (all filters of an answer have at most 25)",
			slices.Repeat([]StepAction{{Do: DoSubscribe, Relay: "r", ID: "s", Filters: kinds(10)}}, 3)},
		{"action 0: subscribe: purpose 4 is not one that this host knows", []StepAction{{Do: DoSubscribe, Relay: "r", ID: "s", Filters: kinds(1), Purpose: 4}}},
		{"action 0: historic: no filter", []StepAction{{Do: DoHistoric, Relay: "r", ID: "s"}}},
		{"action 0: historic: more than one filter", []StepAction{{Do: DoHistoric, Relay: "r", ID: "s", Filters: make([]Filter, 2)}}},
		{"action 0: historic: method 3 is not one that this host knows", []StepAction{{Do: DoHistoric, Relay: "r", ID: "s", Filters: kinds(1), Method: 3}}},
		{"action 0: of no kind that this host knows", []StepAction{{Do: 9, Relay: "r"}}},
	} {
		_, err := DecodeActions(appendActions(test.actions...), someLimits)
		var wrong *ActionError
		if !errors.As(err, &wrong) || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	one := appendActions(connect)[2:]
	two := append(append([]byte{0x0a, byte(2 * len(one))}, one...), one...)
	for want, b := range map[string][]byte{
		"action 0: two actions in one":         two,
		"action 0: malformed message":          {0x0a, 1, 0xff},
		"action 0: connect: malformed message": {0x0a, 3, 0x0a, 1, 0xff},
		"malformed message":                    {0x0a, 9},
	} {
		if _, err := DecodeActions(b, someLimits); err == nil || err.Error() != want {
			t.Errorf("%x: %v, want %s", b, err, want)
		}
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	b := make([]byte, 0, 1<<16)
	actions := sampleActions()
	init := sampleInit()
	if n := testing.AllocsPerRun(100, func() {
		AppendStep(b, 1, init)
		out := b
		for i := range actions {
			out = AppendAction(out, &actions[i])
		}
	}); n != 0 {
		t.Errorf("writing: %v allocations, want 0", n)
	}
	request := AppendStep(nil, 1, init)
	var v StepView
	if n := testing.AllocsPerRun(100, func() {
		v.Decode(request)
		world := v.Init()
		for it := world.Relays(); it.Next(); {
			relay := it.Relay()
			for it := relay.Subscriptions(); it.Next(); {
				sub := it.Subscription()
				for it := sub.Filters(); it.Next(); {
					filter := it.Filter()
					for it := filter.Kinds(); it.Next(); {
						_ = it.Kind()
					}
				}
			}
			for it := relay.Historics(); it.Next(); {
				_ = it.Historic()
			}
		}
		for it := world.Repositories(); it.Next(); {
			repo := it.Repository()
			for i := range repo.NumRoots() {
				_ = repo.Root(i)
			}
		}
	}); n != 0 {
		t.Errorf("reading: %v allocations, want 0", n)
	}
}

func FuzzSteps(f *testing.F) {
	for _, input := range sampleInputs {
		f.Add(AppendStep(nil, 77, input))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v StepView
		err := v.Decode(b)
		if (err == nil) != (wellFormed(b) && wellFormed(v.body)) {
			t.Errorf("%x: %v, but well-formed %v %v", b, err, wellFormed(b), wellFormed(v.body))
		}
		if err != nil {
			return
		}
		n := 0
		count := func(it BytesIter) {
			for it.Next() {
				if n++; n > 10*len(b) {
					t.Fatal("endless")
				}
			}
		}
		world, event := v.Init(), v.LocalEvent()
		count(event.Relays())
		count(event.Repositories())
		count(world.Own())
		for it := world.Relays(); it.Next(); {
			relay := it.Relay()
			for it := relay.Subscriptions(); it.Next(); {
				sub := it.Subscription()
				for it := sub.Filters(); it.Next(); {
					filter := it.Filter()
					count(filter.IDs())
				}
			}
			for it := relay.Historics(); it.Next(); {
				historic := it.Historic()
				count(historic.Filter.IDs())
			}
		}
		for it := world.Repositories(); it.Next(); {
			repo := it.Repository()
			count(repo.Relays())
			for i := range repo.NumRoots() {
				_ = repo.Root(i)
			}
		}
		// Inputs whose texts and numbers are all that they have say the same when
		// they are written again.
		switch v.Kind {
		case InputInit, InputLocalEvent, InputNone:
			return
		}
		first := read(&v)
		var again StepView
		if err := again.Decode(AppendStep(nil, v.Now, first)); err != nil || !reflect.DeepEqual(read(&again), first) {
			t.Errorf("%x: %+v becomes %+v, %v", b, first, read(&again), err)
		}
	})
}

func FuzzActions(f *testing.F) {
	for _, a := range sampleActions() {
		f.Add(appendActions(a))
	}
	f.Add(appendActions(sampleActions()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		actions, err := DecodeActions(b, someLimits)
		if err != nil {
			var wrong *ActionError
			if !errors.As(err, &wrong) && !errors.Is(err, ErrMalformed) || len(err.Error()) > 200 {
				t.Errorf("%x: %v", b, err)
			}
			return
		}
		values := 0
		for i := range actions {
			a := &actions[i]
			if len(a.ID) > MaxActionID || len(a.Relay) > MaxActionRelay || len(a.Reason) > MaxActionReason || len(a.Filters) > someLimits.Filters {
				t.Errorf("%x: %+v", b, a)
			}
			for _, f := range a.Filters {
				values += len(f.IDs) + len(f.Authors) + len(f.Kinds) + len(f.Tags)
				for _, tag := range f.Tags {
					values += len(tag.Values)
				}
			}
		}
		if len(actions) > someLimits.Actions || values > someLimits.AllValues {
			t.Errorf("%x: %d actions, %d values", b, len(actions), values)
		}
		again, err := DecodeActions(appendActions(actions...), someLimits)
		if err != nil || !reflect.DeepEqual(again, actions) {
			t.Errorf("%x: %+v becomes %+v, %v", b, actions, again, err)
		}
	})
}
