package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/negentropy"
	"talon/sdk/nip19"
)

// serviceDomain is how the GRASP services of the tests are called from outside.
const serviceDomain = "relay.test"

// Answers of the service, word for word: purgatory to an event that waits for its git data,
// archiveReason to a push.
const (
	purgatory           = "purgatory: won't be served until git data arrives"
	notAnnouncedReason  = "invalid: no announcement exists for this repository"
	notAuthorizedReason = "invalid: author not authorized for this repository"
	notListedReason     = "invalid: the announcement must list this service in both its clone and its relays tags"
	unrelatedReason     = "blocked: the event is not about a repository or an event that is accepted here"
	archiveReason       = "this repository is a read-only archive: push to a service that its announcement lists"
)

// graspChain are the modules of a GRASP service. Only one of them knows GRASP: tests of
// that alone take it alone, and start sooner.
var graspChain = []string{"rate", "limits", "lists", "open", "grasp"}

// graspTested is done once for all tests: modules test themselves with each domain,
// which takes seconds under the race detector.
var graspTested struct {
	sync.Once
	err error
}

// graspData returns a new data folder with machine code of its own. A server removes
// machine code that it does not use, which another one may be about to load. So a test
// calls it before other tests run in parallel. The folder has the code of further bundled modules,
// too.
func graspData(t testing.TB, further ...string) string {
	t.Helper()
	graspTested.Do(func() {
		_, graspTested.err = talon(t, nil, "import", "--data", sharedDir(t), "--plugins", modules(t), "--domain", serviceDomain, "--log-level", "error")
	})
	if graspTested.err != nil {
		t.Fatal(graspTested.err)
	}
	return ownData(t, further...)
}

// startGrasp runs a GRASP service until the end of the test. Then events and
// repositories must agree.
func startGrasp(t testing.TB, data, plugins string, args ...string) *process {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			mustCheck(t, data)
		}
	})
	return start(t, data, append([]string{"--plugins", plugins, "--domain", serviceDomain}, args...)...)
}

// configure gives a plugin its settings while the server runs. They are in effect when it
// returns: the command waits for the files in the folder.
func configure(t testing.TB, s *process, dir, name, settings string) {
	t.Helper()
	drop(t, dir, name+".toml", []byte("mode = \"enforce\"\n[config]\n"+settings+"\n"))
	if out, err := talon(t, nil, "plugin", "mode", name, "enforce", "--data", s.data); err != nil {
		t.Fatalf("%s does not run with %s: %v\n%s", name, settings, err, out)
	}
}

// person is somebody with a key, in one story.
type person string

func (p person) hex() string { return pubkey(string(p)) }

func (p person) npub() string {
	var key host.PubKey
	host.ParseHex(key[:], p.hex())
	return nip19.EncodeNpub(key)
}

// story is one test against a service that others may use at the same time. The
// people in it are its own, and so are their repositories.
type story struct {
	*testing.T
	s   *process
	web string // http://127.0.0.1:port
	c   *client
	now nostr.Timestamp // of the last event

	sessions int // of negentropy, that were opened
}

func newStory(t *testing.T, s *process) *story {
	t.Helper()
	return &story{T: t, s: s, web: s.web(), c: connect(t, s), now: nostr.Now() - 10_000}
}

// who returns somebody.
func (st *story) who(role string) person { return person(st.Name() + " " + role) }

// event signs an event, a second younger than the one before.
func (st *story) event(who person, kind int, tags ...nostr.Tag) *nostr.Event {
	st.Helper()
	st.now++
	return st.eventAt(who, st.now, kind, tags...)
}

func (st *story) eventAt(who person, at nostr.Timestamp, kind int, tags ...nostr.Tag) *nostr.Event {
	st.Helper()
	return signAs(st.T, string(who), nostr.Event{Kind: kind, CreatedAt: at, Tags: tags})
}

// announcement announces a repository on this service, with others as maintainers.
func (st *story) announcement(who person, id string, maintainers ...person) *nostr.Event {
	st.Helper()
	return st.event(who, 30617, announcementTags(who, id, maintainers...)...)
}

