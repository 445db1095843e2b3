package guest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

// indexedFacts answers as a relay does, newest first and no more than is asked for, and
// counts what is read.
type indexedFacts struct {
	graspRelay
	reads, bytes int
}

func (f *indexedFacts) count(found [][]byte, err error) ([][]byte, error) {
	f.reads++
	for _, text := range found {
		f.bytes += len(text)
	}
	return found, err
}

func (f *indexedFacts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	return f.count(f.graspRelay.Query(ctx, filter))
}

func (f *indexedFacts) HeldBy(ctx context.Context, filter host.Filter) ([][]byte, error) {
	return f.count(f.graspRelay.HeldBy(ctx, filter))
}

func (f *indexedFacts) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	f.reads++
	return f.graspRelay.Referenced(ctx, idOrAddress)
}

func (f *indexedFacts) Has(ctx context.Context, repo host.Address, object string) (bool, error) {
	f.reads++
	return f.graspRelay.Has(ctx, repo, object)
}

// signed gives an event the id of its content, and its text.
func signed(e *host.Event) *host.Event {
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.JSON = e.AppendJSON(nil)
	return e
}

// listing is an announcement of "talon" by an author, as large as one may be if it
// lists 900.
func listing(author int, maintainers ...int) *host.Event {
	e := signed(graspAnnouncement(author, maintainers...))
	e.CreatedAt -= int64(author % 1000)
	return signed(e)
}

// crowd is what many authors announce.
func crowd(n int, announce func(author int) *host.Event) (list []*host.Event) {
	for i := range n {
		list = append(list, announce(10_000+i))
	}
	return list
}

