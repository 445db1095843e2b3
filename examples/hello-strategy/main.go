// Command hello-strategy is the smallest useful strategy: it connects to the relays that
// repositories name, and subscribes to events that tag these repositories.
package main

import (
	_ "embed"
	"slices"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(hello))

func main() {}

type hello struct {
	max    int // relays to be connected to at once, as the operator wants it
	room   int // and as the host allows it
	values int // addresses in one filter
	perSub int // addresses in one subscription
	limits abi.StepLimits
	repos  map[string][]string
	relays map[string]*relay
}

// relay is one that a repository names, or that was there before.
type relay struct {
	url       string
	repos     []string // that name it
	bootstrap bool
	wanted    bool
	connected bool
	stale     []string // what another strategy has open
	open      int      // subscriptions
	current   int      // of them, those that say what repos says
	changed   bool     // not all do
}

// touch says that the subscriptions have to be opened again.
func (r *relay) touch() { r.changed, r.current = true, 0 }

func (h *hello) Configure(cfg strategy.Config) error {
	h.max = int(cfg.Int("max_relays"))
	return nil
}

func (h *hello) Step(in strategy.Input, out *strategy.Actions) {
	switch in.Kind() {
	case strategy.Init:
		if !h.learn(in.Init()) {
			return
		}
	case strategy.LocalEvent:
		event := in.LocalEvent()
		if event.Kind != 30617 {
			return
		}
		var relays []string
		for it := event.Relays(); it.Next(); {
			relays = append(relays, strings.Clone(it.Text()))
		}
		for it := event.Repositories(); it.Next(); {
			h.set(strings.Clone(it.Text()), relays)
		}
	case strategy.RepoGone:
		h.set(in.RepoGone().Repository, nil)
	case strategy.RelayConnected:
		if r := h.relays[in.RelayConnected().Relay]; r != nil {
			r.connected, r.open, r.stale = true, 0, nil
			r.touch()
		}
	case strategy.RelayDisconnected:
		if r := h.relays[in.RelayDisconnected().Relay]; r != nil {
			r.connected = false
		}
	case strategy.Closed:
		// The relay may be busy: all of it again, in a minute.
		if r := h.relays[in.Closed().Relay]; r != nil {
			r.touch()
			out.SetTimer("again", in.Now()+strategy.Minute)
		}
		return
	case strategy.TimerFired:
	default:
		return
	}
	if !h.plan(out) {
		out.SetTimer("again", in.Now())
	}
}

// learn takes a part of the world, and reports whether it is complete.
func (h *hello) learn(world strategy.World) bool {
	if world.First() {
		h.limits = world.Limits
		h.room = min(h.max, int(h.limits.Connections))
		h.values = min(int(h.limits.Values)-1, 100) // the tag's name counts as well
		h.perSub = h.values * int(h.limits.Filters)
		h.repos, h.relays = make(map[string][]string), make(map[string]*relay)
		for it := world.Relays(); it.Next(); {
			state := it.Relay()
			r := h.relay(strings.Clone(state.URL))
			r.bootstrap, r.wanted, r.connected, r.changed = state.Bootstrap, state.Wanted, state.Connected, true
			for it := state.Subscriptions(); it.Next(); {
				r.stale = append(r.stale, strings.Clone(it.Subscription().ID))
			}
			for it := state.Historics(); it.Next(); {
				r.stale = append(r.stale, strings.Clone(it.Historic().ID))
			}
		}
	}
	for it := world.Repositories(); it.Next(); {
		repo := it.Repository()
		var relays []string
		for it := repo.Relays(); it.Next(); {
			relays = append(relays, strings.Clone(it.Text()))
		}
		h.set(strings.Clone(repo.Address), relays)
	}
	return world.Complete()
}

// relay returns the relay with this address.
func (h *hello) relay(url string) *relay {
	r := h.relays[url]
	if r == nil {
		r = &relay{url: url}
		h.relays[url] = r
	}
	return r
}