func announcementTags(who person, id string, maintainers ...person) []nostr.Tag {
	tags := []nostr.Tag{
		{"d", id},
		{"name", "The repository " + id},
		{"clone", "https://" + serviceDomain + repoPath(who, id)},
		{"relays", "wss://" + serviceDomain},
	}
	if len(maintainers) > 0 {
		tag := nostr.Tag{"maintainers"}
		for _, m := range maintainers {
			tag = append(tag, m.hex())
		}
		tags = append(tags, tag)
	}
	return tags
}

// state says what refs there are: pairs of name and value.
func (st *story) state(who person, id string, refs ...string) *nostr.Event {
	st.Helper()
	st.now++
	return st.stateAt(who, st.now, id, refs...)
}

func (st *story) stateAt(who person, at nostr.Timestamp, id string, refs ...string) *nostr.Event {
	st.Helper()
	tags := []nostr.Tag{{"d", id}}
	for i := 0; i < len(refs); i += 2 {
		tags = append(tags, nostr.Tag{refs[i], refs[i+1]})
	}
	return st.eventAt(who, at, 30618, tags...)
}

// pull is a pull request for repositories, given by their addresses.
func (st *story) pull(who person, commit string, addresses ...string) *nostr.Event {
	st.Helper()
	tags := []nostr.Tag{{"c", commit}, {"subject", "a pull request"}}
	for _, a := range addresses {
		tags = append(tags, nostr.Tag{"a", a})
	}
	return st.event(who, 1618, tags...)
}

// prsPull is one whose commit its author leaves under /prs/ of this service.
func (st *story) prsPull(who person, id, commit, address string) *nostr.Event {
	st.Helper()
	return st.event(who, 1618, nostr.Tag{"c", commit}, nostr.Tag{"a", address}, nostr.Tag{"clone", "https://" + serviceDomain + "/prs" + repoPath(who, id)})
}

// repoPath is /npub/identifier.git, as a URL has it.
func repoPath(who person, id string) string {
	return "/" + who.npub() + "/" + url.PathEscape(id) + ".git"
}

func repoAddress(who person, id string) string { return "30617:" + who.hex() + ":" + id }

func (st *story) repo(who person, id string) string { return st.web + repoPath(who, id) }

func (st *story) prs(who person, id string) string { return st.web + "/prs" + repoPath(who, id) }

// held sends an event that must be held.
func (st *story) held(e *nostr.Event) *nostr.Event {
	st.Helper()
	return st.answered(e, true, purgatory)
}

// stored sends an event that must be served immediately.
func (st *story) stored(e *nostr.Event) *nostr.Event {
	st.Helper()
	st.answered(e, true, "")
	st.wantServed(e, true)
	return e
}

// refused sends an event that must be refused.
func (st *story) refused(e *nostr.Event, reason string) *nostr.Event {
	st.Helper()
	st.answered(e, false, reason)
	st.wantServed(e, false)
	return e
}

// answered sends an event, again where the relay says so: on a machine that pauses, a
// decision may take longer than it may.
func (st *story) answered(e *nostr.Event, ok bool, reason string) *nostr.Event {
	st.Helper()
	a := st.c.publish(st, e)
	for tries := 0; tries < 20 && a.reason != reason && strings.HasSuffix(a.reason, ", try again later"); tries++ {
		a = st.c.publish(st, e)
	}
	if a.ok != ok || withoutNote(a.reason) != reason {
		st.Fatalf("an event of kind %d is answered %v %q, want %v %q: %s", e.Kind, a.ok, a.reason, ok, reason, e)
	}
	return e
}

// withoutNote returns what the relay says of an event, without what it says of the refs in it.
func withoutNote(reason string) string {
	if strings.HasPrefix(reason, "note: ") {
		return ""
	}
	for _, note := range []string{"; it removes ", "; its HEAD names "} {
		reason, _, _ = strings.Cut(reason, note)
	}
	return reason
}

