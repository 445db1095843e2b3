// Command rate is a policy of limits in time: how many events and queries a
// client's address may send, how many events and bytes an author, and how many
// connections an address may hold. Every limit is off until the operator sets it.
//
// It stands early in the chain, so that it counts what others refuse, too. What is
// within the limits passes to the next policy: rate accepts nothing by itself.
//
// Events and queries are limited by token buckets. A bucket holds a burst, and
// fills at the rate of the limit; an address that was quiet for a while may send a
// burst at once. An IPv6 client is counted by its /64, since it owns all addresses
// of it. The bytes of an author are counted by the day (UTC), at about what each
// event takes in the store.
//
// Events may also be limited by the class of their kind: regular, replaceable,
// ephemeral, addressable (NIP-01), and git for all that NIP-34 is about, so that a
// relay for repositories lets a series of patches in and few other events. These
// limits are on top of those for all events.
//
// Who is in the set "trusted" has no limits: its author, or whoever has proven a
// key of it (NIP-42). The operator fills the set in the side-car file; without one,
// nobody is exempt. A limit for authors is no protection of authors: whoever sends
// somebody's events uses up what that author may send.
//
// What is counted is kept by the host. It outlives a new version of the module and
// a restart of the relay. There is always room for the bucket of one more address.
// The bytes of some 25,000 authors a day can be counted in the room that a plugin
// has by default; those who come later that day have no quota. "state" in the
// side-car file gives it more.
package main

import (
	_ "embed"
	"strconv"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(rate))

func main() {}

// trusted is the set whose members have no limits.
const trusted = "trusted"

type rate struct {
	addressEvents  limit
	authorEvents   limit
	addressQueries limit
	connections    int64
	authorBytes    quota

	addressClasses, authorClasses limits
}

func (r *rate) Configure(cfg policy.Config) (err error) {
	r.addressEvents = readLimit(cfg, "per_address_events", "address-events", "too many events from your address")
	r.authorEvents = readLimit(cfg, "per_author_events", "author-events", "too many events of this author")
	r.addressQueries = readLimit(cfg, "per_address_queries", "address-queries", "too many queries from your address")
	r.connections = cfg.Int("per_address_connections")
	r.authorBytes = newQuota(cfg.Int("per_author_bytes_per_day"))
	if r.addressClasses, err = readLimits(cfg, "per_address_class_events", "address-events", "from your address"); err != nil {
		return err
	}
	r.authorClasses, err = readLimits(cfg, "per_author_class_events", "author-events", "of this author")
	return err
}

// Idle spares the relay questions about limits that are off.
func (r *rate) Idle() (functions []string) {
	if r.addressEvents.off() && r.authorEvents.off() && r.authorBytes.off() && r.addressClasses.off() && r.authorClasses.off() {
		functions = append(functions, "admit")
	}
	if r.addressQueries.off() {
		functions = append(functions, "query")
	}
	if r.connections == 0 {
		functions = append(functions, "connect")
	}
	return functions
}

// Admit limits what clients send. Events of an import or of other relays are the
// operator's own choice.
func (r *rate) Admit(in policy.Input) policy.Verdict {
	if in.Origin() != policy.FromClient {
		return policy.Pass()
	}
	event := in.Event()
	author := event.PubKey()
	if in.SenderInSet(trusted) {
		return policy.Pass()
	}
	class := kinds.ClassOf(event.Kind())
	if ofClass := &r.addressClasses[class]; !r.addressEvents.off() || !ofClass.off() {
		if network, ok := networkOf(in.Address()); ok {
			if v, ok := r.addressEvents.take(in.Facts, network[:]); !ok {
				return v
			}
			if v, ok := ofClass.take(in.Facts, network[:]); !ok {
				return v
			}
		}
	}
	if v, ok := r.authorEvents.take(in.Facts, author[:]); !ok {
		return v
	}
	if v, ok := r.authorClasses[class].take(in.Facts, author[:]); !ok {
		return v
	}
	if !r.authorBytes.off() && class != kinds.Ephemeral {
		return r.authorBytes.take(in.Facts, author, sizeOf(event))
	}
	return policy.Pass()
}

// Query limits what clients ask for.
func (r *rate) Query(in policy.QueryInput) policy.Verdict {
	client := in.Client()
	for it := client.Keys(); it.Next(); {
		if yes, _ := in.PubKeyInSet(trusted, it.Key()); yes {
			return policy.Pass()
		}
	}
	network, ok := networkOf(client.Address())
	if !ok {
		return policy.Pass()
	}
	v, _ := r.addressQueries.take(in.Facts, network[:])
	return v
}

// Connect limits how many connections an address holds. Nobody has proven a key
// yet, so nobody is exempt.
func (r *rate) Connect(in policy.ConnectInput) policy.Verdict {
	if r.connections > 0 && int64(in.FromAddress()) > r.connections {
		return policy.Reject("rate-limited", "too many connections from your address, close one and try again").By("address-connections")
	}
	return policy.Pass()
}

// sizeOf returns about how many bytes an event takes as JSON: its content and tags,
// and what every event has.
func sizeOf(event policy.Event) int64 {
	const rest = 350
	return int64(len(event.Content()) + event.TagBytes() + rest)
}

// inUnits prints a number of units: 1 second, 2 seconds.
func inUnits(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return strconv.Itoa(n) + " " + unit
}
