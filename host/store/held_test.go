package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/grasp"
)

// change runs f in a transaction of its own.
func change(t testing.TB, s *Store, f func(*Tx) error) {
	t.Helper()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func hold(t testing.TB, s *Store, now int64, h host.Holding, e *host.Event) (out host.Outcome) {
	t.Helper()
	change(t, s, func(tx *Tx) (err error) {
		out, err = tx.Hold(e, h, now)
		return err
	})
	return out
}

func release(t testing.TB, s *Store, now int64, r host.Release) (out host.ReleaseOutcome) {
	t.Helper()
	change(t, s, func(tx *Tx) (err error) {
		out, err = tx.Release(r, now)
		return err
	})
	return out
}

func sweepHeld(t testing.TB, s *Store, now int64) (changes []host.HeldChange) {
	t.Helper()
	for {
		if at, ok := s.NextHeld(); !ok || at > now {
			return changes
		}
		change(t, s, func(tx *Tx) error {
			part, err := tx.SweepHeld(now, 2)
			changes = append(changes, part...)
			return err
		})
	}
}

var purgatory = host.Holding{Reason: host.ReasonHeld}

// TestHeldStories tells what happens to events in purgatory, in short steps:
//
//	hold X, sync X     a client or another relay sends it, to be held
//	put X              it is stored, deletions too
//	wait N             seconds pass, and the sweep comes
//	pass N             seconds pass, and the sweep is late
//	release X Y        their data has come
//	restart            a push to the announcements was authorised
//
// and each step's answer and what became of which event.
func TestHeldStories(t *testing.T) {
	const now = 1_700_000_000
	d := host.Tag{"d", "repo"}
	address := func(kind host.Kind) host.Tag {
		return host.Tag{"a", host.Address{Kind: kind, PubKey: host.PubKey{1}, D: "repo"}.String()}
	}
	e := func(of *host.Event) host.Tag { return host.Tag{"e", of.ID.String()} }
	events := map[string]*host.Event{
		"A1": fake(1, 1, 30617, 10, d), "A2": fake(2, 1, 30617, 20, d),
		"S1": fake(3, 1, 30618, 10, d), "S2": fake(4, 1, 30618, 20, d), "S3": fake(5, 1, 30618, 30, d),
		"PR":  fake(6, 2, 1618, 10, address(30617)),
		"old": fake(7, 1, 1618, 10, host.Tag{"expiration", fmt.Sprint(now + 100)}),
	}
	events["delA1"] = fake(20, 1, 5, 5, e(events["A1"]))
	events["delA"] = fake(21, 1, 5, 20, address(30617))
	events["delS"] = fake(22, 1, 5, 20, address(30618))
	events["stranger"] = fake(23, 3, 5, 50, e(events["A1"]), address(30617))
	names := map[host.ID]string{}
	for name, e := range events {
		names[e.ID] = name
	}
	for _, tt := range []struct{ name, story string }{
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, now := open(t), int64(now)
			for line := range strings.Lines(strings.TrimSpace(tt.story)) {
				line = strings.TrimSpace(line)
				step, want, _ := strings.Cut(line, ":")
				words := strings.Fields(step)
				e := events[words[len(words)-1]]
				answer, fates := "", []host.HeldChange(nil)
				switch words[0] {
				case "hold", "sync", "state":
					h := host.Holding{Reason: host.ReasonHeld, Synced: words[0] == "sync"}
					if words[0] == "state" {
						h.Restart = []host.Address{{Kind: 30617, PubKey: host.PubKey{1}, D: "repo"}}
					}
					out := hold(t, s, now, h, e)
					answer, fates = out.Code.String(), out.Held
					if out.Code == host.Held != (out.Reason == host.ReasonHeld) {
						t.Errorf("%s: %+v", step, out)
					}
				case "put":
					out := put(t, s, now, e)[0]
					answer, fates = out.Code.String(), out.Held
				case "wait":
					var n int64
					fmt.Sscan(words[1], &n)
					now += n
					fates = sweepHeld(t, s, now)
				case "pass":
					var n int64
					fmt.Sscan(words[1], &n)
					now += n
				case "restart":
					fates = release(t, s, now, host.Release{Restart: []host.Address{
						{Kind: 30617, PubKey: host.PubKey{1}, D: "repo"}, {Kind: 1, PubKey: host.PubKey{1}},
					}}).Held
				case "release":
					var r host.Release
					for _, name := range words[1:] {
						r.IDs = append(r.IDs, events[name].ID)
					}
					out := release(t, s, now, r)
					var list []string
					for _, one := range out.Events {
						list = append(list, names[one.ID]+" "+one.Fate.String())
						if (one.Fate == host.FateReleased) != (one.Seq != 0) {
							t.Errorf("%s: %+v", step, one)
						}
					}
					answer = strings.Join(list, " ")
					for _, c := range out.Held {
						if c.Fate != host.FateReleased {
							fates = append(fates, c)
						}
					}
				default:
					t.Fatalf("no step %q", words[0])
				}
				var list []string
				for _, c := range fates {
					list = append(list, names[c.Event.ID]+" "+c.Fate.String())
				}
				got := strings.Trim(answer+", "+strings.Join(list, " "), ", ")
				if got != strings.TrimSpace(want) {
					t.Errorf("%s: got %q, want %q", step, got, strings.TrimSpace(want))
				}
				check(t, s)
			}
		})
	}
}

