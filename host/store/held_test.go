package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/purgatory"
	"talon/internal/testkit"
)

// TestHeldFails makes the disk full in the middle of a release.
func TestHeldFails(t *testing.T) {
	s := open(t)
	e := fake(1, 1, 30617, 1)
	hold(t, s, 100, awaitingGit, e)
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
	hold(t, s, 100, awaitingGit, e)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), `UPDATE held SET json = x'7b7d'; UPDATE total SET held_bytes = 2`)
	s = reopen(t, dir)
	if out := release(t, s, 100, host.Release{IDs: []host.ID{e.ID}}); out.Events[0].Status != host.StatusAbsent {
		t.Errorf("got %+v", out)
	}
	check(t, s)
	if out := hold(t, s, 100, awaitingGit, e); out.Code != host.Held {
		t.Errorf("sent again: %+v", out)
	}
	check(t, s)
}

// TestCheckFindsHeld damages purgatory in one way at a time.
func TestCheckFindsHeld(t *testing.T) {
	testkit.SkipRace(t)
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
		{"stored too", `INSERT INTO event_id VALUES (KEY, 10, 50, NULL)`, "stored as well"},
		{"deleted", `INSERT INTO deleted_id SELECT id, pubkey FROM held WHERE number = 2`, "deleted by its author"},
		{"address deleted", `INSERT INTO deleted_address SELECT address, created_at FROM held WHERE number = 1`, "deleted its address"},
		{"newer one stored", `INSERT INTO address SELECT address, 50, created_at + 1, x'11' FROM held WHERE number = 1`, "a newer version is stored"},
		{"weight", `UPDATE held_weight SET events = 7 WHERE class = 1`, "the weight of class 1"},
		{"parent missing", `UPDATE held SET parent = x'01', cause = 1 WHERE number = 1`, "on which it depends is not here"},
		{"two announcements", `INSERT INTO held SELECT 50, x'11', pubkey, created_at, kind, address, since, due, dormant, reason, json, cause, parent, network, known, audience, synced, NULL FROM held WHERE number = 1`, "beside another version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(context.Background(), t.TempDir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			announcement := fake(1, 1, 30617, 10, host.Tag{"d", "x"})
			hold(t, s, 100, awaitingGit, announcement)
			hold(t, s, 100, awaitingGit, fake(2, 1, 1618, 10))
			check(t, s)
			key := fmt.Sprintf("x'%x'", s.keys.id(announcement.ID))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			raw(t, s.Path(), strings.ReplaceAll(tt.sql, "KEY", key))
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
	hold(t, s, 100, awaitingGit, fake(1, 1, 1618, 10))
	var problems []string
	_, err := s.Check(context.Background(), func(*host.Event) error { return fmt.Errorf("bad signature") }, func(p string) { problems = append(problems, p) })
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], "bad signature") {
		t.Errorf("got %q, %v", problems, err)
	}
}

// noWakes undoes the last step of the schema, noVanished the one before it too, noUsage a step and all later ones, noModeration too, noWeights also
// the one before it, and so do noParents, noIDs, noMerge, noRelays, noPlaceholders and noHeld. Nothing must wait to
// be merged, and no stored event may have words.
var noWakes = `DROP TRIGGER held_weigh; DROP TRIGGER held_unweigh; ALTER TABLE held DROP COLUMN wake;` + weighingBefore()
var noVanished = noWakes + `DROP TABLE vanished; ALTER TABLE total DROP COLUMN vanished; DROP INDEX hidden_author; DROP INDEX hidden_kind;`
var noSenders = noVanished + `ALTER TABLE held DROP COLUMN synced;`
var noAudiences = noSenders + `ALTER TABLE event DROP COLUMN audience; ALTER TABLE event_id DROP COLUMN withheld;
	ALTER TABLE held DROP COLUMN audience; ALTER TABLE hidden DROP COLUMN audience; ALTER TABLE total DROP COLUMN withheld;`
var noUsage = noAudiences + `DROP TABLE usage; DROP TABLE usage_point;`
var noModeration = noUsage + `DROP TABLE moderation; DROP TABLE hidden; DROP TABLE hidden_maintainer; DROP TABLE refused;
	ALTER TABLE total DROP COLUMN hidden; ALTER TABLE total DROP COLUMN hidden_bytes;`
var noWeights = noModeration + `DROP TRIGGER held_weigh; DROP TRIGGER held_unweigh; DROP TABLE held_weight; DROP INDEX held_network;
	ALTER TABLE held DROP COLUMN network; ALTER TABLE held DROP COLUMN known;`
