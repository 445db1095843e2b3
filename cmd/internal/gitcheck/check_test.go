package gitcheck

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/store"
	"talon/sdk/nip19"
)

func TestSound(t *testing.T) {
	w := settled(t)
	if problems, n := w.check(nil); len(problems) > 0 || n != 5 {
		t.Errorf("%d repositories, %q; want 5 without problems", n, problems)
	}
}

// TestLost shows which problems other servers may help with.
func TestLost(t *testing.T) {
	w := settled(t)
	w.put(w.stateEvent(w.alice, "repo", 50, "refs/heads/main", strings.Repeat("5", 40)))
	w.put(w.announcement(w.alice, "gone"))
	w.repo(w.bob, "orphan", false)
	w.remove(filepath.Join(w.dir(w.alice, "new"), "refs"))
	problems, _ := w.check(nil)
	if !slices.Equal(w.lost, []string{"repo", "gone"}) {
		t.Errorf("lost: %q, of\n%s", w.lost, strings.Join(problems, "\n"))
	}
}

func TestNothingThere(t *testing.T) {
	w := newWorld(t)
	w.remove(filepath.Join(w.data, "git"))
	w.remove(filepath.Join(w.data, "git-prs"))
	if problems, n := w.check(nil); len(problems) > 0 || n != 0 {
		t.Errorf("%d repositories, %q; want none", n, problems)
	}
	if _, err := os.Stat(filepath.Join(w.data, "git")); err == nil {
		t.Error("the check makes a folder")
	}
}

// BenchmarkRun says what a repository of one commit costs.
func BenchmarkRun(b *testing.B) {
	w := settled(b)
	for n := range 100 {
		d := "many" + strconv.Itoa(n)
		dir := w.repo(w.alice, d, false)
		commit := w.commit(dir, "one", "")
		w.run(dir, "update-ref", "refs/heads/main", commit)
		w.put(w.announcement(w.alice, d))
		w.put(w.stateEvent(w.alice, d, 10, "refs/heads/main", commit))
	}
	repositories := 0
	for b.Loop() {
		problems, n := w.check(nil)
		if len(problems) > 0 {
			b.Fatal(problems)
		}
		repositories += n
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(repositories), "ms/repository")
}

