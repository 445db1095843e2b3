// Command readers is a policy that controls reading. It decides in two ways.
//
// Audience says who receives an event. Events of private kinds are for their author and the keys in
// their p tags. Events of other kinds and of some repositories are for the members of the set
// "readers". The host withholds such events from all others.
//
// Query refuses a query for which a client must authenticate (NIP-42), if the operator wants that.
// It also refuses a filter for nothing but withheld kinds from a client that has proven no key. So
// the client learns that it must authenticate. All other queries pass, and select the events that
// the client may receive.
//
// The readers are the members of the set "readers". Without the set, nobody is one. A decision
// allocates nothing.
package main

import (
	_ "embed"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(rules))

func main() {}

// readers is the name of the set whose members may read restricted events.
const readers = "readers"

// rules are the settings of the manifest.
type rules struct {
	needAuth, readersOnly bool

	is   [65536]lists // by kind
	used lists        // that are not empty

	repositories []repository

	keys [32 * maxAudience]byte // of the last private event
}

// repository is one that only the readers read.
type repository struct {
	owner      policy.PubKey
	any        bool   // of every owner
	identifier string // empty: every repository of the owner
}

// maxAudience is how many keys of an event count: the host takes no more.
const maxAudience = 1000

const announcement = 30617

// lists are those of kinds on which something is.
type lists uint8

const (
	forAuthed lists = 1 << iota
	forReaders
	private
	open
	withheld // private or for readers
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
	for kind, is := range r.is {
		if is&(private|forReaders) != 0 {
			r.is[kind] |= withheld
		}
	}
	for _, text := range cfg.Strings("readers_repositories") {
		repo, err := parseRepository(text)
		if err != nil {
			return err
		}
		r.repositories = append(r.repositories, repo)
	}
	return nil
}

// parseRepository reads npub/identifier, npub or identifier.
func parseRepository(text string) (r repository, err error) {
	owner, identifier, both := strings.Cut(text, "/")
	if !both && !strings.HasPrefix(owner, "npub1") {
		owner, identifier = "", text
	}
	if owner != "" {
		r.owner, err = policy.ParsePubKey(owner)
	}
	if err != nil || text == "" || both && identifier == "" {
		return r, policy.WrongValue("readers_repositories", text, "npub1…/identifier, npub1… or an identifier")
	}
	r.any, r.identifier = owner == "", strings.Clone(identifier)
	return r, nil
}

// Idle returns the functions that have nothing to decide.
func (r *rules) Idle() (idle []string) {
	if !r.needAuth && !r.readersOnly && r.used&^open == 0 {
		idle = append(idle, "query")
	}
	if r.used&(private|forReaders) == 0 && len(r.repositories) == 0 {
		idle = append(idle, "audience")
	}
	return idle
}

// Audience restricts an event to those who wrote or receive it, or to the readers.
func (r *rules) Audience(in policy.Input) policy.Verdict {
	e := in.Event()
	switch is := r.is[uint16(e.Kind())]; {
	case is&private != 0:
		return policy.OnlyKeys(r.concerned(e)).By("private")
	case is&forReaders != 0:
		return policy.OnlyMembers(readers).By("readers")
	case e.Kind() == announcement && r.isForReaders(e):
		return policy.OnlyMembers(readers).By("repository")
	}
	return policy.Pass()
}

// concerned returns the keys of the author and of the p tags, one after the other.
func (r *rules) concerned(e policy.Event) []byte {
	keys := append(r.keys[:0], e.Author()[:]...)
	for it := e.Tags(); it.Next() && len(keys) < len(r.keys); {
		if it.Name() != "p" {
			continue
		}
		if key, ok := decode(it.Value()); ok {
			keys = append(keys, key[:]...)
		}
	}
	return keys
}

// isForReaders reports whether an announcement is that of a repository which only readers read.
func (r *rules) isForReaders(e policy.Event) bool {
	if len(r.repositories) == 0 {
		return false
	}
	d, _ := e.Tag("d")
	for i := range r.repositories {
		repo := &r.repositories[i]
		if (repo.any || repo.owner == *e.Author()) && (repo.identifier == "" || repo.identifier == d) {
			return true
		}
	}
	return false
}

// Admit has no opinion: readers is about reading.
func (r *rules) Admit(policy.Input) policy.Verdict { return policy.Pass() }

var (
	authToRead   = policy.RequireAuth("this relay wants to know who reads").By("auth")
	authForKinds = policy.RequireAuth("events of these kinds are for clients that say who they are").By("auth-kinds")
	authForOwn   = policy.RequireAuth("events of these kinds are for those who wrote or receive them").By("auth-private")
	authAsReader = policy.RequireAuth("only some may read here").By("auth-readers")
	onlyReaders  = policy.Reject("restricted", "only some may read here, and you are not among them").By("readers")
)

// maxKeys is how many keys of a client count.
const maxKeys = 64

// maxFilters is more than a relay takes in one message.
const maxFilters = 200

var tooMany = policy.Reject("invalid", "more than 200 filters in one message, send several").By("filters")

// Query judges each filter; the first that asks for too much decides.
func (r *rules) Query(in policy.QueryInput) policy.Verdict {
	who := client{in: in}
	for it := in.Client().Keys(); it.Next() && who.n < maxKeys; who.n++ {
		who.keys[who.n] = it.Key()
	}
	who.known = who.n > 0
	n := 0
	for it := in.Filters(); it.Next(); n++ {
		if n == maxFilters {
			return tooMany
		}
		filter := it.Filter()
		if v := r.judge(&filter, &who); v.Action != policy.ActionPass {
			return v
		}
	}
	return policy.Pass()
}

func (r *rules) judge(filter *abi.FilterView, who *client) policy.Verdict {
	some, every := r.asked(filter)
	if every&open != 0 {
		return policy.Pass()
	}
	switch {
	case r.needAuth && !who.known:
		return authToRead
	case r.readersOnly && !who.known:
		return authAsReader
	case some&forAuthed != 0 && !who.known:
		return authForKinds
	case r.readersOnly && !who.isReader():
		return onlyReaders
	case every&withheld == 0:
		return policy.Pass()
	case !who.known && every&forReaders != 0:
		return authAsReader
	case !who.known:
		return authForOwn
	case every&forReaders != 0 && !who.isReader():
		return onlyReaders
	}
	return policy.Pass()
}

// asked returns the lists with a kind that the filter may match, and the lists with all kinds that
// it names.
func (r *rules) asked(filter *abi.FilterView) (some, every lists) {
	if filter.NumKinds() == 0 {
		if filter.NumIDs() > 0 || refers(filter) {
			return 0, 0
		}
		return r.used, 0
	}
	every = forAuthed | forReaders | private | open | withheld
	for it := filter.Kinds(); it.Next(); {
		is := r.is[uint16(it.Kind())]
		some |= is
		every &= is
	}
	return some, every
}

// refers reports whether the filter names references of events.
func refers(filter *abi.FilterView) bool {
	for it := filter.Tags(); it.Next(); {
		switch it.Name() {
		case "e", "E", "q", "a", "A":
			return true
		}
	}
	return false
}

// client is the sender of a query.
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

// decode reads 64 hex digits, in lower case as in events.
func decode[T string | []byte](text T) (key policy.PubKey, ok bool) {
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

// digits maps a byte to the value of a hex digit, and any other byte to 16.
var digits = func() (table [256]byte) {
	for i := range table {
		table[i] = 16
	}
	for i := range byte(16) {
		table["0123456789abcdef"[i]] = i
	}
	return table
}()
