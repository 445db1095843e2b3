package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestGrasp tells the stories of those who use one GRASP service at the same time:
// owners, maintainers, contributors and strangers, with plain git and a websocket.
// In the end events and repositories agree.
func TestGrasp(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	s := startGrasp(t, data, pluginFolder(t, graspChain...))
	for name, tell := range map[string]func(*story){
		"first push":              firstPush,
		"empty repository":        emptyRepository,
		"purgatory":               inPurgatory,
		"identifiers":             identifiers,
		"traversal":               traversal,
		"who is listed":           whoIsListed,
		"maintainers":             maintainerLists,
		"maintainers follow":      maintainersFollow,
		"announced again":         announcedAgain,
		"who may sign":            whoMaySign,
		"impossible states":       impossibleStates,
		"state of what is here":   stateOfWhatIsHere,
		"older states":            olderStates,
		"unrelated roots":         unrelatedRoots,
		"head comes later":        headComesLater,
		"no head":                 noHead,
		"deleted already":         deletedAlready,
		"part by part":            partByPart,
		"a part in vain":          aPartInVain,
		"pull request":            pullRequest,
		"own place":               ownPlace,
		"own place, first":        ownPlaceFirst,
		"own place, refusals":     ownPlaceRefusals,
		"deleted while held":      deletedWhileHeld,
		"deleted when served":     deletedWhenServed,
		"deleted the same second": deletedTheSameSecond,
		"related":                 related,
		"orphans":                 orphans,
		"held opens nothing":      heldOpensNothing,
		"page":                    page,
		"grasp list":              graspList,
		"refused pushes":          refusedPushes,
		"protocols":               protocols,
		"fetch what is hidden":    fetchByID,
		"not smart":               notSmart,
		"every origin":            everyOrigin,
		"information":             information,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(newStory(t, s))
		})
	}
}

