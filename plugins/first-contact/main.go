// Command first-contact is a policy that holds the first events that a key sends about a repository.
// The relay keeps such an event, and shows it to nobody, until a maintainer of the repository reacts.
// Then it decides about the event again. An event without a reaction goes after some days.
//
// A key is known to a repository if one of these holds:
//
//   - It is a maintainer: the announcement here is its own, or lists it.
//   - A maintainer has named it in a p tag: in a follow list, an answer, a status or a reaction other
//     than "-". So have the keys of the setting "vouchers", for all repositories.
//   - An earlier event of it about the repository is here.
//   - It is in the set "trusted", or among the known people of the relay.
//
// An event is about the repositories that it names, and about those that the events name which it
// names. Of several repositories the key must be known to each.
//
// A maintainer who has seen the event elsewhere may answer it here: the policy accepts an event of a
// maintainer that names a held one.
package main

import (
	_ "embed"
	"strconv"
	"strings"

	"talon/sdk/grasp"
	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(contacts))

func main() {}

const (
	trusted = "trusted" // the set whose members are known everywhere
	known   = "known"   // the set of the relay's known people

	// Bounds of what one event may name. They keep a decision below the reads that a relay allows.
	maxRepositories = 8
	maxVisited      = 6

	maxVouchers = 48 // keys of a wake filter
	maxFound    = 50

	kindDeletion = 5
	kindReaction = 7
	kindVanish   = 62
)

// vouching are the kinds that name a key in a p tag because they answer or follow it.
var vouching = []int{
	1, 3, kindReaction, grasp.KindComment, grasp.KindPatch, grasp.KindPullRequest, grasp.KindPRUpdate, grasp.KindIssue, 1622,
	grasp.KindOpen, grasp.KindApplied, grasp.KindClosed, grasp.KindDraft, 30000,
}

type contacts struct {
	vouchers []policy.PubKey
	judged   *kinds.Set
	seconds  uint32

	unknown policy.Verdict
}

var (
	answers = policy.Accept().By("maintainer-answers")
	tooMany = policy.Reject("blocked", "the event names more repositories or events than this relay looks up for somebody whom no maintainer knows").By("too-many-references")
)

func (c *contacts) Configure(cfg policy.Config) (err error) {
	*c = contacts{}
	for _, text := range cfg.Strings("vouchers") {
		key, err := policy.ParsePubKey(text)
		if err != nil {
			return policy.WrongValue("vouchers", text, "an npub or 64 hex digits; "+err.Error())
		}
		c.vouchers = append(c.vouchers, key)
	}
	if c.judged, err = kinds.Parse(cfg, "kinds"); err != nil {
		return err
	}
	days := cfg.Int("days")
	unit := " days"
	if days == 1 {
		unit = " day"
	}
	c.seconds = uint32(days) * 24 * 60 * 60
	c.unknown = policy.Hold("no maintainer of the repository has answered you yet; the event is kept for " +
		strconv.FormatInt(days, 10) + unit + " and is served when one does").By("unknown")
	return nil
}

// Describe says that some events wait.
func (c *contacts) Describe() (d policy.Description) {
	d.Writes = policy.WritesRestricted
	return d
}

// Admit holds what unknown keys send about a repository. Events of an import are the operator's own
// choice.
func (c *contacts) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	kind := event.Kind()
	if in.Origin() == policy.FromImport || !c.judges(kind) || in.SenderInSet(trusted) {
		return policy.Pass()
	}
	if yes, _ := in.PubKeyInSet(known, *event.Author()); yes {
		return policy.Pass()
	}
	author := event.PubKey()
	n := named{facts: in.Facts}
	if n.read(event); n.empty() {
		return policy.Pass()
	}
	n.visit()
	served := c.announced(in.Facts, n.repositories)
	if len(served) == 0 && !n.over {
		return policy.Pass() // about nothing here: other policies decide
	}
	maintains := false
	for i := range served {
		repo := &served[i]
		switch {
		case repo.has(author):
			maintains = true
		case !c.knows(in.Facts, repo, author):
			keys := append(repo.maintainers, c.vouchers...)
			return c.unknown.Awaiting(wakeFilter(keys[:min(len(keys), maxVouchers)], author), c.seconds)
		}
	}
	switch {
	case n.over:
		return tooMany
	case maintains && n.held:
		return answers
	}
	return policy.Pass()
}

// judges reports whether events of a kind are held. Some never are: those that cannot wait, those that
// take something back, and those that describe their author.
func (c *contacts) judges(kind int) bool {
	switch {
	case kind == grasp.KindAnnouncement, kind == grasp.KindState, kind == kindDeletion, kind == kindVanish,
		grasp.DescribesAuthor(kind), kind >= 20000 && kind < 30000:
		return false
	}
	return c.judged == nil || c.judged.Has(kind)
}

