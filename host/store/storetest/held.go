package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
)

var awaitingGit = host.HoldOptions{Reason: host.ReasonHeld}

// testHeldStories tells what happens to events in purgatory, in short steps:
//
//	hold X, sync X     a client or another relay sends it, to be held
//	with Y X           a client sends X, to be held as long as Y
//	await X, other X   a module holds X until another event comes, for three days; with other, until yet another one
//	refuse X           the policies refuse it after that
//	put X              it is stored, deletions too
//	wait N             seconds pass, and the sweep comes
//	pass N             seconds pass, and the sweep is late
//	release X Y        their data has come
//	restart            a push to the announcements was authorised
//
// and each step's answer and what became of which event.
func testHeldStories(t *testing.T, x Engine) {
	// cast are the events of one story, by their names, and their owner. Stories whose numbers differ by
	// less than 25 have other authors. Numbers are in ids, which break ties: add a story at the end.
	cast := func(number int, now int64) (events map[string]*host.Event, owner host.PubKey) {
		n, by := 100*number, byte(10*number)
		owner = host.PubKey{by + 1}
		d := host.Tag{"d", "repo"}
		address := func(kind host.Kind) host.Tag {
			return host.Tag{"a", host.Address{Kind: kind, PubKey: owner, D: "repo"}.String()}
		}
		e := func(of *host.Event) host.Tag { return host.Tag{"e", of.ID.String()} }
		events = map[string]*host.Event{
			"A1": Event(n+1, by+1, 30617, 10, d), "A2": Event(n+2, by+1, 30617, 20, d),
			"S1": Event(n+3, by+1, 30618, 10, d), "S2": Event(n+4, by+1, 30618, 20, d), "S3": Event(n+5, by+1, 30618, 30, d),
			"PR":  Event(n+6, by+2, 1618, 10, address(30617)),
			"old": Event(n+7, by+1, 1618, 10, host.Tag{"expiration", fmt.Sprint(now + 100)}),
		}
		events["C1"] = Event(n+8, by+4, 1111, 10, address(30617))
		events["C2"] = Event(n+9, by+5, 1111, 10, e(events["C1"]))
		events["C3"] = Event(n+10, by+5, 1111, 10, e(events["PR"]))
		events["brief"] = Event(n+11, by+5, 1111, 10, address(30617), host.Tag{"expiration", fmt.Sprint(now + 100)})
		events["M1"] = Event(n+12, by+6, 30617, 10, d)
		events["delC1"] = Event(n+24, by+4, 5, 50, e(events["C1"]))
		events["delA1"] = Event(n+20, by+1, 5, 5, e(events["A1"]))
		events["delA"] = Event(n+21, by+1, 5, 20, address(30617))
		events["delS"] = Event(n+22, by+1, 5, 20, address(30618))
		events["stranger"] = Event(n+23, by+3, 5, 50, e(events["A1"]), address(30617))
		return events, owner
	}
	s, now := open(t, x), int64(1_700_000_000)
	for number, tt := range []struct{ name, story string }{
		{"data comes", `
			hold A1: held, A1 held
			hold S1: held, S1 held
			release S1 A1: A1 released S1 released
			release S1 A1: A1 stored S1 stored
			hold A1: duplicate`},
		{"data never comes", `
			hold S1: held, S1 held
			wait 1799: 
			hold S1: held
			wait 1: S1 expired
			release S1: S1 absent`},
		{"an announcement has two phases", `
			hold A1: held, A1 held
			wait 1800: A1 dormant
			wait 86399: 
			wait 1: A1 expired
			release A1: A1 expired
			sync A1: rejected
			hold A1: held, A1 held`},
		{"the memory of a synced announcement lasts seven days", `
			sync A1: held, A1 held
			wait 1800: A1 dormant
			wait 86400: A1 expired
			wait 604799: 
			sync A1: rejected
			sync A2: held, A2 held
			wait 1: 
			sync A1: replaced`},
		{"a sweep that comes late", `
			hold A1: held, A1 held
			wait 700000: A1 expired
			sync A1: held, A1 held`},
		{"its author sends it again", `
			hold A1: held, A1 held
			wait 1700: 
			hold A1: held
			wait 1700: 
			sync A1: held
			wait 100: A1 dormant
			sync A1: held
			hold A1: held, A1 revived
			wait 1799: 
			wait 1: A1 dormant`},
		{"a replacement restarts", `
			hold A1: held, A1 held
			wait 1800: A1 dormant
			sync A2: held, A1 replaced A2 held
			hold A1: replaced
			wait 1799: 
			wait 1: A2 dormant`},
		{"a push or a state restarts", `
			hold A1: held, A1 held
			wait 1800: A1 dormant
			restart: A1 revived
			wait 1700: 
			restart: 
			wait 1700: 
			state S1: held, S1 held
			wait 1700: 
			state S1: held
			wait 1700: S1 expired
			wait 100: A1 dormant
			wait 86400: A1 expired
			restart: `},
		{"older states still count until a newer one takes effect", `
			hold S2: held, S2 held
			hold S1: held, S1 held
			hold S3: held, S3 held
			release S1: S1 released
			release S3: S3 released, S2 replaced
			hold S2: replaced`},
		{"states are released oldest first", `
			hold S3: held, S3 held
			hold S1: held, S1 held
			hold S2: held, S2 held
			release S3 S1 S2 S1: S1 released S2 released S3 released
			hold S1: replaced`},
		{"an announcement that is stored meanwhile", `
			hold A1: held, A1 held
			hold PR: held, PR held
			put A2: stored, A1 replaced
			hold A1: replaced
			put PR: stored, PR released`},
		{"deletion by id", `
			hold A1: held, A1 held
			put stranger: stored
			put delA1: stored, A1 deleted
			release A1: A1 deleted
			hold A1: rejected
			hold A2: held, A2 held`},
		{"deletion comes first", `
			put delA1: stored
			hold A1: rejected`},
		{"deletion by address takes those of the same second, and no newer ones", `
			hold S1: held, S1 held
			hold S2: held, S2 held
			hold S3: held, S3 held
			hold A2: held, A2 held
			put delS: stored, S1 deleted S2 deleted
			hold S2: rejected
			put delA: stored, A2 deleted
			hold A2: rejected`},
		{"an event that expires (NIP-40)", `
			hold old: held, old held
			wait 100: old expired
			hold old: rejected`},
		{"a sweep that comes after the events", `
			hold S1: held, S1 held
			hold A1: held, A1 held
			hold old: held, old held
			pass 100: 
			release old: old expired, old expired
			pass 1700: 
			hold S1: held, S1 expired S1 held
			hold A1: held, A1 dormant A1 revived
			pass 88200: 
			sync A1: rejected, A1 expired
			hold A1: held, A1 held`},
		{"a held deletion takes what waits when it is released", `
			hold A1: held, A1 held
			hold delA1: held, delA1 held
			release A1 delA1: delA1 released A1 deleted, A1 deleted
			hold A1: rejected`},
		{"what depends on an announcement is stored with it", `
			hold A1: held, A1 held
			with A1 C1: held, C1 held
			with C1 C2: held, C2 held
			with A1 C1: held
			release A1: A1 released C1 released C2 released
			hold C1: duplicate`},
		{"it is released once, also if it is named", `
			hold A1: held, A1 held
			with A1 C1: held, C1 held
			release C1 A1: A1 released C1 released
			release C1 A1: A1 stored C1 stored`},
		{"it goes when its parent becomes dormant", `
			hold A1: held, A1 held
			wait 1000: 
			with A1 C1: held, C1 held
			wait 799: 
			wait 1: A1 dormant C1 expired
			with A1 C1: rejected
			hold A1: held, A1 revived
			with A1 C1: held, C1 held`},
		{"a restart of its parent is one of its own", `
			hold A1: held, A1 held
			with A1 C1: held, C1 held
			wait 1000: 
			restart: 
			wait 800: 
			wait 999: 
			release A1: A1 released C1 released`},
		{"its own time ends with that of its parent", `
			hold A1: held, A1 held
			with A1 C1: held, C1 held
			wait 1000: 
			restart: 
			wait 1799: 
			wait 1: A1 dormant C1 expired`},
		{"a deletion of its parent takes it", `
			hold A1: held, A1 held
			with A1 C1: held, C1 held
			with C1 C2: held, C2 held
			put delC1: stored, C1 deleted
			put delA: stored, A1 deleted C2 expired
			with A1 C3: rejected`},
		{"it stays when a newer version replaces its parent", `
			hold A1: held, A1 held
			with A1 C1: held, C1 held
			hold A2: held, A1 replaced A2 held
			release A2: A2 released C1 released`},
		{"its parent is stored without a release", `
			hold A1: held, A1 held
			hold PR: held, PR held
			with PR C3: held, C3 held
			with A1 C1: held, C1 held
			put PR: stored, PR released C3 released
			put A2: stored, A1 replaced C1 released`},
		{"it expires (NIP-40)", `
			hold A1: held, A1 held
			with A1 brief: held, brief held
			wait 100: brief expired
			release A1: A1 released`},
		{"an announcement that depends on another has one phase", `
			hold A1: held, A1 held
			with A1 M1: held, M1 held
			hold M1: held
			wait 1800: A1 dormant M1 expired
			sync A1: held
			with A1 M1: rejected`},
		{"a module holds it, and it waits for days", `
			await PR: held, PR held
			release PR: PR held
			wait 86400: 
			other PR: held
			wait 86400: 
			await PR: held
			wait 86399: 
			wait 1: PR expired
			release PR: PR absent`},
		{"another event has come, and it is stored", `
			await PR: held, PR held
			with PR C3: held, C3 held
			wait 3600: 
			put PR: stored, PR released C3 released`},
		{"another event has come, and it waits for its git data", `
			await PR: held, PR held
			with PR C3: held, C3 held
			wait 3600: 
			hold PR: held, PR replaced PR held
			await PR: held
			release PR: PR released C3 released`},
		{"another event has come, and it is refused", `
			await PR: held, PR held
			with PR C3: held, C3 held
			hold A1: held, A1 held
			refuse PR A1 C1: PR expired C3 expired
			release A1: A1 released`},
		{"its author deletes it", `
			await C1: held, C1 held
			put delC1: stored, C1 deleted
			await C1: rejected`},
		{"an announcement and a state wait for no other event", `
			await A1: rejected
			await S1: rejected`},
		{"it expires before its time is over (NIP-40)", `
			await brief: held, brief held
			wait 99: 
			wait 1: brief expired`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now += 10_000_000 // what was held before is forgotten
			SweepHeld(t, s, now)
			events, owner := cast(number, now)
			names := map[host.ID]string{}
			for name, e := range events {
				names[e.ID] = name
			}
			for line := range strings.Lines(strings.TrimSpace(tt.story)) {
				line = strings.TrimSpace(line)
				step, want, _ := strings.Cut(line, ":")
				words := strings.Fields(step)
				e := events[words[len(words)-1]]
				answer, fates := "", []host.HeldChange(nil)
				switch words[0] {
				case "hold", "sync", "state", "with", "await", "other":
					h := host.HoldOptions{Reason: host.ReasonHeld, Synced: words[0] == "sync"}
					if words[0] == "with" {
						h.Parent = reference(events[words[1]])
					}
					if words[0] == "await" || words[0] == "other" {
						h.Wake, h.Wait = []byte(`{"#p":["`+words[0]+`"]}`), 3*24*60*60
					}
					if words[0] == "state" {
						h.ExtendDeadline = []host.Address{{Kind: 30617, PubKey: owner, D: "repo"}}
					}
					out := Hold(t, s, now, h, e)
					answer, fates = out.Code.String(), out.Held
					if out.Code == host.Held != (out.Reason == host.ReasonHeld) {
						t.Errorf("%s: %+v", step, out)
					}
				case "put":
					out := Put(t, s, now, e)[0]
					answer, fates = out.Code.String(), out.Held
					for _, r := range out.Released {
						if r.Status != host.StatusReleased || r.Seq <= out.Seq {
							t.Errorf("%s: %+v", step, r)
						}
					}
				case "wait":
					var n int64
					fmt.Sscan(words[1], &n)
					now += n
					fates = SweepHeld(t, s, now)
				case "pass":
					var n int64
					fmt.Sscan(words[1], &n)
					now += n
				case "restart":
					fates = Release(t, s, now, host.Release{ExtendDeadline: []host.Address{
						{Kind: 30617, PubKey: owner, D: "repo"}, {Kind: 1, PubKey: owner},
					}}).Held
				case "refuse":
					var r host.Release
					for _, name := range words[1:] {
						r.Refused = append(r.Refused, events[name].ID)
					}
					fates = Release(t, s, now, r).Held
				case "release":
					var r host.Release
					for _, name := range words[1:] {
						r.IDs = append(r.IDs, events[name].ID)
					}
					out := Release(t, s, now, r)
					var list []string
					for _, one := range out.Events {
						list = append(list, names[one.ID]+" "+one.Status.String())
						if (one.Status == host.StatusReleased) != (one.Seq != 0) {
							t.Errorf("%s: %+v", step, one)
						}
					}
					answer = strings.Join(list, " ")
					for _, c := range out.Held {
						if c.Status != host.StatusReleased {
							fates = append(fates, c)
						}
					}
				default:
					t.Fatalf("no step %q", words[0])
				}
				var list []string
				for _, c := range fates {
					list = append(list, names[c.Event.ID]+" "+c.Status.String())
				}
				got := strings.Trim(answer+", "+strings.Join(list, " "), ", ")
				if got != strings.TrimSpace(want) {
					t.Errorf("%s: got %q, want %q", step, got, strings.TrimSpace(want))
				}
				Check(t, s)
			}
		})
	}
}

