package grasp

import (
	"slices"
	"strings"
	"testing"
)

const mainRef, devRef, tagRef = "refs/heads/main", "refs/heads/dev", "refs/tags/v1"

func nostrRef(n int) string { return nostrRefs + hexString(key(n)) }

func create(ref string, n int) Update      { return Update{ref, none, oid(n)} }
func move(ref string, from, to int) Update { return Update{ref, oid(from), oid(to)} }
func remove(ref string, n int) Update      { return Update{ref, oid(n), none} }

func TestAuthorize(t *testing.T) {
	ref := func(name string, n int) string { return name + " " + oid(n) }
	one := state(t, 1, 10, ref(mainRef, 1))
	two := state(t, 1, 20, ref(mainRef, 2))
	both := state(t, 1, 30, ref(mainRef, 2), ref(devRef, 3))
	tagged := state(t, 2, 40, ref(mainRef, 2), ref(tagRef, 4))
	wrong := state(t, 1, 50, ref(mainRef, 2), "refs/heads/x deadbeef")
	stranger := state(t, 3, 60, ref(mainRef, 6))
	nothing := state(t, 1, 70)
	held := func(states ...*State) (list []Candidate) {
		for _, s := range states {
			list = append(list, Candidate{s, false})
		}
		return list
	}
	served := func(s *State) Candidate { return Candidate{s, true} }
	tip := func(id ID) (string, bool) {
		switch id {
		case key(1):
			return oid(1), true
		case key(2):
			return "", true
		}
		return "", false
	}

	for name, test := range map[string]struct {
		refs    []Ref
		states  []Candidate
		updates []Update
		want    *State
		refused string // in the text; empty if the push may be made
	}{
		// A push that brings the repository fully in line with a state is accepted.
		"first push":             {nil, held(one), []Update{create(mainRef, 1)}, one, ""},
		"next push":              {[]Ref{{mainRef, oid(1)}}, append(held(two), served(one)), []Update{move(mainRef, 1, 2)}, two, ""},
		"stored state":           {nil, []Candidate{served(one)}, []Update{create(mainRef, 1)}, one, ""},
		"two branches":           {nil, held(both), []Update{create(devRef, 3), create(mainRef, 2)}, both, ""},
		"one is there":           {[]Ref{{mainRef, oid(2)}}, held(both), []Update{create(devRef, 3)}, both, ""},
		"forced":                 {[]Ref{{mainRef, oid(9)}}, held(one), []Update{move(mainRef, 9, 1)}, one, ""},
		"deletes what is gone":   {[]Ref{{mainRef, oid(1)}, {devRef, oid(3)}}, held(two), []Update{move(mainRef, 1, 2), remove(devRef, 3)}, two, ""},
		"only deletes":           {[]Ref{{mainRef, oid(2)}, {devRef, oid(3)}}, held(two), []Update{remove(devRef, 3)}, two, ""},
		"a tag, by a maintainer": {[]Ref{{mainRef, oid(2)}}, held(tagged), []Update{create(tagRef, 4)}, tagged, ""},
		"other refs do not count": {[]Ref{{nostrRef(7), oid(7)}, {"refs/pull/1", oid(8)}, {mainRef, oid(1)}}, held(two),
			[]Update{move(mainRef, 1, 2)}, two, ""},
		"what is there is not looked at": {[]Ref{{mainRef, oid(2)}}, held(two), []Update{create(mainRef, 2), remove(devRef, 3), {tagRef, none, none}}, two, ""},
		"with a pull request":            {nil, held(one), []Update{create(mainRef, 1), create(nostrRef(1), 1)}, one, ""},

		// A state is matched when the push comes: any that waits will do.
		"an older one that waits":   {nil, held(both, one, two), []Update{create(mainRef, 1)}, one, ""},
		"older, newer waits":        {[]Ref{{mainRef, oid(1)}}, append(held(both, two), served(one)), []Update{move(mainRef, 1, 2)}, two, ""},
		"never back":                {[]Ref{{mainRef, oid(2)}}, append(held(one), served(two)), []Update{move(mainRef, 2, 1)}, nil, "older than one that has taken effect"},
		"never back to stored":      {[]Ref{{mainRef, oid(2)}}, []Candidate{served(one), served(tagged)}, []Update{move(mainRef, 2, 1)}, nil, "older than one that has taken effect"},
		"a served one again":        {nil, []Candidate{served(two)}, []Update{create(mainRef, 2)}, two, ""},
		"of two alike, the newer":   {nil, held(state(t, 2, 5, ref(mainRef, 1)), one), []Update{create(mainRef, 1)}, one, ""},
		"a stranger's does nothing": {[]Ref{{mainRef, oid(1)}}, append(held(two), served(stranger)), []Update{move(mainRef, 1, 2)}, two, ""},

		// Any other push is refused, with a reason for each ref.
		"no commands":       {nil, held(nothing, one), nil, nil, "a push without commands is not authorised"},
		"no state":          {nil, nil, []Update{create(mainRef, 1)}, nil, "no state event of a maintainer says so"},
		"only a stranger's": {nil, held(stranger), []Update{create(mainRef, 6)}, nil, "no state event of a maintainer says so"},
		"a state without refs": {[]Ref{{mainRef, oid(1)}}, held(nothing), []Update{remove(mainRef, 1)}, nil,
			"no state event of a maintainer says so"},
		"another commit": {nil, held(one), []Update{create(mainRef, 9)}, nil, mainRef + ": the newest state event has it at aaaaaaaaaaaa, not at"},
		"too much":       {nil, held(one), []Update{create(mainRef, 1), create(devRef, 1)}, nil, devRef + ": the newest state event does not have it"},
		"deletes one":    {[]Ref{{mainRef, oid(2)}, {devRef, oid(3)}}, held(both), []Update{remove(devRef, 3)}, nil, devRef + ": the newest state event does not delete it"},
		"deletes all":    {[]Ref{{mainRef, oid(1)}}, held(one), []Update{remove(mainRef, 1)}, nil, "does not delete it"},
		"cannot be met":  {nil, held(wrong), []Update{create(mainRef, 2)}, nil, "refs/heads/x: the newest state event cannot be met"},
		"cannot be met, pushed": {nil, held(wrong), []Update{create(mainRef, 2), create("refs/heads/x", 5)}, nil,
			"cannot be met"},

		// Refs outside heads, tags and nostr do not ride along.
		"HEAD":                        {nil, held(one), []Update{create(mainRef, 1), create("HEAD", 1)}, nil, "HEAD: only refs under"},
		"delete of HEAD":              {nil, held(one), []Update{create(mainRef, 1), remove("HEAD", 1)}, nil, "HEAD: only refs under"},
		"refs/pull":                   {nil, held(one), []Update{create(mainRef, 1), create("refs/pull/1/head", 1)}, nil, "refs/pull/1/head: only refs under"},
		"refs/notes alone":            {nil, held(one), []Update{create("refs/notes/x", 1)}, nil, "only refs under"},
		"refs/heads":                  {nil, held(one), []Update{create("refs/heads", 1)}, nil, "only refs under"},
		"an empty name":               {nil, held(one), []Update{create("", 1)}, nil, `only refs under`},
		"climbs":                      {nil, held(one), []Update{create("refs/heads/../../config", 1)}, nil, "must not contain .."},
		"a control char":              {nil, held(one), []Update{create("refs/heads/x\x1b[2J", 1)}, nil, `"refs/heads/x\x1b[2J": a ref name must not contain control`},
		"the same ref twice":          {nil, held(one), []Update{create(mainRef, 1), create(mainRef, 2)}, nil, "the push moves the ref twice"},
		"an option":                   {nil, held(one), []Update{{mainRef, none, "--force"}}, nil, "an object name must be"},
		"upper case":                  {nil, held(one), []Update{{mainRef, none, strings.ToUpper(oid(1))}}, nil, "an object name must be"},
		"no old":                      {nil, held(one), []Update{{mainRef, "", oid(1)}}, nil, "an object name must be"},
		"stale":                       {[]Ref{{mainRef, oid(5)}}, held(two), []Update{move(mainRef, 1, 2)}, nil, "fetch first"},
		"exists":                      {[]Ref{{mainRef, oid(5)}}, held(two), []Update{create(mainRef, 2)}, nil, "the ref exists already"},
		"gone":                        {nil, held(two), []Update{move(mainRef, 1, 2)}, nil, "does not exist any more"},
		"deletes what came meanwhile": {[]Ref{{devRef, oid(3)}}, held(one), []Update{{devRef, none, none}}, nil, "the ref exists already"},

		// refs/nostr/<event id> needs no state.
		"pull request":               {nil, nil, []Update{create(nostrRef(1), 1)}, nil, ""},
		"git first":                  {nil, nil, []Update{create(nostrRef(5), 9)}, nil, ""},
		"git first, again":           {[]Ref{{nostrRef(5), oid(8)}}, nil, []Update{move(nostrRef(5), 8, 9)}, nil, ""},
		"another tip":                {nil, nil, []Update{create(nostrRef(1), 9)}, nil, "has its tip at aaaaaaaaaaaa, not at"},
		"not a pull request":         {nil, nil, []Update{create(nostrRef(2), 9)}, nil, "is not a pull request"},
		"deleted already":            {nil, nil, []Update{remove(nostrRef(1), 1)}, nil, ""},
		"deleted by anybody":         {[]Ref{{nostrRef(1), oid(1)}}, nil, []Update{remove(nostrRef(1), 1)}, nil, "are not deleted by a push"},
		"no id":                      {nil, nil, []Update{create("refs/nostr/x", 1)}, nil, "64 lower-case hex digits"},
		"63 digits":                  {nil, nil, []Update{create(nostrRef(1)[:74], 1)}, nil, "64 lower-case hex digits"},
		"upper case id":              {nil, nil, []Update{create(nostrRefs+strings.Repeat("A", 64), 1)}, nil, "64 lower-case hex digits"},
		"below an id":                {nil, nil, []Update{create(nostrRef(1)+"/x", 1)}, nil, "64 lower-case hex digits"},
		"pull request, wrong branch": {nil, held(one), []Update{create(nostrRef(1), 1), create(mainRef, 9)}, nil, mainRef},
		"wrong tip, right branch":    {nil, held(one), []Update{create(nostrRef(1), 9), create(mainRef, 1)}, nil, nostrRef(1)},
	} {
		p := Push{Updates: test.updates, Refs: test.refs, Maintainers: keys(1, 2), States: test.states, Tip: tip}
		before := slices.Clone(test.updates)
		got := p.Authorize()
		if got.OK() != (test.refused == "") || got.State != test.want || !strings.Contains(got.Text(), test.refused) {
			t.Errorf("%s: %+v, %s", name, got.State, got.Text())
		}
		if !slices.Equal(before, test.updates) {
			t.Errorf("%s: Authorize changed its argument", name)
		}
	}
}

