package plugin

import (
	"crypto/sha256"
	"slices"
	"strings"
	"unicode/utf8"

	"talon/host"
	"talon/host/wire"
)

// notes are what was read for one decision.
type notes struct {
	stored, held events
	referenced   []string            // ids and addresses that stored events name
	sets         map[string][]string // members among those that were asked about
	unseen       []string            // capabilities whose answers no line can say
	bytes        int
	overflow     bool // more was read than is kept
}

// events are texts of events, each once.
type events struct {
	list []string
	has  map[string]bool
}

// newNotes returns what the plugins of the chain read, or one plugin if it is named.
func newNotes(plugin string, t *trace) *notes {
	n := &notes{}
	n.add(plugin, t.facts)
	if plugin != "" && t.shadowFacts != nil {
		n.add(plugin, t.shadowFacts)
	}
	return n
}

func (n *notes) add(plugin string, facts *host.FactReader) {
	answers, all := facts.Answers()
	for i := range answers {
		a := &answers[i]
		if plugin != "" && a.Module != plugin {
			continue
		}
		to := &n.stored
		if a.InHold {
			to = &n.held
		}
		for _, text := range a.Events {
			n.event(to, text)
		}
		switch {
		case a.Referenced != "":
			n.reference(a.Referenced)
		case a.Capability != "":
			n.use(a.Capability)
		case a.Set != "":
			n.contained(a.Set, a.Member, a.Contained)
		}
	}
	n.overflow = n.overflow || !all
}

// reference notes that a stored event names an id or an address.
func (n *notes) reference(idOrAddress string) {
	if !n.full() && !slices.Contains(n.referenced, idOrAddress) {
		n.referenced = append(n.referenced, idOrAddress)
		n.bytes += len(idOrAddress)
	}
}

// withReferences returns the stored events, and a stand-in for each that was not read and of
// which it is known only what it names.
func (n *notes) withReferences() []string {
	stored := n.stored.list
	for _, named := range n.referenced {
		if !slices.ContainsFunc(stored, func(text string) bool { return refers(text, named) }) {
			stored = append(stored, string(standIn(named)))
		}
	}
	return stored
}

func (n *notes) event(to *events, text []byte) {
	if text == nil || n.full() || to.has[string(text)] {
		return
	}
	if to.has == nil {
		to.has = map[string]bool{}
	}
	own := string(text)
	to.has[own] = true
	to.list = append(to.list, own)
	n.bytes += len(own)
}

// full reports whether more was read than fits into a line.
func (n *notes) full() bool { return n.overflow || n.bytes > maxLine }

func (n *notes) use(capability string) {
	if !slices.Contains(n.unseen, capability) {
		n.unseen = append(n.unseen, capability)
	}
}

// maxLine is the bytes that one line of a recording may have.
const maxLine = 1 << 20

// maxSets and maxMembers bound what is noted of sets: as many as a vector may name, and
// more members than a sensible policy asks about.
const (
	maxSets    = 64
	maxMembers = 1000
)

// contained notes the answer about a member of a set.
func (n *notes) contained(name, member string, yes bool) {
	if n.full() {
		return
	}
	list, there := n.sets[name]
	switch {
	case !there && len(n.sets) == maxSets, len(list) == maxMembers:
		n.use("sets.contains")
		return
	case !there && n.sets == nil:
		n.sets = map[string][]string{}
	}
	if !there {
		// The set exists and does not have this member: an answer too.
		list = []string{}
	}
	if yes {
		var text string
		switch {
		case len(member) == len(host.ID{}):
			text = host.ID([]byte(member)).String()
		case utf8.ValidString(member):
			text = member
		default:
			n.use("sets.contains")
		}
		if text != "" && !slices.Contains(list, text) {
			list = append(list, text)
			n.bytes += len(text)
		}
	}
	n.sets[name] = list
}

// refers reports whether an event names an id or an address, as host.Facts have it.
func refers(text, named string) bool {
	e, err := wire.ParseEvent([]byte(text))
	return err == nil && e.Names(named)
}

// standInKind is the kind of stand-ins, which no event of a relay has.
const standInKind = 65535

// standIn is an event for one of which nothing was read but that it names something.
func standIn(named string) []byte {
	name := "e"
	if strings.Contains(named, ":") {
		name = "a"
	}
	e := host.Event{ID: sha256.Sum256([]byte(named)), CreatedAt: 1, Kind: standInKind, Tags: host.Tags{{name, named}}}
	return e.AppendJSON(nil)
}
