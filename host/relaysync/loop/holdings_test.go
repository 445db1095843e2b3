package loop_test

import (
	"slices"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/sdk/abi"
)

// compare compares with what a relay is believed to hold, whenever it is connected.
func compare(kinds ...uint32) func(v *abi.StepView) []abi.StepAction {
	return func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo("wss://a.example")}
		case abi.InputRelayConnected:
			a := fetch(v.RelayConnected().Relay, "all", kinds...)
			a.Holdings = true
			return []abi.StepAction{a}
		}
		return nil
	}
}

// again restarts the host, lets it compare, and returns what that was like.
func (n *network) again() (done abi.HistoricDone, bytes int) {
	n.t.Helper()
	r := n.remotes["wss://a.example"]
	n.stop()
	r.before = r.relay.Stats()
	before := len(n.plan.done)
	n.start()
	n.pass(120_000)
	if len(n.plan.done) != before+1 || !n.plan.done[before].Complete {
		n.t.Fatalf("it hears %q", n.plan.told[max(0, len(n.plan.told)-5):])
	}
	_, bytes = r.asked()
	return n.plan.done[before], bytes
}

// TestHoldings compares after a restart. With nothing new that costs next to nothing, however many
// events the relay lacks, and however many of its events were refused here. New events are found,
// with any date, and cost only themselves.
func TestHoldings(t *testing.T) {
	const there, here = 6000, 3000
	list := notes(there + here + 10)
	a := &remote{url: "wss://a.example", latency: 20, caps: abi.Capabilities{Negentropy: abi.SupportYes}}
	n := newNetwork(t, compare(1), a)
	n.refuses = func(e *host.Event) bool { return e.ID[0] < 16 }
	n.stop()
	for i, e := range list[:there+here] {
		if i%3 < 2 {
			a.add(e)
		} else {
			n.stored[e.ID] = e
		}
	}
	n.start()
	n.pass(120_000)
	_, first := a.asked()
	whole := n.plan.done[0]
	if whole.New != there || whole.Kept >= whole.New || whole.Kept < there*9/10 || !whole.Complete {
		t.Fatalf("first: %+v", whole)
	}
	done, bytes := n.again()
	if questions, _ := a.asked(); bytes > 500 || done.Need != 0 || done.Have != 0 || questions != 1 {
		t.Errorf("nothing new: %d bytes, %d questions, %+v", bytes, questions, done)
	}
	held := len(n.beliefs[a.url])
	if held > 12*there {
		t.Errorf("%d bytes are kept for %d events", held, there)
	}
	t.Logf("%d events there, %d more here: first %d bytes, then %d; %d bytes are kept", there, here, first, bytes, held)

	// One event came there that is as old as the first, and one that is here already.
	late, known := list[there+here], n.stored[list[2].ID]
	a.add(late, known)
	if done, bytes = n.again(); done.New != 1 || n.stored[late.ID] == nil || bytes > 12_000 {
		t.Errorf("two events: %d bytes, %+v", bytes, done)
	}
	t.Logf("two events of old: %d bytes", bytes)
	if done, bytes = n.again(); bytes > 500 || done.Need != 0 {
		t.Errorf("nothing new again: %d bytes, %+v", bytes, done)
	}

	// Events that the relay has lost are no longer expected of it.
	a.lose(10)
	if done, _ = n.again(); done.Have < 9 || done.Have > 10 {
		t.Errorf("ten events are gone there: %+v", done)
	}
	if done, bytes = n.again(); done.Have != 0 || bytes > 500 {
		t.Errorf("they are gone for good: %d bytes, %+v", bytes, done)
	}

	// If it was lost, it is as with a relay that nothing is known of.
	n.beliefs = map[string][]byte{}
	if done, _ = n.again(); done.New != 0 || int(done.Have) < here-1 {
		t.Errorf("forgotten: %+v", done)
	}
	if done, bytes = n.again(); bytes > 500 || done.Have != 0 {
		t.Errorf("known again: %d bytes, %+v", bytes, done)
	}
}

