package relaysync_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// secondLevel is what people say about comments and statuses, by its class.
type secondLevel struct {
	stored  []matrixEvent
	classes []string
	events  map[string][]*host.Event
	noise   []*host.Event // of others
	own     []*host.Event // deletions by the same people that are about nothing here
}

// secondLevelEvents are one repository with an issue and 24 people who comment, set a status or
// react, and what tags only these events.
func secondLevelEvents() *secondLevel {
	x := &secondLevel{events: map[string][]*host.Event{}}
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
		if x.events[name] == nil {
			x.classes = append(x.classes, name)
		}
		x.events[name] = append(x.events[name], e)
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

// TestSecondLevel shows which events come that tag only a comment, a status or a reaction, and what
// asking for them costs: half of each class live, half after an absence of the relay.
func TestSecondLevel(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	x := secondLevelEvents()
	for _, c := range []struct {
		strategy, config, profile string
		general                   bool // the relay has many other deletions
	}{
		{"mirror", "", "strfry", true},
		{"mirror", "", "nostream", true},
		{"mirror", "", "ngit-grasp", false},
		{"layered-v5", "second_level = 1", "strfry", true},
		{"layered-v5", "second_level = 1", "nostream", true},
		{"layered-v5", "", "strfry", true},
	} {
		t.Run(fmt.Sprintf("%s/%s/general=%v/%s", c.strategy, c.profile, c.general, c.config), func(t *testing.T) {
			modules, code := matrixModules(t, "plugins/"+c.strategy, c.config)
			p := matrixProfile(t, c.profile, "")
			synctest.Test(t, func(t *testing.T) {
				w := newMatrixWorld(t, modules, code, slices.Repeat([]*relaymodel.Profile{p}, 1))
				defer w.close()
				cost := func(when string) {
					w.relays[0].View(func(r *relaymodel.Relay) {
						s := r.Stats()
						t.Logf("%-24s %d REQ, %d filters, %d NEG-OPEN; received %d bytes with %d events, sent %d bytes", when, s.Requests, s.Filters, s.Comparisons, s.SentBytes, s.SentEvents, s.Received)
					})
				}
				add := func(list []*host.Event) {
					for _, e := range list {
						w.relays[0].Add(e)
					}
				}
				w.say(x.stored)
				if c.general {
					add(x.noise[:20])
					add(x.own[:len(x.own)/2])
				}
				w.begin()
				if wrong := w.within(visit); wrong != "" {
					t.Fatal(wrong)
				}
				time.Sleep(2 * time.Minute)
				cost("first sync")
				half := func(second bool) (list []*host.Event) {
					for _, name := range x.classes {
						n := len(x.events[name]) / 2
						if second {
							list = append(list, x.events[name][n:]...)
						} else {
							list = append(list, x.events[name][:n]...)
						}
					}
					return list
				}
				come := map[string][]int{}
				count := func(second bool) {
					for _, e := range half(second) {
						for _, name := range x.classes {
							if slices.Contains(x.events[name], e) && w.here.Has(e.ID) {
								come[name][len(come[name])-1]++
							}
						}
					}
				}
				next := func() {
					for _, name := range x.classes {
						come[name] = append(come[name], 0)
					}
				}
				add(half(false))
				if c.general {
					add(x.noise[20:])
				}
				time.Sleep(5 * time.Second)
				next()
				count(false)
				cost("live")
				w.relays[0].SetAway(0)
				time.Sleep(time.Minute)
				add(half(true))
				if c.general {
					add(x.own[len(x.own)/2:])
				}
				w.relays[0].SetAway(-1)
				time.Sleep(10 * time.Minute)
				next()
				count(false)
				next()
				count(true)
				cost("after an absence")
				time.Sleep(26 * time.Hour)
				next()
				count(false)
				next()
				count(true)
				cost("after a day")
				for _, name := range x.classes {
					n := len(x.events[name]) / 2
					t.Logf("%-28s live %d of %d; when the relay is back %d, of those in the absence %d; after a day %d, %d", name, come[name][0], n, come[name][1], come[name][2], come[name][3], come[name][4])
				}
			})
		})
	}
}
