package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
)

const (
	pushRequest  = "application/x-git-receive-pack-request"
	fetchRequest = "application/x-git-upload-pack-request"
	zeroObject   = "0000000000000000000000000000000000000000"
)

// refusedPushes: whatever is wrong with a push, the answer is HTTP status 200 with a
// reason in git's own words, which git prints: a 403 would show nothing.
func refusedPushes(st *story) {
	owner, stranger := st.who("owner"), st.who("stranger")
	path, url := repoPath(owner, "demo"), st.repo(owner, "demo")
	work := st.folder()
	one := st.published(owner, work)
	two := work.commit("two")
	post := func(commands string) string {
		st.Helper()
		r := st.ask("POST", path+"/git-receive-pack", []byte(commands), "Content-Type", pushRequest)
		if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/x-git-receive-pack-result" {
			st.Errorf("the answer to %q: status %d, %s\n%s", commands, r.status, r.header.Get("Content-Type"), r.body)
		}
		return r.body
	}
	for _, tt := range []struct{ commands, want string }{
		{"0000", "the push changes no ref"}, // no refs at all
		{"", "ERR "},
		{"hello", "ERR "},
		{"ffff", "ERR "},
		{pkt("no command") + "0000", "ERR "},
		{pkt(one+" "+two+" refs/heads/main") + "0000", "ERR "},
		{pkt(one+" "+two+" refs/heads/main\x00report-status") + "0000", "ng refs/heads/main "},
		{pkt(zeroObject+" "+one+" refs/heads/new\x00report-status side-band-64k") + "0000", "ng refs/heads/new "},
		{pkt(zeroObject+" "+one+" refs/notes/x\x00report-status") + "0000", "ng refs/notes/x authorisation failed: only refs under refs/heads/, refs/tags/ and refs/nostr/ can be pushed"},
		{pkt(zeroObject+" "+one+" HEAD\x00report-status") + "0000", "ng HEAD this is not the full name of a ref"},
		{pkt(one+" "+zeroObject+" refs/heads/main\x00report-status delete-refs") + "0000", "ng refs/heads/main "},
		{pkt(zeroObject+" --upload-pack=x refs/heads/x\x00report-status") + "0000", "ng refs/heads/x a command of the push is not understood"},
	} {
		if got := post(tt.commands); !strings.Contains(got, tt.want) {
			st.Errorf("the answer to %q is %q, want %q", tt.commands, got, tt.want)
		}
	}

	const outside = "only refs under refs/heads/, refs/tags/ and refs/nostr/ can be pushed"
	id := strings.Repeat("ab", 32)
	for _, tt := range []struct{ ref, want string }{
		{"refs/heads/other", "the newest state event does not have it"},
		{"refs/heads/main", "the newest state event has it at " + one[:12] + ", not at " + two[:12]},
		{"refs/tags/v1", "the newest state event does not have it"},
		{"refs/notes/commits", outside}, {"refs/pull/1/head", outside}, {"refs/remotes/origin/main", outside}, {"refs/replace/" + one, outside}, {"refs/stash", outside}, {"refs/nostrx/" + id, outside},
		{"refs/nostr/x", "64 lower-case hex digits"}, {"refs/nostr/" + strings.ToUpper(id), "64 lower-case hex digits"},
		{"refs/nostr/" + id[1:], "64 lower-case hex digits"}, {"refs/nostr/" + id + "/head", "64 lower-case hex digits"},
	} {
		work.cannotPush(tt.want, url, two+":"+tt.ref)
	}
	// One ref that is not allowed keeps all others out.
	work.cannotPush(outside, url, two+":refs/nostr/"+id, two+":refs/notes/x")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
	work.cannotPush("the newest state event does not delete it", url, ":refs/heads/main")
	// A push is refused as a whole: also the ref that the state names, if another ref comes
	// with it.
	st.held(st.state(owner, "demo", "refs/heads/main", two))
	work.cannotPush("refs/heads/extra", url, two+":refs/heads/main", two+":refs/heads/extra")
	work.cannotPush(outside, url, two+":refs/heads/main", two+":refs/notes/x")
	// The state of somebody else is none.
	st.refused(st.state(stranger, "demo", "refs/heads/main", two, "refs/heads/extra", two), notAuthorizedReason)
	work.cannotPush("refs/heads/extra", url, two+":refs/heads/main", two+":refs/heads/extra")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one)
	work.push(url, two+":refs/heads/main")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+two)
}

