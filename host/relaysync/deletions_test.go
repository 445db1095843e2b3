package relaysync_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// deletionsWorld is one repository at one relay, and what tags only comments, statuses and
// reactions, by class.
type deletionsWorld struct {
	stored  []matrixEvent
	classes []deletionClass
	noise   []*host.Event // deletions by others
	own     []*host.Event // deletions by the same people that are about nothing here
}

type deletionClass struct {
	name   string
	events []*host.Event
}

// deletionsSaid is an issue with 24 people who comment, set a status and react, and what is said
// about that.
func deletionsSaid() *deletionsWorld {
	x := &deletionsWorld{}
	at := int64(matrixBegin - 1000)
	said := func(who *testkit.Signer, kind host.Kind, text string, tags ...host.Tag) *host.Event {
		at++
		return who.Event(kind, at, text, tags...)
	}
	store := func(e *host.Event) *host.Event {
		x.stored = append(x.stored, matrixEvent{e, []int{0}, []int{0}})
		return e
	}
	owner := testkit.NewSigner(11)
	repo := store(said(owner, 30617, "", host.Tag{"d", "lib"}, host.Tag{"clone", "https://" + ownDomain + "/x/lib.git"}, host.Tag{"relays", "wss://" + ownDomain, matrixURL(0)}))
	address, _ := repo.Address()
	root := store(said(owner, 1621, "issue", host.Tag{"a", address.String()}))
	class := func(name string, e *host.Event) {
		i := slices.IndexFunc(x.classes, func(c deletionClass) bool { return c.name == name })
		if i < 0 {
			i, x.classes = len(x.classes), append(x.classes, deletionClass{name: name})
		}
		x.classes[i].events = append(x.classes[i].events, e)
	}
	about := host.Tag{"e", root.ID.String()}
	for n := range 24 {
		who := testkit.NewSigner(byte(20 + n))
		c := store(said(who, 1111, fmt.Sprint("comment ", n), host.Tag{"E", root.ID.String()}, about))
		status := store(said(who, 1630, "", about))
		reaction := store(said(who, 7, "+", about))
		id := host.Tag{"e", c.ID.String()}
		switch n % 3 {
		case 0:
			class("deletion of a comment, k", said(who, 5, "", id, host.Tag{"k", "1111"}))
			class("deletion of a status, k", said(who, 5, "", host.Tag{"e", status.ID.String()}, host.Tag{"k", "1630"}))
			class("deletion of a reaction, k", said(who, 5, "", host.Tag{"e", reaction.ID.String()}, host.Tag{"k", "7"}))
		case 1:
			class("deletion of a comment", said(who, 5, "", id))
			class("deletion of a status", said(who, 5, "", host.Tag{"e", status.ID.String()}))
			class("deletion of a reaction", said(who, 5, "", host.Tag{"e", reaction.ID.String()}))
		default:
			class("reaction to a comment, k", said(owner, 7, "+", id, host.Tag{"k", "1111"}))
			class("reaction to a comment", said(owner, 7, "-", id))
		}
		for k := range 4 {
			x.own = append(x.own, said(who, 5, "", host.Tag{"e", fmt.Sprintf("%064x", 1000*n+k+1)}))
		}
	}
	other := testkit.NewSigner(99)
	for n := range 40 {
		x.noise = append(x.noise, said(other, 5, "", host.Tag{"e", fmt.Sprintf("%064x", 1<<20+n)}, host.Tag{"k", "1"}))
	}
	return x
}

// Deletions that a strategy asks a relay for.
const (
	deletionsNone    = iota
	deletionsKind    // those with a tag k of a kind of git events
	deletionsAuthors // and those by people who commented
	deletionsAll
)

// comes reports whether events of a class come, and whether they come live.
func (c *deletionClass) comes(asked int) (comes, live bool) {
	deletion, says := strings.HasPrefix(c.name, "deletion"), strings.HasSuffix(c.name, ", k")
	switch {
	case asked == deletionsAll:
		return true, deletion
	case asked == deletionsNone, strings.Contains(c.name, "deletion of a reaction") && asked == deletionsKind:
		return false, false
	case says:
		return true, deletion
	}
	return deletion && asked == deletionsAuthors, deletion && asked == deletionsAuthors
}