// wakeFilter matches what vouches for an author.
func wakeFilter(keys []policy.PubKey, author policy.PubKey) policy.Filter {
	return policy.Filter{Authors: keys, Kinds: vouching, Tags: []policy.TagFilter{{Name: "p", Values: []string{author.String()}}}}
}

// knows reports whether somebody has vouched for an author who is no maintainer, or whether an
// earlier event of the author is here.
func (c *contacts) knows(facts policy.Facts, repo *repository, author policy.PubKey) bool {
	keys := append(repo.maintainers[:len(repo.maintainers):len(repo.maintainers)], c.vouchers...)
	f := wakeFilter(keys[:min(len(keys), maxVouchers)], author)
	f.Limit = maxFound
	for _, ask := range []func(policy.Filter) policy.Events{facts.Query, facts.QueryHeld} {
		for found := ask(f); found.Next(); {
			if e := found.Event(); e.Kind() != kindReaction || e.Content() != "-" {
				return true
			}
		}
	}
	earlier := policy.Filter{Authors: []policy.PubKey{author}, Tags: []policy.TagFilter{{Name: "a", Values: []string{repo.address}}}, Limit: maxFound, Header: true}
	for found := facts.Query(earlier); found.Next(); {
		if c.judges(found.Event().Kind()) {
			return true
		}
	}
	return false
}

// repository is one that an event is about.
type repository struct {
	address     string
	maintainers []policy.PubKey // its owner first
}

func (r *repository) has(key policy.PubKey) bool {
	for _, m := range r.maintainers {
		if m == key {
			return true
		}
	}
	return false
}

// announced returns those of the repositories whose announcement is stored here.
func (c *contacts) announced(facts policy.Facts, addresses []string) (list []repository) {
	if len(addresses) == 0 {
		return nil
	}
	f := policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress, Values: addresses}}}
	for found := facts.Query(f); found.Next(); {
		e := found.Event()
		owner := e.PubKey()
		d, _ := e.Tag("d")
		repo := repository{address: strconv.Itoa(grasp.KindAnnouncement) + ":" + owner.String() + ":" + d, maintainers: []policy.PubKey{owner}}
		for it := e.Tags(); it.Next(); {
			if it.Name() != "maintainers" {
				continue
			}
			items := it.Tag().Items()
			items.Next() // the name
			for items.Next() && len(repo.maintainers) < maxVouchers {
				if key, ok := grasp.ParseID(string(items.Bytes())); ok && !repo.has(policy.PubKey(key)) {
					repo.maintainers = append(repo.maintainers, policy.PubKey(key))
				}
			}
		}
		list = append(list, repo)
	}
	return list
}

// named is what an event names, and what the events name that it names.
type named struct {
	facts        policy.Facts
	repositories []string    // addresses
	ids          []policy.ID // of events, in the order in which they are visited
	held         bool        // one of the events is held
	over         bool        // there is more than the bounds allow
}

func (n *named) empty() bool { return len(n.repositories)+len(n.ids) == 0 && !n.over }

// read adds what an event names.
func (n *named) read(event policy.Event) {
	for it := event.Tags(); it.Next(); {
		name, value := it.Name(), it.Value()
		if len(name) != 1 {
			continue
		}
		switch name[0] {
		case 'a', 'A':
			n.address(value)
		case 'e', 'E':
			n.id(value)
		case 'q':
			if len(value) == 64 {
				n.id(value)
			} else {
				n.address(value)
			}
		}
	}
}

func (n *named) address(value string) {
	if kind, _, _, ok := grasp.ParseAddress(value); !ok || kind != grasp.KindAnnouncement && kind != grasp.KindState {
		return
	}
	_, rest, _ := strings.Cut(value, ":")
	value = strconv.Itoa(grasp.KindAnnouncement) + ":" + rest
	for _, have := range n.repositories {
		if have == value {
			return
		}
	}
	if len(n.repositories) == maxRepositories {
		n.over = true
		return
	}
	n.repositories = append(n.repositories, value)
}

func (n *named) id(value string) {
	id, ok := grasp.ParseID(value)
	if !ok {
		return
	}
	for _, have := range n.ids {
		if have == policy.ID(id) {
			return
		}
	}
	if len(n.ids) == maxVisited {
		n.over = true
		return
	}
	n.ids = append(n.ids, policy.ID(id))
}

// visit reads the events that are named, and those that they name. It leaves out those that are not
// here.
func (n *named) visit() {
	for i := 0; i < len(n.ids); i++ {
		if e, ok := n.facts.Get(n.ids[i]); ok {
			n.read(e)
		} else if e, ok := n.facts.Held(n.ids[i]); ok {
			n.held = true
			n.read(e)
		}
	}
}