// reference names an event for those that depend on it.
func reference(e *host.Event) string {
	if a, ok := e.Address(); ok {
		return a.String()
	}
	return e.ID.String()
}

// testHeldIsNotServed asks in every way for what is held.
func testHeldIsNotServed(t *testing.T, x Engine) {
	name, ctx := x.New(t), context.Background()
	s := reopen(t, x, name)
	e := Event(1, 1, 30617, 10, host.Tag{"d", "x"}, host.Tag{"e", Event(2, 1, 1, 1).ID.String()})
	Hold(t, s, 0, awaitingGit, e)
	all := []host.Filter{{Limit: 10}, {IDs: []host.ID{e.ID}, Limit: 10}, {Authors: []host.PubKey{e.PubKey}, Limit: 10}, {Kinds: []host.Kind{30617}, Limit: 10}, {Tags: []host.TagFilter{{Name: 'd', Values: []string{"x"}}}, Limit: 10}}
	if got := Selected(t, s, 0, all...); got != nil {
		t.Errorf("selected %q", got)
	}
	if n, err := s.Count(ctx, all, 0); n != 0 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	if _, n, err := s.Scan(ctx, host.Filter{Limit: -1}, 10, 0, func(int64, host.ID) {}); n != 0 || err != nil {
		t.Errorf("scanned %d, %v", n, err)
	}
	if err := s.Export(ctx, func(text []byte) error { t.Errorf("exported %s", text); return nil }); err != nil {
		t.Error(err)
	}
	if err := s.Authors(ctx, all, 0, func(p host.PubKey) { t.Errorf("author %s", p) }); err != nil {
		t.Error(err)
	}
	if yes, err := s.Referenced(ctx, Event(2, 1, 1, 1).ID.String()); yes || err != nil {
		t.Errorf("referenced: %v, %v", yes, err)
	}
	if text, err := s.Get(ctx, e.ID); text != nil || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
	if text, err := s.Held(ctx, e.ID); string(text) != string(e.JSON) || err != nil {
		t.Errorf("held: %s, %v", text, err)
	}
	ro, err := x.ReadOnly(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if found, err := ro.HeldBy(ctx, all[4]); len(found) != 1 || err != nil {
		t.Errorf("a reader beside the writer finds %q, %v", found, err)
	}
}

// testHeldBounds fills purgatory as an attacker would.
func testHeldBounds(t *testing.T, x Engine) {
	const now = 1_700_000_000
	d := func(n int) host.Tag { return host.Tag{"d", fmt.Sprint(n)} }
	size := int64(len(Event(1, 1, 30617, 1, d(1)).JSON))
	limited := func(t *testing.T, l semantics.HeldLimits) Store {
		return openWith(t, x, x.New(t), Options{Held: l})
	}
	// fill holds announcements n by the author.
	fill := func(t *testing.T, s Store, at int64, author byte, from, to int) (codes, reason string) {
		for n := from; n < to; n++ {
			out := Hold(t, s, at, awaitingGit, Event(n, author, 30617, 1, d(n)))
			codes += out.Code.String()[:1]
			reason = out.Reason
		}
		Check(t, s)
		return codes, reason
	}
	want := func(t *testing.T, codes, want, reason, prefix string) {
		t.Helper()
		if codes != want || !strings.HasPrefix(reason, prefix) {
			t.Errorf("got %s, last %q, want %s, %q", codes, reason, want, prefix)
		}
	}
	t.Run("events that a module holds", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{Events: 4, Verdicts: 8, VerdictsByAuthor: 2})
		await := host.HoldOptions{Reason: "purgatory: waits", Wake: []byte(`{"#p":["x"]}`), Wait: 1000}
		n := 100
		hold := func(author byte, o host.HoldOptions) string {
			n++
			out := Hold(t, s, now, o, Event(n, author, 1621, 1))
			return out.Code.String()[:1] + " " + out.Reason
		}
		for author := byte(1); author <= 3; author++ { // strangers have six places
			for range 2 {
				if got := hold(author, await); got[0] != 'h' {
					t.Fatal(got)
				}
			}
		}
		if got := hold(1, await); !strings.HasPrefix(got, "r restricted: 2 events of yours") {
			t.Errorf("a third event of an author: %s", got)
		}
		if got := hold(9, await); !strings.HasPrefix(got, "h") {
			t.Errorf("a newcomer has no place, and the newest of the heaviest author does not give way: %s", got)
		}
		known := await
		known.Known = true
		for _, author := range []byte{6, 7} {
			if got := hold(author, known); got[0] != 'h' {
				t.Errorf("a known person beside strangers who have filled their part: %s", got)
			}
		}
		if got := hold(8, awaitingGit); got[0] != 'h' {
			t.Errorf("an event that waits for git data has no place beside them: %s", got)
		}
		if st := s.Total(); st.Held != 9 {
			t.Errorf("%d events are held, want 9", st.Held)
		}
		Check(t, s)
	})
	t.Run("events", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{Events: 3})
		codes, reason := fill(t, s, now, 1, 10, 14)
		want(t, codes, "hhhr", reason, "rate-limited: ")
		// A replacement needs no room.
		if out := Hold(t, s, now, awaitingGit, Event(20, 1, 30617, 2, d(10))); out.Code != host.Held {
			t.Errorf("replacement: %+v", out)
		}
		// Events that are there already are answered as before.
		codes, reason = fill(t, s, now, 1, 11, 13)
		want(t, codes, "hh", reason, "purgatory: ")
		// A dormant one gives way, to one each.
		SweepHeld(t, s, now+purgatory.HoldFor)
		codes, reason = fill(t, s, now+purgatory.HoldFor, 2, 30, 34)
		want(t, codes, "hhhr", reason, "rate-limited: ")
	})
	t.Run("author", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{ByAuthor: 2})
		codes, reason := fill(t, s, now, 1, 10, 13)
		want(t, codes, "hhr", reason, "restricted: 2 events of yours ")
		codes, reason = fill(t, s, now, 2, 20, 22)
		want(t, codes, "hh", reason, "purgatory: ")
		SweepHeld(t, s, now+purgatory.HoldFor)
		codes, reason = fill(t, s, now+purgatory.HoldFor, 1, 30, 33)
		want(t, codes, "hhr", reason, "restricted: ")
		for n := 20; n < 22; n++ {
			if text, err := s.Held(context.Background(), Event(n, 2, 30617, 1, d(n)).ID); text == nil || err != nil {
				t.Errorf("an author pushes out others' events: %v", err)
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{Bytes: 14 * size / 3}) // of which strangers have three quarters
		codes, reason := fill(t, s, now, 1, 10, 14)
		want(t, codes, "hhhr", reason, "rate-limited: ")
		big := Event(20, 1, 30617, 2, d(10), host.Tag{"x", strings.Repeat("x", int(size))})
		if out := Hold(t, s, now, awaitingGit, big); out.Code != host.Rejected {
			t.Errorf("a larger replacement: %+v", out)
		}
		// One that is not taken leaves the older one where it is.
		if text, err := s.Held(context.Background(), Event(10, 1, 30617, 1, d(10)).ID); text == nil || err != nil {
			t.Errorf("the older one has gone: %v", err)
		}
		SweepHeld(t, s, now+purgatory.HoldFor)
		if out := Hold(t, s, now+purgatory.HoldFor, awaitingGit, big); out.Code != host.Held || len(out.Held) != 3 {
			t.Errorf("with dormant ones: %+v", out)
		}
		Check(t, s)
	})
	t.Run("dependents", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{Events: 10, ByParent: 2, Dependents: 3})
		fill(t, s, now, 1, 10, 12)
		with := func(n, parent int) string {
			h := awaitingGit
			h.Parent = reference(Event(parent, 1, 30617, 1, d(parent)))
			out := Hold(t, s, now, h, Event(n, byte(n), 1111, 1))
			Check(t, s)
			return out.Code.String() + " " + out.Reason
		}
		for _, x := range []struct {
			n, parent int
			want      string
		}{
			{50, 10, "held"}, {51, 10, "held"}, {52, 10, "rejected rate-limited: too many events wait together"},
			{53, 11, "held"}, {54, 11, "rejected rate-limited: too many events wait together"}, {55, 17, "rejected blocked: "},
		} {
			if got := with(x.n, x.parent); !strings.HasPrefix(got, x.want) {
				t.Errorf("%d with %d: %s, want %s", x.n, x.parent, got, x.want)
			}
		}
		// They give way to what waits for git data, and to nothing else.
		codes, reason := fill(t, s, now, 2, 20, 27)
		want(t, codes, "hhhhhhr", reason, "rate-limited: ")
		if got := with(56, 10); !strings.HasPrefix(got, "rejected "+semantics.ReasonFull) {
			t.Errorf("one that depends on another pushes something out: %s", got)
		}
	})
	t.Run("networks", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{Events: 32, ByAuthor: 100})
		n := 0
		hold := func(network string, author byte, known bool) (out host.Outcome) {
			n++
			h := awaitingGit
			h.Network, h.Known = network, known
			out = Hold(t, s, now, h, Event(100+n, author, 30617, 1, d(n)))
			Check(t, s)
			return out
		}
		// Six networks fill what strangers have, 24 of 32. None of them gets more than four.
		for i := range 6 {
			network := "n" + string(rune('a'+i))
			for range 4 {
				if out := hold(network, byte(10+i), false); out.Code != host.Held {
					t.Fatalf("%s: %+v", network, out)
				}
			}
			if out := hold(network, byte(10+i), false); out.Code != host.Rejected || out.Reason != semantics.ReasonNetwork {
				t.Errorf("the fifth of %s: %+v", network, out)
			}
		}
		// A newcomer takes the place of the newest event of a full network, until all have the same.
		gaveWay := 0
		for range 3 {
			out := hold("newcomer", 50, false)
			if out.Code != host.Held || len(out.Held) != 2 || out.Held[0].Status != host.StatusExpired || out.Held[0].Event.PubKey[0] < 10 || out.Held[0].Event.PubKey[0] > 15 {
				t.Fatalf("a newcomer: %+v", out)
			}
			gaveWay++
		}
		if out := hold("newcomer", 50, false); out.Code != host.Rejected || out.Reason != semantics.ReasonFull {
			t.Errorf("a newcomer with as much as others: %+v", out)
		}
		// Known people have eight places: each author and each network one. Then they are strangers.
		if out := hold("na", 60, true); out.Code != host.Held || len(out.Held) != 1 {
			t.Errorf("a known author from a full network: %+v", out)
		}
		if out := hold("na", 61, true); out.Code != host.Rejected || out.Reason != semantics.ReasonNetwork {
			t.Errorf("another from there: %+v", out)
		}
		if out := hold("home", 60, true); out.Code != host.Held || len(out.Held) != 2 {
			t.Errorf("the same author from elsewhere: %+v", out)
		}
		for i := range 7 {
			if out := hold("", byte(70+i), true); out.Code != host.Held || len(out.Held) != 1 {
				t.Errorf("known author %d: %+v", i, out)
			}
		}
	})
	t.Run("a giant pushes out few", func(t *testing.T) {
		s := limited(t, semantics.HeldLimits{Bytes: 200 * size})
		fill(t, s, now, 1, 10, 10+purgatory.MaxEvicted+20)
		SweepHeld(t, s, now+purgatory.HoldFor)
		giant := Event(1, 2, 30617, 2, host.Tag{"x", strings.Repeat("x", int(199*size))})
		out := Hold(t, s, now+purgatory.HoldFor, awaitingGit, giant)
		if out.Code != host.Rejected || len(out.Held) != purgatory.MaxEvicted {
			t.Errorf("%v, %d gave way", out.Code, len(out.Held))
		}
		Check(t, s)
	})
}