// protocols: old and new gits read and push, with bodies that are compressed or not.
func protocols(st *story) {
	owner := st.who("owner")
	path, url := repoPath(owner, "demo"), st.repo(owner, "demo")
	work := st.folder()
	one := st.published(owner, work)

	// Version 0 is what a client without the header gets.
	info := path + "/info/refs?service=git-upload-pack"
	v0 := st.wantStatus(http.StatusOK, "GET", info)
	if got := v0.header.Get("Content-Type"); got != "application/x-git-upload-pack-advertisement" {
		st.Errorf("the type is %s", got)
	}
	if !strings.HasPrefix(v0.body, pkt("# service=git-upload-pack\n")+"0000") || !strings.Contains(v0.body, one+" HEAD\x00") || !strings.Contains(v0.body, one+" refs/heads/main\n") {
		st.Errorf("version 0 advertises\n%q", v0.body)
	}
	_, capabilities, _ := strings.Cut(v0.body, "\x00")
	capabilities, _, _ = strings.Cut(capabilities, "\n")
	for _, want := range []string{"symref=HEAD:refs/heads/main", "allow-tip-sha1-in-want", "allow-reachable-sha1-in-want", "filter"} {
		if !slices.Contains(strings.Fields(capabilities), want) {
			st.Errorf("version 0 has not %s: %s", want, capabilities)
		}
	}
	if v1 := st.wantStatus(http.StatusOK, "GET", info, "Git-Protocol", "version=1"); !strings.Contains(v1.body, pkt("version 1\n")) || !strings.Contains(v1.body, one+" HEAD\x00") {
		st.Errorf("version 1 advertises\n%q", v1.body)
	}
	if v2 := st.wantStatus(http.StatusOK, "GET", info, "Git-Protocol", "version=2"); !strings.Contains(v2.body, pkt("version 2\n")) || !strings.Contains(v2.body, "fetch=") || !strings.Contains(v2.body, "filter") {
		st.Errorf("version 2 advertises\n%q", v2.body)
	}
	// HEAD is GET without a body.
	if head := st.wantStatus(http.StatusOK, "HEAD", info); head.body != "" || head.header.Get("Content-Type") != v0.header.Get("Content-Type") {
		st.Errorf("HEAD is answered with %v %q", head.header, head.body)
	}
	st.wantStatus(http.StatusNotFound, "HEAD", repoPath(owner, "other")+"/info/refs?service=git-upload-pack")
	receive := st.wantStatus(http.StatusOK, "GET", path+"/info/refs?service=git-receive-pack")
	if !strings.Contains(receive.body, "report-status") || !strings.Contains(receive.body, one+" refs/heads/main\x00") {
		st.Errorf("receive-pack advertises\n%q", receive.body)
	}
	for _, version := range []string{"0", "1", "2"} {
		dir := filepath.Join(st.TempDir(), "v"+version)
		st.git(".", "-c", "protocol.version="+version, "clone", "-q", url, dir)
		next := work.commit("for version " + version)
		st.held(st.state(owner, "demo", "refs/heads/main", next))
		work.git("-c", "protocol.version="+version, "push", url, "main")
		st.git(dir, "-c", "protocol.version="+version, "pull", "-q")
		if got := st.git(dir, "rev-parse", "HEAD"); got != next {
			st.Errorf("version %s: the clone is at %s, want %s", version, got, next)
		}
	}
	// Compressed bodies: git compresses large requests; here is one of each.
	zip := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.Bytes()
	}
	ls := pkt("command=ls-refs\n") + "0001" + pkt("peel\n") + pkt("ref-prefix refs/heads/\n") + "0000"
	r := st.ask("POST", path+"/git-upload-pack", zip(ls), "Content-Type", fetchRequest, "Content-Encoding", "gzip", "Git-Protocol", "version=2")
	if r.status != http.StatusOK || !strings.Contains(r.body, " refs/heads/main\n") {
		st.Errorf("a compressed request: %d %q", r.status, r.body)
	}
	r = st.ask("POST", path+"/git-receive-pack", zip(pkt(zeroObject+" "+one+" refs/heads/x\x00report-status")+"0000"), "Content-Type", pushRequest, "Content-Encoding", "gzip")
	if r.status != http.StatusOK || !strings.Contains(r.body, "ng refs/heads/x ") {
		st.Errorf("a compressed push: %d %q", r.status, r.body)
	}
	r = st.ask("POST", path+"/git-receive-pack", []byte("not gzip"), "Content-Type", pushRequest, "Content-Encoding", "gzip")
	if r.status != http.StatusOK || !strings.Contains(r.body, "ERR ") && !strings.Contains(r.body, "gzip") {
		st.Errorf("a push that is not gzip: %d %q", r.status, r.body)
	}
	if r = st.ask("POST", path+"/git-upload-pack", []byte(ls), "Content-Type", fetchRequest, "Content-Encoding", "br"); r.status != http.StatusUnsupportedMediaType {
		st.Errorf("another compression: %d %q", r.status, r.body)
	}
	// A push that is large and chunked: git does not know its length.
	big := work.commit(strings.Repeat("a line that is not much like the others\n", 20_000) + one)
	st.held(st.state(owner, "demo", "refs/heads/main", big))
	work.git("-c", "http.postBuffer=65536", "push", url, "main")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+big)
}

