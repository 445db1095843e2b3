package storetest

import (
	"testing"

	"talon/host"
)

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
		if got := deletes(test.deletion, test.event); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
