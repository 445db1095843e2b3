package ingest

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"talon/host"
	"talon/host/store"
	"talon/internal/testkit"
)

// realStore is a store of the right type for a pipeline.
type realStore struct{ *store.Store }

func (s realStore) Begin() (Tx, error) { return s.Store.Begin() }

// noFacts is a store in which nobody finds anything.
type noFacts struct{ host.Facts }

func (noFacts) Query(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

// crashDir is the variable by which the child process knows where to write, and
// crashRound the one that says which events.
const (
	crashDir   = "TALON_TEST_CRASH_DIR"
	crashRound = "TALON_TEST_CRASH_ROUND"
)

// crashCase is what one step of the child handles: an announcement and its state,
// which are released together, a pull request, and its deletion.
type crashCase struct{ announcement, state, pr, deletion *host.Event }

func newCrashCase(round, n int) (c crashCase) {
	number := 1_000_000*(round+1) + 10*n
	make := func(i int, kind host.Kind, tags ...host.Tag) *host.Event {
		e := event(number+i, append(tags, host.Tag{"d", fmt.Sprint(round, "-", n)})...)
		e.Kind, e.PubKey = kind, host.PubKey{byte(n), byte(round)}
		e.ID[31] = byte(i) // the number stands at the front
		e.JSON = e.AppendJSON(nil)
		return e
	}
	hold := host.Tag{"h", ""}
	c.announcement, c.state, c.pr = make(1, 30617, hold), make(2, 30618, hold), make(3, 1618, hold)
	c.deletion = make(4, host.KindDeletion, host.Tag{"e", c.pr.ID.String()})
	return c
}

// TestPurgatoryCrash kills a process that holds, releases and deletes, again and again.
// Acknowledged changes must be there, and each transaction must be whole.
func TestPurgatoryCrash(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(t, dir)
		return
	}
	dir := t.TempDir()
	rounds := testkit.Sized(3, 6)
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		done := runAndKill(t, dir, round, 30+rand.IntN(400))
		verifyCrash(t, dir, round, done)
		if t.Failed() {
			t.Fatalf("in round %d, after %d answers", round, len(done))
		}
	}
}

// runAndKill returns the lines that the child wrote before its end.
func runAndKill(t *testing.T, dir string, round, lines int) map[string]bool {
	ctx, cancel := context.WithDeadline(t.Context(), testkit.Deadline(t))
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPurgatoryCrash$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("%s=%d", crashRound, round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if done[scanner.Text()] = true; len(done) == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(done) < lines {
		t.Fatalf("the child ended on its own after %d answers: %v", len(done), err)
	}
	return done
}

// crashChild says on standard output what has been answered, until it is killed.
func crashChild(t *testing.T, dir string) {
	var round int
	fmt.Sscan(os.Getenv(crashRound), &round)
	db, err := store.Open(t.Context(), dir, store.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{out: &follower{}}
	r.Pipeline = New(Config{
		Verify: func(*host.Event) error { return nil },
		Policy: policyFunc(holdTagged), Store: realStore{db}, Facts: noFacts{}, Held: db,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Workers: 2, Queue: 64, Batch: 16,
	})
	go r.Run(t.Context(), r.out)
	say := func(what string, n int, ok bool) {
		if ok {
			fmt.Fprintf(os.Stdout, "%s %d\n", what, n)
		} else {
			t.Errorf("%s %d: refused", what, n)
		}
	}
	const side = 8
	for s := range side {
		go func() {
			for n := s; ; n += side {
				c := newCrashCase(round, n)
				for _, got := range r.submit(t, &host.Source{}, c.announcement, c.state, c.pr) {
					if got.verdict.Code != host.Held || got.err != nil {
						t.Errorf("hold %d: %v %v", n, got.verdict, got.err)
					}
				}
				say("held", n, true)
				if n%3 != 0 {
					got := r.release(t, c.state, c.announcement)
					say("released", n, got.err == nil && len(got.released) == 2)
				}
				if n%2 != 0 {
					got := r.submit(t, &host.Source{}, c.deletion)[0]
					say("deleted", n, got.verdict.Code == host.Stored)
				}
			}
		}()
	}
	select {}
}

func verifyCrash(t *testing.T, dir string, round int, done map[string]bool) {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, dir, store.Options{Readers: 1, Held: store.HeldLimits{Events: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Check(ctx, func(*host.Event) error { return nil }, func(p string) { t.Error("check: " + p) }); err != nil {
		t.Fatal(err)
	}
	where := func(e *host.Event) string {
		stored, err := db.Get(ctx, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		waits, err := db.Held(ctx, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case stored != nil:
			return "stored"
		case waits != nil:
			return "held"
		}
		return "nowhere"
	}
	for n := range 2 * len(done) {
		c := newCrashCase(round, n)
		said := func(what string) bool { return done[fmt.Sprint(what, " ", n)] }
		a, s, pr, deletion := where(c.announcement), where(c.state), where(c.pr), where(c.deletion)
		if said("held") && (a == "nowhere" || s == "nowhere") || said("released") && a != "stored" || (a == "stored") != (s == "stored") {
			t.Errorf("case %d: the announcement is %s, its state %s", n, a, s)
		}
		if said("held") && (pr == "held") == (deletion == "stored") || said("deleted") && deletion != "stored" || pr == "stored" {
			t.Errorf("case %d: the pull request is %s, its deletion %s", n, pr, deletion)
		}
	}
}
