// Command hello-strategy is the smallest useful strategy: it connects to the relays that
// repositories name. There it subscribes to announcements, to events that tag these repositories,
// and to events that tag their issues, patches and pull requests.
package main

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(hello))

func main() {}

type hello struct {
	max       int // relays to be connected to at once, as the operator wants it
	limits    abi.StepLimits
	repos     map[string]*repo
	relays    map[string]*relay
	gathering bool // root events, until a timer fires
}

// repo is a repository.
type repo struct {
	relays []string
	roots  []string // ids of its issues, patches and pull requests
}

// relay is one that a repository names, or that was there before.
type relay struct {
	url       string
	repos     []string // that name it
	bootstrap bool
	wanted    bool
	connected bool
	stale     []string // what another strategy has open
	open      []string // the filters of each open subscription, as text
	changed   bool     // these may not be the right ones
}

const (
	gather    = 2 * strategy.Second // root events are gathered for so long
	maxValues = 100                 // in one filter
)

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
			h.root(event, in.Now(), out)
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
		r := h.relay(strings.Clone(in.RelayConnected().Relay))
		r.connected, r.changed, r.open, r.stale = true, true, nil, nil
	case strategy.RelayDisconnected:
		if r := h.relays[in.RelayDisconnected().Relay]; r != nil {
			r.connected = false
		}
	case strategy.Closed:
		// The relay may be busy: all of it again, in a minute.
		if r := h.relays[in.Closed().Relay]; r != nil {
			r.changed, r.open = true, nil
			out.SetTimer("again", in.Now()+strategy.Minute)
		}
		return
	case strategy.TimerFired:
		h.gathering = false
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
		h.limits, h.gathering = world.Limits, false
		h.repos, h.relays = make(map[string]*repo), make(map[string]*relay)
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
		known := it.Repository()
		address := strings.Clone(known.Address)
		var relays []string
		for it := known.Relays(); it.Next(); {
			relays = append(relays, strings.Clone(it.Text()))
		}
		h.set(address, relays)
		for i := range known.NumRoots() {
			id := known.Root(i)
			h.addRoot(address, strategy.Hex(id[:]))
		}
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
func (h *hello) set(address string, relays []string) {
	now := h.repos[address]
	if now == nil {
		now = new(repo)
	}
	for _, url := range now.relays {
		if r := h.relays[url]; !slices.Contains(relays, url) {
			i := slices.Index(r.repos, address)
			r.repos, r.changed = slices.Delete(r.repos, i, i+1), true
		}
	}
	relays = slices.Compact(slices.Sorted(slices.Values(relays)))
	for _, url := range relays {
		if r := h.relay(url); !slices.Contains(now.relays, url) {
			r.repos, r.changed = append(r.repos, address), true
		}
	}
	now.relays = relays
	h.repos[address] = now
	if len(relays) == 0 {
		delete(h.repos, address)
	}
}

// root takes an issue, a patch or a pull request that was accepted here. Its comments are asked
// for a moment later, together with those of the next ones.
func (h *hello) root(event abi.LocalEventView, now int64, out *strategy.Actions) {
	if !slices.Contains([]uint32{1617, 1618, 1621}, event.Kind) {
		return
	}
	for it := event.Repositories(); it.Next(); {
		if h.addRoot(it.Text(), strategy.Hex(event.ID)) && !h.gathering {
			h.gathering = true
			out.SetTimer("roots", now+gather)
		}
	}
}

// addRoot reports whether a root event of a repository is a new one.
func (h *hello) addRoot(address, id string) bool {
	now := h.repos[address]
	if now == nil || slices.Contains(now.roots, id) {
		return false
	}
	now.roots = append(now.roots, id)
	for _, url := range now.relays {
		h.relays[url].changed = true
	}
	return true
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
		} else if len(r.repos) == 0 && !r.bootstrap && !r.connected {
			delete(h.relays, r.url)
		}
	}
	room := min(h.max, int(h.limits.Connections))
	for _, r := range relays {
		if len(r.repos) > 0 && !r.wanted && wanted < room {
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
	wanted := h.subscriptions(r)
	for i, filters := range wanted {
		text := textOf(filters)
		if i < len(r.open) && r.open[i] == text {
			continue
		}
		if !h.fits(out, len(r.url)+len(text)+20*len(filters)) {
			return false
		}
		out.Subscribe(strategy.Subscription{Relay: r.url, ID: id(i), Filters: filters, Purpose: strategy.PurposeStartup})
		r.open = append(r.open[:i], append([]string{text}, r.open[min(i+1, len(r.open)):]...)...)
	}
	for len(r.open) > len(wanted) {
		if !h.fits(out, len(r.url)) {
			return false
		}
		r.open = r.open[:len(r.open)-1]
		out.Unsubscribe(r.url, id(len(r.open)))
	}
	r.changed = false
	return true
}

// subscriptions returns the filters of each subscription of a relay, as many as the limits allow.
func (h *hello) subscriptions(r *relay) [][]strategy.Filter {
	values := min(int(h.limits.Values)-1, maxValues) // the tag's name counts as well
	if values < 1 || h.limits.Filters < 1 {
		return nil
	}
	filters := []strategy.Filter{{Kinds: []uint32{30617, 30618}}}
	var roots []string
	for _, address := range r.repos {
		roots = append(roots, h.repos[address].roots...)
	}
	for list := range slices.Chunk(r.repos, values) {
		filters = append(filters, tagged("a", list))
	}
	for list := range slices.Chunk(roots, values) {
		filters = append(filters, tagged("e", list), tagged("E", list))
	}
	all := slices.Collect(slices.Chunk(filters, int(h.limits.Filters)))
	return all[:min(len(all), int(h.limits.Subscriptions))]
}

func tagged(name string, values []string) strategy.Filter {
	return strategy.Filter{Tags: []strategy.TagFilter{{Name: name, Values: slices.Clone(values)}}}
}

// textOf returns filters as one text, about as long as they are in an answer.
func textOf(filters []strategy.Filter) string {
	var b strings.Builder
	for _, f := range filters {
		b.WriteString("\n")
		for _, tag := range f.Tags {
			b.WriteString(tag.Name + " " + strings.Join(tag.Values, "    "))
		}
	}
	return b.String()
}

// fits reports whether the answer has room for one more action of that many bytes
// of text, and the timer after it.
func (h *hello) fits(out *strategy.Actions, size int) bool {
	const rest = 400 // of an action: ids, a reason, lengths; the timer
	return out.Len()+1 < int(h.limits.Actions) && (h.limits.Bytes == 0 || out.Size()+size+rest <= int(h.limits.Bytes))
}

// id names the n-th subscription of a relay.
func id(n int) string { return "wanted-" + strconv.Itoa(n) }
