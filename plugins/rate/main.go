// Command rate is a policy of limits in time: how many events and queries a
// client's address may send, how many events and bytes an author, and how many
// connections an address may hold. An address may send 60 git events a minute, and 500 at once
// after a quiet time. Every other limit is off until the operator sets it.
//
// It belongs early in the chain, so that it also counts events that later policies refuse. An event
// within the limits passes to the next policy: rate accepts nothing by itself.
//
// Token buckets limit events and queries. A bucket holds a burst, and fills at the rate of the
// limit. So an address that was quiet for a while may send a burst. An IPv6 client is counted by
// its /64, since it owns all addresses of it. Loopback is not counted: it is the host itself. A
// client that has proven a key of the set "known" has a bucket of its own, so that nobody with the
// same address can use it up. The host keeps that set of known people. The bytes of an author are
// counted by the day (UTC), at about the size of each event in the store.
//
// Events may also be limited by the class of their kind. The classes are regular, replaceable,
// ephemeral and addressable (NIP-01), and git for all kinds of NIP-34. So a relay for
// repositories can allow a series of patches and few other events. These limits come on top of
// the limits for all events.
//
// Members of the set "trusted" have no limits: the author, or any key that the client has proven
// (NIP-42). The operator fills the set in the side-car. Without a set, nobody is exempt. A limit
// for authors does not protect authors: anybody who sends an author's events uses up the author's
// share.
//
// Nor has what the operator allows in the moderation log: an author, a proven key, an address.
//
// With ban_seconds, an address that goes on after many refusals is banned: its connection ends,
// and all that it sends is refused for that time. Known people with a proven key are not banned
// for what others of their address do.
//
// The host keeps the counts. They outlive a new version of the module and
// a restart of the relay. There is always room for the bucket of one more address.
// The bytes of some 25,000 authors a day can be counted in the room that a plugin
// has by default; those who come later that day have no quota. "state" in the
// side-car file gives it more.
package main

import (
	"cmp"
	_ "embed"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(rate))

func main() {}

const (
	trusted = "trusted" // the set whose members have no limits
	known   = "known"   // the set of known people, who have buckets of their own
	allowed = "allowed" // the set of what the operator allows in the moderation log
)

type rate struct {
	addressEvents  limit
	authorEvents   limit
	addressQueries limit
	connections    int64
	authorBytes    quota

	addressClasses, authorClasses limits

	bans bans
}

func (r *rate) Configure(cfg policy.Config) (err error) {
	r.addressEvents = readLimit(cfg, "per_address_events", "address-events", "too many events from your address")
	r.authorEvents = readLimit(cfg, "per_author_events", "author-events", "too many events of this author")
	r.addressQueries = readLimit(cfg, "per_address_queries", "address-queries", "too many queries from your address")
	r.connections = cfg.Int("per_address_connections")
	r.authorBytes = newQuota(cfg.Int("per_author_bytes_per_day"))
	r.bans = newBans(cfg.Int("ban_seconds"), cfg.Int("ban_after"))
	if r.addressClasses, err = readLimits(cfg, "per_address_class_events", "address-events", "from your address"); err != nil {
		return err
	}
	r.authorClasses, err = readLimits(cfg, "per_author_class_events", "author-events", "of this author")
	return err
}

// Idle returns the functions whose limits are off.
func (r *rate) Idle() (functions []string) {
	if r.addressEvents.off() && r.authorEvents.off() && r.authorBytes.off() && r.addressClasses.off() && r.authorClasses.off() {
		functions = append(functions, "admit")
	}
	if r.addressQueries.off() && r.bans.off() {
		functions = append(functions, "query")
	}
	if r.connections == 0 && r.bans.off() {
		functions = append(functions, "connect")
	}
	return functions
}

// Admit limits the events of clients. Events of an import or of other relays are the operator's own
// choice.
func (r *rate) Admit(in policy.Input) policy.Verdict {
	if in.Origin() != policy.FromClient {
		return policy.Pass()
	}
	event := in.Event()
	author := event.PubKey()
	class := kinds.ClassOf(event.Kind())
	if !r.limits(class) && r.bans.off() || in.SenderInSet(trusted) || in.SenderInSet(allowed) || addressAllowed(in.Facts, in.Address()) {
		return policy.Pass()
	}
	if ofClass := &r.addressClasses[class]; !r.addressEvents.off() || !ofClass.off() || !r.bans.off() {
		if who, ok := networkOf(in.Address()); ok {
			if key, ok := in.ProvenInSet(known); ok {
				who = keyHolder(key)
			}
			if r.bans.has(in.Facts, &who) {
				return r.bans.refusal
			}
			if v, ok := r.addressEvents.consume(in.Facts, who.name()); !ok {
				return r.bans.count(in.Facts, &who, v)
			}
			if v, ok := ofClass.consume(in.Facts, who.name()); !ok {
				return r.bans.count(in.Facts, &who, v)
			}
		}
	}
	if v, ok := r.authorEvents.consume(in.Facts, author[:]); !ok {
		return v
	}
	if v, ok := r.authorClasses[class].consume(in.Facts, author[:]); !ok {
		return v
	}
	if !r.authorBytes.off() && class != kinds.Ephemeral {
		return r.authorBytes.consume(in.Facts, author, sizeOf(event))
	}
	return policy.Pass()
}

