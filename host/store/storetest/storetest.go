// Package storetest tests every engine of the store: the same answers, the same bytes in
// the same order, and consistent data after any step.
package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
	"talon/host/moderation"
	"talon/host/store/semantics"
	"talon/internal/testkit"
)

// Engine opens databases of one kind.
type Engine interface {
	// New returns the name of a database that is not there yet, and is gone after the test.
	New(t testing.TB) string

	// Open opens it for writing, ReadOnly for reading. The test closes both.
	Open(ctx context.Context, name string, o Options) (Store, error)
	ReadOnly(ctx context.Context, name string) (Store, error)

	// Rounds is how often a long random story is run. A single one has half of its steps in make test.
	Rounds() int
}

// Options are the options of a test's database.
type Options struct {
	Held  semantics.HeldLimits
	Small bool // pieces as small as they can be, so that few events make many
}

// Store is the store under test.
type Store interface {
	Begin() (Tx, error)
	NextExpiry() (int64, bool)
	NextHeld() (int64, bool)
	RemovedTotal() int64
	Total() semantics.Total

	Get(ctx context.Context, id host.ID) ([]byte, error)
	Missing(ctx context.Context, ids []host.ID) ([]host.ID, error)
	Referenced(ctx context.Context, idOrAddress string) (bool, error)
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
	Headers(ctx context.Context, rows []int64) ([][]byte, error)
	Count(ctx context.Context, filters []host.Filter, now int64) (int64, error)
	Authors(ctx context.Context, filters []host.Filter, now int64, yield func(host.PubKey)) error
	Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error)
	Export(ctx context.Context, yield func(json []byte) error) error
	Withheld(ctx context.Context, yield func(id host.ID, a *host.Audience) error) error
	HiddenAudiences(ctx context.Context, yield func(id host.ID, a *host.Audience)) error
	host.AudienceFacts

	Held(ctx context.Context, id host.ID) ([]byte, error)
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HeldEvent(ctx context.Context, id host.ID) (e host.HeldEvent, ok bool, err error)
	EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error
	DeletedAddress(ctx context.Context, a host.Address, createdAt int64) (bool, error)

	AddPlaceholder(ctx context.Context, repo string, id host.ID, since int64) error
	DropPlaceholder(ctx context.Context, repo string, ids ...host.ID) error
	Placeholders(ctx context.Context, yield func(repo string, id host.ID, since int64) error) error

	LoadState(ctx context.Context, yield func(host.StateEntry) error) error
	SaveState(ctx context.Context, entries []host.StateEntry) error
	SweepState(ctx context.Context, now int64) error

	Relay(ctx context.Context, about, url string) ([]byte, error)
	Relays(ctx context.Context, about string) (map[string][]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error

	HiddenBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HiddenAfter(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error)
	HiddenOf(ctx context.Context, author *host.PubKey, kind host.Kind, number int64, limit int) ([]semantics.Hidden, error)
	VanishedAfter(ctx context.Context, number int64, limit int) ([]host.VanishRequest, error)
	NotTakenDown(ctx context.Context, ids []host.ID) ([]host.ID, error)
	Refused(ctx context.Context, yield func(semantics.RefusedID)) error
	Moderation(ctx context.Context, after int64) ([]moderation.Row, error)
	Usage(ctx context.Context, keys ...host.UsageKey) ([]host.Usage, error)
	LargestUsage(ctx context.Context, class host.UsageClass, limit int) ([]host.UsageRow, error)
	SetGitUsage(ctx context.Context, repository host.UsageKey, bytes int64, limits host.UsageLimits) error

	Check(ctx context.Context, verify func(*host.Event) error, report func(problem string)) (checked int64, err error)
	Close() error
}

// Tx is a transaction of the store.
type Tx interface {
	Put(e *host.Event, now int64) (host.Outcome, error)
	Hold(e *host.Event, h host.HoldOptions, now int64) (host.Outcome, error)
	Release(r host.Release, now int64) (host.ReleaseOutcome, error)
	Sweep(now int64, limit int) (removed []*host.Event, err error)
	SetAudience(id host.ID, a *host.Audience) (*host.AudienceChange, error)
	SweepHeld(now int64, limit int) (changes []host.HeldChange, err error)
	AuthorUsage(author host.PubKey) (host.Usage, error)
	TakeDown(t host.Takedown, now int64) (host.TakedownOutcome, error)
	Vanish(v *host.VanishRequest) (host.Outcome, error)
	AddModeration(list []moderation.Row, now int64) (added []moderation.Row, err error)
	Commit() error
	Rollback() error
}

