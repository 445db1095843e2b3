package grasp

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// tagsOf makes an event of text: a line is a tag, a tab is between its items.
func tagsOf(kind int, text string) *Event {
	e := &Event{Kind: kind, Stamp: Stamp{PubKey: key(1)}}
	for line := range strings.SplitSeq(text, "\n") {
		e.Tags = append(e.Tags, strings.Split(line, "\t"))
	}
	return e
}

func FuzzAnnouncement(f *testing.F) {
	f.Add("d\trepo\nclone\thttps://us.example/x.git\nrelays\twss://us.example\nmaintainers\t" + hexString(key(1)) + "\nr\t" + oid(1) + "\teuc")
	f.Add("d\t..\n\nd")
	s := service(f, "us.example")
	f.Fuzz(func(t *testing.T, text string) {
		e := tagsOf(KindAnnouncement, text)
		e.References()
		a, err := ParseAnnouncement(e)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "invalid: ") {
				t.Errorf("the reason has no prefix: %v", err)
			}
			return
		}
		if a.EarliestCommit != "" && !isObject(a.EarliestCommit) {
			t.Errorf("earliest commit %q", a.EarliestCommit)
		}
		if got, ok := ParseRepo(a.Repo().Address()); !ok || got != a.Repo() {
			t.Errorf("the address %q is another one's", a.Repo().Address())
		}
		if p, err := ParsePath(a.Repo().Path()); err != nil || p.Repo != a.Repo() {
			t.Errorf("the path %q is another one's: %v", a.Repo().Path(), err)
		}
		rules := Rules{Service: s}
		if standing, reason := rules.Announcement(a, false); (standing == Hosted) != a.ListsService(s) || (reason == "") != (standing == Hosted) {
			t.Errorf("%v, %q", standing, reason)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add("d\trepo\nHEAD\tref: refs/heads/main\nrefs/heads/main\t" + oid(1) + "\nrefs/tags/v1\t" + oid(2) + "\nrefs/tags/v1^{}\t" + oid(3))
	f.Add("d\trepo\nrefs/heads/a\t" + oid(1) + "\nrefs/heads/a/b\t" + oid(1) + "\nrefs/heads/a\t" + oid(2) + "\nrefs/heads/x\tdeadbeef")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseState(tagsOf(KindState, text))
		if err != nil {
			return
		}
		for i, ref := range s.Refs {
			object, ok := ParseObject(ref.Object)
			if !ok || object != ref.Object || CheckRef(ref.Name) != nil || !tracked(ref.Name) {
				t.Errorf("%q reaches git", ref)
			}
			if i > 0 && s.Refs[i-1].Name >= ref.Name {
				t.Errorf("%q is out of order", ref)
			}
		}
		if s.Head != "" && (CheckRef(s.Head) != nil || !strings.HasPrefix(s.Head, "refs/heads/")) {
			t.Errorf("HEAD is %q", s.Head)
		}
		al := Align(nil, "", s, func(Ref) bool { return true })
		if al.Complete() != (s.Tracks() && len(s.Faults) == 0) || al.Complete() && len(al.Updates) != len(s.Refs) {
			t.Errorf("%+v is followed as %+v", s, al)
		}
	})
}

// FuzzURL checks that each URL that the service takes as its own is valid for net/url too.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"https://us.example/x.git", "wss://us.example:443", "http://us.example.:80/?x#y", "https://us.example@evil/", `https://evil\@us.example`,
		"http://[::1]:80/x", "https://us.example:/", "https://us.example#@evil", "https://US.example:0443/%zz",
	} {
		f.Add(s)
	}
	services := []Service{service(f, "us.example"), service(f, "[::1]")}
	f.Fuzz(func(t *testing.T, s string) {
		ParseService(s)
		for _, service := range services {
			if !service.ServesGit(s) && !service.IsRelay(s) {
				continue
			}
			if at := strings.IndexAny(s[8:], "/?#"); at >= 0 {
				s = s[:8+at] // net/url is strict about what follows, which does not matter here
			}
			u, err := url.Parse(s)
			if err != nil {
				t.Fatalf("%q is no URL: %v", s, err)
			}
			host := strings.Trim(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), "[]")
			if host != strings.Trim(service.Host, "[]") || u.User != nil {
				t.Errorf("%q is taken for %s", s, service)
			}
			if port := strings.TrimLeft(u.Port(), "0"); port != "" && port != "80" && port != "443" {
				t.Errorf("%q is taken for %s", s, service)
			}
		}
	})
}

