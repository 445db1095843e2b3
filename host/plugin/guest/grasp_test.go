package guest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/internal/testkit"
)

// graspRelay is a relay as the module grasp sees it: every repository in git has
// every object, all of them commits.
type graspRelay struct {
	memfacts.Facts
	here map[host.Address]bool
}

func (r *graspRelay) Has(_ context.Context, repo host.Address, _ string) (bool, error) {
	return r.here[repo], nil
}

func (r *graspRelay) Ref(context.Context, host.Address, string) (string, bool, error) {
	return "", false, nil
}

func graspKey(n int) (key host.PubKey) {
	key[0], key[1], key[2], key[31] = byte(n), byte(n>>8), byte(n>>16), 1
	return key
}

// graspEvent is an event whose tags are written with spaces between their items.
func graspEvent(kind host.Kind, author int, tags ...string) *host.Event {
	e := &host.Event{Kind: kind, PubKey: graspKey(author), CreatedAt: now}
	for _, tag := range tags {
		e.Tags = append(e.Tags, host.Tag(strings.Split(tag, " ")))
	}
	copy(e.ID[:], fmt.Sprintf("%d/%d/%d", kind, author, len(tags)))
	e.JSON = e.AppendJSON(nil)
	return e
}

func graspAnnouncement(author int, maintainers ...int) *host.Event {
	tags := []string{"d talon", "clone https://relay.example.com/npub1x/talon.git", "relays wss://relay.example.com"}
	list := []string{"maintainers"}
	for _, m := range maintainers {
		list = append(list, graspKey(m).String())
	}
	return graspEvent(30617, author, append(tags, strings.Join(list, " "))...)
}

func graspAddress(author int) host.Address {
	return host.Address{Kind: 30617, PubKey: graspKey(author), D: "talon"}
}

func graspState(author, refs int) *host.Event {
	tags := []string{"d talon", "HEAD ref: refs/heads/branch-0"}
	for i := range refs {
		tags = append(tags, fmt.Sprintf("refs/heads/branch-%d %040x", i, i+1))
	}
	return graspEvent(30618, author, tags...)
}

// loadGrasp loads the module grasp, with one instance, so that what it keeps from
// one event to the next shows.
func loadGrasp(t testing.TB, relay *graspRelay) *Module {
	return loadGo(t, "plugins/grasp", func(o *Options) {
		o.Git, o.Service, o.Instances = relay, host.Service{Domain: "relay.example.com", PRs: true}, 1
		o.Limits.Time, o.Budgets.Time = time.Minute, time.Minute
	})
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, 1_000_000+i)
	}
	return list
}

func manyTags(n int, format string) (tags []string) {
	for i := range n {
		tags = append(tags, fmt.Sprintf(format, i+1))
	}
	return tags
}

// TestGraspWithinItsBudget asks the module grasp what costs it most: whatever
// strangers have stored or send, it must not run out of what it has, since then
// nothing would be decided.
func TestGraspWithinItsBudget(t *testing.T) {
	testkit.SkipRace(t)
	flood := func(events, maintainers int) (list []*host.Event) {
		for i := range events {
			list = append(list, graspAnnouncement(1000+i, upTo(maintainers)...))
		}
		return list
	}
	large := flood(500, 900)
	relay := &graspRelay{here: map[host.Address]bool{graspAddress(1): true}}
	m := loadGrasp(t, relay)
	rounds := 1
	if os.Getenv("TALON_TEST_SCALE") != "" {
		rounds = 3 // the guest collects its garbage in one of them
	}
	for _, test := range []struct {
		name         string
		stored, held []*host.Event
		event        *host.Event
		want         string
	}{
		{"an unrelated note", nil, nil, graspEvent(1, 5, "e "+strings.Repeat("ab", 32), "p "+strings.Repeat("cd", 32), "t nostr"), "reject unrelated"},
		{"an issue", []*host.Event{graspAnnouncement(1)}, nil, graspEvent(1621, 5, "a "+graspAddress(1).String()), "accept related"},
		{"a state of 20 refs", []*host.Event{graspAnnouncement(1, 2)}, nil, graspState(2, 20), "accept state-complete"},
		{"a state of 2,000 refs", []*host.Event{graspAnnouncement(1, 2)}, nil, graspState(2, 2000), "hold state-large"},
		{"500 announcements of one identifier", flood(500, 2), flood(500, 2), graspState(1_000_000, 2), "hold state-waits"},
		{"announcements that list each 900 maintainers", large, large, graspState(1_000_000, 2), "hold state-waits"},
		{"an announcement of 10,000 maintainers", nil, nil, graspAnnouncement(1, upTo(10_000)...), "reject announcement-large"},
		{"an announcement that 500 others list", large, large, graspEvent(30617, 1_000_000, "d talon"), "accept announcement-maintainer"},
		{"a comment on 7,000 events", nil, nil, graspEvent(1111, 5, manyTags(7000, "e %064x")...), "reject unrelated"},
		{"a comment on 4,000 addresses", nil, nil, graspEvent(1111, 5, manyTags(4000, "a 30617:%064x:x")...), "reject unrelated"},
		{"a comment on 4,000 addresses of one author", nil, nil, graspEvent(1111, 5, manyTags(4000, "a 30023:"+graspKey(7).String()+":%d")...), "reject unrelated"},
		{"100,000 empty tags", nil, nil, graspEvent(1, 5, make([]string, 100_000)...), "reject unrelated"},
		{"a pull request to 4,000 repositories", nil, nil, graspEvent(1618, 5, append([]string{"c " + strings.Repeat("ab", 20)}, manyTags(4000, "a 30617:%064x:x")...)...), "reject unrelated"},
		{"a deletion of 7,000 events", nil, nil, graspEvent(5, 5, manyTags(7000, "e %064x")...), "reject unrelated"},
	} {
		t.Run(test.name, func(t *testing.T) {
			relay.Facts = *memfacts.New(test.stored, test.held)
			request := new(Request).Admit(&host.Item{Event: test.event, Source: &host.Source{}}, now)
			for range rounds {
				ruling, fuel, err := m.Rule(t.Context(), Admit, request, relay, now, "client")
				if got := fmt.Sprint(ruling.Action, " ", ruling.Rule); err != nil || got != test.want {
					t.Fatalf("%s, %v; want %s", got, err, test.want)
				}
				if fuel -= int64(len(request)) * fuelPerByte; fuel > m.Fuel()*8/10 {
					t.Errorf("it takes %d fuel of %d: the next compiler may need more", fuel, m.Fuel())
				}
			}
		})
	}
}

