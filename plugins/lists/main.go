// Command lists is a policy of plain lists: of authors, kinds, tags and words.
//
// Each kind of list comes in three strengths, asked in this order:
//
//   - deny: what is on the list is refused;
//   - only: if the list is not empty, what is not on it is refused;
//   - accept: what is on the list is accepted, later policies are not asked.
//
// An event is on the lists of deny and of accept if it is on one of them, and on those of only if it is
// on all of them. The settings deny_match, only_match and accept_match change that.
//
// An event that none of them decides passes to the next policy. So deny beats
// only, and only beats accept.
//
// Deny and only do not concern what the operator allows in the moderation log: authors, events,
// addresses, and kinds as far as lists of kinds go.
package main

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(lists))

func main() {}

type lists struct {
	deny, only, accept list

	// Which lists of each strength are not empty.
	denying, limiting, accepting matched

	// The lists of these strengths count together, or one by one.
	denyAll, onlyAny, acceptAll bool

	// The answers of each rule, made when the policy is configured.
	denied, notListed refusals
}

func (l *lists) Configure(cfg policy.Config) error {
	for _, strength := range []struct {
		name string
		list *list
		used *matched
	}{{"deny", &l.deny, &l.denying}, {"only", &l.only, &l.limiting}, {"accept", &l.accept, &l.accepting}} {
		if err := strength.list.configure(cfg, strength.name); err != nil {
			return err
		}
		*strength.used = strength.list.used()
	}
	for _, setting := range []struct {
		key, usual, other string
		changed           *bool
	}{
		{"deny_match", "any", "all", &l.denyAll}, {"only_match", "all", "any", &l.onlyAny}, {"accept_match", "any", "all", &l.acceptAll},
	} {
		text := cfg.String(setting.key)
		if text != setting.usual && text != setting.other {
			return policy.WrongValue(setting.key, text, `"any" or "all"`)
		}
		*setting.changed = text == setting.other
	}
	return l.configureRefusals(cfg)
}

func (l *lists) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if l.denying != 0 {
		if on := l.deny.match(&in, event); on == l.denying || !l.denyAll {
			// What the operator allows is on no list.
			if on = withoutAllowed(&in, event, on); on == l.denying || on != 0 && !l.denyAll {
				return l.denied.of(on)
			}
		}
	}
	if l.limiting != 0 {
		if missing := l.limiting &^ l.only.match(&in, event); missing == l.limiting || !l.onlyAny {
			// What the operator allows is on each of these lists.
			if missing = withoutAllowed(&in, event, missing); missing == l.limiting || missing != 0 && !l.onlyAny {
				return l.notListed.of(missing)
			}
		}
	}
	if l.accepting != 0 {
		if on := l.accept.match(&in, event); on == l.accepting || on != 0 && !l.acceptAll {
			return accepted(on)
		}
	}
	return policy.Pass()
}

// allowed is the set, kept by the host, of what the operator allows in the moderation log.
const allowed = "allowed"

// withoutAllowed returns the lists that refuse an event, without those from which the operator
// excepts it.
func withoutAllowed(in *policy.Input, e policy.Event, refusing matched) matched {
	if refusing == 0 {
		return 0
	}
	if yes, _ := in.PubKeyInSet(allowed, *e.Author()); yes {
		return 0
	}
	if yes, _ := in.PubKeyInSet(allowed, policy.PubKey(e.ID())); yes { // ids are looked up like keys
		return 0
	}
	if address := in.Address(); address != "" {
		if yes, _ := in.InSet(allowed, address); yes {
			return 0
		}
	}
	if refusing&byKind != 0 {
		var digits [20]byte
		if yes, _ := in.InSet(allowed, in.Key("kind:", string(strconv.AppendInt(digits[:0], int64(e.Kind()), 10)))); yes {
			refusing &^= byKind
		}
	}
	return refusing
}

// Idle returns admit while all lists are empty.
func (l *lists) Idle() []string {
	if l.denying|l.limiting|l.accepting != 0 {
		return nil
	}
	return []string{"admit"}
}

// Describe says that not everybody may write, or not everything.
func (l *lists) Describe() (d policy.Description) {
	if l.limiting != 0 {
		d.Writes = policy.WritesRestricted
	}
	return d
}

func accepted(on matched) policy.Verdict {
	switch {
	case on&byAuthor != 0:
		return policy.Accept().By("accept-author")
	case on&byKind != 0:
		return policy.Accept().By("accept-kind")
	case on&byTag != 0:
		return policy.Accept().By("accept-tag")
	}
	return policy.Accept().By("accept-word")
}

// list is the four lists of one strength. An empty one is nil.
type list struct {
	authors *keySet
	sets    []string // of authors, by their names
	kinds   *kinds.Set
	tags    []tagRule
	heads   [8]uint32 // bits: first bytes of names in tags
	words   *words
}

// tagRule has the values that a tag of this name must have. nil matches any value.
type tagRule struct {
	name   string
	values *texts
}

// matched is a set of the lists that an event is on.
type matched uint8

const (
	byAuthor matched = 1 << iota
	byKind
	byTag
	byWord
)

// used are the lists that are not empty.
func (l *list) used() (m matched) {
	for by, used := range map[matched]bool{
		byAuthor: l.authors != nil || l.sets != nil, byKind: l.kinds != nil, byTag: l.tags != nil, byWord: l.words != nil,
	} {
		if used {
			m |= by
		}
	}
	return m
}