func FuzzPath(f *testing.F) {
	n := npub(1)
	for _, s := range []string{"/" + n + "/repo.git/info/refs", "/prs/" + n + "/a%20b.git", "/" + n + "/..%2F.git", "/" + n + "/%2e%2e.git/..", "/" + n + "/%252e.git"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePath(s)
		if err != nil {
			return
		}
		if CheckIdentifier(p.Identifier) != nil || strings.ContainsAny(p.Identifier, "/\\\x00\n") || !utf8.ValidString(p.Identifier) {
			t.Errorf("%q gives the identifier %q", s, p.Identifier)
		}
		for part := range strings.SplitSeq(p.Rest, "/") {
			if strings.HasPrefix(part, ".") || strings.ContainsAny(part, "%\\\x00") {
				t.Errorf("%q gives the rest %q", s, p.Rest)
			}
		}
		again := p.Path()
		if p.PRs {
			again = "/prs" + again
		}
		if p.Rest != "" {
			again += "/" + p.Rest
		}
		if q, err := ParsePath(again); err != nil || q.Repo != p.Repo || q.PRs != p.PRs || strings.TrimSuffix(q.Rest, "/") != strings.TrimSuffix(p.Rest, "/") {
			t.Errorf("%q is written as %q, which is read as %+v, %v", s, again, q, err)
		}
	})
}

// model decides about a push with maps, without regard for speed or reasons.
func model(p *Push) *State {
	refs, result := map[string]string{}, map[string]string{}
	for _, ref := range p.Refs {
		refs[ref.Name] = ref.Object
		if tracked(ref.Name) {
			result[ref.Name] = ref.Object
		}
	}
	seen := map[string]bool{}
	for _, u := range p.Updates {
		old := refs[u.Ref]
		if old == "" {
			old = none
		}
		if seen[u.Ref] || !tracked(u.Ref) || u.Old != old && u.New != old {
			return nil
		}
		seen[u.Ref] = true
		if result[u.Ref] = u.New; u.New == none {
			delete(result, u.Ref)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	var best *State
	whole := false // best is all that there is after the push
	for _, c := range p.States {
		want := map[string]string{}
		for _, ref := range c.Refs {
			want[ref.Name] = ref.Object
		}
		fits := slices.Contains(p.Maintainers, c.PubKey) && len(c.Refs) > 0 && len(c.Faults) == 0
		for ref := range seen {
			fits = fits && want[ref] == result[ref]
		}
		for _, other := range p.States {
			if other.Served && other.Tracks() && slices.Contains(p.Maintainers, other.PubKey) && other.Newer(&c.Stamp) {
				fits = false
			}
		}
		all := maps.Equal(want, result)
		if fits && (best == nil || all && !whole || all == whole && c.Newer(&best.Stamp)) {
			best, whole = c.State, all
		}
	}
	return best
}

var fuzzRefs = []string{mainRef, devRef, tagRef, "refs/heads/a/b", "refs/pull/1"}

// pushOf makes a push of a few refs, objects and states out of bytes.
func pushOf(t testing.TB, data []byte) *Push {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b % n
	}
	p := &Push{Maintainers: keys(1, 2)}
	current := map[string]string{}
	for _, ref := range fuzzRefs {
		if n := next(4); n > 0 {
			p.Refs = append(p.Refs, Ref{ref, oid(n)})
			current[ref] = oid(n)
		}
	}
	for range 1 + next(4) {
		var tags []string
		for _, ref := range fuzzRefs[:4] {
			switch n := next(9); {
			case n == 8:
				tags = append(tags, ref+" deadbeef")
			case n > 4:
				tags = append(tags, ref+" "+oid(n-4))
			}
		}
		p.States = append(p.States, Candidate{state(t, 1+next(3), int64(next(4)), tags...), next(3) == 0})
	}
	if toward := p.States[next(len(p.States))].State; next(2) == 1 {
		for _, ref := range fuzzRefs[:4] {
			u := Update{ref, none, none}
			if object := current[ref]; object != "" {
				u.Old = object
			}
			if object := toward.Object(ref); object != "" {
				u.New = object
			}
			if u.Old != u.New {
				p.Updates = append(p.Updates, u)
			}
		}
		return p
	}
	for range next(5) {
		u := Update{fuzzRefs[next(len(fuzzRefs))], none, none}
		if object := current[u.Ref]; object != "" && next(8) > 0 {
			u.Old = object
		}
		if n := next(4); n > 0 {
			u.New = oid(n)
		}
		p.Updates = append(p.Updates, u)
	}
	return p
}

func FuzzPush(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1})
	f.Add([]byte{1, 0, 2, 0, 0, 1, 6, 5, 0, 0, 1, 1, 0, 5, 5, 5, 0, 0, 2, 0, 2, 1, 1, 2, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := pushOf(t, data)
		want, got := model(p), p.Authorize()
		if got.State != want || got.OK() != (want != nil) {
			t.Fatalf("%+v\nwas decided as %+v, want %+v", p, got, want)
		}
		for _, c := range p.States {
			checkAligned(t, p, c.State)
		}
	})
}