// A strategy that does not know of it has its comparisons made in the same way, and learns
// all that the relay lacks, as the operator is.
func TestHoldingsUnasked(t *testing.T) {
	const there, here = 3000, 2000
	list := notes(there + here + 10)
	a := &remote{url: "wss://a.example", latency: 20, caps: abi.Capabilities{Negentropy: abi.SupportYes}, events: slices.Clone(list[:there])}
	n := newNetwork(t, func(v *abi.StepView) []abi.StepAction {
		actions := compare(1)(v)
		for i := range actions {
			actions[i].Holdings = false
		}
		return actions
	}, a)
	n.stop()
	for _, e := range list[there-500 : there+here] {
		n.stored[e.ID] = e
	}
	n.start()
	n.pass(120_000)
	if done := n.plan.done[0]; done.New != there-500 || done.Have != here {
		t.Fatalf("first: %+v", done)
	}
	if done, bytes := n.again(); bytes > 500 || done.Need != 0 || done.Have != here {
		t.Errorf("nothing new: %d bytes, %+v", bytes, done)
	}
	// Of what it lacked it has got ten, and one is new; of what it had, five are gone.
	a.lose(5)
	a.add(list[there : there+10]...)
	a.add(list[there+here])
	if done, _ := n.again(); done.New != 1 || done.Have != here-10+5 {
		t.Errorf("changed: %+v", done)
	}
	if done, bytes := n.again(); bytes > 500 || done.Have != here-10+5 {
		t.Errorf("nothing new again: %d bytes, %+v", bytes, done)
	}
}

// TestHoldingsOfALiar checks that a lying relay harms only itself. Its claims are believed of it
// alone, and events that it keeps back are fetched from others.
func TestHoldingsOfALiar(t *testing.T) {
	list := notes(300)
	liar := &remote{url: "wss://a.example", latency: 20, caps: abi.Capabilities{Negentropy: abi.SupportYes}, profile: relaymodel.Default(), events: list[:200]}
	liar.profile.Lies.Omits = 1
	honest := &remote{url: "wss://b.example", latency: 30, caps: abi.Capabilities{Negentropy: abi.SupportYes}, events: list[100:]}
	n := newNetwork(t, compare(1), liar, honest)
	n.pass(120_000)
	if len(n.stored) != 0 {
		t.Fatalf("%d events are here", len(n.stored))
	}
	for range 2 {
		n.stop()
		n.start()
		n.plan.react = func(v *abi.StepView) []abi.StepAction {
			if v.Kind == abi.InputInit {
				return []abi.StepAction{connectTo(liar.url), connectTo(honest.url)}
			}
			return compare(1)(v)
		}
		n.plan.fresh = true
		n.loop.Swapped(n.clock.Now())
		n.turn()
		n.pass(300_000)
		if len(n.stored) != 200 {
			t.Errorf("%d events are here, want 200", len(n.stored))
		}
	}
	// It has them after all.
	liar.profile.Lies.Omits = 0
	liar.add(list[200:]...)
	n.stop()
	n.start()
	n.pass(300_000)
	if len(n.stored) != 300 {
		t.Errorf("%d events are here, want 300", len(n.stored))
	}
}

// TestHoldingsOfWideFilters checks that comparisons by narrow filters serve a filter for
// everything. A filter that changed by a value is compared with all events here once more.
func TestHoldingsOfWideFilters(t *testing.T) {
	list := notes(2000)
	a := &remote{url: "wss://a.example", latency: 20, caps: abi.Capabilities{Negentropy: abi.SupportYes}, events: list[:1000]}
	by := func(authors ...[32]byte) func(v *abi.StepView) []abi.StepAction {
		return func(v *abi.StepView) []abi.StepAction {
			actions := compare()(v)
			for i := range actions {
				if actions[i].Do == abi.DoHistoric {
					actions[i].Filters = []abi.Filter{{Authors: authors}}
				}
			}
			return actions
		}
	}
	n := newNetwork(t, by(list[0].PubKey), a)
	n.stop()
	for _, e := range list[500:] {
		n.stored[e.ID] = e
	}
	n.start()
	n.pass(120_000)
	if done := n.plan.done[0]; done.New != 500 || done.Have != 1000 {
		t.Fatalf("first: %+v", done)
	}
	n.plan.react = compare()
	if done, bytes := n.again(); bytes > 500 || done.Need != 0 || done.Have != 0 {
		t.Errorf("everything: %d bytes, %+v", bytes, done)
	}
	n.plan.react = by(list[0].PubKey, [32]byte{1})
	if done, _ := n.again(); done.Need != 0 || done.Have != 1000 {
		t.Errorf("another filter: %+v", done)
	}
	if done, bytes := n.again(); bytes > 500 || done.Have != 0 {
		t.Errorf("that filter again: %d bytes, %+v", bytes, done)
	}
}