// TestManyTags: an event of as many tags as a message can hold costs no bundled
// policy its budget.
func TestManyTags(t *testing.T) {
	testkit.SkipRace(t)
	for folder, settings := range map[string]map[string]any{
		"plugins/limits": nil,
		"plugins/grasp":  nil,
		"plugins/open":   {"every": true},
		"plugins/lists":  {"deny_tags": []any{"t:spam", "client:spam"}},
		"plugins/rate":   {"per_author_bytes_per_day": int64(1 << 30)},
	} {
		m := loadGo(t, folder, func(o *Options) {
			o.Config, o.Service, o.Limits.Time, o.Budgets.Time = settings, host.Service{Domain: "relay.example.com"}, time.Minute, time.Minute
		})
		for name, tags := range map[string]host.Tags{
			"empty tags":       make(host.Tags, 170_000),
			"tags of an empty": slices.Repeat(host.Tags{{""}}, 100_000),
			"small tags":       slices.Repeat(host.Tags{{"t", "x"}}, 45_000),
			"10,000 tags":      slices.Repeat(host.Tags{{"t", "x"}}, 9_999),
		} {
			it := &host.Item{Event: &host.Event{Kind: 1, CreatedAt: now, Tags: tags}, Source: &host.Source{}}
			if _, err := ask(t, m, it, &fakeFacts{}); err != nil && !strings.Contains(err.Error(), "does not answer") {
				t.Errorf("%s with %s: %v", folder, name, err)
			}
		}
	}
}

// TestManyRefs: a state of as many branches as a message can hold is decided about within
// the budget, also when each request needs a larger buffer than the one before: then the
// guest's runtime collects its garbage while the tags are walked.
func TestManyRefs(t *testing.T) {
	testkit.SkipRace(t)
	m := loadGo(t, "plugins/limits", func(o *Options) { o.Limits.Time, o.Budgets.Time, o.Instances = time.Minute, time.Minute, 1 })
	for _, test := range []struct {
		name   string
		refs   int
		length int
		want   string
	}{
		{"short names", 19_000, 12, "pass "},
		{"tags of 128 bytes and more", 19_000, 85, "pass "},
		{"names of 128 bytes and more", 14_000, 130, "pass "},
		{"too many", 20_100, 60, "reject too-many-refs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &host.Event{Kind: 30618, CreatedAt: now}
			for i := range test.refs {
				e.Tags = append(e.Tags, []string{fmt.Sprintf("refs/heads/%0*d", test.length, i), strings.Repeat("ab", 20)})
			}
			for range 8 {
				e.Tags = append(e.Tags, []string{"x", "y"})
				request := new(Request).Admit(&host.Item{Event: e, Source: &host.Source{}}, now)
				ruling, fuel, err := m.Rule(t.Context(), Admit, request, new(memfacts.Facts), now, "client")
				if got := fmt.Sprint(ruling.Action, " ", ruling.Rule); err != nil || got != test.want {
					t.Fatalf("%s, %v; want %s", got, err, test.want)
				}
				if limit := int64(fuelBytes) * fuelPerByte / 2; fuel > limit {
					t.Errorf("it takes %d fuel; want %d at most", fuel, limit)
				}
			}
		})
	}
}

// BenchmarkGrasp is the cost of decisions of the module grasp, with an empty store
// or one announcement behind it, so without what the database takes.
func BenchmarkGrasp(b *testing.B) {
	relay := &graspRelay{here: map[host.Address]bool{graspAddress(1): true}}
	relay.Facts = *memfacts.New([]*host.Event{graspAnnouncement(1, 2)}, nil)
	m := loadGrasp(b, relay)
	for _, bench := range []struct {
		name  string
		event *host.Event
	}{
		{"unrelated note", graspEvent(1, 5, "e "+strings.Repeat("ab", 32), "p "+strings.Repeat("cd", 32), "t nostr")},
		{"issue", graspEvent(1621, 5, "a "+graspAddress(1).String())},
		{"announcement", graspAnnouncement(1, 2)},
		{"state of 20 refs", graspState(2, 20)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			it, ctx := &host.Item{Event: bench.event, Source: &host.Source{}}, b.Context()
			var q Request
			var spent int64
			b.ReportAllocs()
			for b.Loop() {
				_, fuel, err := m.Rule(ctx, Admit, q.Admit(it, now), relay, now, "client")
				if err != nil {
					b.Fatal(err)
				}
				spent = fuel
			}
			b.ReportMetric(float64(spent), "fuel")
		})
	}
}