// firstPush: the owner announces a repository, says what it will have, and pushes
// with plain git. When git says that it is over, the events are served, in the order
// in which they belong, also to those who wait for them; nobody looks for them on other
// servers any more; and everybody can clone.
func firstPush(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "first")
	work := st.folder()
	one := work.commit("one")

	live := connect(st, st.s)
	live.send(st, `["REQ","live",{"kinds":[30617,30618],"authors":["`+owner.hex()+`"]}]`)
	live.mustNext(st, "EOSE")

	announcement := st.held(st.announcement(owner, "first"))
	// No retry: after the answer that the announcement is held, it can be seen. Benchmarks measure
	// how soon.
	st.wantStatus(http.StatusOK, "GET", repoPath(owner, "first")+"/info/refs?service=git-upload-pack")

	work.cannotPush("no state event of a maintainer says so: publish one (kind 30618), then push", url, "main")
	state := st.held(st.state(owner, "first", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	st.wantServed(announcement, false)
	st.wantServed(state, false)

	hunted := func() bool {
		out, err := talon(st, nil, "hunt", "status", "--json", "--limit", "1000", "--data", st.s.data)
		if err != nil {
			st.Fatal(err)
		}
		return strings.Contains(out, `"identifier": "first"`)
	}
	if !hunted() {
		st.Error("nobody is to look for what the state names")
	}

	work.push(url, "main")
	st.wantServed(announcement, true)
	st.wantServed(state, true)
	var released []string
	for range 2 {
		var e nostr.Event
		text := live.mustNext(st, "EVENT")
		if err := json.Unmarshal([]byte(text), &[]any{new(string), new(string), &e}); err != nil {
			st.Fatalf("%v: %s", err, text)
		}
		released = append(released, e.ID)
	}
	if !sameSet(released, []string{announcement.ID, state.ID}) {
		st.Errorf("subscribers got %v", released)
	}

	st.until("nothing is searched for any more", func() bool { return !hunted() })

	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
	clone := filepath.Join(st.TempDir(), "clone")
	st.git(".", "clone", "-q", url, clone)
	if got := st.git(clone, "rev-parse", "HEAD"); got != one {
		st.Errorf("the clone is at %s, want %s", got, one)
	}
	if out := work.push(url, "main"); !strings.Contains(out, "up-to-date") {
		st.Errorf("a second push: %s", out)
	}
}

// noHead: a state that names no HEAD, or one that is not there yet, leaves a clone with a
// branch to check out all the same.
func noHead(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	st.held(st.announcement(owner, "demo"))
	text := st.ask("GET", repoPath(owner, "demo")+"/info/refs?service=git-upload-pack", nil).body
	for _, want := range []string{"capabilities^{}", "symref=HEAD:refs/heads/master", "allow-tip-sha1-in-want", "allow-reachable-sha1-in-want", "filter", "object-format=sha1"} {
		if !strings.Contains(text, want) {
			st.Errorf("an empty repository does not say %s: %q", want, text)
		}
	}
	work := st.folder()
	one := work.commit("one")
	st.held(st.state(owner, "demo", "refs/heads/dev", one, "refs/heads/main", one))
	work.push(url, "main", "main:dev")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/dev="+one, "refs/heads/main="+one)
	st.stored(st.state(owner, "demo", "refs/heads/dev", one, "HEAD", "ref: refs/heads/next"))
	st.getRefs(url, "HEAD=refs/heads/dev", "refs/heads/dev="+one)
}

// deletedAlready: the owner says that a branch is gone, it goes immediately, and only
// then her client deletes it. It hears that there is nothing to do, and no error.
func deletedAlready(st *story) {
	owner := st.who("owner")
	path, url := repoPath(owner, "demo"), st.repo(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "demo"))
	st.held(st.state(owner, "demo", "refs/heads/dev", one, "refs/heads/main", one))
	work.push(url, "main", "main:dev")
	st.stored(st.state(owner, "demo", "refs/heads/main", one))
	st.getRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
	for _, old := range []string{zeroObject, one} { // libgit2 after it has looked, and a client that looked before
		got := st.ask("POST", path+"/git-receive-pack", []byte(pkt(old+" "+zeroObject+" refs/heads/dev\x00report-status side-band-64k")+"0000"), "Content-Type", pushRequest)
		if !strings.Contains(got.body, "ok refs/heads/dev\n") || !strings.Contains(got.body, "warning: refs/heads/dev is not here") {
			st.Errorf("a deletion of what is gone, from %s: %q", old, got.body)
		}
	}
	// Together with what is new.
	two := work.commit("two")
	st.held(st.state(owner, "demo", "refs/heads/main", two))
	work.git("remote", "add", "origin", url)
	got := st.ask("POST", path+"/git-receive-pack", []byte(pkt(zeroObject+" "+zeroObject+" refs/heads/dev\x00report-status")+pkt(one+" "+two+" refs/heads/main")+"0000"+
		work.pack(two, "^"+one)), "Content-Type", pushRequest)
	if !strings.Contains(got.body, "ok refs/heads/dev\n") || !strings.Contains(got.body, "ok refs/heads/main\n") {
		st.Errorf("a push with a deletion of what is gone: %q", got.body)
	}
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+two)
	// The server never deletes a ref that the state has, whatever object the client names.
	got = st.ask("POST", path+"/git-receive-pack", []byte(pkt(zeroObject+" "+zeroObject+" refs/heads/main\x00report-status")+"0000"), "Content-Type", pushRequest)
	if !strings.Contains(got.body, "ng refs/heads/main ") {
		st.Errorf("a deletion of what is there: %q", got.body)
	}
}

// partByPart: the client pushes the refs of a state one by one. Each of them is there
// immediately, the state is served with the last one, and the client's answer says so.
func partByPart(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	announcement := st.held(st.announcement(owner, "demo"))
	unrelated := work.unrelated()
	first := st.held(st.state(owner, "demo", "refs/heads/dev", unrelated, "refs/heads/main", one, "refs/tags/v1", one))
	const part = "accepted as a part: the state event takes effect when the rest of it is pushed: "
	heard := func(out, want string) {
		st.Helper()
		if out = strings.Join(strings.Fields(strings.ReplaceAll(out, "remote:", " ")), " "); (want == "") == strings.Contains(out, part) || !strings.Contains(out, want) {
			st.Errorf("the client hears\n%s\nwant %q", out, want)
		}
	}
	heard(work.push(url, one+":refs/tags/v1"), part+"refs/heads/dev refs/heads/main")
	st.wantRefs(url, "refs/tags/v1="+one)
	st.wantServed(announcement, false)
	work.cannotPush("refs/heads/extra", url, one+":refs/heads/extra")
	// The last objects are here with dev: main needs no push any more.
	heard(work.push(url, unrelated+":refs/heads/dev"), "")
	st.wantServed(first, true)
	st.wantServed(announcement, true)
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/dev="+unrelated, "refs/heads/main="+one, "refs/tags/v1="+one)
	work.push(url, one+":refs/heads/main")

	// The next state is no different, and its deletions take effect with it.
	work.git("checkout", "-q", "--detach", one)
	two := work.commit("two")
	work.git("checkout", "-q", "--detach", unrelated)
	three := work.commit("three")
	second := st.held(st.state(owner, "demo", "refs/heads/dev", three, "refs/heads/main", two))
	work.push(url, ":refs/tags/v1")
	heard(work.push(url, two+":refs/heads/main"), part+"refs/heads/dev refs/tags/v1")
	st.wantServed(second, false)
	st.wantServed(first, true)
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/dev="+unrelated, "refs/heads/main="+two, "refs/tags/v1="+one)
	heard(work.push(url, three+":refs/heads/dev"), "")
	st.wantServed(second, true)
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/dev="+three, "refs/heads/main="+two)
}

