package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
)

// randomFilter and randomEvent draw from few values, so that they often meet.
func randomFilter(r *rand.Rand) host.Filter {
	f := host.Filter{Limit: -1}
	pick := func(n int) int { return r.IntN(n) }
	if pick(4) == 0 {
		for range pick(4) {
			f.IDs = append(f.IDs, event(byte(pick(3)), host.Kind(pick(3)), int64(pick(3)), "").ID)
		}
	}
	if pick(3) == 0 {
		for range 1 + pick(3) {
			f.Authors = append(f.Authors, event(byte(pick(4)), 0, 0, "").PubKey)
		}
	}
	if pick(3) == 0 {
		for range pick(3) {
			f.Kinds = append(f.Kinds, host.Kind(pick(4)))
		}
		if f.Kinds == nil {
			f.Kinds = []host.Kind{}
		}
	}
	for _, name := range []byte("tT") {
		if pick(3) == 0 {
			t := host.TagFilter{Name: name}
			for range 1 + pick(3) {
				t.Values = append(t.Values, fmt.Sprint(pick(5)))
			}
			f.Tags = append(f.Tags, t)
		}
	}
	if pick(4) == 0 {
		n := int64(pick(4))
		f.Since = &n
	}
	if pick(4) == 0 {
		n := int64(pick(4))
		f.Until = &n
	}
	return f
}

func randomEvent(r *rand.Rand) *host.Event {
	var tags []host.Tag
	for range r.IntN(4) {
		tags = append(tags, host.Tag{[]string{"t", "T", "other", ""}[r.IntN(4)], fmt.Sprint(r.IntN(5))})
	}
	if r.IntN(4) == 0 {
		tags = append(tags, host.Tag{"t"}, host.Tag{})
	}
	if r.IntN(2) == 0 {
		tags = nil
	}
	return event(byte(r.IntN(4)), host.Kind(r.IntN(4)), int64(r.IntN(4)), "", tags...)
}

// The index finds exactly the subscriptions that a look at every filter finds,
// while they come and go.
func TestIndexFindsWhatMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := newIndex()
	subs := map[*subscription][]host.Filter{}
	matched := 0
	for range 4000 {
		switch {
		case r.IntN(3) > 0 || len(subs) == 0:
			s := &subscription{}
			var filters []host.Filter
			for range 1 + r.IntN(3) {
				filters = append(filters, randomFilter(r))
			}
			x.add(s, nil, filters)
			subs[s] = filters
		default:
			for s := range subs {
				x.remove(s)
				delete(subs, s)
				break
			}
		}
		if len(subs) > 60 {
			for s := range subs {
				x.remove(s)
				delete(subs, s)
			}
		}
		e := randomEvent(r)
		found := map[*subscription]bool{}
		x.match(e, func(w *watch) {
			if w.matches(e, x.words) {
				found[w.sub] = true
			}
		})
		for s, filters := range subs {
			want := slices.ContainsFunc(filters, func(f host.Filter) bool { return !f.Empty() && f.Matches(e) })
			if found[s] != want {
				t.Fatalf("%s\nfilters %+v\nfound %v, want %v", e.JSON, filters, found[s], want)
			}
			if want {
				matched++
			}
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matches: the test says little", matched)
	}
	for s := range subs {
		x.remove(s)
	}
	if len(x.buckets) != 0 || x.subs != 0 {
		t.Errorf("%d buckets and %d subscriptions are left", len(x.buckets), x.subs)
	}
}

// A filter with several conditions is registered where the fewest others are.
func TestIndexAvoidsCrowds(t *testing.T) {
	x := newIndex()
	popular := host.TagFilter{Name: 't', Values: []string{"popular"}}
	for i := range 100 {
		f := host.Filter{Tags: []host.TagFilter{popular}, Authors: []host.PubKey{{byte(i)}}, Kinds: []host.Kind{1}}
		x.add(&subscription{}, nil, []host.Filter{f})
	}
	found := 0
	x.match(event(200, 1, 1, "", host.Tag{"t", "popular"}), func(*watch) { found++ })
	if found > 2 {
		t.Errorf("%d candidates for an event that no filter matches", found)
	}
}

// However often an event's tags meet a filter's values, the filter is looked at
// once.
func TestIndexLooksOnce(t *testing.T) {
	x := newIndex()
	var values []string
	var tags []host.Tag
	for i := range 1000 {
		values = append(values, fmt.Sprint(i))
		tags = append(tags, host.Tag{"t", fmt.Sprint(i)}, host.Tag{"t", "0"})
	}
	x.add(&subscription{}, nil, []host.Filter{{Tags: []host.TagFilter{{Name: 't', Values: values}}}})
	for range 2 {
		found := 0
		x.match(event(1, 1, 1, "", tags...), func(*watch) { found++ })
		if found != 1 {
			t.Errorf("the filter was found %d times", found)
		}
	}
}