// TestWorstInputsOfGrasp asks the module grasp what an attacker would have it asked, and
// bounds what that costs by what it costs with nobody else around: three times as much,
// and for each byte by which the event is larger what its budget grows by. How many announcements of the
// identifier there are makes no difference.
func TestWorstInputsOfGrasp(t *testing.T) {
	testkit.SkipRace(t)
	const author, maxReads = 1_000_000, 40
	facts := &indexedFacts{graspRelay: graspRelay{here: map[host.Address]bool{}}}
	m := loadGo(t, "plugins/grasp", func(o *Options) {
		o.Git, o.Service, o.Instances = facts, host.Service{Domain: "relay.example.com", PRs: true}, 1
		o.Limits.Time, o.Budgets.Time = time.Minute, time.Minute
	})
	cost := func(name string, stored, held []*host.Event, e *host.Event, want string) (fuel int64) {
		t.Helper()
		facts.Facts, facts.reads, facts.bytes = *memfacts.New(stored, held), 0, 0
		request := new(Request).Admit(&host.Item{Event: e, Source: &host.Source{}}, now)
		ruling, fuel, err := m.Rule(t.Context(), Admit, request, facts, now, "client")
		if got := fmt.Sprint(ruling.Action, " ", ruling.Rule); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
		if facts.reads > maxReads {
			t.Errorf("%s: %d reads", name, facts.reads)
		}
		t.Logf("%s: %d fuel, %d reads of %d bytes, an event of %d", name, fuel, facts.reads, facts.bytes, len(request))
		return fuel
	}
	elsewhere := graspEvent(30617, author, "d talon", "clone https://elsewhere.com/talon.git", "relays wss://elsewhere.com")
	large := strings.Repeat("x", 60_000)
	chain := func(n, links int) (list []*host.Event) {
		for i := range links {
			list = append(list, listing(20_000+i, append(upTo(n)[min(1, n):], []int{author, 20_000 + i - 1}[min(i, 1)])...))
		}
		return list
	}
	limit := append([]int{author}, upTo(900)[1:]...)
	listers := crowd(2000, func(a int) *host.Event { return listing(a, author) })
	largeListers := crowd(300, func(a int) *host.Event { return listing(a, limit...) })
	strangers := crowd(2000, func(a int) *host.Event { return listing(a, a+1) })
	largeStrangers := crowd(300, func(a int) *host.Event { return listing(a, upTo(900)[1:]...) })
	own := listing(author)
	members := crowd(300, func(a int) *host.Event {
		e := graspEvent(30617, a, "d talon", "maintainers "+graspKey(author).String())
		for i := range 1000 {
			e.Tags = append(e.Tags, host.Tag{"clone", fmt.Sprintf("https://relay.example.com.evil.example/%d", i)})
		}
		return signed(e)
	})
	issue := func(tags ...string) *host.Event { return graspEvent(1621, author, tags...) }
	pr := func(tags ...string) *host.Event {
		return graspEvent(1618, author, append([]string{"c " + strings.Repeat("ab", 20)}, tags...)...)
	}
	manyAddresses := func(n int) (tags []string) {
		for i := range n {
			tags = append(tags, "a "+graspAddress(10_000+i).String())
		}
		return tags
	}

	cost("the first", nil, nil, issue(), "reject unrelated") // an instance grows its memory
	for _, group := range []struct {
		name   string
		stored []*host.Event
		event  *host.Event
		want   string
		worst  []worstInput
	}{
		{"a state of a stranger", []*host.Event{listing(1, 2)}, graspState(author, 2), "reject state-not-maintainer", []worstInput{
			{"2,000 held", nil, strangers, graspState(author, 2), "reject state-not-maintainer"},
			{"2,000 stored and held", strangers, strangers, graspState(author, 2), "reject state-not-maintainer"},
			{"large ones", largeStrangers, largeStrangers, graspState(author, 2), "reject state-not-maintainer"},
			{"of another identifier", crowd(2000, func(a int) *host.Event {
				return signed(graspEvent(30617, a, "d falcon", "maintainers "+graspKey(author).String()))
			}), strangers, graspState(author, 2), "reject state-not-maintainer"},
			{"of 5,000 refs", strangers, strangers, graspState(author, 5000), "reject state-not-maintainer"},
		}},
		{"a state of one of two", []*host.Event{listing(author, author, 2), listing(2, author, 2)}, graspState(author, 2), "hold state-waits", []worstInput{
			{"2,000 list its author", []*host.Event{own}, listers, graspState(author, 2), "hold state-waits"},
			{"stored, held and large", append([]*host.Event{own}, largeListers...), largeListers, graspState(author, 2), "hold state-waits"},
			{"a chain of 200", []*host.Event{own}, chain(0, 200), graspState(author, 2), "hold state-waits"},
			{"a chain of 200 large ones", chain(900, 200), chain(900, 200), graspState(author, 2), "hold state-waits"},
			{"an own announcement as large as may be", nil, []*host.Event{listing(author, upTo(900)...)}, graspState(author, 2), "hold state-waits"},
			{"of 40 refs", []*host.Event{own}, listers, graspState(author, 40), "hold state-waits"},
			{"of 5,000 refs", []*host.Event{own}, listers, graspState(author, 5000), "hold state-large"},
			{"of 40 long refs", []*host.Event{own}, nil, graspEvent(30618, author, append([]string{"d talon"},
				manyTags(40, "refs/heads/"+strings.Repeat("x", 1000)+"%d "+strings.Repeat("ab", 20))...)...), "hold state-faulty"},
		}},
		{"a maintainer's announcement", []*host.Event{listing(1, author)}, elsewhere, "accept announcement-maintainer", []worstInput{
			{"2,000 strangers", strangers, strangers, elsewhere, "reject announcement-not-listed"},
			{"members of a crowd", members, nil, elsewhere, "reject announcement-not-listed"},
			{"large", strangers, strangers, graspEvent(30617, author, "d talon", "description "+large), "reject announcement-not-listed"},
			{"of many maintainers", strangers, strangers, signed(graspAnnouncementAt("elsewhere.com", author, upTo(900)...)), "reject announcement-not-listed"},
		}},
		{"an issue", []*host.Event{own}, issue("a " + graspAddress(author).String()), "accept related", []worstInput{
			{"of large announcements", largeStrangers, nil, issue(manyAddresses(30)...), "accept related"},
			{"of nothing", nil, nil, issue(manyTags(3000, "a 30617:%064x:x")...), "reject unrelated"},
			{"of one author's everything", crowd(400, func(a int) *host.Event {
				return signed(graspEvent(30023, 7, "d "+fmt.Sprint(a), "x "+large))
			}), nil, issue(manyTags(30, "a 30023:"+graspKey(7).String()+":%d")...), "reject unrelated"},
			{"of held ids", nil, largeStrangers, issue(slices.Collect(func(yield func(string) bool) {
				for _, e := range largeStrangers {
					if !yield("e " + e.ID.String()) {
						return
					}
				}
			})...), "hold related-waits"},
		}},
		{"a pull request", []*host.Event{own}, pr("a " + graspAddress(author).String()), "hold pr-waits", []worstInput{
			{"to 20 large announcements", largeStrangers, largeStrangers, pr(manyAddresses(20)...), "hold pr-waits"},
			{"to 20 identifiers", nil, nil, pr(manyTags(20, "a 30617:"+graspKey(7).String()+":%d")...), "reject unrelated"},
			{"to 3,000 repositories", largeStrangers, nil, pr(manyTags(3000, "a 30617:%064x:x")...), "reject unrelated"},
		}},
		{"a deletion", []*host.Event{own}, graspEvent(5, author, "a "+graspAddress(author).String()), "accept deletion", []worstInput{
			{"of 7,000 ids", nil, nil, graspEvent(5, author, manyTags(7000, "e %064x")...), "reject unrelated"},
			{"of 3,000 addresses", largeStrangers, nil, graspEvent(5, author, manyTags(3000, "a 30617:%064x:x")...), "reject unrelated"},
		}},
	} {
		cost(group.name+", the first", group.stored, nil, group.event, group.want)
		honest := cost(group.name, group.stored, nil, group.event, group.want)
		for _, w := range group.worst {
			fuel := cost(group.name+": "+w.name, w.stored, w.held, w.event, w.want)
			if larger := int64(len(w.event.JSON) - len(group.event.JSON)); fuel > 3*honest+fuelPerByte*max(larger, 0) {
				t.Errorf("%s: %s costs %d, the honest case %d", group.name, w.name, fuel, honest)
			}
		}
	}
}