// aPartInVain: a state of which a part was pushed is deleted. The refs are again those of
// the state that is served.
func aPartInVain(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one := st.published(owner, work)
	two := work.commit("two")
	three := work.commit("three")
	state := st.held(st.state(owner, "demo", "refs/heads/dev", three, "refs/heads/main", two))
	work.push(url, two+":refs/heads/main")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+two)
	st.stored(st.event(owner, 5, nostr.Tag{"e", state.ID}, nostr.Tag{"k", "30618"}))
	st.getRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
}

// emptyRepository: who follows an announcement clones before anything was pushed, as
// little as possible, and pushes from there.
func emptyRepository(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	st.held(st.announcement(owner, "demo"))
	for i, args := range [][]string{nil, {"--filter=blob:none"}, {"--depth=1"}, {"-c", "protocol.version=0"}, {"-c", "protocol.version=1", "--depth=1"}, {"--bare", "--filter=tree:0"}, {"--mirror"}} {
		dir := filepath.Join(st.TempDir(), fmt.Sprint("clone", i))
		if out := st.git(".", append(append([]string{"clone"}, args...), url, dir)...); !strings.Contains(out, "empty repository") {
			st.Errorf("clone %v: %s", args, out)
		}
	}
	work := st.folder()
	one := work.commit("one")
	st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(url, "main")
	shallow := filepath.Join(st.TempDir(), "shallow")
	work.commit("two")
	st.held(st.state(owner, "demo", "refs/heads/main", work.git("rev-parse", "main")))
	work.push(url, "main")
	st.git(".", "clone", "-q", "--depth=1", "--filter=blob:none", url, shallow)
	if n := st.git(shallow, "rev-list", "--count", "HEAD"); n != "1" {
		st.Errorf("a shallow clone has %s commits", n)
	}
}

// inPurgatory: what is held is served by no question that a client can ask.
func inPurgatory(st *story) {
	owner, contributor := st.who("owner"), st.who("contributor")
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "demo"))
	st.held(st.state(owner, "demo", "refs/heads/main", one))
	st.held(st.pull(contributor, one, repoAddress(owner, "demo")))
	filters := []string{
		`{"authors":["` + owner.hex() + `","` + contributor.hex() + `"]}`,
		`{"kinds":[30617,30618],"#d":["demo"],"authors":["` + owner.hex() + `"]}`,
		`{"kinds":[1618],"#a":["` + repoAddress(owner, "demo") + `"]}`,
	}
	ask := func(want ...int) {
		st.Helper()
		for i, filter := range filters {
			if n := len(st.c.query(st, filter)); n != want[i] {
				st.Errorf("REQ %s: %d events, want %d", filter, n, want[i])
			}
			if n := st.count(filter); n != want[i] {
				st.Errorf("COUNT %s: %d, want %d", filter, n, want[i])
			}
			if list := st.reconciled(filter); len(list) != want[i] {
				st.Errorf("NEG-OPEN %s: %v, want %d", filter, list, want[i])
			}
		}
	}
	ask(0, 0, 0)
	work.push(st.repo(owner, "demo"), "main")
	ask(3, 2, 1)
}