// TestFinds damages a world in one way at a time. A problem that is no damage by
// itself, since a server may put it right, says so.
func TestFinds(t *testing.T) {
	const flight = "(may be in flight, if the server runs)"
	for _, tt := range []struct {
		name   string
		damage func(w *world, dir string) // of Alice's repository
		want   string
	}{
		{"branch elsewhere", func(w *world, dir string) { w.run(dir, "update-ref", "refs/heads/main", w.one) },
			"refs/heads/main is at ONE, and the newest state, STATE, has it at TWO " + flight},
		{"branch gone", func(w *world, dir string) { w.run(dir, "update-ref", "-d", "refs/heads/main") },
			"refs/heads/main is not here, and the newest state, STATE, has it at TWO " + flight},
		{"tag too many", func(w *world, dir string) { w.run(dir, "update-ref", "refs/tags/v2", w.one) },
			"refs/tags/v2 is at ONE, and the newest state, STATE, does not have it " + flight},
		{"HEAD elsewhere", func(w *world, dir string) { w.run(dir, "symbolic-ref", "HEAD", "refs/heads/other") },
			"HEAD names refs/heads/other, and the newest state, STATE, has it at refs/heads/main " + flight},
		{"HEAD at an object", func(w *world, dir string) { w.run(dir, "update-ref", "--no-deref", "HEAD", w.one) },
			"HEAD names no branch, and the newest state"},
		{"broken branch", func(w *world, dir string) { w.write(filepath.Join(dir, "refs/heads/main"), "what\n") },
			"git/ALICE/repo.git: fatal: bad object refs/heads/main"},
		{"state of what is not here", func(w *world, dir string) {
			w.put(w.stateEvent(w.alice, "repo", 50, "refs/heads/main", strings.Repeat("5", 40), "refs/tags/v1", w.one))
		}, "has it at 5555555555555555555555555555555555555555, and that object is not here"},
		{"state that cannot be", func(w *world, dir string) {
			w.put(w.stateEvent(w.alice, "repo", 50, "refs/heads/main", "deadbeef"))
		}, "can never be met: refs/heads/main: the object name is not 40 or 64 hex digits"},
		{"refs of an announcement that waits, without a state", func(w *world, _ string) {
			dir := w.dir(w.alice, "new")
			w.run(dir, "update-ref", "refs/heads/main", w.commit(dir, "x", ""))
		}, "and no state of a maintainer is here " + flight},
		{"orphan", func(w *world, dir string) { w.repo(w.bob, "orphan", false) },
			"orphan.git: orphan: no announcement of it is stored or held " + flight},
		{"repository gone", func(w *world, dir string) { w.remove(dir) },
			"git/ALICE/repo.git: it is announced and served, and it is not here"},
		{"all repositories gone", func(w *world, dir string) { w.remove(filepath.Join(w.data, "git")) },
			"git/ALICE/repo.git: it is announced and served, and it is not here"},
		{"ref of a pull request gone", func(w *world, dir string) { w.run(dir, "update-ref", "-d", "refs/nostr/"+w.pr.ID.String()) },
			"git/ALICE/repo.git: the pull request PR is served, and its ref for the commit ONE is not here"},
		{"another's announcement", func(w *world, dir string) { w.repo([32]byte{5}, "repo", false) },
			"orphan: no announcement of it is stored or held"},
		{"dormant", func(w *world, dir string) {
			w.change(func(tx *store.Tx) error { _, err := tx.SweepHeld(now+1800, 100); return err })
		}, "new.git: its announcement has waited in vain"},
		{"pull request elsewhere", func(w *world, dir string) {
			w.run(dir, "update-ref", "refs/nostr/"+w.pr.ID.String(), w.two)
		}, "refs/nostr/PR is at TWO, and its event has ONE"},
		{"pull request deleted", func(w *world, dir string) { w.delete(w.bob, w.pr) },
			"refs/nostr/PR: no event with this id is stored or held, and the ref does not wait for one"},
		{"ref of another event", func(w *world, dir string) {
			w.run(dir, "update-ref", "refs/nostr/"+w.state.ID.String(), w.two)
		}, "refs/nostr/STATE: the event with this id is not a pull request"},
		{"ref that waits elsewhere only", func(w *world, dir string) {
			w.placeholder(w.bob, "repo", false, host.ID{8})
			w.placeholder(w.alice, "repo", true, host.ID{8})
			w.run(dir, "update-ref", "refs/nostr/"+host.ID{8}.String(), w.two)
		}, "the ref does not wait for one"},
		{"ref that nobody can push", func(w *world, dir string) { w.run(dir, "update-ref", "refs/pull/1/head", w.two) },
			"refs/pull/1/head is not a ref that a push can make"},
		{"ref of no event", func(w *world, dir string) { w.run(dir, "update-ref", "refs/nostr/x", w.two) },
			"refs/nostr/x is not a ref that a push can make"},
		{"branch under /prs/", func(w *world, dir string) { w.run(w.prsDir(), "update-ref", "refs/heads/main", w.one) },
			"git-prs/BOB/elsewhere.git: refs/heads/main is not a ref that a push can make"},
		{"pull request of somebody else under /prs/", func(w *world, dir string) {
			w.run(w.prsDir(), "update-ref", "refs/nostr/"+w.pr.ID.String(), w.one)
		}, "refs/nostr/PR: the event with this id is for another repository than the URL names"},
		{"nothing under /prs/", func(w *world, dir string) { w.repo(w.bob, "nothing", true) },
			"git-prs/BOB/nothing.git: it has no ref"},
		{"object gone", func(w *world, dir string) { w.remove(loose(dir, w.run(dir, "rev-parse", "refs/heads/main:file"))) },
			"missing blob object"},
		{"commit gone", func(w *world, dir string) { w.remove(loose(dir, w.two)) }, "git/ALICE/repo.git: fatal: bad object refs/heads/main"},
		{"not a repository any more", func(w *world, dir string) { w.remove(filepath.Join(dir, "refs")) }, "repo.git: not a whole bare repository"},
		{"lock of a ref", func(w *world, dir string) { w.write(filepath.Join(dir, "refs/heads/main.lock"), "") },
			"refs/heads/main.lock is left from a git that was killed"},
		{"lock of all refs", func(w *world, dir string) { w.write(filepath.Join(dir, "packed-refs.lock"), "") },
			"packed-refs.lock is left from a git that was killed"},
		{"quarantine", func(w *world, dir string) { w.write(filepath.Join(dir, "objects/tmp_objdir-incoming-x/pack/y"), "") },
			"objects/tmp_objdir-incoming-x is left from a git that was killed"},
		{"half a pack", func(w *world, dir string) { w.write(filepath.Join(dir, "objects/pack/tmp_pack_x"), "") },
			"objects/pack/tmp_pack_x is left from a git that was killed"},
		{"half a pack in the shared store", func(w *world, dir string) {
			w.write(filepath.Join(w.data, "git/.shared/sha1/repo.git/objects/pack/tmp_pack_x"), "")
		}, "repository git/.shared/sha1/repo.git: objects/pack/tmp_pack_x is left"},
		{"trash", func(w *world, dir string) { w.write(filepath.Join(w.data, "git/.trash/old-1/gone/HEAD"), "") },
			"git/.trash/old-1: left half made or half removed"},
		{"trash of a node", func(w *world, dir string) { w.write(filepath.Join(w.data, "git/.trash/node-a/old-1/gone/HEAD"), "") },
			"git/.trash/node-a/old-1: left half made or half removed"},
		{"a link to a repository", func(w *world, dir string) {
			if err := os.Symlink(dir, w.dir(w.alice, "link")); err != nil {
				w.t.Fatal(err)
			}
		}, "link.git: not a folder; links are not followed"},
		{"a link to an owner", func(w *world, dir string) {
			if err := os.Symlink(filepath.Dir(dir), filepath.Join(w.data, "git", nip19.EncodeNpub(w.bob))); err != nil {
				w.t.Fatal(err)
			}
		}, "git/BOB: not a folder; links are not followed"},
		{"a folder of nobody", func(w *world, dir string) { w.write(filepath.Join(w.data, "git/npub1x/y.git/HEAD"), "") },
			"git/npub1x: not the npub of an owner"},
		{"a name that is none", func(w *world, dir string) { w.write(filepath.Join(filepath.Dir(dir), "%ZZ.git/HEAD"), "") },
			"%ZZ.git: \"%ZZ.git\" is not the name of a repository"},
		{"a second name", func(w *world, dir string) { w.write(filepath.Join(filepath.Dir(dir), "%72epo.git/HEAD"), "") },
			"%72epo.git: \"%72epo.git\" is not the name of a repository"},
		{"a cut name without the rest", func(w *world, dir string) {
			w.remove(filepath.Join(w.cutDir(), "talon-identifier"))
		}, ".git: not whole: read the identifier of a repository: lstat "},
		{"a cut name with another rest", func(w *world, dir string) { w.write(filepath.Join(w.cutDir(), "talon-identifier"), "other") },
			"the file talon-identifier holds another identifier"},
		{"damage behind a name that was cut inside of an escape", func(w *world, dir string) {
			w.run(w.cutDir(), "update-ref", "refs/heads/main", w.commit(w.cutDir(), "x", ""))
		}, "refs/heads/main is at "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := settled(t)
			tt.damage(w, w.dir(w.alice, "repo"))
			problems, _ := w.check(nil)
			want := strings.NewReplacer("ONE", w.one, "TWO", w.two, "STATE", w.state.ID.String(), "PR", w.pr.ID.String(),
				"repository of 30617:ALICE", "repository of 30617:"+host.PubKey(w.alice).String(),
				"ALICE", nip19.EncodeNpub(w.alice), "BOB", nip19.EncodeNpub(w.bob)).Replace(tt.want)
			if got := strings.Join(problems, "\n"); !strings.Contains(got, want) {
				t.Errorf("no problem says %q:\n%s", want, got)
			}
			// A damage that leaves its traces in more than one place may have a few lines.
			if len(problems) > 4 {
				t.Errorf("%d problems for one damage:\n%s", len(problems), strings.Join(problems, "\n"))
			}
		})
	}
}