func (st *story) served(e *nostr.Event) bool {
	st.Helper()
	return len(st.c.query(st, `{"ids":["`+e.ID+`"]}`)) == 1
}

// wantServed asks once: what a client has the answer to is over.
func (st *story) wantServed(e *nostr.Event, want bool) {
	st.Helper()
	if got := st.served(e); got != want {
		st.Errorf("the event of kind %d is served: %v, want %v", e.Kind, got, want)
	}
}

// becomesServed waits for what no client gets an answer to: data that comes by itself.
func (st *story) becomesServed(e *nostr.Event) {
	st.Helper()
	st.until(fmt.Sprintf("the event of kind %d is served", e.Kind), func() bool { return st.served(e) })
}

func (st *story) until(what string, yes func() bool) {
	st.Helper()
	until(st, what, yes)
}

// count asks how many events match.
func (st *story) count(filter string) (n int) {
	st.Helper()
	st.c.send(st, `["COUNT","count",`+filter+`]`)
	text := st.c.mustNext(st, "COUNT", "CLOSED")
	var answer struct{ Count int }
	if err := json.Unmarshal([]byte(text), &[]any{new(string), new(string), &answer}); err != nil {
		st.Fatalf("%v: %s", err, text)
	}
	return answer.Count
}

// reconciled returns the ids that the relay offers by negentropy. The relay ends sessions when
// events go; then it begins again, as a client does.
func (st *story) reconciled(filter string) []string {
	st.Helper()
	for range 100 {
		if list, ok := st.reconcile(filter); ok {
			return list
		}
	}
	st.Fatal("the relay ends each session")
	return nil
}

// reconcile is reconciled with one session. It returns false if the relay ends it.
func (st *story) reconcile(filter string) (list []string, ok bool) {
	st.Helper()
	st.sessions++
	session := fmt.Sprintf(`"neg%d"`, st.sessions)
	c, err := negentropy.NewClient(new(negentropy.Builder).Build(), negentropy.ClientLimits{Frame: 64 << 10, IDs: 1000, Rounds: 100})
	if err != nil {
		st.Fatal(err)
	}
	msg, err := c.Initiate()
	if err != nil {
		st.Fatal(err)
	}
	st.c.send(st, `["NEG-OPEN",`+session+`,`+filter+`,"`+hex.EncodeToString(msg)+`"]`)
	for done := false; !done; {
		text := st.c.mustNext(st, "NEG-MSG", "NEG-ERR")
		var verb, id, reply string
		if err := json.Unmarshal([]byte(text), &[]any{&verb, &id, &reply}); err != nil {
			st.Fatalf("%v: %s", err, text)
		}
		switch {
		case `"`+id+`"` != session:
			continue // the end of an earlier one
		case verb == "NEG-ERR" && strings.HasPrefix(reply, "closed: the events have changed"):
			return nil, false
		}
		msg, err := hex.DecodeString(reply)
		if err != nil {
			st.Fatalf("%v: %s", err, text)
		}
		if msg, done, err = c.Reconcile(msg); err != nil {
			st.Fatal(err)
		}
		if !done {
			st.c.send(st, `["NEG-MSG",`+session+`,"`+hex.EncodeToString(msg)+`"]`)
		}
	}
	st.c.send(st, `["NEG-CLOSE",`+session+`]`)
	for _, id := range c.Need() {
		list = append(list, hex.EncodeToString(id[:]))
	}
	return list, true
}

// folder is where somebody works with git.
type folder struct {
	st  *story
	dir string
}

func (st *story) folder() *folder {
	st.Helper()
	f := &folder{st, filepath.Join(st.TempDir(), "work")}
	f.st.git(".", "init", "-q", "-b", "main", f.dir)
	return f
}

func (st *story) git(dir string, args ...string) string {
	st.Helper()
	out, err := gitAs(dir, args...)
	if err != nil {
		st.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// commit adds a commit and returns its name. No other story has the same: repositories
// of one identifier share their objects.
func (f *folder) commit(text string) string {
	f.st.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "file"), []byte(text), 0o644); err != nil {
		f.st.Fatal(err)
	}
	f.git("add", "file")
	f.git("commit", "-q", "--allow-empty", "-m", f.st.Name())
	return f.git("rev-parse", "HEAD")
}

