// Command readers is a policy of who may read what, asked about every REQ, COUNT and
// NEG-OPEN: who must authenticate (NIP-42), which kinds are for some readers only,
// and which are for those who wrote or receive them.
//
// It decides about whole messages: one filter that asks for too much, and the message
// is refused. A filter without kinds asks for every kind, unless it names ids, or what
// the events refer to (an e, E, q, a or A tag): whoever asks so knows of an event
// already, and finds what belongs to it.
//
// The readers are the members of the set "readers". Without the set, nobody is one.
//
// It has nothing to say when a client connects: that client has proven no key yet. A
// decision allocates nothing.
package main

import (
	_ "embed"

	"talon/sdk/abi"
	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(rules))

func main() {}

// readers is the set of those who may read what is not for everybody.
const readers = "readers"

// rules are the settings of the manifest.
type rules struct {
	needAuth, readersOnly bool

	is   [65536]lists // by kind
	used lists        // that are not empty
}

// lists are those of kinds on which something is.
type lists uint8

const (
	forAuthed lists = 1 << iota
	forReaders
	private
	open
)

func (r *rules) Configure(cfg policy.Config) error {
	*r = rules{needAuth: cfg.Bool("need_auth"), readersOnly: cfg.Bool("readers_only")}
	for key, list := range map[string]lists{
		"auth_kinds": forAuthed, "readers_kinds": forReaders, "private_kinds": private, "open_kinds": open,
	} {
		set, err := kinds.Parse(cfg, key)
		if err != nil {
			return err
		}
		if set == nil {
			continue
		}
		r.used |= list
		for kind := range r.is {
			if set.Has(kind) {
				r.is[kind] |= list
			}
		}
	}
	return nil
}

// Idle returns query while everybody may read everything.
func (r *rules) Idle() []string {
	if r.needAuth || r.readersOnly || r.used&^open != 0 {
		return nil
	}
	return []string{"query"}
}

// Admit has no opinion: readers is about reading.
func (r *rules) Admit(policy.Input) policy.Verdict { return policy.Pass() }

var (
	authToRead    = policy.RequireAuth("this relay wants to know who reads").By("auth")
	authForKinds  = policy.RequireAuth("events of these kinds are for clients that say who they are").By("auth-kinds")
	authForOwn    = policy.RequireAuth("events of these kinds are for those who wrote or receive them").By("auth-private")
	authAsReader  = policy.RequireAuth("only some may read here").By("auth-readers")
	onlyReaders   = policy.Reject("restricted", "only some may read here, and you are not among them").By("readers")
	onlyOwnEvents = policy.Reject("restricted", "events of these kinds are for those who wrote or receive them, ask for your own by authors or #p, or name other kinds").By("private")
)

// maxKeys is how many keys of a client count.
const maxKeys = 64

// Query judges each filter; the first that asks for too much decides.
func (r *rules) Query(in policy.QueryInput) policy.Verdict {
	who := client{in: in}
	for it := in.Client().Keys(); it.Next() && who.n < maxKeys; who.n++ {
		who.keys[who.n] = it.Key()
	}
	who.known = who.n > 0
	for it := in.Filters(); it.Next(); {
		filter := it.Filter()
		if v := r.judge(&filter, &who); v.Action != policy.ActionPass {
			return v
		}
	}
	return policy.Pass()
}

func (r *rules) judge(filter *abi.FilterView, who *client) policy.Verdict {
	asked := r.asked(filter)
	if asked&open != 0 {
		return policy.Pass()
	}
	forReaders := r.readersOnly || asked&forReaders != 0
	switch {
	case r.needAuth && !who.known:
		return authToRead
	case forReaders && !who.known:
		return authAsReader
	case asked&forAuthed != 0 && !who.known:
		return authForKinds
	case forReaders && !who.isReader():
		return onlyReaders
	case asked&private == 0 || who.asksForOwn(filter):
		return policy.Pass()
	case !who.known:
		return authForOwn
	}
	return onlyOwnEvents
}

// asked returns the lists with a kind that the filter may match, and open only if all
// that it names are.
func (r *rules) asked(filter *abi.FilterView) lists {
	if filter.NumKinds() == 0 {
		if filter.NumIDs() > 0 || refers(filter) {
			return 0
		}
		return r.used &^ open
	}
	some, every := lists(0), open
	for it := filter.Kinds(); it.Next(); {
		is := r.is[uint16(it.Kind())]
		some |= is
		every &= is
	}
	return some&^open | every
}

// refers reports whether the filter names what the events refer to.
func refers(filter *abi.FilterView) bool {
	for it := filter.Tags(); it.Next(); {
		switch it.Name() {
		case "e", "E", "q", "a", "A":
			return true
		}
	}
	return false
}

// client is who asks.
type client struct {
	in     policy.QueryInput
	keys   [maxKeys]policy.PubKey // the first n that it has proven
	n      int
	known  bool // it has proven one
	judged bool // reader is right
	reader bool
}

// isReader asks the host once: a message may have many filters.
func (c *client) isReader() bool {
	if c.judged {
		return c.reader
	}
	c.judged = true
	for i := 0; i < c.n && !c.reader; i++ {
		c.reader, _ = c.in.PubKeyInSet(readers, c.keys[i])
	}
	return c.reader
}

// asksForOwn reports whether the filter matches nothing but what the client wrote or
// receives: all authors, or all values of #p, are keys that it has proven.
func (c *client) asksForOwn(filter *abi.FilterView) bool {
	if !c.known {
		return false
	}
	if filter.NumAuthors() > 0 && c.allAuthors(filter) {
		return true
	}
	for it := filter.Tags(); it.Next(); {
		if it.Name() == "p" && c.allValues(it.Values()) {
			return true
		}
	}
	return false
}

func (c *client) allAuthors(filter *abi.FilterView) bool {
	for it := filter.Authors(); it.Next(); {
		if !c.has(it.Key()) {
			return false
		}
	}
	return true
}

func (c *client) allValues(values abi.BytesIter) bool {
	n := 0
	for ; values.Next(); n++ {
		key, ok := decode(values.Bytes())
		if !ok || !c.has(key) {
			return false
		}
	}
	return n > 0
}

// has looks at the first bytes first: a filter may name thousands of keys.
func (c *client) has(key policy.PubKey) bool {
	for i := range c.n {
		if c.keys[i][0] == key[0] && c.keys[i] == key {
			return true
		}
	}
	return false
}

// decode reads 64 hex digits, in lower case as in events.
func decode(text []byte) (key policy.PubKey, ok bool) {
	if len(text) != 2*len(key) {
		return key, false
	}
	var bad byte
	for i := range key {
		high, low := digits[text[2*i]], digits[text[2*i+1]]
		key[i] = high<<4 | low
		bad |= high | low
	}
	return key, bad < 16
}

// digits has 16 for what is no digit.
var digits = func() (table [256]byte) {
	for i := range table {
		table[i] = 16
	}
	for i := range byte(16) {
		table["0123456789abcdef"[i]] = i
	}
	return table
}()