// TestHeldIsNotServed asks in every way for what is held.
func TestHeldIsNotServed(t *testing.T) {
	s, ctx := open(t), context.Background()
	e := fake(1, 1, 30617, 10, host.Tag{"d", "x"}, host.Tag{"e", fake(2, 1, 1, 1).ID.String()})
	hold(t, s, 0, purgatory, e)
	all := []host.Filter{{Limit: 10}, {IDs: []host.ID{e.ID}, Limit: 10}, {Authors: []host.PubKey{e.PubKey}, Limit: 10}, {Kinds: []host.Kind{30617}, Limit: 10}, {Tags: []host.TagFilter{{Name: 'd', Values: []string{"x"}}}, Limit: 10}}
	if got := selected(t, s, 0, all...); got != nil {
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
	if yes, err := s.Referenced(ctx, fake(2, 1, 1, 1).ID.String()); yes || err != nil {
		t.Errorf("referenced: %v, %v", yes, err)
	}
	if text, err := s.Get(ctx, e.ID); text != nil || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
	if text, err := s.Held(ctx, e.ID); string(text) != string(e.JSON) || err != nil {
		t.Errorf("held: %s, %v", text, err)
	}
	ro, err := OpenReadOnly(ctx, s.Path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if found, err := ro.HeldBy(ctx, all[4]); len(found) != 1 || err != nil {
		t.Errorf("a reader beside the writer finds %q, %v", found, err)
	}
}

// TestHeldBounds fills purgatory as an attacker would.
func TestHeldBounds(t *testing.T) {
	const now = 1_700_000_000
	d := func(n int) host.Tag { return host.Tag{"d", fmt.Sprint(n)} }
	size := int64(len(fake(1, 1, 30617, 1, d(1)).JSON))
	limited := func(t *testing.T, l HeldLimits) *Store {
		return openWith(t, t.TempDir(), Options{Readers: 1, Held: l})
	}
	// fill holds announcements n by the author.
	fill := func(t *testing.T, s *Store, at int64, author byte, from, to int) (codes, reason string) {
		for n := from; n < to; n++ {
			out := hold(t, s, at, purgatory, fake(n, author, 30617, 1, d(n)))
			codes += out.Code.String()[:1]
			reason = out.Reason
		}
		check(t, s)
		return codes, reason
	}
	want := func(t *testing.T, codes, want, reason, prefix string) {
		t.Helper()
		if codes != want || !strings.HasPrefix(reason, prefix) {
			t.Errorf("got %s, last %q, want %s, %q", codes, reason, want, prefix)
		}
	}
	t.Run("events", func(t *testing.T) {
		s := limited(t, HeldLimits{Events: 3})
		codes, reason := fill(t, s, now, 1, 10, 14)
		want(t, codes, "hhhr", reason, "rate-limited: ")
		// A replacement needs no room.
		if out := hold(t, s, now, purgatory, fake(20, 1, 30617, 2, d(10))); out.Code != host.Held {
			t.Errorf("replacement: %+v", out)
		}
		// What is there already is answered as before.
		codes, reason = fill(t, s, now, 1, 11, 13)
		want(t, codes, "hh", reason, "purgatory: ")
		// A dormant one gives way, to one each.
		sweepHeld(t, s, now+grasp.HoldFor)
		codes, reason = fill(t, s, now+grasp.HoldFor, 2, 30, 34)
		want(t, codes, "hhhr", reason, "rate-limited: ")
	})
	t.Run("author", func(t *testing.T) {
		s := limited(t, HeldLimits{ByAuthor: 2})
		codes, reason := fill(t, s, now, 1, 10, 13)
		want(t, codes, "hhr", reason, "restricted: 2 events of yours ")
		codes, reason = fill(t, s, now, 2, 20, 22)
		want(t, codes, "hh", reason, "purgatory: ")
		sweepHeld(t, s, now+grasp.HoldFor)
		codes, reason = fill(t, s, now+grasp.HoldFor, 1, 30, 33)
		want(t, codes, "hhr", reason, "restricted: ")
		for n := 20; n < 22; n++ {
			if text, err := s.Held(context.Background(), fake(n, 2, 30617, 1, d(n)).ID); text == nil || err != nil {
				t.Errorf("an author pushes out others' events: %v", err)
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		s := limited(t, HeldLimits{Bytes: 3*size + size/2})
		codes, reason := fill(t, s, now, 1, 10, 14)
		want(t, codes, "hhhr", reason, "rate-limited: ")
		big := fake(20, 1, 30617, 2, d(10), host.Tag{"x", strings.Repeat("x", int(size))})
		if out := hold(t, s, now, purgatory, big); out.Code != host.Rejected {
			t.Errorf("a larger replacement: %+v", out)
		}
		// One that is not taken leaves the older one where it is.
		if text, err := s.Held(context.Background(), fake(10, 1, 30617, 1, d(10)).ID); text == nil || err != nil {
			t.Errorf("the older one has gone: %v", err)
		}
		sweepHeld(t, s, now+grasp.HoldFor)
		if out := hold(t, s, now+grasp.HoldFor, purgatory, big); out.Code != host.Held || len(out.Held) != 3 {
			t.Errorf("with dormant ones: %+v", out)
		}
		check(t, s)
	})
	t.Run("a giant pushes out few", func(t *testing.T) {
		s := limited(t, HeldLimits{Bytes: 200 * size})
		fill(t, s, now, 1, 10, 10+maxEvicted+20)
		sweepHeld(t, s, now+grasp.HoldFor)
		giant := fake(1, 2, 30617, 2, host.Tag{"x", strings.Repeat("x", int(199*size))})
		out := hold(t, s, now+grasp.HoldFor, purgatory, giant)
		if out.Code != host.Rejected || len(out.Held) != maxEvicted {
			t.Errorf("%v, %d gave way", out.Code, len(out.Held))
		}
		check(t, s)
	})
}

// TestHeldRollback: what was not committed did not happen.
func TestHeldRollback(t *testing.T) {
	s := open(t)
	waits, other := fake(1, 1, 30617, 1), fake(2, 1, 1618, 1)
	hold(t, s, 100, purgatory, waits)
	due, _ := s.NextHeld()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Release(host.Release{IDs: []host.ID{waits.ID}}, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Hold(other, purgatory, 50); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Held != 1 || st.Events != 0 {
		t.Errorf("totals %+v", st)
	}
	if at, ok := s.NextHeld(); at != due || !ok {
		t.Errorf("the next is due at %d, want %d", at, due)
	}
	check(t, s)
	for name, f := range map[string]func() error{
		"hold":    func() error { _, err := tx.Hold(other, purgatory, 0); return err },
		"release": func() error { _, err := tx.Release(host.Release{}, 0); return err },
		"sweep":   func() error { _, err := tx.SweepHeld(0, 1); return err },
	} {
		if f() == nil {
			t.Errorf("%s after the end: no error", name)
		}
	}
	change(t, s, func(tx *Tx) error {
		if _, err := tx.Hold(fake(3, 1, 20001, 1), purgatory, 0); err == nil {
			t.Error("an ephemeral event is held")
		}
		return nil
	})
}

// TestHeldFails makes the disk full in the middle of a release.
func TestHeldFails(t *testing.T) {
	s := open(t)
	e := fake(1, 1, 30617, 1)
	hold(t, s, 100, purgatory, e)
	if err := s.writer.conn.script(`CREATE TEMP TRIGGER refuse BEFORE INSERT ON event BEGIN SELECT raise(ABORT, 'disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Release(host.Release{IDs: []host.ID{e.ID}}, 100); err == nil {
		t.Error("no error")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a broken transaction can be committed")
	}
	if text, err := s.Held(context.Background(), e.ID); text == nil || err != nil {
		t.Errorf("the event is not held any more: %v", err)
	}
	check(t, s)
}

// TestHeldDamaged goes on with a row whose text cannot be read any more.
func TestHeldDamaged(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	e := fake(1, 1, 30617, 1)
	hold(t, s, 100, purgatory, e)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), `UPDATE held SET json = x'7b7d'; UPDATE total SET held_bytes = 2`)
	s = reopen(t, dir)
	if out := release(t, s, 100, host.Release{IDs: []host.ID{e.ID}}); out.Events[0].Fate != host.FateAbsent {
		t.Errorf("got %+v", out)
	}
	check(t, s)
	if out := hold(t, s, 100, purgatory, e); out.Code != host.Held {
		t.Errorf("sent again: %+v", out)
	}
	check(t, s)
}

// TestCheckFindsHeld damages purgatory in one way at a time.
func TestCheckFindsHeld(t *testing.T) {
	for _, tt := range []struct{ name, sql, want string }{
		{"text that is no event", `UPDATE held SET json = '{}' WHERE number = 1`, "its text cannot be read"},
		{"text of another event", `UPDATE held SET json = (SELECT json FROM held WHERE number = 2) WHERE number = 1`, "does not agree with its text"},
		{"author", `UPDATE held SET pubkey = x'00' WHERE number = 1`, "does not agree with its text"},
		{"kind", `UPDATE held SET kind = 7 WHERE number = 1`, "does not agree with its text"},
		{"address", `UPDATE held SET address = NULL WHERE number = 1`, "does not agree with its text"},
		{"due", `UPDATE held SET due = 7 WHERE number = 2`, "due at 7"},
		{"dormant", `UPDATE held SET dormant = 1 WHERE number = 1`, "which is wrong"},
		{"index row missing", `DELETE FROM held_posting WHERE key IN (SELECT key FROM held_posting WHERE length(key) = 16 LIMIT 1)`, "not in the index"},
		{"index row too many", `INSERT INTO held_posting VALUES (x'11', x'22', 1, 99)`, "index of held events"},
		{"number of events", `UPDATE total SET held = 17`, "17 held events"},
		{"number of bytes", `UPDATE total SET held_bytes = 17`, "of 17 bytes noted"},
		{"stored too", `INSERT INTO event SELECT 50, id, pubkey, created_at, kind, json FROM held WHERE number = 1`, "stored as well"},
		{"deleted", `INSERT INTO deleted_id SELECT id, pubkey FROM held WHERE number = 2`, "deleted by its author"},
		{"address deleted", `INSERT INTO deleted_address SELECT address, created_at FROM held WHERE number = 1`, "deleted its address"},
		{"newer one stored", `INSERT INTO address SELECT address, 50, created_at + 1, x'11' FROM held WHERE number = 1`, "a newer version is stored"},
		{"two announcements", `INSERT INTO held SELECT 50, x'11', pubkey, created_at, kind, address, since, due, dormant, reason, json FROM held WHERE number = 1`, "beside another version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(context.Background(), t.TempDir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			hold(t, s, 100, purgatory, fake(1, 1, 30617, 10, host.Tag{"d", "x"}))
			hold(t, s, 100, purgatory, fake(2, 1, 1618, 10))
			check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			raw(t, s.Path(), tt.sql)
			ro, err := OpenReadOnly(context.Background(), s.Path(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer ro.Close()
			var problems []string
			if _, err = ro.Check(context.Background(), func(*host.Event) error { return nil }, func(p string) { problems = append(problems, p) }); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(problems, "\n"), tt.want) {
				t.Errorf("no problem says %q: %q", tt.want, problems)
			}
		})
	}
	s := open(t)
	hold(t, s, 100, purgatory, fake(1, 1, 1618, 10))
	var problems []string
	_, err := s.Check(context.Background(), func(*host.Event) error { return fmt.Errorf("bad signature") }, func(p string) { problems = append(problems, p) })
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], "bad signature") {
		t.Errorf("got %q, %v", problems, err)
	}
}

// noMerge undoes what the last step of the schema adds, noRelays what came before it,
// noPlaceholders and noHeld what came before these. Nothing must wait to be merged.
const noMerge = `DROP TABLE merge;`
const noRelays = noMerge + `DROP TABLE relay;`
const noPlaceholders = noRelays + `DROP TABLE placeholder;`
const noHeld = noPlaceholders + `DROP TABLE held; DROP TABLE held_posting; DROP TABLE held_gone;
	ALTER TABLE total DROP COLUMN held; ALTER TABLE total DROP COLUMN held_bytes;`

// TestMigrateHeld opens databases as earlier releases made them, and ends with the
// schema of a new one.
func TestMigrateHeld(t *testing.T) {
	schema := func(s *Store) (list []string) {
		r, err := s.acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer s.release(r)
		names, err := r.first(`SELECT group_concat(name || ' ' || ifnull(sql, ''), ';') FROM (SELECT * FROM sqlite_schema ORDER BY name)`)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(names[0].(string), ";")
	}
	fresh := schema(open(t))
	for version, sql := range map[int]string{1: noHeld + `DROP TABLE state;`, 2: noHeld, 3: noPlaceholders, 4: noRelays} {
		t.Run(fmt.Sprint("with events, version ", version), func(t *testing.T) {
			dir := t.TempDir()
			s := merged(t, dir)
			e, waits := fake(1, 1, 1, 1), fake(2, 1, 1618, 1)
			put(t, s, 0, e)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			raw(t, filepath.Join(dir, FileName), sql+fmt.Sprintf(`UPDATE meta SET value = %d WHERE name = 'version'`, version))
			s = reopen(t, dir)
			if got := selected(t, s, 0, host.Filter{Limit: -1}); !slices.Equal(got, texts(e)) {
				t.Errorf("got %q", got)
			}
			hold(t, s, 100, purgatory, waits)
			check(t, s)
			if st := s.Stats(); st.Events != 1 || st.Held != 1 {
				t.Errorf("totals %+v", st)
			}
		})
		t.Run(fmt.Sprint("empty, version ", version), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), FileName)
			c, err := dial(file, "rwc")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.migrate(0, steps[:version]); err != nil {
				t.Fatal(err)
			}
			if err := c.close(); err != nil {
				t.Fatal(err)
			}
			s := reopen(t, filepath.Dir(file))
			if got := schema(s); !slices.Equal(got, fresh) {
				t.Errorf("the schema is %q, that of a new one %q", got, fresh)
			}
			check(t, s)
		})
	}
}

// TestMigrateMaintainers opens a database in which no maintainer is indexed.
func TestMigrateMaintainers(t *testing.T) {
	dir := t.TempDir()
	s := merged(t, dir)
	mike := host.PubKey{7}
	announce := func(n int, author byte) *host.Event {
		return fake(n, author, host.KindAnnouncement, int64(n), host.Tag{"d", "repo"}, host.Tag{"maintainers", mike.String(), "x"})
	}
	var stored []*host.Event
	for i := range fetchRows + 5 {
		stored = append(stored, announce(i, byte(i)))
		stored[i].PubKey[1] = byte(i >> 8)
		stored[i].JSON = stored[i].AppendJSON(nil)
	}
	put(t, s, 0, stored...)
	waits := announce(1000, 2)
	waits.PubKey[1] = 9
	waits.JSON = waits.AppendJSON(nil)
	hold(t, s, 100, purgatory, waits)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var keys string
	c, err := dial(filepath.Join(dir, FileName), "rw")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := c.keyring()
	if err == nil {
		err = c.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	keys = fmt.Sprintf("x'%x'", ring.key(host.MaintainerOf, host.Maintains(mike, "repo")))
	raw(t, filepath.Join(dir, FileName), noMerge+`DELETE FROM posting WHERE key = `+keys+`; DELETE FROM held_posting WHERE key = `+keys+
		`; UPDATE meta SET value = 5 WHERE name = 'version'`)
	s = reopen(t, dir)
	f := host.Filter{Tags: []host.TagFilter{{Name: host.MaintainerOf, Values: []string{host.Maintains(mike, "repo")}}}, Limit: -1}
	if got := selected(t, s, 0, f); !slices.Equal(got, texts(stored...)) {
		t.Errorf("%d events are found, want %d", len(got), len(stored))
	}
	if held, err := s.HeldBy(t.Context(), f); err != nil || len(held) != 1 || string(held[0]) != string(waits.JSON) {
		t.Errorf("held: %q, %v", held, err)
	}
	check(t, s)
}

// TestHeaders: what is found without its tags and content, stored and held.
func TestHeaders(t *testing.T) {
	s := open(t)
	mike := host.PubKey{7}
	tags := []host.Tag{{"d", "repo"}, {"maintainers", mike.String()}}
	stored, held := fake(1, 1, host.KindAnnouncement, 5, tags...), fake(2, 2, host.KindAnnouncement, 6, tags...)
	put(t, s, 0, stored)
	hold(t, s, 100, purgatory, held)
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

// TestHeldReadsFewRows: what is read for a filter with a limit does not grow with what
// strangers have put under the same tag, also of one second.
func TestHeldReadsFewRows(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{Readers: 1, Held: HeldLimits{Events: 1 << 20}})
	f := host.Filter{Tags: []host.TagFilter{{Name: 'd', Values: []string{"repo"}}}, Limit: 3, Header: true}
	n := 0
	add := func(most int) {
		change(t, s, func(tx *Tx) error {
			for ; n < most; n++ {
				e := fake(n, byte(n), host.KindAnnouncement, 5, host.Tag{"d", "repo"})
				e.PubKey[1] = byte(n >> 8)
				e.JSON = e.AppendJSON(nil)
				if out, err := tx.Hold(e, purgatory, 100); err != nil || out.Code != host.Held {
					return fmt.Errorf("%v, %w", out, err)
				}
			}
			return nil
		})
	}
	allocations := func() float64 {
		return testing.AllocsPerRun(10, func() {
			if found, err := s.HeldBy(t.Context(), f); err != nil || len(found) != 3 {
				t.Fatal(len(found), err)
			}
		})
	}
	add(10)
	few := allocations()
	add(2000)
	if many := allocations(); many > 2*few {
		t.Errorf("%v allocations with 10 events under the tag, %v with 2,000", few, many)
	}
}

func TestHeldEvent(t *testing.T) {
	s := open(t)
	a, absent := fake(1, 1, 30617, 10, host.Tag{"d", "repo"}), fake(2, 1, 1618, 1)
	want := func(e *host.Event, since int64, dormant, there bool) {
		t.Helper()
		h, ok, err := s.HeldEvent(context.Background(), e.ID)
		if err != nil || ok != there || ok && (string(h.JSON) != string(e.JSON) || h.Since != since || h.Dormant != dormant) {
			t.Errorf("got %+v, %v, %v", h, ok, err)
		}
	}
	want(a, 0, false, false)
	hold(t, s, 100, purgatory, a)
	want(a, 100, false, true)
	want(absent, 0, false, false)
	sweepHeld(t, s, 100+1800)
	want(a, 100, true, true)
}

// TestEachHeld ends with the error of yield, and goes on after a part.
func TestEachHeld(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{Readers: 1, Held: HeldLimits{ByAuthor: 1000}})
	n := fetchRows + 10
	change(t, s, func(tx *Tx) error {
		for i := range n {
			if _, err := tx.Hold(fake(i, 1, 1618, 1), purgatory, 100); err != nil {
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

// BenchmarkHold puts events into purgatory, releases them and lets them expire, 64
// to a commit, beside 100,000 stored events and 10,000 held ones. For comparison it
// stores events of a kind that is held and of one that is not.
func BenchmarkHold(b *testing.B) {
	for _, what := range []string{"hold", "again", "release", "expire", "put", "put another kind"} {
		b.Run(what, func(b *testing.B) {
			s := openWith(b, b.TempDir(), Options{Readers: 1, Held: HeldLimits{Events: 1 << 30, ByAuthor: 1 << 30, Bytes: 1 << 40}})
			l := newLoad(3)
			fill(b, s, l, 100_000)
			const batch = 64
			next := func() (events []*host.Event) {
				for range batch {
					e := l.event()
					e.Kind = 1618
					if what == "put another kind" && s.Stats().Held > 9_000 {
						e.Kind = 1621
					}
					e.JSON = e.AppendJSON(nil)
					events = append(events, e)
				}
				return events
			}
			holdAll := func(now int64, events []*host.Event) {
				change(b, s, func(tx *Tx) error {
					for _, e := range events {
						if _, err := tx.Hold(e, purgatory, now); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for range 10_000 / batch {
				holdAll(1_000_000, next())
			}
			done := 0
			for b.Loop() {
				b.StopTimer()
				events := next()
				if what == "again" || what == "release" || what == "expire" {
					holdAll(100, events)
				}
				b.StartTimer()
				switch what {
				case "hold":
					holdAll(100, events)
				case "again":
					holdAll(101, events)
				case "put", "put another kind":
					put(b, s, 0, events...)
				case "release":
					var r host.Release
					for _, e := range events {
						r.IDs = append(r.IDs, e.ID)
					}
					release(b, s, 101, r)
				case "expire":
					change(b, s, func(tx *Tx) error {
						_, err := tx.SweepHeld(100+grasp.HoldFor, batch)
						return err
					})
				}
				b.StopTimer()
				if what == "hold" || what == "again" {
					change(b, s, func(tx *Tx) error {
						_, err := tx.SweepHeld(100+grasp.HoldFor, batch)
						return err
					})
				}
				b.StartTimer()
				done += batch
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done)/1e3, "µs/event")
		})
	}
}

// BenchmarkHeldBy asks as a policy does, among 20,000 held announcements of one
// identifier, which an attacker made.
func BenchmarkHeldBy(b *testing.B) {
	s := openWith(b, b.TempDir(), Options{Readers: 1})
	d := host.Tag{"d", "repo"}
	for i := range 40 {
		change(b, s, func(tx *Tx) error {
			for n := range 500 {
				e := fake(500*i+n, 1, 30617, int64(n), d)
				e.PubKey = host.PubKey{byte(n), byte(n >> 8), byte(i)}
				e.JSON = e.AppendJSON(nil)
				if _, err := tx.Hold(e, purgatory, 100); err != nil {
					return err
				}
			}
			return nil
		})
	}
	tag := []host.TagFilter{{Name: 'd', Values: []string{"repo"}}}
	for name, f := range map[string]host.Filter{
		"newest 100":    {Kinds: []host.Kind{30617}, Tags: tag, Limit: 100},
		"another kind":  {Kinds: []host.Kind{30618}, Tags: tag, Limit: 100},
		"one author":    {Authors: []host.PubKey{{7, 0, 3}}, Tags: tag, Limit: 100},
		"all":           {Limit: -1},
		"unknown value": {Tags: []host.TagFilter{{Name: 'd', Values: []string{"other"}}}, Limit: 100},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.HeldBy(context.Background(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