// identifiers: whatever the d tag is made of, the repository is at the URL that has
// it percent-encoded, decoded once; and what cannot be a name is refused.
func identifiers(st *story) {
	owner := st.who("owner")
	work := st.folder()
	one := work.commit("one")
	for _, id := range []string{"a:b", "two words", "🦅", strings.Repeat("long", 50), "UPPER", "upper", "a%2Fb", "%2e%2e", "-x", "x.git", ".git", "...", "ü", "q?x=y#z"} {
		st.held(st.announcement(owner, id))
		st.held(st.state(owner, id, "refs/heads/main", one))
		work.push(st.repo(owner, id), "main")
		st.wantRefs(st.repo(owner, id), "HEAD=refs/heads/main", "refs/heads/main="+one)
	}
	// The same name, more of it encoded than need be, is the same repository.
	st.wantRefs(st.web+"/"+owner.npub()+"/%75%70per.git", "HEAD=refs/heads/main", "refs/heads/main="+one)
	st.wantRefs(st.web+"/"+owner.npub()+"/a%3Ab.git", "HEAD=refs/heads/main", "refs/heads/main="+one)
	st.wantRefs(st.web+"/"+owner.npub()+"/🦅.git", "HEAD=refs/heads/main", "refs/heads/main="+one)
	for _, id := range []string{"", ".", "..", "a/b", "/etc", `a\b`, "nul\x00", "tab\t", "line\n", "\u0085"} {
		if a := st.c.publish(st, st.announcement(owner, id)); a.ok || !strings.HasPrefix(a.reason, "invalid: ") {
			st.Errorf("the announcement of %q: %+v", id, a)
		}
		if a := st.c.publish(st, st.state(owner, id, "refs/heads/main", one)); a.ok || !strings.HasPrefix(a.reason, "invalid: ") {
			st.Errorf("the state of %q: %+v", id, a)
		}
	}
}

// traversal: a stranger asks for files and for repositories by other ways than their
// own, past every library that would clean the path.
func traversal(st *story) {
	owner := st.who("owner")
	one := st.published(owner, st.folder())
	npub, upload := owner.npub(), "/info/refs?service=git-upload-pack"
	st.wantStatus(http.StatusOK, "GET", "/"+npub+"/demo.git"+upload)
	for _, path := range []string{
		"/../../../../etc/passwd", "/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2f..%2fetc%2fpasswd", "//etc/passwd", `/..\..\etc\passwd`,
		"/" + npub + "/../" + npub + "/demo.git" + upload,
		"/" + npub + "/%2e%2e/" + npub + "/demo.git" + upload,
		"/" + npub + "/..%2f" + npub + "%2fdemo.git" + upload,
		"/" + npub + "/..%5cdemo.git" + upload,
		"/" + npub + "/x%2f..%2fdemo.git" + upload,
		"/" + npub + "/%252e%252e%252fdemo.git" + upload,
		"/" + npub + "/./demo.git" + upload,
		"/" + npub + "//demo.git" + upload,
		"//" + npub + "/demo.git" + upload,
		"/" + npub + "/demo.git/../demo.git" + upload,
		"/" + npub + "/demo.git/." + upload,
		"/" + npub + "/demo.git%00" + upload,
		"/" + npub + "/demo.git%0a" + upload,
		"/" + npub + "/demo%2egit%2finfo%2frefs?service=git-upload-pack",
		"/" + npub + "/..git" + upload, "/" + npub + "/...git" + upload, "/" + npub + "/.git" + upload,
		"/" + npub + "/demo.GIT" + upload,
		"/" + strings.ToUpper(npub) + "/demo.git" + upload,
		"/" + npub[:len(npub)-1] + "q/demo.git" + upload,
		"/" + npub + "q/demo.git" + upload,
		"/" + owner.hex() + "/demo.git" + upload,
		"/nostr:" + npub + "/demo.git" + upload,
		"/x/" + npub + "/demo.git" + upload,
		"/prs/prs/" + npub + "/demo.git" + upload,
		"/.shared/sha1/demo.git" + upload, "/git/" + npub + "/demo.git" + upload, "/demo.git" + upload,
		"/" + npub + "/demo.git/config", "/" + npub + "/demo.git/HEAD", "/" + npub + "/demo.git/objects/info/packs",
		"/" + npub + "/demo.git/objects/" + one[:2] + "/" + one[2:], "/" + npub + "/demo.git/../../talon.db", "/talon.db",
	} {
		r := st.ask("GET", path, nil)
		if r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
			st.Errorf("GET %s: status %d\n%.300s", path, r.status, r.body)
		}
	}
	for _, path := range []string{"/" + npub + "/..%2fdemo.git/git-receive-pack", "/" + npub + "/%2e%2e.git/git-receive-pack"} {
		r := st.ask("POST", path, []byte(pkt(zeroObject+" "+one+" refs/heads/x\x00report-status")+"0000"), "Content-Type", pushRequest)
		if r.status != http.StatusNotFound {
			st.Errorf("POST %s: status %d\n%.300s", path, r.status, r.body)
		}
	}
}