func (w *world) prsDir() string {
	return filepath.Join(w.data, "git-prs", nip19.EncodeNpub(w.bob), "elsewhere.git")
}

// TestCrashBeforeRelease: refs land first, the event is released by the next start.
func TestCrashBeforeRelease(t *testing.T) {
	w := settled(t)
	dir := w.dir(w.alice, "repo")
	w.hold(w.stateEvent(w.bob, "repo", 60, "refs/heads/main", w.one))
	w.run(dir, "update-ref", "refs/heads/main", w.one)
	w.run(dir, "update-ref", "-d", "refs/tags/v1")
	if problems, _ := w.check(nil); len(problems) > 0 {
		t.Errorf("got %q", problems)
	}
}

// TestSettles: what is put right between the two looks is no problem, and what comes
// only then is none yet.
func TestSettles(t *testing.T) {
	w := settled(t)
	dir := w.dir(w.alice, "repo")
	w.run(dir, "update-ref", "refs/tags/early", w.one)
	w.run(dir, "update-ref", "refs/tags/stays", w.one)
	w.write(filepath.Join(w.data, "git/.trash/new-1/HEAD"), "")
	seen := 0
	problems, n := w.check(func(cfg *Config) {
		cfg.Progress = func(n int) {
			if seen++; n == 5 && seen == n { // at the end of the first look
				w.run(dir, "update-ref", "-d", "refs/tags/early")
				w.run(dir, "update-ref", "refs/tags/late", w.one)
				w.remove(filepath.Join(w.data, "git/.trash/new-1"))
			}
		}
	})
	if n != 5 || len(problems) != 1 || !strings.Contains(problems[0], "refs/tags/stays") {
		t.Errorf("%d repositories, %q; want one problem, with refs/tags/stays", n, problems)
	}
}

