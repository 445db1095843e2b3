package grasp

import (
	"slices"
	"testing"

	"talon/host"
)

const since = 1_700_000_000

// At 30 minutes the repository goes, the announcement stays 24 hours, and is not
// taken from sync again for 7 days.
func TestPhases(t *testing.T) {
	for _, test := range []struct {
		age          int64
		announcement Phase
		other        Phase
	}{
		{-3600, Waiting, Waiting}, {0, Waiting, Waiting}, {30*60 - 1, Waiting, Waiting}, {30 * 60, Dormant, Forgotten},
		{30*60 + 24*3600 - 1, Dormant, Forgotten}, {30*60 + 24*3600, Gone, Forgotten},
		{30*60 + 8*24*3600 - 1, Gone, Forgotten}, {30*60 + 8*24*3600, Forgotten, Forgotten},
	} {
		now := since + test.age
		if got := (Hold{true, since}).Phase(now); got != test.announcement {
			t.Errorf("an announcement after %d s is %v, want %v", test.age, got, test.announcement)
		}
		if got := (Hold{false, since}).Phase(now); got != test.other {
			t.Errorf("a state after %d s is %v, want %v", test.age, got, test.other)
		}
	}
}

// Next is the very second in which the phase changes.
func TestNext(t *testing.T) {
	for _, h := range []Hold{{true, since}, {false, since}} {
		var phases []Phase
		now := int64(since)
		for {
			phases = append(phases, h.Phase(now))
			at, ok := h.Next(now)
			if !ok {
				break
			}
			if h.Phase(at) == h.Phase(now) || h.Phase(at-1) != h.Phase(now) {
				t.Fatalf("%+v: the phase %v does not end at %d", h, h.Phase(now), at)
			}
			now = at
		}
		want := []Phase{Waiting, Dormant, Gone, Forgotten}
		if !h.Announcement {
			want = []Phase{Waiting, Forgotten}
		}
		if !slices.Equal(phases, want) {
			t.Errorf("%+v goes through %v", h, phases)
		}
	}
}

// A state event, an authorised push or a replacement restarts the 30 minutes.
func TestRestart(t *testing.T) {
	h := Hold{true, since}
	for age, want := range map[int64]bool{10: true, HoldFor: true, HoldFor + ReviveFor - 1: true, HoldFor + ReviveFor: false} {
		got, ok := h.Restart(since + age)
		if ok != want || ok && (got.Since != since+age || got.Phase(since+age+HoldFor-1) != Waiting) || !ok && got != h {
			t.Errorf("after %d s: %+v, %v", age, got, ok)
		}
	}
	if got, ok := h.Restart(since - 100); !ok || got != h {
		t.Errorf("a clock that went back shortens the time: %+v, %v", got, ok)
	}
	if _, ok := (Hold{false, since}).Restart(since); ok {
		t.Error("a state restarts itself")
	}
}

func TestPlaceholder(t *testing.T) {
	if PlaceholderExpired(since, since+20*60-1) || !PlaceholderExpired(since, since+20*60) || PlaceholderExpired(since, since-1) {
		t.Error("a placeholder is not kept for 20 minutes")
	}
}

func TestEvent(t *testing.T) {
	e := &host.Event{ID: host.ID{1}, PubKey: host.PubKey{2}, CreatedAt: 3, Kind: 30617, Tags: host.Tags{{"d", "x"}, {}}}
	got := Event(e)
	if got.ID != e.ID || got.PubKey != e.PubKey || got.CreatedAt != 3 || got.Kind != 30617 || len(got.Tags) != 2 || !slices.Equal(got.Tags[0], []string{"d", "x"}) {
		t.Errorf("%+v", got)
	}
}

// A deletion also removes held events, by e and by a, same-second ones included.
func TestDeletes(t *testing.T) {
	author := host.PubKey{1}
	e := &host.Event{ID: host.ID{9}, PubKey: author, CreatedAt: 100, Kind: 30618, Tags: host.Tags{{"d", "a:b"}}}
	pr := &host.Event{ID: host.ID{8}, PubKey: author, CreatedAt: 100, Kind: 1618}
	address := "30618:" + author.String() + ":a:b"
	deletion := func(at int64, tags ...host.Tag) *host.Event {
		return &host.Event{ID: host.ID{7}, PubKey: author, CreatedAt: at, Kind: 5, Tags: tags}
	}
	byID, byAddress := host.Tag{"e", e.ID.String()}, host.Tag{"a", address}
	other := deletion(200, byID, byAddress)
	other.PubKey = host.PubKey{2}
	report := deletion(200, byID)
	report.Kind = 1984
	for name, test := range map[string]struct {
		deletion, event *host.Event
		want            bool
	}{
		"by id":              {deletion(200, host.Tag{"e"}, byID), e, true},
		"by id, older":       {deletion(1, byID), e, true},
		"by address":         {deletion(200, byAddress), e, true},
		"of the same second": {deletion(100, byAddress), e, true},
		"a younger event":    {deletion(99, byAddress), e, false},
		"another address":    {deletion(200, host.Tag{"a", address + "c"}), e, false},
		"an id in a":         {deletion(200, host.Tag{"a", e.ID.String()}), e, false},
		"an address in e":    {deletion(200, host.Tag{"e", address}), e, false},
		"nothing":            {deletion(200), e, false},
		"somebody else":      {other, e, false},
		"another kind":       {report, e, false},
		"a pull request":     {deletion(200, host.Tag{"e", pr.ID.String()}), pr, true},
		"no address":         {deletion(200, host.Tag{"a", ""}), pr, false},
		"a deletion":         {deletion(200, host.Tag{"e", (host.ID{7}).String()}), deletion(1), false},
	} {
		if got := Deletes(test.deletion, test.event); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