var noParents = noWeights + `DROP INDEX held_parent; DROP INDEX held_dependent; ALTER TABLE held DROP COLUMN parent; ALTER TABLE held DROP COLUMN cause;`
var noIDs = noParents + `DROP TABLE event_id; CREATE UNIQUE INDEX event_id ON event (id);`
var noMerge = noIDs + `DROP TABLE merge;`
var noRelays = noMerge + `DROP TABLE relay;`
var noPlaceholders = noRelays + `DROP TABLE placeholder;`
var noHeld = noPlaceholders + `DROP TABLE held; DROP TABLE held_posting; DROP TABLE held_gone;
	ALTER TABLE total DROP COLUMN held; ALTER TABLE total DROP COLUMN held_bytes;`

// weighingBefore makes the triggers that weighed held events before modules held any.
func weighingBefore() string {
	_, triggers, _ := strings.Cut(steps[10], "CREATE TRIGGER held_weigh")
	return "CREATE TRIGGER held_weigh" + triggers
}

// TestMigrateHeld opens databases as earlier releases made them, and ends with the
// schema of a new one.
func TestMigrateHeld(t *testing.T) {
	testkit.SkipRace(t)
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
	for version, sql := range map[int]string{1: noHeld + `DROP TABLE state;`, 2: noHeld, 3: noPlaceholders, 4: noRelays, 8: noIDs, 9: noParents, 10: noWeights, 11: noModeration, 13: noUsage, 14: noAudiences, 15: noSenders, 16: noVanished, 17: noWakes} {
		t.Run(fmt.Sprint("with events, version ", version), func(t *testing.T) {
			dir := t.TempDir()
			s := merged(t, dir)
			e, waits := fake(1, 1, 1, 1), fake(2, 1, 1618, 1)
			put(t, s, 0, e)
			before := int64(0)
			if version >= 9 { // what is held then keeps its weight
				hold(t, s, 100, awaitingGit, fake(3, 2, 1618, 1))
				before = 1
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			raw(t, filepath.Join(dir, FileName), sql+fmt.Sprintf(`UPDATE meta SET value = %d WHERE name = 'version'`, version))
			s = reopen(t, dir)
			if got := selected(t, s, 0, host.Filter{Limit: -1}); !slices.Equal(got, texts(e)) {
				t.Errorf("got %q", got)
			}
			hold(t, s, 100, awaitingGit, waits)
			check(t, s)
			if st := s.Stats(); st.Events != 1 || st.Held != 1+before {
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
	hold(t, s, 100, awaitingGit, waits)
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
	words := fmt.Sprintf("x'%x'", ring.key(host.WordOf, "repo")) // later versions index them again
	raw(t, filepath.Join(dir, FileName), noMerge+`DELETE FROM posting WHERE key IN (`+keys+`, `+words+`); DELETE FROM held_posting WHERE key = `+keys+
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

// TestHeldReadsFewRows: what is read for a filter with a limit does not grow with what
// strangers have put under the same tag, also of one second.
func TestHeldReadsFewRows(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{Readers: 1, Held: HeldLimits{Events: 1 << 20}})
	f := host.Filter{Tags: []host.TagFilter{{Name: 'd', Values: []string{"repo"}}}, Limit: 3, Header: true}
	n := 0
	add := func(limit int) {
		change(t, s, func(tx *Tx) error {
			for ; n < limit; n++ {
				e := fake(n, byte(n), host.KindAnnouncement, 5, host.Tag{"d", "repo"})
				e.PubKey[1] = byte(n >> 8)
				e.JSON = e.AppendJSON(nil)
				if out, err := tx.Hold(e, awaitingGit, 100); err != nil || out.Code != host.Held {
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

// BenchmarkHold puts events into purgatory, releases them and lets them expire, 64 to a
// commit. The store has 100,000 stored events and 10,000 held ones. For comparison it stores
// events of a kind that is held and of one that is not.
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
						if _, err := tx.Hold(e, awaitingGit, now); err != nil {
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
						_, err := tx.SweepHeld(100+purgatory.HoldFor, batch)
						return err
					})
				}
				b.StopTimer()
				if what == "hold" || what == "again" {
					change(b, s, func(tx *Tx) error {
						_, err := tx.SweepHeld(100+purgatory.HoldFor, batch)
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
				if _, err := tx.Hold(e, awaitingGit, 100); err != nil {
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