// whoIsListed: an announcement is for this service if a clone URL and a relay have
// its host and port, compared as URLs are, never by substring.
func whoIsListed(st *story) {
	owner := st.who("owner")
	const right, relay = "https://relay.test/x/y.git", "wss://relay.test"
	n := 0
	try := func(clone, relays string) *nostr.Event {
		n++
		return st.event(owner, 30617, nostr.Tag{"d", fmt.Sprint("demo", n)}, nostr.Tag{"clone", clone}, nostr.Tag{"relays", relays})
	}
	for _, pair := range [][2]string{
		{right, relay}, {"https://RELAY.test/x/y.git", "WSS://relay.TEST/"}, {"http://relay.test/x/y.git", "ws://relay.test"},
		{"https://relay.test:443/x", "wss://relay.test:443/"}, {"https://relay.test./x", relay}, {right + "?a=b", relay},
	} {
		st.held(try(pair[0], pair[1]))
	}
	// Any value of any such tag counts.
	st.held(st.event(owner, 30617, nostr.Tag{"d", "many"}, nostr.Tag{"clone", "https://other.test/x"}, nostr.Tag{"clone", "git://x/y", "https://relay.test/z"},
		nostr.Tag{"relays", "wss://other.test"}, nostr.Tag{"relays", "wss://third.test", relay}))
	for _, pair := range [][2]string{
		{right, ""}, {"", relay}, {right, "wss://other.test"}, {"https://other.test/x/y.git", relay},
		{"https://relay.test.evil.test/x", relay}, {"https://evilrelay.test/x", relay}, {"https://evil.test/relay.test", relay},
		{"https://evil.test/?relay.test", relay}, {"https://relay.test@evil.test/x", relay}, {"https://evil.test#relay.test", relay},
		{"https://x@relay.test/x", relay}, {"https://relay.test:8443/x", relay}, {"http://relay.test:443/x", relay}, {"relay.test/x", relay},
		{"ssh://relay.test/x", relay}, {"https://relay.test\\@evil.test/x", relay}, {"https:///relay.test/x", relay}, {"https://%72elay.test/x", relay},
		{right, "https://relay.test"}, {right, "relay.test"}, {right, "wss://relay.test:7777"}, {right, "wss://relay.test.evil.test"}, {right, "wss://sub.relay.test"},
		{"", ""},
	} {
		st.refused(try(pair[0], pair[1]), notListedReason)
	}
	// Other tags say nothing of where the repository is.
	st.refused(st.event(owner, 30617, nostr.Tag{"d", "tags"}, nostr.Tag{"web", right}, nostr.Tag{"r", relay}), notListedReason)
}

// maintainerLists: the owner lists a maintainer, who lists another, who lists the owner
// again; one of them has announced nothing. A maintainer's announcement that is for
// other services is served immediately, and has no repository here.
func maintainerLists(st *story) {
	owner, maintainer, third, last, stranger := st.who("owner"), st.who("maintainer"), st.who("third"), st.who("last"), st.who("stranger")
	url := st.repo(owner, "demo")
	elsewhere := func(who person, listed ...person) *nostr.Event {
		tags := []nostr.Tag{{"d", "demo"}, {"clone", "https://other.test/x.git"}, {"relays", "wss://other.test"}}
		for _, m := range listed {
			tags = append(tags, nostr.Tag{"maintainers", m.hex()}) // several tags count
		}
		return st.event(who, 30617, tags...)
	}
	st.refused(elsewhere(maintainer, third), notListedReason)
	st.held(st.announcement(owner, "demo", maintainer))
	st.refused(elsewhere(third, last), notListedReason) // nobody whom the owner trusts lists it yet
	st.refused(elsewhere(stranger, owner), notListedReason)
	st.stored(elsewhere(maintainer, stranger, third)) // while the owner's is held
	st.stored(elsewhere(maintainer, owner, third))    // in its place: the stranger counts no longer
	st.stored(elsewhere(third, owner, last))
	st.refused(st.state(stranger, "demo", "refs/heads/main", strings.Repeat("1", 40)), notAuthorizedReason)
	for _, who := range []person{maintainer, third, last} {
		if got := st.refsOf(st.repo(who, "demo")); got != "absent" {
			st.Errorf("there is a repository of one who announced none here: %s", got)
		}
		st.wantStatus(http.StatusNotFound, "GET", repoPath(who, "demo"))
	}
	work := st.folder()
	for i, who := range []person{last, third, maintainer, owner} {
		commit := work.commit(fmt.Sprint(i))
		state := st.held(st.state(who, "demo", "refs/heads/main", commit))
		work.push(url, "main")
		st.wantServed(state, true)
		st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+commit)
	}
}