// limits reports whether any limit is about events of a class.
func (r *rate) limits(class kinds.Class) bool {
	return !r.addressEvents.off() || !r.addressClasses[class].off() || !r.authorEvents.off() || !r.authorClasses[class].off() || !r.authorBytes.off()
}

// Query limits the queries of clients.
func (r *rate) Query(in policy.QueryInput) policy.Verdict {
	client := in.Client()
	for it := client.Keys(); it.Next(); {
		if yes, _ := in.PubKeyInSet(trusted, it.Key()); yes {
			return policy.Pass()
		}
		if yes, _ := in.PubKeyInSet(allowed, it.Key()); yes {
			return policy.Pass()
		}
	}
	if addressAllowed(in.Facts, client.Address()) {
		return policy.Pass()
	}
	who, ok := networkOf(client.Address())
	if !ok {
		return policy.Pass()
	}
	if key, ok := in.ProvenInSet(known); ok {
		who = keyHolder(key)
	}
	if r.bans.has(in.Facts, &who) {
		return r.bans.refusal
	}
	v, ok := r.addressQueries.consume(in.Facts, who.name())
	if !ok {
		return r.bans.count(in.Facts, &who, v)
	}
	return v
}

// addressAllowed reports whether the operator allows an address.
func addressAllowed(facts policy.Facts, address string) bool {
	if address == "" {
		return false
	}
	yes, _ := facts.InSet(allowed, address)
	return yes
}

// Connect limits how many connections an address holds. Nobody has proven a key
// yet, so nobody is exempt.
func (r *rate) Connect(in policy.ConnectInput) policy.Verdict {
	address := in.Client().Address()
	if addressAllowed(in.Facts, address) {
		return policy.Pass()
	}
	if who, ok := networkOf(address); ok && r.bans.has(in.Facts, &who) {
		return r.bans.refusal
	}
	if r.connections > 0 && int64(in.FromAddress()) > r.connections {
		return policy.Reject("rate-limited", "too many connections from your address, close one and try again").By("address-connections")
	}
	return policy.Pass()
}

// sizeOf returns the approximate size of an event as JSON: content, tags, and the fixed fields.
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

// limit is a rate with a burst. Its refusals are made when it is configured, so
// that a decision allocates nothing, least of all under attack.
type limit struct {
	burst    int
	every    time.Duration      // one token comes back
	prefix   string             // of the keys of its buckets
	refusals [61]policy.Verdict // by the seconds until a token is there
}

// newLimit returns a limit of perMinute, and a burst, 0 for as many as in a minute.
// There is no limit where perMinute is 0.
func newLimit(perMinute, burst int64, rule, what string) limit {
	if perMinute == 0 {
		return limit{}
	}
	if burst == 0 {
		burst = perMinute
	}
	l := limit{burst: int(burst), every: (time.Minute / time.Duration(perMinute)).Round(time.Millisecond), prefix: rule + ":"}
	for seconds := range l.refusals {
		l.refusals[seconds] = policy.Reject("rate-limited", what+", try again in "+inUnits(seconds, "second")).By(rule)
	}
	return l
}

// readLimit reads the settings NAME_per_minute and NAME_burst.
func readLimit(cfg policy.Config, name, rule, what string) limit {
	return newLimit(cfg.Int(name+"_per_minute"), cfg.Int(name+"_burst"), rule, what)
}

// limits has one for each class of kinds.
type limits [kinds.NumClasses]limit