// checkAligned checks that following a state leads to it, and that a push of the
// same updates would be authorised by it.
func checkAligned(t *testing.T, p *Push, s *State) {
	al := Align(p.Refs, "", s, func(Ref) bool { return true })
	if !al.Complete() {
		return
	}
	push := Push{Updates: al.Updates, Refs: p.Refs, Maintainers: []PubKey{s.PubKey}, States: []Candidate{{s, true}}}
	if len(al.Updates) == 0 {
		if got := apply(sortedRefs(p.Refs), nil); !slices.Equal(got, s.Refs) {
			t.Fatalf("%v is taken for %v", got, s.Refs)
		}
		return
	}
	if got := push.Authorize(); got.State != s {
		t.Fatalf("%+v is not what the state says: %s", push, got.Text())
	}
}

// TestPushModel runs what the fuzzer would, from a fixed start.
func TestPushModel(t *testing.T) {
	authorised, refused := 0, 0
	seed := uint32(1)
	for range 50000 {
		data := make([]byte, 60)
		for i := range data {
			seed = seed*1664525 + 1013904223
			data[i] = byte(seed >> 24)
		}
		p := pushOf(t, data)
		want, got := model(p), p.Authorize()
		if got.State != want || got.OK() != (want != nil) {
			t.Fatalf("%+v\nwas decided as %+v, want %+v", p, got, want)
		}
		for _, c := range p.States {
			checkAligned(t, p, c.State)
		}
		if want != nil {
			authorised++
		} else {
			refused++
		}
	}
	if authorised < 100 || refused < 100 {
		t.Errorf("%d pushes authorised, %d refused: too few of one kind", authorised, refused)
	}
}

// A push of 1,000 refs to a repository of 1,000 others, with ten states that
// wait.
func BenchmarkPush1000(b *testing.B) {
	var p Push
	var all []string
	for i := range 1000 {
		there := fmt.Sprintf("refs/heads/there-%04d", i)
		p.Refs = append(p.Refs, Ref{there, oid(i + 1)})
		all = append(all, there+" "+oid(i+1))
		pushed := fmt.Sprintf("refs/tags/pushed-%04d", i)
		p.Updates = append(p.Updates, create(pushed, i+1))
		all = append(all, pushed+" "+oid(i+1))
	}
	p.Maintainers = keys(1)
	for i := range 10 {
		p.States = append(p.States, Candidate{state(b, 1, int64(i), all...), false})
		all = all[:len(all)-1]
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := p.Authorize(); !got.OK() {
			b.Fatal(got.Text())
		}
	}
}

func BenchmarkParseState1000(b *testing.B) {
	e := event(KindState, 1, 1, "d repo", "HEAD refs/heads/branch-0001")
	for i := range 1000 {
		e.Tags = append(e.Tags, []string{fmt.Sprintf("refs/heads/branch-%04d", 999-i), oid(i + 1)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseState(e); err != nil {
			b.Fatal(err)
		}
	}
}

// 1,000 announcements in a chain, and 1,000 that all list each other.
func BenchmarkMaintainers1000(b *testing.B) {
	var chain []*Announcement
	for i := range 1000 {
		chain = append(chain, lists(b, i, 1, i+1, 999-i))
	}
	for name, announcements := range map[string][]*Announcement{"chain": chain, "everyone": everyone(b, 1000)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(NewGraph(announcements).Maintainers(key(0))) < 1000 {
					b.Fatal("the set is too small")
				}
			}
		})
	}
}

func BenchmarkListsService(b *testing.B) {
	s := service(b, "gitnostr.com")
	a := announcement(b, 1, 1, "clone https://relay.ngit.dev/npub1x/x.git https://gitnostr.com/npub1x/x.git", "relays wss://relay.ngit.dev wss://gitnostr.com wss://relay.damus.io")
	b.ReportAllocs()
	for b.Loop() {
		if !a.ListsService(s) {
			b.Fatal("it does not")
		}
	}
}