// TestWorstQuota bounds what an author's own announcements cost where there is a quota:
// each of them is read, and has URLs that are compared with those of the service.
func TestWorstQuota(t *testing.T) {
	testkit.SkipRace(t)
	const author, quota = 7, 100
	npub := nip19.EncodeNpub(graspKey(author))
	own := func(n int, tags ...string) []*host.Event {
		return slices.Collect(func(yield func(*host.Event) bool) {
			for i := range n {
				with := []string{fmt.Sprintf("d repository-%d", i), "name A repository", "description " + strings.Repeat("x", 200)}
				for _, tag := range tags {
					with = append(with, strings.ReplaceAll(tag, "%d", fmt.Sprint(i)))
				}
				if !yield(signed(graspEvent(30617, author, with...))) {
					return
				}
			}
		})
	}
	usual := []string{
		"clone https://relay.example.com/" + npub + "/repository-%d.git https://elsewhere.com/" + npub + "/repository-%d.git",
		"web https://elsewhere.com/" + npub + "/repository-%d", "relays wss://relay.example.com wss://elsewhere.com wss://relay.third.example",
		"maintainers " + graspKey(8).String() + " " + graspKey(9).String(),
	}
	const relays = "relays wss://relay.example.com"
	others := func(n int) (tags []string) { // that are of this service, and not the repository's own
		for i := range n {
			tags = append(tags, "clone https://relay.example.com/"+nip19.EncodeNpub(graspKey(100+i))+"/%d.git")
		}
		return append(tags, relays)
	}
	asked := signed(graspEvent(30617, author, "d talon", "clone https://relay.example.com/"+npub+"/talon.git", relays))
	const allowed, refused = "hold announcement-new", "reject announcement-quota"
	for _, config := range []map[string]any{
		{},
		{"archive_services": []any{"gitnostr.com", "relay.ngit.dev", "git.third.example"}},
		{"archive_all": true},
	} {
		config["max_repositories_per_author"] = quota
		facts := &indexedFacts{graspRelay: graspRelay{here: map[host.Address]bool{}}}
		m := loadGo(t, "plugins/grasp", func(o *Options) {
			o.Git, o.Service, o.Instances, o.Config = facts, host.Service{Domain: "relay.example.com"}, 1, config
			o.Limits.Time, o.Budgets.Time = time.Minute, time.Minute
		})
		wantElsewhere := allowed
		if config["archive_all"] == true {
			wantElsewhere = refused
		}
		for _, test := range []struct {
			name         string
			stored, held []*host.Event
			want         string
		}{
			{"nobody", nil, nil, allowed},
			{"one less", own(quota-1, usual...), nil, allowed},
			{"as many", own(quota, usual...), nil, refused},
			{"as many held", nil, own(quota, usual...), refused},
			{"elsewhere", own(quota, strings.ReplaceAll(strings.Join(usual[:1], ""), "relay.example.com", "relay.example.org"), usual[1]), nil, wantElsewhere},
			{"one other place", own(quota, others(1)...), nil, allowed},
			{"more than are read", own(2*quota, others(1)...), nil, refused},
			{"ten other places", own(quota, others(10)...), nil, refused},
			{"900 URLs", own(60, manyTags(900, "clone https://elsewhere.com/"+npub+"/%d.git")...), nil, refused},
			{"900 of this service", own(60, append(others(900), relays)...), nil, refused},
		} {
			facts.Facts, facts.reads, facts.bytes = *memfacts.New(test.stored, test.held), 0, 0
			request := new(Request).Admit(&host.Item{Event: asked, Source: &host.Source{}}, now)
			ruling, fuel, err := m.Rule(t.Context(), Admit, request, facts, now, "client")
			if got := fmt.Sprint(ruling.Action, " ", ruling.Rule); err != nil || got != test.want {
				t.Errorf("%v, %s: %s, %v; want %s", config, test.name, got, err, test.want)
			}
			t.Logf("%v, %s: %d fuel, %d reads of %d bytes", config, test.name, fuel, facts.reads, facts.bytes)
			if fuel > m.Fuel()*8/10 {
				t.Errorf("%v, %s: it takes %d fuel of %d: the next compiler may need more", config, test.name, fuel, m.Fuel())
			}
		}
	}
}