func (l *list) match(in *policy.Input, e policy.Event) (m matched) {
	if l.authors != nil && l.authors.has(e.Author()) || l.sets != nil && l.inSet(in, e.Author()) {
		m |= byAuthor
	}
	if l.kinds != nil && l.kinds.Has(e.Kind()) {
		m |= byKind
	}
	if l.tags != nil && l.hasTag(e) {
		m |= byTag
	}
	if l.words != nil && l.words.in(e.Content()) {
		m |= byWord
	}
	return m
}

// inSet reports whether an author is a member of one of the sets.
func (l *list) inSet(in *policy.Input, author *policy.PubKey) bool {
	for _, name := range l.sets {
		if yes, _ := in.PubKeyInSet(name, *author); yes {
			return true
		}
	}
	return false
}

func (l *list) hasTag(e policy.Event) bool {
	for it := e.Tags(); it.Next(); {
		name := it.Name()
		if len(name) == 0 || l.heads[name[0]>>5]>>(name[0]&31)&1 == 0 {
			continue
		}
		for i := range l.tags {
			rule := &l.tags[i]
			// Names of one letter are compared without a call.
			if len(rule.name) != len(name) || rule.name[0] != name[0] || len(name) > 1 && rule.name != name {
				continue
			}
			if rule.values == nil || rule.values.has(it.Value()) {
				return true
			}
		}
	}
	return false
}

func (l *list) configure(cfg policy.Config, strength string) (err error) {
	*l = list{}
	key := strength + "_authors"
	var authors []policy.PubKey
	for _, text := range cfg.Strings(key) {
		if name, ok := strings.CutPrefix(text, "set:"); ok {
			if name == "" {
				return policy.WrongValue(key, text, "set:NAME with the name of a set")
			}
			l.sets = append(l.sets, name)
			continue
		}
		author, err := policy.ParsePubKey(text)
		if err != nil {
			return policy.WrongValue(key, text, "an npub, 64 hex digits, or set:NAME; "+err.Error())
		}
		authors = append(authors, author)
	}
	if len(authors) > 0 {
		l.authors = newKeySet(authors)
	}
	if l.kinds, err = kinds.Parse(cfg, strength+"_kinds"); err != nil {
		return err
	}
	key = strength + "_tags"
	for _, text := range cfg.Strings(key) {
		name, value, one := strings.Cut(text, ":")
		if name == "" {
			return policy.WrongValue(key, text, "name:value, or a name for any value")
		}
		l.heads[name[0]>>5] |= 1 << (name[0] & 31)
		at := slices.IndexFunc(l.tags, func(r tagRule) bool { return r.name == name })
		switch {
		case at < 0 && one:
			l.tags = append(l.tags, tagRule{name, newTexts(value)})
		case at < 0:
			l.tags = append(l.tags, tagRule{name: name})
		case !one:
			l.tags[at].values = nil
		case l.tags[at].values != nil:
			l.tags[at].values.add(value)
		}
	}
	l.words, err = compileWords(strength+"_words", cfg.Strings(strength+"_words"))
	return err
}

// keySet is a set of public keys: a table with open addressing at the first
// bytes of a key, which are as good as random. A map of 32-byte keys costs a
// guest several times as much.
type keySet struct {
	slots []policy.PubKey // the zero key is an empty slot
	mask  uint32
}

func newKeySet(keys []policy.PubKey) *keySet {
	size := 4
	for size < 2*len(keys) {
		size *= 2
	}
	s := &keySet{slots: make([]policy.PubKey, size), mask: uint32(size - 1)}
	for i := range keys {
		at, _ := s.find(&keys[i])
		s.slots[at] = keys[i]
	}
	return s
}

func (s *keySet) has(key *policy.PubKey) bool {
	_, found := s.find(key)
	return found
}

// find returns the slot of key, or the empty one where it belongs. At least half
// of the slots are empty.
func (s *keySet) find(key *policy.PubKey) (uint32, bool) {
	first := word(key[:])
	at := uint32(first)
	for {
		at &= s.mask
		slot := &s.slots[at]
		// Keys that begin alike are rare: only then a call compares the rest.
		begins := word(slot[:])
		if begins == first && *slot == *key {
			return at, *key != policy.PubKey{}
		}
		if begins == 0 && empty(slot) {
			return at, false
		}
		at++
	}
}

// empty reports whether slot is the zero key, without the call that a comparison is.
func empty(slot *policy.PubKey) bool {
	return word(slot[0:])|word(slot[8:])|word(slot[16:])|word(slot[24:]) == 0
}

// word is the first eight bytes, one load.
func word(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// texts is a set of strings. A few are compared one after the other: most differ
// in length already, and a hash costs a guest more than that.
type texts struct {
	few  []string
	many map[string]struct{} // instead of few, once there are more than fewTexts
}

const fewTexts = 8

func newTexts(first string) *texts { return &texts{few: []string{first}} }

func (t *texts) add(text string) {
	if t.has(text) {
		return
	}
	if t.many == nil && len(t.few) < fewTexts {
		t.few = append(t.few, text)
		return
	}
	if t.many == nil {
		t.many = make(map[string]struct{})
		for _, known := range t.few {
			t.many[known] = struct{}{}
		}
		t.few = nil
	}
	t.many[text] = struct{}{}
}

func (t *texts) has(text string) bool {
	if t.many != nil {
		_, ok := t.many[text]
		return ok
	}
	for _, known := range t.few {
		if known == text {
			return true
		}
	}
	return false
}