// unrelated makes a commit without a parent, on the branch main.
func (f *folder) unrelated() string {
	f.st.Helper()
	id := f.git("commit-tree", "-m", f.st.Name()+", anew", f.git("write-tree"))
	f.git("reset", "-q", "--hard", id)
	return id
}

func (f *folder) git(args ...string) string {
	f.st.Helper()
	return f.st.git(f.dir, args...)
}

// pack returns a pack of what commits reach.
func (f *folder) pack(revisions ...string) string {
	f.st.Helper()
	cmd := exec.Command("git", "pack-objects", "--revs", "--stdout", "-q")
	cmd.Dir, cmd.Env = f.dir, environ()
	cmd.Stdin = strings.NewReader(strings.Join(revisions, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		f.st.Fatal(err)
	}
	return string(out)
}

func (f *folder) push(url string, refs ...string) string {
	f.st.Helper()
	return f.git(append([]string{"push", url}, refs...)...)
}

// cannotPush pushes what must be refused with a reason that git shows.
func (f *folder) cannotPush(reason, url string, refs ...string) {
	f.st.Helper()
	out, err := gitAs(f.dir, append([]string{"push", "--force", url}, refs...)...)
	if err == nil {
		f.st.Fatalf("the push of %v went through: %s", refs, out)
	}
	if heard := strings.Join(strings.Fields(strings.ReplaceAll(out, "remote:", " ")), " "); !strings.Contains(heard, reason) || strings.Contains(heard, "returned error: 403") {
		f.st.Fatalf("the push of %v was refused with\n%s\nwant %q", refs, out, reason)
	}
}

// refsOf returns what a client sees: HEAD=name, if there is what it names, and
// name=object, sorted.
func (st *story) refsOf(url string) string {
	st.Helper()
	out, err := gitAs(".", "ls-remote", "--symref", url)
	if err != nil {
		return "absent"
	}
	var list []string
	for line := range strings.Lines(out) {
		value, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		target, symbolic := strings.CutPrefix(value, "ref: ")
		switch {
		case symbolic:
			list = append(list, name+"="+target)
		case name != "HEAD" && !strings.HasSuffix(name, "^{}"):
			list = append(list, name+"="+value)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// wantRefs asks once.
func (st *story) wantRefs(url string, want ...string) {
	st.Helper()
	if got := st.refsOf(url); got != strings.Join(want, " ") {
		st.Errorf("%s has\n%s\nwant\n%s", url, got, strings.Join(want, " "))
	}
}

// getRefs waits until a repository has these refs.
func (st *story) getRefs(url string, want ...string) {
	st.Helper()
	st.until(fmt.Sprint(url, " has ", want), func() bool { return st.refsOf(url) == strings.Join(want, " ") })
}

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request as it is, with a path that no library has cleaned.
func (st *story) ask(method, path string, body []byte, headers ...string) reply {
	st.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(st.web, "http://"), patience)
	if err != nil {
		st.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path, serviceDomain)
	if body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	b.WriteString("\r\n")
	b.Write(body)
	if _, err := c.Write(b.Bytes()); err != nil {
		st.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		st.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		st.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (st *story) wantStatus(want int, method, path string, headers ...string) reply {
	st.Helper()
	r := st.ask(method, path, nil, headers...)
	if r.status != want {
		st.Errorf("%s %s: status %d, want %d\n%.300s", method, path, r.status, want, r.body)
	}
	return r
}

// pkt is a packet of git's protocol.
func pkt(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// info returns the information document (NIP-11).
func (st *story) info() map[string]any {
	st.Helper()
	r := st.wantStatus(http.StatusOK, "GET", "/", "Accept", "application/nostr+json")
	var doc map[string]any
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil {
		st.Fatalf("%v: %s", err, r.body)
	}
	return doc
}