// maintainersFollow: two who maintain each other's repositories push to one, and the other
// has it a moment later. A stranger who names them without being named gets the data, but
// is not served for it.
func maintainersFollow(st *story) {
	owner, maintainer, stranger := st.who("owner"), st.who("maintainer"), st.who("stranger")
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "demo", maintainer))
	his := st.held(st.announcement(maintainer, "demo", owner))
	theirs := st.held(st.announcement(stranger, "demo", owner))
	st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(st.repo(owner, "demo"), "main")
	st.getRefs(st.repo(maintainer, "demo"), "HEAD=refs/heads/main", "refs/heads/main="+one)
	st.becomesServed(his)
	st.getRefs(st.repo(stranger, "demo"), "HEAD=refs/heads/main", "refs/heads/main="+one)
	st.wantServed(theirs, false)
	// The maintainer's own push goes the other way.
	two := work.commit("two")
	state := st.held(st.state(maintainer, "demo", "refs/heads/main", two))
	work.push(st.repo(maintainer, "demo"), "main")
	st.wantServed(state, true)
	st.getRefs(st.repo(owner, "demo"), "HEAD=refs/heads/main", "refs/heads/main="+two)
}

// announcedAgain announces a repository again. A stored announcement is replaced immediately, and a
// held one is replaced in purgatory. Older announcements change nothing.
func announcedAgain(st *story) {
	owner, maintainer := st.who("owner"), st.who("maintainer")
	work := st.folder()
	one := work.commit("one")
	older := st.announcement(owner, "demo")
	first := st.held(st.announcement(owner, "demo"))
	second := st.held(st.announcement(owner, "demo", maintainer))
	if a := st.c.publish(st, older); a.ok && a.reason == purgatory {
		st.Errorf("an older announcement is held beside a newer one: %+v", a)
	}
	st.held(st.state(maintainer, "demo", "refs/heads/main", one))
	work.push(st.repo(owner, "demo"), "main")
	st.wantServed(first, false)
	st.wantServed(second, true)
	third := st.stored(st.announcement(owner, "demo"))
	st.wantServed(second, false)
	st.c.publish(st, first)
	st.wantServed(first, false)
	st.wantServed(third, true)
	// The maintainer is none any more.
	st.refused(st.state(maintainer, "demo", "refs/heads/main", one), notAuthorizedReason)
}

// whoMaySign: a state needs an announcement of its identifier, and an author whom
// somebody that announced it has named. The two errors are those that clients know.
func whoMaySign(st *story) {
	owner, stranger := st.who("owner"), st.who("stranger")
	id := "demo " + owner.hex()
	commit := strings.Repeat("1", 40)
	st.refused(st.state(owner, id, "refs/heads/main", commit), notAnnouncedReason)
	st.held(st.announcement(owner, id))
	st.refused(st.state(stranger, id, "refs/heads/main", commit), notAuthorizedReason)
	st.held(st.state(owner, id, "refs/heads/main", commit))
	st.refused(st.state(owner, id+"x", "refs/heads/main", commit), notAnnouncedReason)
}