// fetchByID: a client wants one commit that no ref is at, and one that refs were at before:
// the server gives a reachable commit, and refuses one that it lacks.
func fetchByID(st *story) {
	owner := st.who("owner")
	url := st.repo(owner, "demo")
	work := st.folder()
	one, two := work.commit("one"), work.commit("two")
	st.held(st.announcement(owner, "demo"))
	st.held(st.state(owner, "demo", "refs/heads/main", two))
	work.push(url, "main")
	for _, version := range []string{"0", "2"} {
		other := st.folder()
		other.git("-c", "protocol.version="+version, "fetch", "-q", "--depth=1", url, one)
		if got := other.git("rev-parse", "FETCH_HEAD"); got != one {
			st.Errorf("version %s: got %s, want %s", version, got, one)
		}
		if out, err := gitAs(other.dir, "-c", "protocol.version="+version, "fetch", "-q", url, strings.Repeat("1", 40)); err == nil {
			st.Errorf("version %s: a commit that is nowhere was fetched: %s", version, out)
		}
	}
	partial := filepath.Join(st.TempDir(), "partial")
	st.git(".", "clone", "-q", "--no-checkout", "--filter=tree:0", url, partial)
	st.git(partial, "checkout", "-q", "main") // asks for trees and files one by one
}

// notSmart: clients of git's old protocol, and of other methods, get an answer with the
// supported protocol.
func notSmart(st *story) {
	owner := st.who("owner")
	path := repoPath(owner, "demo")
	st.published(owner, st.folder())
	for _, query := range []string{"", "?service=", "?service=git-upload-archive", "?x=git-upload-pack"} {
		if r := st.wantStatus(http.StatusForbidden, "GET", path+"/info/refs"+query); !strings.Contains(r.body, "smart HTTP") {
			st.Errorf("the reason is %q", r.body)
		}
	}
	for _, file := range []string{"/HEAD", "/objects/info/packs", "/objects/info/alternates", "/info", "/git-upload-archive", "/config", "/packed-refs"} {
		st.wantStatus(http.StatusNotFound, "GET", path+file)
	}
	st.wantStatus(http.StatusMethodNotAllowed, "GET", path+"/git-upload-pack")
	st.wantStatus(http.StatusMethodNotAllowed, "GET", path+"/git-receive-pack")
	st.wantStatus(http.StatusMethodNotAllowed, "PUT", path+"/git-receive-pack")
	st.wantStatus(http.StatusMethodNotAllowed, "POST", path+"/info/refs?service=git-upload-pack")
	if r := st.ask("POST", path+"/git-upload-pack", []byte("0000"), "Content-Type", "text/plain"); r.status != http.StatusUnsupportedMediaType {
		st.Errorf("a body of another type: %d %q", r.status, r.body)
	}
}