// readLimits reads the settings NAME_per_minute and NAME_burst, which name classes. A
// refusal begins with "too many", the class and events, and goes on with whose.
func readLimits(cfg policy.Config, name, rule, whose string) (list limits, err error) {
	var perMinute, burst, ofMinute [kinds.NumClasses]int64
	key := name + "_per_minute"
	for _, text := range cfg.Strings(key) {
		class, n, atOnce, ok := parseLimit(text)
		if !ok {
			return list, policy.WrongValue(key, text, "class:number or class:number:burst, a class of "+kinds.Names+
				", events a minute from 0 to 6000, and a burst from 0 to 1000000")
		}
		perMinute[class], ofMinute[class] = n, atOnce
	}
	err = kinds.PerClass(cfg, name+"_burst", "events", maxBurst, func(c kinds.Class, n int64) { burst[c] = n })
	for i := range list {
		class := kinds.Class(i).String()
		list[i] = newLimit(perMinute[i], cmp.Or(burst[i], ofMinute[i]), rule+"-"+class, "too many "+class+" events "+whose)
	}
	return list, err
}

const (
	maxPerMinute = 6000
	maxBurst     = 1_000_000
)

// parseLimit parses class:number or class:number:burst. Without a burst, it is 0.
func parseLimit(text string) (class kinds.Class, perMinute, burst int64, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, 0, 0, false
	}
	number := func(i int, limit int64) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(parts[i]), 10, 64)
		ok = ok && err == nil && 0 <= n && n <= limit
		return n
	}
	class, ok = kinds.ParseClass(strings.TrimSpace(parts[0]))
	perMinute = number(1, maxPerMinute)
	if len(parts) == 3 {
		burst = number(2, maxBurst)
	}
	return class, perMinute, burst, ok
}

// off reports whether there is no limit for any class.
func (l *limits) off() bool {
	for i := range l {
		if !l[i].off() {
			return false
		}
	}
	return true
}

func (l *limit) off() bool { return l.burst == 0 }

// consume takes a token from the bucket of an address or author. It returns false and a refusal
// if the bucket is empty.
func (l *limit) consume(facts policy.Facts, whom []byte) (policy.Verdict, bool) {
	if l.off() {
		return policy.Pass(), true
	}
	wait, ok := facts.Take(facts.Key(l.prefix, string(whom)), 1, l.burst, l.every)
	if ok {
		return policy.Pass(), true
	}
	seconds := int((wait + time.Second - 1) / time.Second)
	return l.refusals[min(max(seconds, 1), len(l.refusals)-1)], false
}

// holder is the key by which limits of addresses count: a proven key of a known person, or else an
// IPv4 address or the first 64 bits of an IPv6 address.
type holder struct {
	bytes [32]byte
	len   int // 9 for a network, whose first byte says which of the two it is
}

// name returns the part of a bucket's key that says whose it is.
func (h *holder) name() []byte { return h.bytes[:h.len] }

// isNetwork reports whether limits count by the address.
func (h *holder) isNetwork() bool { return h.len == 9 }

func keyHolder(key policy.PubKey) holder { return holder{bytes: key, len: len(key)} }

// networkOf returns the holder for an IP address as text. It reports false for no address, and for
// loopback.
func networkOf(address string) (h holder, ok bool) {
	if address == "" { // an error would be allocated
		return holder{}, false
	}
	addr, err := netip.ParseAddr(address)
	if err != nil || addr.Unmap().IsLoopback() {
		return holder{}, false
	}
	h.len = 9
	if addr = addr.Unmap(); addr.Is4() {
		four := addr.As4()
		h.bytes[0] = 4
		copy(h.bytes[1:], four[:])
	} else {
		sixteen := addr.As16()
		h.bytes[0] = 6
		copy(h.bytes[1:9], sixteen[:8])
	}
	return h, true
}

const day = 24 * 60 * 60

// quota is how many bytes an author may store in a day.
type quota struct {
	max      int64
	refusals [25]policy.Verdict // by the hours until the day is over

	today  int64  // days since 1970
	prefix string // of today's keys
}

func newQuota(limit int64) quota {
	q := quota{max: limit, today: -1}
	for hours := range q.refusals {
		q.refusals[hours] = policy.Reject("rate-limited",
			"this author has stored enough for today, try again in "+inUnits(hours, "hour")).By("author-bytes")
	}
	return q
}

func (q *quota) off() bool { return q.max == 0 }

// consume counts size bytes of an author. It does not count an event that does not fit, so a
// smaller one may follow.
func (q *quota) consume(facts policy.Facts, author policy.PubKey, size int64) policy.Verdict {
	now := facts.Now()
	if today := now / day; today != q.today {
		q.today, q.prefix = today, "bytes:"+strconv.FormatInt(today, 10)+":"
	}
	left := day - now%day
	key := facts.Key(q.prefix, string(author[:]))
	if facts.KVIncr(key, size, left) <= q.max {
		return policy.Pass()
	}
	facts.KVIncr(key, -size, left)
	hours := (left + 3599) / 3600
	return q.refusals[min(max(hours, 1), int64(len(q.refusals)-1))]
}
