package grasp

import (
	"fmt"
	"testing"
)

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