// TestAuthorizePart pushes the refs of a state one by one. The answer names the missing refs. A ref
// that the state does not have is refused.
func TestAuthorizePart(t *testing.T) {
	ref := func(name string, n int) string { return name + " " + oid(n) }
	one := state(t, 1, 10, ref(mainRef, 1))
	two := state(t, 1, 20, ref(mainRef, 2))
	both := state(t, 1, 30, ref(mainRef, 2), ref(devRef, 3))
	reverted := state(t, 1, 40, ref(mainRef, 1), ref(tagRef, 4))
	wrong := state(t, 1, 50, ref(mainRef, 2), ref(tagRef, 4), "refs/heads/x deadbeef")
	for name, test := range map[string]struct {
		refs    []Ref
		states  []Candidate
		updates []Update
		want    *State
		rest    []string
	}{
		"the first":                      {nil, []Candidate{{both, false}}, []Update{create(mainRef, 2)}, both, []string{devRef}},
		"the last":                       {[]Ref{{mainRef, oid(2)}}, []Candidate{{both, false}}, []Update{create(devRef, 3)}, both, nil},
		"another is elsewhere":           {[]Ref{{devRef, oid(9)}}, []Candidate{{both, false}}, []Update{create(mainRef, 2)}, both, []string{devRef}},
		"one is to go":                   {[]Ref{{devRef, oid(3)}, {nostrRef(1), oid(1)}}, []Candidate{{one, false}}, []Update{create(mainRef, 1)}, one, []string{devRef}},
		"a deletion":                     {[]Ref{{devRef, oid(3)}, {mainRef, oid(1)}}, []Candidate{{two, false}, {one, true}}, []Update{remove(devRef, 3)}, one, nil},
		"a deletion of two":              {[]Ref{{devRef, oid(3)}, {tagRef, oid(4)}, {mainRef, oid(1)}}, []Candidate{{two, false}}, []Update{remove(devRef, 3)}, two, []string{mainRef, tagRef}},
		"all of one, part of a newer":    {nil, []Candidate{{both, false}, {two, false}}, []Update{create(mainRef, 2)}, two, nil},
		"like an old one, part of a new": {[]Ref{{mainRef, oid(2)}}, []Candidate{{two, true}, {one, false}, {reverted, false}}, []Update{move(mainRef, 2, 1)}, reverted, []string{tagRef}},
		"part of one that is served":     {nil, []Candidate{{both, true}}, []Update{create(mainRef, 2)}, both, []string{devRef}},
		"part of one that is old":        {[]Ref{{mainRef, oid(1)}}, []Candidate{{both, false}, {reverted, true}}, []Update{create(devRef, 3)}, nil, nil},
		"part of one that nothing meets": {nil, []Candidate{{wrong, false}}, []Update{create(tagRef, 4)}, nil, nil},
		"parts of two":                   {nil, []Candidate{{both, false}, {reverted, false}}, []Update{create(devRef, 3), create(tagRef, 4)}, nil, nil},
	} {
		p := Push{Updates: test.updates, Refs: test.refs, Maintainers: keys(1), States: test.states}
		got := p.Authorize()
		if got.State != test.want || got.OK() != (test.want != nil) || !slices.Equal(got.Rest, test.rest) {
			t.Errorf("%s: %+v, %q, %s", name, got.State, got.Rest, got.Text())
		}
	}
}

// A state of a repository with SHA-256 is as good as one with SHA-1.
func TestAuthorizeSHA256(t *testing.T) {
	object := strings.Repeat("b", 64)
	s := state(t, 1, 1, mainRef+" "+object)
	p := Push{Updates: []Update{{mainRef, strings.Repeat("0", 64), object}}, Maintainers: keys(1), States: []Candidate{{s, false}}}
	if got := p.Authorize(); got.State != s {
		t.Error(got.Text())
	}
}

// A hostile push does not make a long answer.
func TestRefusalsAreBounded(t *testing.T) {
	var updates []Update
	for i := range 10000 {
		updates = append(updates, create("refs/x/"+strings.Repeat("\xff", 500)+oid(i), 1))
	}
	p := Push{Updates: updates}
	answer := p.Authorize()
	if text := answer.Text(); len(answer.Refused) != maxRefusals+1 || len(text) > 40000 || strings.ContainsRune(text, 0xfffd) || !strings.HasSuffix(text, "\nand more") {
		t.Errorf("%d reasons, %d bytes", len(answer.Refused), len(text))
	}
}