// worstInput is an event, what an attacker has stored before it, and what is decided.
type worstInput struct {
	name         string
	stored, held []*host.Event
	event        *host.Event
	want         string
}

func graspAnnouncementAt(domain string, author int, maintainers ...int) *host.Event {
	e := graspAnnouncement(author, maintainers...)
	e.Tags[1], e.Tags[2] = host.Tag{"clone", "https://" + domain + "/x.git"}, host.Tag{"relays", "wss://" + domain}
	return e
}

// TestWorstInputsOfPolicies bounds likewise what events as odd and as large as they can
// be cost the other policies. The module spam, which reads texts in several ways, takes
// the most for a byte: 1,160 of the first 2 KiB.
func TestWorstInputsOfPolicies(t *testing.T) {
	testkit.SkipRace(t)
	const perByte, maxReads = 1250, 4
	for name, settings := range map[string]map[string]any{
		"limits": nil,
		"lists":  {"deny_tags": []any{"t:spam", "client:spam"}, "deny_words": []any{"casino", "free bitcoin"}},
		"open":   {"every": true},
		"pow":    {"class_bits": []any{"git:1"}},
		"rate":   {"per_author_bytes_per_day": int64(1 << 30)},
		"spam":   {"kinds": []any{}},
		"trust":  {"anchors": []any{graspKey(anchor).String()}},
	} {
		m := loadGo(t, "plugins/"+name, func(o *Options) {
			o.Config, o.State, o.Instances = settings, newState(t), 1
			o.Service, o.Limits.Time, o.Budgets.Time = host.Service{Domain: "relay.example.com"}, time.Minute, time.Minute
		})
		fuel := func(what string, request []byte) int64 {
			facts := new(indexedFacts)
			_, fuel, err := m.Rule(t.Context(), Admit, request, facts, now, "client")
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if facts.reads > maxReads {
				t.Errorf("%s, %s: %d reads", name, what, facts.reads)
			}
			return fuel
		}
		usual := slices.Clone(new(Request).Admit(item(1617, "hello"), now))
		fuel("the first", usual)
		honest := fuel("a usual event", usual)
		for what, request := range hostileEvents() {
			if got := fuel(what, request); got > 3*honest+perByte*int64(len(request)) {
				t.Errorf("%s, %s: %d fuel for %d bytes, a usual event %d", name, what, got, len(request), honest)
			}
		}
	}
}