// set says which relays a repository names now; none: it is gone.
func (h *hello) set(repo string, relays []string) {
	before := h.repos[repo]
	for _, url := range before {
		if r := h.relays[url]; !slices.Contains(relays, url) {
			i := slices.Index(r.repos, repo)
			r.repos = slices.Delete(r.repos, i, i+1)
			r.touch()
		}
	}
	relays = slices.Compact(slices.Sorted(slices.Values(relays)))
	for _, url := range relays {
		if r := h.relay(url); !slices.Contains(before, url) {
			r.repos = append(r.repos, repo)
			r.touch()
		}
	}
	if len(relays) == 0 {
		delete(h.repos, repo)
	} else {
		h.repos[repo] = relays
	}
}

// plan adjusts connections and subscriptions. It ends some first, so that there is room. It reports
// whether one answer could hold it all.
func (h *hello) plan(out *strategy.Actions) bool {
	relays := make([]*relay, 0, len(h.relays))
	for _, r := range h.relays {
		relays = append(relays, r)
	}
	slices.SortFunc(relays, func(a, b *relay) int {
		if len(a.repos) != len(b.repos) {
			return len(b.repos) - len(a.repos)
		}
		return strings.Compare(a.url, b.url)
	})
	wanted := 0
	for _, r := range relays {
		if r.wanted && len(r.repos) == 0 && !r.bootstrap {
			if !h.fits(out, len(r.url)) {
				return false
			}
			out.Disconnect(r.url, "no repository names it")
			r.wanted, r.connected = false, false
		}
		if r.wanted {
			wanted++
		} else if len(r.repos) == 0 && !r.bootstrap {
			delete(h.relays, r.url)
		}
	}
	for _, r := range relays {
		if len(r.repos) > 0 && !r.wanted && wanted < h.room {
			if !h.fits(out, len(r.url)+len(r.repos[0])) {
				return false
			}
			out.Connect(r.url, uint32(len(r.repos)), "named by "+r.repos[0])
			r.wanted = true
			wanted++
		}
		if r.connected && !h.subscribe(r, out) {
			return false
		}
	}
	return true
}

// subscribe ends the subscriptions of another strategy on a relay, and reopens those that have
// changed: a subscription replaces one with the same id. It reports whether the answer could hold
// it all.
func (h *hello) subscribe(r *relay, out *strategy.Actions) bool {
	for len(r.stale) > 0 {
		if !h.fits(out, len(r.url)+len(r.stale[0])) {
			return false
		}
		out.Unsubscribe(r.url, r.stale[0])
		r.stale = r.stale[1:]
	}
	if !r.changed {
		return true
	}
	batches := h.batches(r)
	for ; r.current < len(batches); r.current++ {
		size := len(r.url)
		var filters []strategy.Filter
		for values := range slices.Chunk(batches[r.current], h.values) {
			filters = append(filters, strategy.Filter{Tags: []strategy.TagFilter{{Name: "a", Values: values}}})
			for _, v := range values {
				size += len(v) + 4
			}
		}
		if !h.fits(out, size+20*len(filters)) {
			return false
		}
		out.Subscribe(strategy.Subscription{Relay: r.url, ID: id(r.current), Filters: filters, Purpose: strategy.PurposeStartup})
		r.open = max(r.open, r.current+1)
	}
	for ; r.open > r.current; r.open-- {
		if !h.fits(out, len(r.url)) {
			return false
		}
		out.Unsubscribe(r.url, id(r.open-1))
	}
	r.changed = false
	return true
}

// batches are the repositories of each subscription of a relay, as many as the
// limits allow.
func (h *hello) batches(r *relay) [][]string {
	if h.perSub < 1 {
		return nil
	}
	all := slices.Collect(slices.Chunk(r.repos, h.perSub))
	return all[:min(len(all), int(h.limits.Subscriptions))]
}

// fits reports whether the answer has room for one more action of that many bytes
// of text, and the timer after it.
func (h *hello) fits(out *strategy.Actions, size int) bool {
	const rest = 400 // of an action: ids, a reason, lengths; the timer
	return out.Len()+1 < int(h.limits.Actions) && (h.limits.Bytes == 0 || out.Size()+size+rest <= int(h.limits.Bytes))
}

// id names the n-th subscription of a relay.
func id(n int) string {
	s := []byte{byte('0' + n%10)}
	for n /= 10; n > 0; n /= 10 {
		s = append(s, byte('0'+n%10))
	}
	slices.Reverse(s)
	return "repositories-" + string(s)
}