// testHeldRollback checks that changes that were not committed have no effect.
func testHeldRollback(t *testing.T, x Engine) {
	s := open(t, x)
	waits, other := Event(1, 1, 30617, 1), Event(2, 1, 1618, 1)
	Hold(t, s, 100, awaitingGit, waits)
	due, _ := s.NextHeld()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Release(host.Release{IDs: []host.ID{waits.ID}}, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Hold(other, awaitingGit, 50); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if st := s.Total(); st.Held != 1 || st.Events != 0 {
		t.Errorf("totals %+v", st)
	}
	if at, ok := s.NextHeld(); at != due || !ok {
		t.Errorf("the next is due at %d, want %d", at, due)
	}
	Check(t, s)
	for name, f := range map[string]func() error{
		"hold":    func() error { _, err := tx.Hold(other, awaitingGit, 0); return err },
		"release": func() error { _, err := tx.Release(host.Release{}, 0); return err },
		"sweep":   func() error { _, err := tx.SweepHeld(0, 1); return err },
	} {
		if f() == nil {
			t.Errorf("%s after the end: no error", name)
		}
	}
	Change(t, s, func(tx Tx) error {
		if _, err := tx.Hold(Event(3, 1, 20001, 1), awaitingGit, 0); err == nil {
			t.Error("an ephemeral event is held")
		}
		return nil
	})
}

// testHeaders: what is found without its tags and content, stored and held.
func testHeaders(t *testing.T, x Engine) {
	s := open(t, x)
	mike := host.PubKey{7}
	tags := []host.Tag{{"d", "repo"}, {"maintainers", mike.String()}}
	stored, held := Event(1, 1, host.KindAnnouncement, 5, tags...), Event(2, 2, host.KindAnnouncement, 6, tags...)
	Put(t, s, 0, stored)
	Hold(t, s, 100, awaitingGit, held)
	maintainer := host.TagFilter{Name: host.MaintainerOf, Values: []string{host.Maintains(mike, "repo")}}
	d := host.TagFilter{Name: 'd', Values: []string{"repo"}}
	at := host.TagFilter{Name: host.AddressOf}
	for _, e := range []*host.Event{stored, held} {
		a, _ := e.Address()
		at.Values = append(at.Values, a.String())
	}
	for name, f := range map[string]host.Filter{
		"by maintainer": {Tags: []host.TagFilter{maintainer}}, "by address": {Tags: []host.TagFilter{at}}, "by d": {Tags: []host.TagFilter{d}},
		"by both": {Tags: []host.TagFilter{d, maintainer}}, "by all": {Tags: []host.TagFilter{at, d, maintainer}},
		"by id": {IDs: []host.ID{stored.ID, held.ID}}, "by id and kind": {IDs: []host.ID{stored.ID, held.ID}, Kinds: []host.Kind{host.KindAnnouncement}},
		"by author": {Authors: []host.PubKey{stored.PubKey, held.PubKey}}, "by author and d": {Authors: []host.PubKey{stored.PubKey, held.PubKey}, Tags: []host.TagFilter{d}},
		"all": {},
	} {
		f.Limit, f.Header = 5, true
		waiting, err := s.HeldBy(t.Context(), f)
		if err != nil || len(waiting) != 1 || string(waiting[0]) != string(held.Header().JSON) {
			t.Errorf("%s, held: %q, %v", name, waiting, err)
		}
		sel, err := s.Select(t.Context(), []host.Filter{f}, 0)
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Headers(t.Context(), sel.Rows)
		if err != nil || len(list) != 1 || string(list[0]) != string(stored.Header().JSON) {
			t.Errorf("%s, stored: %q, %v", name, list, err)
		}
	}
}

func testHeldEvent(t *testing.T, x Engine) {
	s := open(t, x)
	a, absent := Event(1, 1, 30617, 10, host.Tag{"d", "repo"}), Event(2, 1, 1618, 1)
	want := func(e *host.Event, since int64, dormant, there bool) {
		t.Helper()
		h, ok, err := s.HeldEvent(context.Background(), e.ID)
		if err != nil || ok != there || ok && (string(h.JSON) != string(e.JSON) || h.Since != since || h.Dormant != dormant) {
			t.Errorf("got %+v, %v, %v", h, ok, err)
		}
	}
	want(a, 0, false, false)
	Hold(t, s, 100, awaitingGit, a)
	want(a, 100, false, true)
	want(absent, 0, false, false)
	SweepHeld(t, s, 100+1800)
	want(a, 100, true, true)
}

// testEachHeld ends with the error of yield, and goes on after a part.
func testEachHeld(t *testing.T, x Engine) {
	s := openWith(t, x, x.New(t), Options{Held: semantics.HeldLimits{ByAuthor: 1000}})
	n := 600
	Change(t, s, func(tx Tx) error {
		for i := range n {
			if _, err := tx.Hold(Event(i, 1, 1618, 1), awaitingGit, 100); err != nil {
				return err
			}
		}
		return nil
	})
	seen := 0
	if err := s.EachHeld(context.Background(), func(host.HeldEvent) error { seen++; return nil }); err != nil || seen != n {
		t.Errorf("%d of %d, %v", seen, n, err)
	}
	enough := fmt.Errorf("enough")
	if err := s.EachHeld(context.Background(), func(host.HeldEvent) error { return enough }); err != enough {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.HeldBy(ctx, host.Filter{Limit: -1}); err == nil {
		t.Error("goes on though the context has ended")
	}
}
