package gitrepo

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"talon/host/bound"
	"talon/internal/testkit"
)

// FuzzReadWants looks for wants that hide in a request. Git finds one wherever a pkt-line begins
// with it.
func FuzzReadWants(f *testing.F) {
	id := strings.Repeat("ab", 20)
	want := string(AppendPkt(nil, "want "+id+"\n"))
	for _, s := range []string{
		"", want, "0000" + want, "0001" + want, "0002" + want, "0004" + want, string(AppendPkt(nil, "command=fetch")) + "0001" + want,
		strings.ToUpper(want[:4]) + want[4:], string(AppendPkt(nil, "want "+strings.ToUpper(id)+" thin-pack")), "0003" + want, "zzzz" + want,
		string(AppendPkt(nil, " want "+id)) + want, string(AppendPkt(nil, "want-ref refs/heads/main")) + want, want[:20],
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, before string) {
		ids := readWants(strings.NewReader(before), 40)
		for _, id := range ids {
			if len(id) != 40 || !IsID(id) {
				t.Fatalf("%q wants %q", before, id)
			}
		}
		// A want behind anything that git reads to its end is found.
		if whole(before) {
			if got := readWants(strings.NewReader(before+want), 40); len(got) != len(ids)+1 || got[len(ids)] != id {
				t.Fatalf("behind %q, the wants are %q", before, got)
			}
		}
	})
}

// whole reports whether a text is a sequence of pkt-lines. Git takes digits of upper case.
func whole(text string) bool {
	for text != "" {
		if len(text) < 4 {
			return false
		}
		n, ok := PktLength([]byte(strings.ToLower(text[:4])))
		if !ok || n == 3 || n > len(text) {
			return false
		}
		text = text[max(n, 4):]
	}
	return true
}

// Objects are found to be reached, or not, with a list that fits into memory and without.
func TestWalk(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	other := newRepo(t, root, bob, "x", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main", "v1")
	git(t, dir, "checkout", "-q", "-b", "evil")
	evil := testkit.Commit(t, dir, "evil")
	git(t, dir, "push", "-q", other.Dir(), "evil")
	for _, repo := range []*Repo{r, other} {
		locked(t, repo, func() {
			if err := repo.Share(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	tree, blob := git(t, dir, "rev-parse", first+"^{tree}"), git(t, dir, "rev-parse", first+":file")
	evilBlob := git(t, dir, "rev-parse", evil+":file")
	absent := strings.Repeat("ab", 20)
	client := bound.Holder{Addr: netip.MustParseAddr("192.0.2.1")}
	walk := func(ids ...string) (*Wants, error) {
		t.Helper()
		var request []byte
		for _, id := range ids {
			request = AppendPkt(request, "want "+id+"\n")
		}
		w, err := r.Wants(t.Context(), strings.NewReader(string(request)))
		if err != nil {
			return w, err
		}
		task, err := r.git.Scheduler().Reserve(t.Context(), ClassFetch, client)
		if err != nil {
			t.Fatal(err)
		}
		defer task.End()
		if err := task.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = w.Walk(task)
		return w, err
	}
	check := func(when string) {
		t.Helper()
		for _, ids := range [][]string{{second}, {first}, {tree}, {blob}, {first, tree, blob, second}} {
			if _, err := walk(ids...); err != nil {
				t.Errorf("%s: %v: %v", when, ids, err)
			}
		}
		for _, id := range []string{evil, evilBlob, absent} {
			for _, ids := range [][]string{{id}, {first, id}, {blob, id}, {id, second}} {
				if _, err := walk(ids...); err == nil || err.Error() != "upload-pack: not our ref "+id {
					t.Errorf("%s: %v: %v", when, ids, err)
				}
			}
		}
	}
	// No list finds room: git looks for each request.
	_, err := root.git.Scheduler().lists.Acquire(client, listBytes/8, nil)
	if err != nil {
		t.Fatal(err)
	}
	check("without memory")
	if n := len(root.reach.filling); n != 0 {
		t.Errorf("%d lists are being made", n)
	}
	client.Addr = netip.MustParseAddr("198.51.100.1")
	check("with a list")
	w, err := walk(blob)
	if err != nil || w.Open() {
		t.Errorf("a blob needs a walk though the list is known: %v", err)
	}
}

// A request waits for another one that makes the same list, and makes it itself if that fails.
func TestListsAreMadeOnce(t *testing.T) {
	sets := newReachedSets()
	key := keyOf([]string{"x"})
	if set, other := sets.begin(key); set != nil || other != nil {
		t.Fatal("the first one must make the list")
	}
	_, other := sets.begin(key)
	if other == nil {
		t.Fatal("the second one makes the list as well")
	}
	sets.end(key, nil)
	<-other // somebody wakes the second one
	if set, other := sets.begin(key); set != nil || other != nil {
		t.Fatal("after a failure, nobody makes the list")
	}
	made := &reached{}
	sets.end(key, made)
	if set, _ := sets.begin(key); set != made {
		t.Error("the list is forgotten")
	}
}

// A list takes memory as it grows, and has a bound.
func TestListGrows(t *testing.T) {
	root := newRoot(t)
	task, err := root.git.Scheduler().Reserve(t.Context(), ClassFetch, bound.Holder{Addr: netip.MustParseAddr("192.0.2.1")})
	if err != nil {
		t.Fatal(err)
	}
	defer task.End()
	pot := task.scheduler.lists
	l := newList(task)
	for l.grow() {
		if pot.Used() != int64(cap(l.set.hashes)*hashBytes) {
			t.Fatalf("%d bytes are held for room of %d objects", pot.Used(), cap(l.set.hashes))
		}
		if cap(l.set.hashes) > maxReached {
			t.Fatalf("there is room for %d objects", cap(l.set.hashes))
		}
	}
	if l.add("x") || pot.Used() != 0 {
		t.Errorf("a list that is too long holds %d bytes", pot.Used())
	}
	if set := l.end(nil); set == nil || !set.tooMany || set.hashes != nil {
		t.Errorf("it leaves %v", set)
	}
}

// A client that goes away ends the walk.
func TestWalkEnds(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, _ := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main")
	w, err := r.Wants(t.Context(), strings.NewReader(string(AppendPkt(nil, "want "+git(t, dir, "rev-parse", first+":file")))))
	if err != nil {
		t.Fatal(err)
	}
	task, err := r.git.Scheduler().Reserve(t.Context(), ClassFetch, bound.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	task.End()
	if _, err := w.Walk(task); err == nil || errors.As(err, new(*NotOurs)) {
		t.Errorf("got %v", err)
	}
	if n := len(root.reach.filling); n != 0 || !slices.Contains(w.open, git(t, dir, "rev-parse", first+":file")) {
		t.Errorf("%d lists are being made", n)
	}
}