// Deletions and reactions that tag only a comment come: from a relay that has few others all of
// them, else what the setting asks for. Deletions come live. Those that the relay got while it or Talon was
// away come afterwards: from a relay without NIP-77 the next day, because they have old dates. The
// log shows what that costs. make test has the defaults, and one relay for each setting.
func TestDeletions(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	x := deletionsSaid()
	for _, c := range []struct {
		strategy, config, profile string
		general                   bool // the relay has many other deletions
		asked                     int
		nightly                   bool
	}{
		{"mirror", "", "strfry", true, deletionsAuthors, false},
		{"mirror", "", "nostream", true, deletionsAuthors, false},
		{"mirror", "", "khatru", true, deletionsAuthors, true},
		{"mirror", "second_level = 1", "strfry", true, deletionsKind, true},
		{"mirror", "second_level = 1", "nostream", true, deletionsKind, false},
		{"mirror", "", "ngit-grasp", false, deletionsAll, false},
		{"mirror", "", "khatru", false, deletionsAll, true},
		{"layered-v5", "", "strfry", true, deletionsNone, false},
		{"layered-v5", "second_level = 1", "strfry", true, deletionsKind, true},
		{"layered-v5", "second_level = 2", "khatru", true, deletionsAll, false},
		{"layered-v5", "second_level = 3", "strfry", true, deletionsAuthors, true},
		{"layered-v5", "second_level = 3", "nostream", true, deletionsAuthors, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/general=%v/%s", c.strategy, c.profile, c.general, c.config), func(t *testing.T) {
			if c.nightly {
				testkit.Nightly(t, "the setting is tried at another relay, or the relay with another setting")
			}
			modules, code := matrixModules(t, "plugins/"+c.strategy, c.config)
			p := matrixProfile(t, c.profile, "")
			synctest.Test(t, func(t *testing.T) {
				w := newMatrixWorld(t, modules, code, slices.Repeat([]*relaymodel.Profile{p}, 1))
				defer w.close()
				cost := func(when string) {
					w.relays[0].View(func(r *relaymodel.Relay) {
						s := r.Stats()
						t.Logf("%-20s %d REQ, %d filters, %d NEG-OPEN; received %d bytes with %d events, sent %d bytes", when, s.Requests, s.Filters, s.Comparisons, s.SentBytes, s.SentEvents, s.Received)
					})
				}
				add := func(list []*host.Event) {
					for _, e := range list {
						w.relays[0].Add(e)
					}
				}
				// say publishes a quarter of each class, and of the noise. There are four.
				said := 0
				say := func() {
					part := func(list []*host.Event) []*host.Event {
						return list[len(list)*said/4 : len(list)*(said+1)/4]
					}
					for _, class := range x.classes {
						add(part(class.events))
					}
					if c.general {
						add(part(x.noise))
						add(part(x.own))
					}
					said++
				}
				// come checks which of the first classes are here.
				come := func(when string, quarters int, live bool) {
					t.Helper()
					for _, class := range x.classes {
						list := class.events[:len(class.events)*quarters/4]
						n, want := 0, 0
						for _, e := range list {
							if w.here.Has(e.ID) {
								n++
							}
						}
						if comes, atOnce := class.comes(c.asked); atOnce || comes && !live {
							want = len(list)
						}
						if n != want {
							t.Errorf("%s: %s: %d of %d are here, want %d", when, class.name, n, len(list), want)
						}
					}
					cost(when)
				}
				w.say(x.stored)
				if c.general {
					add(x.noise[:10])
				}
				w.begin()
				if wrong := w.within(visit); wrong != "" {
					t.Fatal(wrong)
				}
				time.Sleep(2 * time.Minute)
				cost("first sync")
				say()
				time.Sleep(5 * time.Second)
				come("live", 1, true)
				w.stop()
				say()
				w.begin()
				time.Sleep(10 * time.Minute)
				come("after a restart", 2, false)
				w.relays[0].SetAway(0)
				time.Sleep(time.Minute)
				say()
				w.relays[0].SetAway(-1)
				if c.profile == "strfry" || c.profile == "ngit-grasp" {
					time.Sleep(10 * time.Minute)
					come("after an absence", 3, false)
				}
				time.Sleep(26 * time.Hour)
				come("after a day", 3, false)
				say()
				time.Sleep(5 * time.Second)
				cost("live again")
			})
		})
	}
}