// impossibleStates: the server does not judge the refs of a state when it comes. A state
// that no data can meet waits in vain, allows no push, and blocks nobody.
func impossibleStates(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	blob := work.git("rev-parse", "HEAD:file")
	st.held(st.announcement(owner, "demo"))
	good := st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(url, "main")
	var bad []*nostr.Event
	for _, refs := range [][]string{
		{"refs/heads/main", "deadbeef"},
		{"refs/heads/main", strings.Repeat("deadbeef", 5)},
		{"refs/heads/main", "--upload-pack=touch /tmp/x"},
		{"refs/heads/main", "refs/heads/other"},
		{"refs/heads/main", blob},
		{"refs/heads/a..b", one},
		{"refs/heads/main", one, "refs/heads/main/sub", one},
	} {
		bad = append(bad, st.held(st.state(owner, "demo", refs...)))
		work.cannotPush("the newest state event", url, one+":refs/heads/other")
	}
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
	two := work.commit("two")
	last := st.held(st.state(owner, "demo", "refs/heads/main", two))
	work.push(url, "main")
	st.wantServed(last, true)
	for _, e := range append(bad, good) {
		st.wantServed(e, false)
	}
}

// stateOfWhatIsHere: a state whose objects have all come before is served immediately,
// and moves the refs: branches and tags are made, moved and deleted. Entries of peeled
// tags say nothing; HEAD is understood with and without "ref: ".
func stateOfWhatIsHere(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	work.git("tag", "-a", "v1", "-m", "v1")
	tag := work.git("rev-parse", "v1")
	two := work.commit("two")
	st.held(st.announcement(owner, "demo"))
	st.held(st.state(owner, "demo", "HEAD", "refs/heads/old", "refs/heads/main", two, "refs/heads/old", one, "refs/tags/v1", tag, "refs/tags/v1^{}", one))
	work.push(url, "main", one+":refs/heads/old", "v1")
	st.wantRefs(url, "HEAD=refs/heads/old", "refs/heads/main="+two, "refs/heads/old="+one, "refs/tags/v1="+tag)

	st.stored(st.state(owner, "demo", "HEAD", "ref: refs/heads/main", "refs/heads/main", one, "refs/heads/old/deep", two))
	st.getRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one, "refs/heads/old/deep="+two)
	// A state without refs says that its author does not keep them in events any more.
	st.stored(st.state(owner, "demo", "HEAD", "ref: refs/heads/main"))
	st.getRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one, "refs/heads/old/deep="+two)
}

// olderStates: two states wait. The older one allows its push and is served, though a newer
// one still waits; then the newer one. A served state is never rolled back.
func olderStates(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one, two := work.commit("one"), work.commit("two")
	st.held(st.announcement(owner, "demo"))
	newer := st.event(owner, 30618, nostr.Tag{"d", "demo"}, nostr.Tag{"refs/heads/main", two})
	older := st.stateAt(owner, newer.CreatedAt-100, "demo", "refs/heads/main", one)
	st.held(newer)
	st.held(older)
	work.push(url, one+":refs/heads/main")
	st.wantServed(older, true)
	st.wantServed(newer, false)
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
	work.push(url, two+":refs/heads/main")
	st.wantServed(newer, true)
	st.wantServed(older, false)
	late := st.stateAt(owner, newer.CreatedAt-50, "demo", "refs/heads/main", one)
	st.c.publish(st, late)
	work.cannotPush("the newest state event", url, one+":refs/heads/main")
	st.wantServed(late, false)
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+two)
}

// unrelatedRoots: the owner throws the history away and begins a new one, and a
// stranger's clone follows by force.
func unrelatedRoots(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one := st.published(owner, work)
	other := work.unrelated()
	if _, err := gitAs(work.dir, "merge-base", one, other); err == nil {
		st.Fatal("the roots are related")
	}
	state := st.held(st.state(owner, "demo", "refs/heads/main", other))
	work.push(url, "+main")
	st.wantServed(state, true)
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+other)
}

// headComesLater: HEAD names a branch that is pushed some time after the state. It is
// set as soon as the branch is there.
func headComesLater(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "demo"))
	first := st.held(st.state(owner, "demo", "HEAD", "ref: refs/heads/dev", "refs/heads/main", one))
	work.push(url, "main")
	st.wantServed(first, true)
	two := work.commit("two")
	second := st.held(st.state(owner, "demo", "HEAD", "ref: refs/heads/dev", "refs/heads/main", one, "refs/heads/dev", two))
	work.push(url, two+":refs/heads/dev")
	st.wantServed(second, true)
	st.wantRefs(url, "HEAD=refs/heads/dev", "refs/heads/dev="+two, "refs/heads/main="+one)
}