// TestLeavesAlone: a server may be making repositories, in the folder of what is half
// made, at this very moment.
func TestLeavesAlone(t *testing.T) {
	w := settled(t)
	half := filepath.Join(w.data, "git/.trash/new-1/HEAD")
	lock := filepath.Join(w.dir(w.alice, "repo"), "refs/heads/main.lock")
	w.write(half, "ref: refs/heads/main\n")
	w.write(lock, "")
	w.check(nil)
	for _, path := range []string{half, lock} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestObjects asks for the bytes of all objects, of a shared store once.
func TestObjects(t *testing.T) {
	w := settled(t)
	asked := map[string]int{}
	problems, _ := w.check(func(cfg *Config) {
		cfg.Intact = func(_ context.Context, dir string) ([]string, error) {
			rel, err := filepath.Rel(w.data, dir)
			asked[rel]++
			if strings.HasPrefix(rel, "git/.shared/sha1/repo") {
				return strings.Split(strings.Repeat("wrong ", 14)+"wrong", " "), err
			}
			return nil, err
		}
	})
	own := 0
	for dir := range asked {
		if !strings.Contains(dir, ".shared") {
			own++
		}
	}
	if own != 2 || len(asked) != 2+5 {
		t.Errorf("asked for %v; want the two with objects of their own, and five stores", asked)
	}
	if len(problems) != maxLines+1 && len(problems) != 2 || !strings.HasSuffix(problems[len(problems)-1], "repo.git: 5 more lines are not shown") {
		t.Errorf("got %q", problems)
	}
}

func TestObjectsFail(t *testing.T) {
	w := settled(t)
	problems, _ := w.check(func(cfg *Config) {
		cfg.Limit = time.Nanosecond
		cfg.Connected = func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	})
	if len(problems) != 5 || !strings.Contains(problems[0], "could not be checked within 1ns: allow more time") {
		t.Errorf("got %q", problems)
	}
	problems, _ = w.check(func(cfg *Config) {
		cfg.Connected = func(context.Context, string) ([]string, error) { return nil, errors.New("no git here") }
	})
	if len(problems) != 5 || !strings.Contains(problems[0], "could not be checked: no git here") {
		t.Errorf("got %q", problems)
	}
}

func TestCancel(t *testing.T) {
	w := settled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := Config{
		Git: w.git, Announced: filepath.Join(w.data, "git"), PRs: filepath.Join(w.data, "git-prs"), Events: w.db, Limit: time.Minute,
		Connected: func(context.Context, string) ([]string, error) { cancel(); return nil, errors.New("cut off") },
		Now:       time.Now,
	}
	_, err := Run(ctx, cfg, func(p Problem) { t.Errorf("reported: %s", p) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestProblemIsOneLine: names come from strangers.
func TestProblemIsOneLine(t *testing.T) {
	p := Problem{Where: "git/a\u202eb", What: "refs/heads/\x1b[31m\xff\n"}
	if got, want := p.String(), "repository git/a?b: refs/heads/?[31m??"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