// everyOrigin: web pages of any origin may read every answer, be it an error, and may
// ask beforehand on any path.
func everyOrigin(st *story) {
	owner := st.who("owner")
	path := repoPath(owner, "demo")
	st.published(owner, st.folder())
	want := func(what string, r reply) {
		st.Helper()
		if got := r.header.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != "*" {
			st.Errorf("%s (status %d): origins %q", what, r.status, got)
		}
		fields := func(name string) []string {
			if got := r.header.Values(name); len(got) != 1 {
				st.Errorf("%s (status %d): %s is %q", what, r.status, name, got)
			}
			return strings.Split(strings.ToLower(strings.ReplaceAll(r.header.Get(name), " ", "")), ",")
		}
		if got := fields("Access-Control-Expose-Headers"); !slices.Equal(got, []string{"retry-after"}) {
			st.Errorf("%s (status %d): exposed headers %q", what, r.status, got)
		}
		methods, headers := fields("Access-Control-Allow-Methods"), fields("Access-Control-Allow-Headers")
		for _, m := range []string{"get", "post", "options"} {
			if !slices.Contains(methods, m) {
				st.Errorf("%s (status %d): methods %q", what, r.status, methods)
			}
		}
		for _, h := range []string{"content-type", "authorization", "git-protocol", "accept", "content-encoding", "x-requested-with"} {
			if !slices.Contains(headers, h) {
				st.Errorf("%s (status %d): headers %q", what, r.status, headers)
			}
		}
	}
	paths := []string{
		"/", path, path + "/", "/nothing", "/prs" + path, "/prs/nothing", path + "/info/refs", path + "/info/refs?service=git-upload-pack", path + "/info/refs?service=git-receive-pack",
		"/prs" + path + "/info/refs?service=git-upload-pack", repoPath(owner, "other") + "/info/refs?service=git-upload-pack", repoPath(owner, "other"),
		path + "/git-upload-pack", path + "/git-receive-pack", "/metrics", "/healthz", "/../x", "/%2e%2e/x", "/%00",
	}
	for _, p := range paths {
		want("GET "+p, st.ask("GET", p, nil))
		want("HEAD "+p, st.ask("HEAD", p, nil))
		want("DELETE "+p, st.ask("DELETE", p, nil))
		r := st.wantStatus(http.StatusNoContent, "OPTIONS", p, "Origin", "https://any.test", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "git-protocol")
		want("OPTIONS "+p, r)
	}
	want("NIP-11", st.ask("GET", "/", nil, "Accept", "application/nostr+json"))
	want("a bad handshake", st.ask("GET", "/", nil, "Upgrade", "websocket", "Connection", "Upgrade"))
	want("a push", st.ask("POST", path+"/git-receive-pack", []byte("0000"), "Content-Type", pushRequest))
	want("a push to nothing", st.ask("POST", repoPath(owner, "other")+"/git-receive-pack", []byte("0000"), "Content-Type", pushRequest))
	want("a fetch", st.ask("POST", path+"/git-upload-pack", []byte(pkt("command=ls-refs\n")+"0000"), "Content-Type", fetchRequest, "Git-Protocol", "version=2"))
	want("a body of the wrong type", st.ask("POST", path+"/git-upload-pack", []byte("{}"), "Content-Type", "application/json"))
	want("a compression that is unknown", st.ask("POST", path+"/git-upload-pack", []byte("x"), "Content-Type", fetchRequest, "Content-Encoding", "zstd"))
}

// information: the document of NIP-11 says what GRASP this is, and by which rules
// repositories are taken; nothing is curated here, so nothing says so.
func information(st *story) {
	doc := st.info()
	if got := fmt.Sprint(doc["supported_grasps"]); got != "[GRASP-01 GRASP-06]" {
		st.Errorf("supported_grasps is %s", got)
	}
	if text, _ := doc["repo_acceptance_criteria"].(string); !strings.Contains(text, serviceDomain) {
		st.Errorf("repo_acceptance_criteria is %q", text)
	}
	if curation, ok := doc["curation"]; ok {
		st.Errorf("curation is %v", curation)
	}
	nips := fmt.Sprint(doc["supported_nips"])
	for _, nip := range []string{"1 ", " 9 ", " 11 ", " 34 ", " 77"} {
		if !strings.Contains(nips, nip) {
			st.Errorf("supported_nips is %s", nips)
		}
	}
}
