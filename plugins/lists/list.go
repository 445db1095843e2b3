package main

import (
	"slices"
	"strconv"
	"strings"

	"talon/sdk/policy"
)

// list is the four lists of one strength. An empty one is nil.
type list struct {
	authors *keySet
	kinds   *kindSet
	tags    []tagRule
	words   *words
}

// tagRule are the values that a tag of this name must have; nil stands for any.
type tagRule struct {
	name   string
	values map[string]struct{}
}

// kindSet has a bit for each kind.
type kindSet [65536 / 64]uint64

func (k *kindSet) has(kind int) bool { return k[uint16(kind)/64]>>(kind%64)&1 == 1 }

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
		byAuthor: l.authors != nil, byKind: l.kinds != nil, byTag: l.tags != nil, byWord: l.words != nil,
	} {
		if used {
			m |= by
		}
	}
	return m
}

func (l *list) match(e policy.Event) (m matched) {
	if l.authors != nil && l.authors.has(e.PubKey()) {
		m |= byAuthor
	}
	if l.kinds != nil && l.kinds.has(e.Kind()) {
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

func (l *list) hasTag(e policy.Event) bool {
	for it := e.Tags(); it.Next(); {
		tag := it.Tag()
		name := tag.Name()
		for i := range l.tags {
			rule := &l.tags[i]
			if rule.name != name {
				continue
			}
			if rule.values == nil {
				return true
			}
			if _, ok := rule.values[tag.Value()]; ok {
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
		author, err := policy.ParsePubKey(text)
		if err != nil {
			return policy.WrongValue(key, text, "an npub or 64 hex digits; "+err.Error())
		}
		authors = append(authors, author)
	}
	if len(authors) > 0 {
		l.authors = newKeySet(authors)
	}
	key = strength + "_kinds"
	for _, text := range cfg.Strings(key) {
		first, last, ok := parseKinds(text)
		if !ok {
			return policy.WrongValue(key, text, "a kind from 0 to 65535, or a range like 30000-39999")
		}
		if l.kinds == nil {
			l.kinds = new(kindSet)
		}
		for kind := first; kind <= last; kind++ {
			l.kinds[kind/64] |= 1 << (kind % 64)
		}
	}
	key = strength + "_tags"
	for _, text := range cfg.Strings(key) {
		name, value, one := strings.Cut(text, ":")
		if name == "" {
			return policy.WrongValue(key, text, "name:value, or a name for any value")
		}
		at := slices.IndexFunc(l.tags, func(r tagRule) bool { return r.name == name })
		switch {
		case at < 0 && one:
			l.tags = append(l.tags, tagRule{name, map[string]struct{}{value: {}}})
		case at < 0:
			l.tags = append(l.tags, tagRule{name: name})
		case !one:
			l.tags[at].values = nil
		case l.tags[at].values != nil:
			l.tags[at].values[value] = struct{}{}
		}
	}
	l.words, err = compileWords(strength+"_words", cfg.Strings(strength+"_words"))
	return err
}

// parseKinds parses "7" or "30000-39999", both ends included.
func parseKinds(text string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	a, errA := strconv.ParseUint(strings.TrimSpace(from), 10, 16)
	b, errB := strconv.ParseUint(strings.TrimSpace(to), 10, 16)
	return int(a), int(b), errA == nil && errB == nil && a <= b
}
