package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// TestCheckFinds damages a database in one way at a time.
func TestCheckFinds(t *testing.T) {
	testkit.SkipRace(t)
	deletion := fake(9, 2, host.KindDeletion, 9, host.Tag{"e", fake(8, 2, 1, 1).ID.String()}, host.Tag{"a", host.Address{Kind: 30000, PubKey: host.PubKey{2}, D: "gone"}.String()})
	for _, tt := range []struct{ name, sql, want string }{
		{"text that is no event", `UPDATE event SET json = '{}' WHERE seq = 1`, "its text cannot be read"},
		{"text of another event", `UPDATE event SET json = (SELECT json FROM event WHERE seq = 2) WHERE seq = 1`, "its row says id"},
		{"author", `UPDATE event SET pubkey = x'00' WHERE seq = 1`, "does not agree with its text"},
		{"created_at", `UPDATE event SET created_at = 77 WHERE seq = 1`, "does not agree with its text"},
		{"kind", `UPDATE event SET kind = 7 WHERE seq = 1`, "does not agree with its text"},
		{"index row missing", `DELETE FROM posting WHERE key IN (SELECT key FROM posting WHERE length(key) = 16 LIMIT 1)`, "not in the index"},
		{"index row too many", `INSERT INTO posting SELECT key, kind + 1, place FROM posting LIMIT 1`, "the events call for"},
		{"index row of no event", `INSERT INTO posting VALUES (x'11', 1, x'000000000000000000000000000000000000000000000063')`, "event 99, which is not there"},
		{"index row merged and not noted", `UPDATE merge SET indexed = indexed - 1, target = target - 1`, "the events call for"},
		{"index row noted and not merged", `UPDATE merge SET indexed = indexed + 1, target = target + 1`, "index: rows of events up to"},
		{"merge not noted", `DELETE FROM merge`, "the events call for"},
		{"id missing", `DELETE FROM event_id WHERE event = 2`, "not in the index of ids"},
		{"id of another event", `UPDATE event_id SET event = 1 WHERE event = 2`, "not in the index of ids"},
		{"id with another time", `UPDATE event_id SET created_at = 77 WHERE event = 2`, "not in the index of ids"},
		{"id of no event", `INSERT INTO event_id VALUES (x'11', 1, 99, NULL)`, "a row is for event 99"},
		{"event without index rows", `UPDATE total SET seq = 50; INSERT INTO event SELECT 50, x'22', pubkey, created_at, kind, json, audience FROM event WHERE seq = 1`, "event 50"},
		{"audience without index rows", `UPDATE event SET audience = x'00' WHERE seq = 1`, "not in the index under key"},
		{"withheld by its id only", `UPDATE event_id SET withheld = 1 WHERE event = 1`, "not in the index of ids"},
		{"damaged audience", `UPDATE event SET audience = x'ff' WHERE seq = 1`, "an audience is damaged"},
		{"total of withheld events", `UPDATE total SET withheld = 7`, "withheld events noted"},
		{"address missing", `DELETE FROM address`, "is not noted"},
		{"address of another event", `UPDATE address SET event = 1`, "stored beside event 1"},
		{"address with another time", `UPDATE address SET created_at = 1`, "does not agree with it"},
		{"address of no event", `INSERT INTO address VALUES (x'11', 99, 1, x'22')`, "a row is for event 99"},
		{"expiry missing", `DELETE FROM expiry`, "its expiry at 1000 is not noted"},
		{"expiry of no event", `INSERT INTO expiry VALUES (5, 99)`, "a row is for event 99"},
		{"deleted event stored", `INSERT INTO deleted_id SELECT id, pubkey FROM event WHERE seq = 1`, "deleted by its author"},
		{"deleted address stored", `INSERT INTO deleted_address SELECT key, 100 FROM address`, "deleted its address"},
		{"number never given", `UPDATE total SET seq = 1`, "the highest number given is 1"},
		{"number of events", `UPDATE total SET events = 17`, "totals: 17 events"},
		{"number of bytes", `UPDATE total SET bytes = 17`, "of 17 bytes noted"},
		{"usage of an author", `UPDATE usage SET events = 17 WHERE class = 1`, "17 events of"},
		{"usage of a repository", `UPDATE usage SET bytes = 17 WHERE class = 2`, "usage of repository 0100000000000000000000000000000000000000000000000000000000000000/\"repo\": 1 events of 17 bytes noted"},
		{"usage missing", `DELETE FROM usage WHERE class = 3`, "usage of kind 1: none noted, 2 events"},
		{"usage of nobody", `INSERT INTO usage VALUES (3, x'0009', 1, 1, 0)`, "usage of kind 9: 1 events of 1 bytes noted, 0 of 0 stored"},
		{"git data of an author", `UPDATE usage SET git = 5 WHERE class = 1`, "5 bytes of git data noted, none of repositories"},
		{"git data of a repository", `UPDATE usage SET git = 5 WHERE class = 2`, "0 bytes of git data noted, 5 of the repositories"},
		{"index of ids", `PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'posting') WHERE name = 'event_id'`, "database file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(context.Background(), t.TempDir(), Options{tune: mergesAll})
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, 0,
				fake(1, 1, 1, 10, host.Tag{"t", "x"}),
				fake(2, 1, 30617, 11, host.Tag{"d", "repo"}),
				fake(3, 1, 1, 12, host.Tag{"expiration", "1000"}),
				deletion)
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
			_, err = ro.Check(context.Background(), func(*host.Event) error { return nil }, func(p string) { problems = append(problems, p) })
			if err != nil && tt.name != "index of ids" {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(problems, "\n"), tt.want) {
				t.Errorf("no problem says %q: %q", tt.want, problems)
			}
		})
	}
}

func TestCheckVerifies(t *testing.T) {
	s := open(t)
	put(t, s, 0, fake(1, 1, 1, 1), fake(2, 1, 1, 1))
	bad := errors.New("bad signature")
	var problems []string
	n, err := s.Check(context.Background(), func(e *host.Event) error {
		if e.Content == "event 2" {
			return bad
		}
		return nil
	}, func(p string) { problems = append(problems, p) })
	if err != nil || n != 2 {
		t.Fatalf("checked %d, %v", n, err)
	}
	if len(problems) != 1 || !strings.Contains(problems[0], bad.Error()) {
		t.Errorf("got %q, want one problem, %q", problems, bad)
	}
}