// Run runs the whole suite on an engine.
func Run(t *testing.T, x Engine) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Engine)
	}{
		{"Model", testModel},
		{"Put", testPut},
		{"Withheld", testWithheld},
		{"WithheldInPurgatory", testWithheldInPurgatory},
		{"RepositoryAudience", testRepositoryAudience},
		{"Drop", testDrop},
		{"PutRefusesEphemeral", testPutRefusesEphemeral},
		{"TagValues", testTagValues},
		{"ManyTags", testManyTags},
		{"ManyDeletions", testManyDeletions},
		{"Search", testSearch},
		{"Rollback", testRollback},
		{"Fetch", testFetch},
		{"LookUps", testLookUps},
		{"SeqOfSelection", testSeqOfSelection},
		{"Context", testContext},
		{"RealEvents", testRealEvents},
		{"HeldModel", testHeldModel},
		{"HeldStories", testHeldStories},
		{"HeldIsNotServed", testHeldIsNotServed},
		{"HeldBounds", testHeldBounds},
		{"HeldRollback", testHeldRollback},
		{"Headers", testHeaders},
		{"HeldEvent", testHeldEvent},
		{"EachHeld", testEachHeld},
		{"Placeholders", testPlaceholders},
		{"PlaceholdersAreBounded", testPlaceholdersAreBounded},
		{"DeletedAddress", testDeletedAddress},
		{"State", testState},
		{"StateWaitsForTx", testStateWaitsForTx},
		{"StateSweep", testStateSweep},
		{"Relays", testRelays},
		{"Moderation", testModeration},
		{"TakeDown", testTakeDown},
		{"HiddenModel", testHiddenModel},
		{"GiftWraps", testGiftWraps},
		{"Vanish", testVanish},
		{"Usage", testUsage},
		{"GitUsage", testGitUsage},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, x) })
	}
}

// Event makes an event with the given fields. Its id is made from n, its signature is
// zero.
func Event(n int, author byte, kind host.Kind, at int64, tags ...host.Tag) *host.Event {
	e := &host.Event{PubKey: host.PubKey{author}, Kind: kind, CreatedAt: at, Tags: tags, Content: fmt.Sprint("event ", n)}
	if tags == nil {
		e.Tags = host.Tags{}
	}
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16), 1}).Read(e.ID[:])
	e.JSON = e.AppendJSON(nil)
	return e
}

// steps returns how many steps of all those of a random story are run.
func steps(x Engine, all int) int {
	if x.Rounds() == 1 {
		return testkit.Sized(all/2, all)
	}
	return all
}

func open(t testing.TB, x Engine) Store { return openWith(t, x, x.New(t), Options{}) }

func reopen(t testing.TB, x Engine, name string) Store { return openWith(t, x, name, Options{}) }

func openWith(t testing.TB, x Engine, name string, o Options) Store {
	t.Helper()
	s, err := x.Open(context.Background(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Change runs f in a transaction of its own.
func Change(t testing.TB, s Store, f func(Tx) error) {
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

// Put stores the events in one transaction.
func Put(t testing.TB, s Store, now int64, events ...*host.Event) (out []host.Outcome) {
	t.Helper()
	Change(t, s, func(tx Tx) error {
		for _, e := range events {
			o, err := tx.Put(e, now)
			if err != nil {
				return err
			}
			out = append(out, o)
		}
		return nil
	})
	return out
}

// Hold puts an event into purgatory.
func Hold(t testing.TB, s Store, now int64, h host.HoldOptions, e *host.Event) (out host.Outcome) {
	t.Helper()
	Change(t, s, func(tx Tx) (err error) {
		out, err = tx.Hold(e, h, now)
		return err
	})
	return out
}

// Release stores held events.
func Release(t testing.TB, s Store, now int64, r host.Release) (out host.ReleaseOutcome) {
	t.Helper()
	Change(t, s, func(tx Tx) (err error) {
		out, err = tx.Release(r, now)
		return err
	})
	return out
}

// SweepHeld sweeps purgatory up to a time, in small steps.
func SweepHeld(t testing.TB, s Store, now int64) (changes []host.HeldChange) {
	t.Helper()
	for {
		if at, ok := s.NextHeld(); !ok || at > now {
			return changes
		}
		Change(t, s, func(tx Tx) error {
			part, err := tx.SweepHeld(now, 2)
			changes = append(changes, part...)
			return err
		})
	}
}

// Check fails the test if anything in the store is inconsistent.
func Check(t testing.TB, s Store) {
	t.Helper()
	n, err := s.Check(context.Background(), func(*host.Event) error { return nil }, func(p string) { t.Error("check: " + p) })
	if err != nil {
		t.Fatal(err)
	}
	if want := s.Total().Events; n != want {
		t.Errorf("checked %d events, %d are stored", n, want)
	}
	checkUsage(t, s)
}

// Selected returns the texts that the filters select.
func Selected(t testing.TB, s Store, now int64, filters ...host.Filter) []string {
	t.Helper()
	sel, err := s.Select(context.Background(), filters, now)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = s.Fetch(context.Background(), sel.Rows, func(_ int64, json []byte) error {
		out = append(out, string(json))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(sel.Rows) {
		t.Errorf("selected %d rows, fetched %d", len(sel.Rows), len(out))
	}
	return out
}

// Texts returns the JSON of events in the order of answers.
func Texts(events ...*host.Event) []string {
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b *host.Event) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	var out []string
	for _, e := range events {
		out = append(out, string(e.JSON))
	}
	return out
}

func ptr[T any](v T) *T { return &v }
