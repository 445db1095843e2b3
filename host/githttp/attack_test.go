package githttp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// A path that leads anywhere but to a repository is not found, in every spelling,
// and no answer is without CORS headers.
func TestTraversal(t *testing.T) {
	s := newSite(t, nil)
	s.repo("x", gitrepo.SHA1)
	git(t, ".", "init", "-q", "--bare", filepath.Join(filepath.Dir(s.root.Repo(gitrepo.Name{}).Dir()), "secret.git"))
	good := "/" + alice + "/x.git"
	if resp := s.request("GET", good+"/info/refs?service=git-upload-pack", nil, nil); resp.StatusCode != 200 {
		t.Fatalf("the repository itself: %s", resp.Status)
	}
	for _, path := range []string{
		"/", "//", "/x", "/..", good, good + "/", good + "/HEAD", good + "/objects/info/packs", good + "/config",
	} {
		if resp := s.request("GET", path, nil, nil); resp.StatusCode != 404 {
			t.Errorf("GET %s: %s", path, resp.Status)
		}
	}
	repos := []string{
		"", "/", "/.", "/..", "/../secret.git", "/" + alice + "/../secret.git", "/" + alice + "/%2e%2e%2fsecret.git", "/%2e%2e/secret.git",
		"/" + alice + "/..%2fsecret.git", "/" + alice + "/..%5csecret.git", "/" + alice + "/%252e%252e%252fsecret.git",
		"/" + alice + `/..\secret.git`, "/" + alice + "/x.git%00", "/" + alice + "/x%00.git", "/" + alice + "/x.git/.", "/" + alice + "/./x.git",
		"/" + alice + "//x.git", "//" + alice + "/x.git", "/" + alice + "/x", "/" + alice + "/X.git", "/" + alice + "/.git", "/" + alice + "/..git",
		"/" + alice + "/...git", "/" + alice + "/%2e.git", "/" + alice + "/x.git.git", "/" + alice + "/x.git/../x.git", "/etc/passwd", "/%2fetc/passwd.git",
		"/" + alice + "/%2fetc%2fpasswd.git", "/" + alice[:62] + "/x.git", "/" + strings.ToUpper(alice) + "/x.git", "/.shared/x.git", "/.shared/sha1/x.git",
		"/.trash/x.git", "/" + alice + "/x%0a.git", "/" + alice + "/x%ff.git", "/" + alice + "/" + strings.Repeat("a", 3000) + ".git",
		"/" + alice + "/x.git/info/refs", strings.Repeat("/a", 100), "/--upload-pack=id/x.git", "/" + alice + "/-x.git", "/%", "/%zz/x.git",
	}
	for _, repo := range repos {
		for _, end := range []string{"/info/refs?service=git-upload-pack", "/info/refs?service=git-receive-pack"} {
			if strings.Contains(repo, "%zz") || repo == "/%" || strings.Contains(repo, `\`) {
				continue // net/http refuses the first two; see TestWire
			}
			resp := s.request("GET", repo+end, nil, nil)
			if resp.StatusCode != 404 || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("GET %.100s%s: %s", repo, end, resp.Status)
			}
		}
		if _, ok := Decode(strings.TrimPrefix(repo, "/")); ok && strings.Contains(repo, "..%") {
			t.Errorf("Decode(%q) allows it", repo)
		}
	}
}

func TestDecode(t *testing.T) {
	for path, want := range map[string]string{
		"a/b.git": "a|b.git", "a%20b": "a b", "%252e%252e": "%2e%2e", "a%3ab/%F0%9F%9A%80": "a:b|🚀", "a+b": "a+b", "...": "...",
		"": "", "/": "", "a//b": "", "a/": "", ".": "", "%2e%2E": "", "a%2fb": "", "a%5Cb": "", "a%00": "", "a%0ab": "", "%ff": "", "%": "", "%4": "", "%zz": "",
		"a/%2e%2e/b": "", strings.Repeat("a/", 40) + "b": "",
	} {
		parts, ok := Decode(path)
		if got := strings.Join(parts, "|"); ok != (want != "") || ok && got != want {
			t.Errorf("Decode(%.40q) = %q, %t; want %q", path, got, ok, want)
		}
	}
}

// Each answer is readable by any web page, and the answer to a wrong request says what is
// wrong.
func TestAnswers(t *testing.T) {
	s := newSite(t, nil)
	s.repo("x", gitrepo.SHA1)
	repo := "/" + alice + "/x.git"
	gone := "/" + alice + "/gone.git"
	for _, c := range []struct {
		method, path string
		header       http.Header
		body         string
		status       int
		contains     string
	}{
		{"OPTIONS", "/", nil, "", 204, ""},
		{"OPTIONS", "/../../x", nil, "", 204, ""},
		{"OPTIONS", repo + "/git-upload-pack", nil, "", 204, ""},
		{"GET", "/nothing", nil, "", 404, "no such repository"},
		{"GET", repo + "/info/refs", nil, "", 403, "smart HTTP"},
		{"GET", repo + "/info/refs?service=git-upload-archive", nil, "", 403, "smart HTTP"},
		{"GET", gone + "/info/refs?service=git-upload-pack", nil, "", 404, ""},
		{"POST", gone + "/git-upload-pack", fetchType, "0000", 404, ""},
		{"POST", repo + "/info/refs?service=git-upload-pack", nil, "", 405, "POST"},
		{"GET", repo + "/git-upload-pack", nil, "", 405, "GET"},
		{"PUT", repo + "/git-receive-pack", nil, "", 405, "PUT"},
		{"POST", repo + "/git-upload-pack", pushType, "0000", 415, "git-upload-pack-request"},
		{"POST", repo + "/git-receive-pack", nil, "0000", 415, "git-receive-pack-request"},
		{"POST", repo + "/git-receive-pack", http.Header{"Content-Type": pushType["Content-Type"], "Content-Encoding": {"br"}}, "0000", 415, "gzip"},
		{"HEAD", repo + "/info/refs?service=git-upload-pack", nil, "", 200, ""},
		{"HEAD", gone + "/info/refs?service=git-upload-pack", nil, "", 404, ""},
		{"GET", repo + "/info/refs?service=git-upload-pack", nil, "", 200, "001e# service=git-upload-pack\n0000"},
		{"GET", repo + "/info/refs?service=git-upload-pack", http.Header{"Git-Protocol": {"version=2"}}, "", 200, "000eversion 2\n"},
		{"GET", repo + "/info/refs?service=git-receive-pack", http.Header{"Git-Protocol": {"version=2"}}, "", 200, "001f# service=git-receive-pack\n0000"},
		{"GET", repo + "/info/refs?service=git-upload-pack", http.Header{"Git-Protocol": {"version=1"}}, "", 200, "000eversion 1\n"},
		{"GET", repo + "/info/refs?service=git-upload-pack", http.Header{"Git-Protocol": {"version=\x01;$(id)"}}, "", 200, "# service="},
		{"POST", repo + "/git-upload-pack", fetchType, "rubbish that is no pkt-line", 200, "ERR "},
		{"POST", repo + "/git-upload-pack", fetchType, "", 200, ""},
	} {
		if strings.Contains(c.header.Get("Git-Protocol"), "\x01") {
			c.header.Set("Git-Protocol", "version=2x;$(id):version=-1:version=99999999999999999999:"+strings.Repeat(":", 5000))
		}
		resp := s.request(c.method, c.path, c.header, strings.NewReader(c.body))
		body := text(t, resp)
		if resp.StatusCode != c.status || !strings.Contains(body, c.contains) {
			t.Errorf("%s %s: %s\n%.200q\nwant %d %q", c.method, c.path, resp.Status, body, c.status, c.contains)
		}
		h := resp.Header
		if h.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") ||
			!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Git-Protocol") {
			t.Errorf("%s %s: CORS headers are missing: %v", c.method, c.path, h)
		}
		if resp.StatusCode == 200 && !strings.HasPrefix(h.Get("Content-Type"), "application/x-git-") {
			t.Errorf("%s %s is %s", c.method, c.path, h.Get("Content-Type"))
		}
	}
	git(t, work(t, gitrepo.SHA1), "push", "-q", s.url+repo, "main")
	adv := text(t, s.request("GET", repo+"/info/refs?service=git-upload-pack", nil, nil))
	for _, want := range []string{"allow-tip-sha1-in-want", "allow-reachable-sha1-in-want", "filter", "symref=HEAD:refs/heads/main"} {
		if !strings.Contains(adv, " "+want) {
			t.Errorf("%s is not advertised: %q", want, adv)
		}
	}
}

// TestPushesThatAreNone: malformed pushes, and pushes that nobody may make, reach neither the
// authoriser nor git. The answer gives the reason with status 200.
func TestPushesThatAreNone(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Commands, l.CommandBytes = 50, 16<<10 })
	s.repo("x", gitrepo.SHA1)
	s.authorize.set(func(p *Push) error {
		t.Errorf("the authoriser is asked about %+v", p.Updates)
		return nil
	})
	zero, id := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	command := func(old, new, ref string) string { return string(gitrepo.AppendPkt(nil, old, " ", new, " ", ref)) }
	var many, long strings.Builder
	for i := range 60 {
		many.WriteString(command(zero, id, fmt.Sprint("refs/heads/", i)))
		long.WriteString(command(zero, id, fmt.Sprint("refs/heads/", strings.Repeat("a/", 400), i)))
	}
	for name, c := range map[string]struct{ body, says string }{
		"nothing":             {"", "cut off"},
		"flush and a pack":    {"0000PACK\x00\x00\x00\x02", "changes no ref"},
		"no flush":            {command(zero, id, "refs/heads/x"), "cut off"},
		"half a line":         {command(zero, id, "refs/heads/x")[:30], "cut off"},
		"no pkt-line":         {"GET / HTTP/1.0", "no pkt-line"},
		"length of 1":         {"0001", "no pkt-line"},
		"length of 65521":     {"fff1" + strings.Repeat("a", 65517), "no pkt-line"},
		"an empty line":       {"00040000", "not understood"},
		"shallow alone":       {string(gitrepo.AppendPkt(nil, "shallow "+id)) + "0000", "changes no ref"},
		"a certificate":       {string(gitrepo.AppendPkt(nil, "push-cert\x00push-options")) + "0000", ""},
		"no ids":              {command("HEAD", "main", "refs/heads/x") + "0000", "not understood"},
		"mixed lengths":       {command(zero, strings.Repeat("ab", 32), "refs/heads/x") + "0000", "not understood"},
		"capitals":            {command(zero, strings.ToUpper(id), "refs/heads/x") + "0000", "not understood"},
		"two spaces":          {command(zero, id, " refs/heads/x") + "0000", "not the full name"},
		"HEAD":                {command(zero, id, "HEAD") + "0000", "not the full name"},
		"an option":           {command(zero, id, "--help") + "0000", "not the full name"},
		"dots":                {command(zero, id, "refs/heads/../../config") + "0000", "not the full name"},
		"a lock":              {command(zero, id, "refs/heads/x.lock") + "0000", "not the full name"},
		"a line break":        {command(zero, id, "refs/heads/x\nrefs/heads/y") + "0000", "not the full name"},
		"a NUL later":         {command(zero, id, "refs/heads/x") + command(zero, id, "refs/heads/y\x00report-status") + "0000", "not the full name"},
		"twice":               {command(zero, id, "refs/heads/x") + command(id, zero, "refs/heads/x") + "0000", "twice"},
		"too many":            {many.String() + "0000", "may have 50 commands"},
		"too long":            {long.String() + "0000", "may have 16384 bytes"},
		"long capabilities":   {command(zero, id, "refs/heads/x\x00"+strings.Repeat("a ", 3000)) + "0000", "too long"},
		"push options":        {command(zero, id, "refs/heads/x\x00push-options") + "0000", "the options of the push are cut off"},
		"half an option":      {command(zero, id, "refs/heads/x\x00push-options") + "00000020ci", "the options of the push are cut off"},
		"no option":           {command(zero, id, "refs/heads/x\x00push-options") + "00000001", "no pkt-line"},
		"many options":        {command(zero, id, "refs/heads/x\x00push-options") + "0000" + strings.Repeat("0005a", 101) + "0000", "may have 100 options"},
		"long options":        {command(zero, id, "refs/heads/x\x00push-options") + "0000" + strings.Repeat("2004"+strings.Repeat("a", 8192), 3) + "0000", "may have 100 options"},
		"a long name":         {command(zero, id, "refs/heads/"+strings.Repeat("a", 300)) + "0000", "not the full name"},
		"a delimiter for end": {command(zero, id, "refs/heads/x") + "0001", "no pkt-line"},
	} {
		if body := s.post(c.body); len(body) < 8 || body[4:8] != "ERR " || !strings.Contains(body, c.says) {
			t.Errorf("%s: %q; want %q", name, body, c.says)
		}
	}
	if len(s.landed) > 0 {
		t.Error("a push landed")
	}
}

// A refusal speaks as the client asked.
func TestRefusals(t *testing.T) {
	s := newSite(t, nil)
	s.repo("x", gitrepo.SHA1)
	s.authorize.set(func(*Push) error {
		return &Refusal{Reason: "blocked:\nnot\x1b[31m you", Refs: map[string]string{"refs/heads/b": "invalid: " + strings.Repeat("long ", 1000)}}
	})
	zero, id := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	post := func(capabilities string) string {
		body := gitrepo.AppendPkt(nil, zero, " ", id, " refs/heads/a\x00", capabilities)
		return s.post(string(gitrepo.AppendPkt(body, zero, " ", id, " refs/heads/b")) + flushPkt)
	}
	const reason = "blocked: not [31m you"
	if got := post(""); got != string(appendError(nil, reason)) {
		t.Errorf("without capabilities: %q", got)
	}
	got := post("report-status")
	if !strings.HasPrefix(got, "000eunpack ok\n") || !strings.Contains(got, "ng refs/heads/a "+reason+"\n") ||
		!strings.Contains(got, "ng refs/heads/b invalid: long") || !strings.HasSuffix(got, "0000") || len(got) > 2000 {
		t.Errorf("with a report: %q", got)
	}
	for _, band := range []string{"side-band", "side-band-64k"} {
		report, limit := "", map[string]int{"side-band": 1000, "side-band-64k": maxPkt}[band]
		rest := strings.NewReader(post("report-status-v2 " + band))
		for {
			line, payload, err := readPkt(rest, nil)
			if err != nil || len(line) > limit {
				t.Fatalf("%s: a line of %d bytes, %v", band, len(line), err)
			}
			if payload == nil {
				break
			}
			if payload[0] == 1 {
				report += string(payload[1:])
			}
		}
		if report != got || rest.Len() != 0 {
			t.Errorf("%s: the report is %q, and %d bytes follow", band, report, rest.Len())
		}
	}
	if got := post("side-band-64k"); !strings.HasPrefix(got[4:], "\x03"+reason) {
		t.Errorf("with a side band and no report: %q", got)
	}
}

// TestRefusalsAreReports: a client that reads a report in a side band gets each refusal there,
// with a line for each ref that it named, and never in a bare packet.
func TestRefusalsAreReports(t *testing.T) {
	zero, id := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	first := string(gitrepo.AppendPkt(nil, zero, " ", id, " refs/heads/a\x00report-status side-band-64k atomic"))
	second := string(gitrepo.AppendPkt(nil, zero, " ", id, " refs/heads/b"))
	var many, long strings.Builder
	for i := range 60 {
		many.WriteString(string(gitrepo.AppendPkt(nil, zero, " ", id, " ", fmt.Sprint("refs/heads/", i))))
		long.WriteString(string(gitrepo.AppendPkt(nil, zero, " ", id, " ", fmt.Sprint("refs/heads/", strings.Repeat("a/", 400), i))))
	}
	for name, c := range map[string]struct {
		body, says string
		limits     func(*Limits)
	}{
		"too many commands": {first + second + many.String() + "0000", "a push may have 50 commands", nil},
		"too long commands": {first + second + long.String() + "0000", "the commands of a push may have 16384 bytes", nil},
		"no ref":            {first + second + string(gitrepo.AppendPkt(nil, zero, " ", id, " main")) + "0000", `"main" is not the full name of a ref`, nil},
		"twice":             {first + second + string(gitrepo.AppendPkt(nil, id, " ", zero, " refs/heads/b")) + "0000", `names "refs/heads/b" twice`, nil},
		"no command":        {first + second + string(gitrepo.AppendPkt(nil, "please")) + "0000", "not understood", nil},
		"cut off":           {first + second, "cut off", nil},
		"no pkt-line":       {first + second + "zzzz", "no pkt-line", nil},
		"many push options": {string(gitrepo.AppendPkt(nil, zero, " ", id, " refs/heads/a\x00report-status push-options side-band-64k")) + second + "0000" +
			strings.Repeat("0005a", 101) + "0000", "a push may have 100 options", nil},
		"no pack":                {first + second + "0000" + "GIF89a; no pack at all", "is no pack", nil},
		"half a pack":            {first + second + "0000" + "PACK\x00\x00\x00\x02\x00\x00\x00\x05", "early EOF", nil},
		"larger than it may be":  {first + second + "0000PACK" + strings.Repeat("x", 1<<20), "larger than this server takes", func(l *Limits) { l.PushBytes = 1 << 20 }},
		"no place for it":        {first + second + "0000", "the server is busy", nil},
		"it is not welcome here": {first + second + "0000", "blocked: not you", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) {
				o.Classes[gitrepo.ClassPush] = gitrepo.ClassLimits{Slots: 1}
			}, func(l *Limits) { l.Commands, l.CommandBytes = 50, 16<<10 })
			if c.limits != nil {
				s.limit(c.limits)
			}
			s.repo("x", gitrepo.SHA1)
			if strings.HasPrefix(c.says, "blocked") {
				s.authorize.set(func(*Push) error { return &Refusal{Reason: c.says} })
			}
			if strings.Contains(c.says, "busy") {
				s.fillPlaces(gitrepo.ClassPush)
			}
			resp := s.request("POST", "/"+alice+"/x.git/git-receive-pack", pushType, strings.NewReader(c.body))
			if resp.StatusCode != 200 {
				t.Fatalf("status %s", resp.Status)
			}
			report, message := bands(t, resp)
			if len(report) < 11 || report[4:11] != "unpack " {
				t.Errorf("the report is %q", report)
			}
			for _, ref := range []string{"refs/heads/a", "refs/heads/b"} {
				if !strings.Contains(report, "ng "+ref+" ") {
					t.Errorf("%s is not in the report: %q", ref, report)
				}
			}
			if !strings.Contains(report, c.says) && !strings.Contains(message, c.says) {
				t.Errorf("it says %q, and %q beside it, not %q", report, message, c.says)
			}
			if len(s.landed) > 0 && s.landed[0].Changed {
				t.Error("the push landed")
			}
		})
	}
}

// bands reads an answer in the side band: the report, and what is for the person.
func bands(t *testing.T, resp *http.Response) (report, message string) {
	t.Helper()
	rest := strings.NewReader(text(t, resp))
	for {
		_, payload, err := readPkt(rest, nil)
		switch {
		case err != nil:
			t.Fatalf("the answer is not in the side band: %v", err)
		case payload == nil:
			if rest.Len() > 0 {
				t.Errorf("%d bytes follow the answer", rest.Len())
			}
			return report, message
		case payload[0] == 1:
			report += string(payload[1:])
		case payload[0] == 2:
			message += string(payload[1:])
		default:
			t.Fatalf("band #%d", payload[0])
		}
	}
}

// A push of nothing changes nothing, and the client hears that in the band that it may
// read, for it has not said which.
func TestPushOfNothing(t *testing.T) {
	s := newSite(t, nil)
	s.repo("x", gitrepo.SHA1)
	s.authorize.set(func(p *Push) error {
		t.Error("the authoriser is asked")
		return nil
	})
	report, message := bands(t, s.request("POST", "/"+alice+"/x.git/git-receive-pack", pushType, strings.NewReader("0000")))
	if report != "" || message != "the push changes no ref\n" || len(s.landed) > 0 {
		t.Errorf("the answer is %q, %q", report, message)
	}
}

// TestPushesInPlace: a ref that already has its new value is no error. The person who pushes
// gets a message.
func TestPushesInPlace(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	zero, id := strings.Repeat("0", 40), git(t, dir, "rev-parse", "main")
	body := gitrepo.AppendPkt(nil, zero, " ", zero, " refs/heads/gone\x00report-status side-band-64k")
	body = gitrepo.AppendPkt(body, zero, " ", id, " refs/heads/main")
	body = append(body, flushPkt...)
	body = append(body, emptyPack...)
	report, message := bands(t, s.request("POST", "/"+alice+"/x.git/git-receive-pack", pushType, bytes.NewReader(body)))
	if want := "000eunpack ok\n0017ok refs/heads/gone\n0017ok refs/heads/main\n0000"; report != want {
		t.Errorf("the report is %q, want %q", report, want)
	}
	if want := "warning: refs/heads/gone is not here: there is nothing to delete\nwarning: refs/heads/main is there already\n"; message != want {
		t.Errorf("beside it stands %q, want %q", message, want)
	}
	// The branch goes between git's two requests.
	git(t, dir, "push", "-q", url, "main:refs/heads/b")
	s.authorize.set(func(p *Push) error {
		s.authorize.set(nil)
		unlock, err := p.Repo.Lock(t.Context())
		if err != nil {
			return err
		}
		defer unlock()
		return p.Repo.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/b", New: zero}})
	})
	out, err := tryGit(t.Context(), dir, "push", url, ":b", "main:c")
	if err != nil || !strings.Contains(out, "remote: warning: refs/heads/b is not here") {
		t.Errorf("a deletion of what has just gone: %v\n%s", err, out)
	}
	if refs := git(t, dir, "ls-remote", url); strings.Contains(refs, "refs/heads/b") || !strings.Contains(refs, "refs/heads/c") {
		t.Errorf("the refs are\n%s", refs)
	}
}

// emptyPack is what git sends with a ref to what is there.
var emptyPack = func() []byte {
	head := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := sha1.Sum(head)
	return append(head, sum[:]...)
}()

// A few bytes of gzip become a gigabyte. It is inflated as it is read, and refused
// before it is all there.
func TestGzip(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.PushBytes, l.FetchBytes = 4<<20, 1<<20 })
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	member := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	megabyte := member(make([]byte, 1<<20))
	zip := func(head string, zeros int) []byte {
		return append(member([]byte(head)), bytes.Repeat(megabyte, zeros)...)
	}
	post := func(service string, kind http.Header, body []byte) (int, string) {
		header := http.Header{"Content-Type": kind["Content-Type"], "Content-Encoding": {"gzip"}}
		resp := s.request("POST", "/"+alice+"/x.git/"+service, header, bytes.NewReader(body))
		return resp.StatusCode, text(t, resp)
	}
	id := git(t, dir, "rev-parse", "main")
	if status, body := post("git-upload-pack", fetchType, zip("0032want "+id+"\n00000009done\n", 0)); status != 200 || !strings.Contains(body, "PACK") {
		t.Errorf("a fetch with gzip: %d %.100q", status, body)
	}
	if status, body := post("git-receive-pack", pushType, []byte("not gzip at all, really")); status != 200 || !strings.Contains(body, "not gzip") {
		t.Errorf("no gzip: %d %q", status, body)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	bomb := zip("", 1024)
	runtime.ReadMemStats(&before)
	if _, body := post("git-receive-pack", pushType, bomb); !strings.Contains(body, "ERR ") {
		t.Errorf("a bomb of zeros: %q", body)
	}
	push := create(id, "refs/heads/bomb") + "PACK\x00\x00\x00\x02\x00\x00\x00\x09"
	if _, body := post("git-receive-pack", pushType, zip(push, 64)); strings.Contains(body, "ok refs/heads/bomb") || body == "" {
		t.Errorf("a bomb behind a command: %q", body)
	}
	if _, body := post("git-upload-pack", fetchType, zip("0032want "+id+"\n", 64)); strings.Contains(body, "PACK") {
		t.Errorf("a bomb as a fetch: %.100q", body)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("the bombs took %d MB", grown>>20)
	}
	if refs := git(t, dir, "ls-remote", url); strings.Contains(refs, "bomb") {
		t.Errorf("the refs are\n%s", refs)
	}
}

// Packs that are cut off or changed leave nothing.
func TestDamagedPacks(t *testing.T) {
	s := newSite(t, nil)
	r, _ := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	pack := packOf(t, dir)
	without := gitCommand(t.Context(), dir, "pack-objects", "--stdout", "-q")
	without.Stdin = strings.NewReader(id + "\n")
	alone, err := without.Output()
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(pack)
	changed[len(changed)/2] ^= 0xff
	counted := []byte(pack)
	counted[11]++
	none := "PACK\x00\x00\x00\x02\x00\x00\x00\x00"
	sum := sha1.Sum([]byte(none))
	command := create(id, "refs/heads/x")
	for name, body := range map[string]string{
		"nothing":               command + none + string(sum[:]),
		"nothing, damaged":      command + none + strings.Repeat("x", 20),
		"nothing, cut off":      command + none + "x",
		"no pack":               command,
		"a header":              command + pack[:12],
		"half":                  command + pack[:len(pack)/2],
		"no trailer":            command + pack[:len(pack)-20],
		"changed":               command + string(changed),
		"a wrong count":         command + string(counted),
		"a commit alone":        command + string(alone),
		"zeros":                 command + strings.Repeat("\x00", 1000),
		"a pack of another ref": strings.Replace(command, id, strings.Repeat("ab", 20), 1) + pack,
	} {
		if answer := s.post(body); strings.Contains(answer, "ok refs/heads/x") || answer == "" {
			t.Errorf("%s: %q", name, answer)
		}
		refs, err := r.Refs(t.Context())
		if err != nil || len(refs.List) != 0 {
			t.Fatalf("%s: the refs are %v, %v", name, refs, err)
		}
		if left, err := filepath.Glob(filepath.Join(r.Dir(), "objects", "*")); err != nil || len(left) != 2 {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
	if answer := s.post(command + pack); !strings.Contains(answer, "ok refs/heads/x") {
		t.Errorf("the pack as it should be: %q", answer)
	}
}

// children counts the git processes of this test whose folder is the repository.
func children(t testing.TB, dir string) int {
	t.Helper()
	return len(processes(t, dir))
}

// processes returns the ids of those processes, and of those that work in a quarantine of
// its root.
func processes(t testing.TB, dir string) (pids []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(links) == 0 {
		t.Skip("there is no /proc")
	}
	trash := filepath.Join(filepath.Dir(filepath.Dir(dir)), ".trash")
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && (at == dir || strings.HasPrefix(at, trash)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// A client that goes away in the middle takes its git with it, and the lock is free.
func TestDisconnect(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	pack := packOf(t, dir)
	addNoise(t, dir, 16<<20)
	git(t, dir, "push", "-q", r.Dir(), "main:refs/heads/noise")
	head := "POST /" + alice + "/x.git/git-%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-%s-request\r\nContent-Length: %d\r\n\r\n"
	fetch := "0032want " + git(t, dir, "rev-parse", "main") + "\n00000009done\n"
	for service, body := range map[string]string{"receive-pack": create(id, "refs/heads/x") + halfPack(), "upload-pack": fetch} {
		length := len(body)
		if service == "receive-pack" {
			length = 1_000_000
		}
		c := s.dial(fmt.Sprintf(head, service, service, length) + body)
		testkit.Eventually(t, service+" runs", func() bool { return children(t, r.Dir()) > 0 })
		c.Close()
		testkit.Eventually(t, service+" ends", func() bool { return children(t, r.Dir()) == 0 })
		testkit.Eventually(t, service+" leaves nothing", func() bool { return len(leftovers(t, r)) == 0 })
	}
	git(t, dir, "push", "-q", url, "main") // the lock is free

	// One that sends all of its push, and does not wait for the answer: it lands.
	body := create(id, "refs/heads/gone") + pack
	hold := make(chan struct{})
	s.authorize.set(func(*Push) error { <-hold; return nil })
	c := s.dial(fmt.Sprintf(head, "receive-pack", "receive-pack", len(body)) + body)
	c.Close()
	close(hold)
	testkit.Eventually(t, "the push lands", func() bool {
		_, found, err := r.Ref(context.Background(), "refs/heads/gone")
		return found && err == nil
	})
}

// TestStalledClient: the server cuts off a client that stops sending or taking. Others need not
// wait for it.
func TestStalledClient(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Stall = 300 * time.Millisecond })
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	head := "POST /" + alice + "/x.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000000\r\n\r\n"
	for _, pack := range []string{"PACK", "PACK\x00\x00\x00\x02\x00\x00\x00\x09\x33"} {
		c := s.dial(head + create(id, "refs/heads/x") + pack)
		_ = c.SetDeadline(testkit.Deadline(t))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: it is not cut off", pack)
		}
		testkit.Eventually(t, "nothing is left", func() bool { return children(t, r.Dir())+len(leftovers(t, r)) == 0 })
	}

	// A byte now and then is no progress.
	c := s.dial(head + "fff0")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	testkit.Eventually(t, "who drips is cut off", func() bool {
		select {
		case <-ended:
			return true
		default:
			_, _ = c.Write([]byte("a"))
			return false
		}
	})

	// A client that sends everything it has may be slower.
	s.limit(func(l *Limits) { l.Stall = time.Hour })
	git(t, dir, "push", "-q", url, "main")

	// An endless list of commands holds no lock.
	s.dial(head + "00")
	git(t, dir, "push", "-q", url, "main:more")
}

// Somebody drips a push, of which he may send very little at a time. A maintainer's push to the
// same repository takes as long as ever, also to the same ref, and the first hears why it
// comes too late.
func TestDrippingPushHoldsNoLock(t *testing.T) {
	s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) { o.Classes[gitrepo.ClassPush].Slots = 1 }, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	addNoise(t, dir, 2*firstPiece)
	id := git(t, dir, "rev-parse", "main")
	pack := packOf(t, dir)
	body := create(id, "refs/heads/main") + pack
	sent := len(body) - 30
	c := s.dial(fmt.Sprintf("POST /%s/x.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-receive-pack-request\r\n"+
		"Content-Length: %d\r\n\r\n%s", alice, len(body), body[:sent]))
	testkit.Eventually(t, "index-pack runs", func() bool { return children(t, r.Dir()) > 0 })
	git(t, dir, "push", "-q", url, "main~:refs/heads/main", "v1")
	if children(t, r.Dir()) == 0 {
		t.Error("the first push was cut off")
	}
	for ; sent < len(body); sent++ {
		if _, err := io.WriteString(c, body[sent:sent+1]); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got := text(t, answer); !strings.Contains(got, "ng refs/heads/main it is there already") {
		t.Errorf("the first push is told %q", got)
	}
	if got := git(t, dir, "ls-remote", url, "main"); !strings.HasPrefix(got, git(t, dir, "rev-parse", "main~")) {
		t.Errorf("main is %s", got)
	}
}

// A client that asks for a clone and does not take it is cut off.
func TestStalledReader(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Stall = 300 * time.Millisecond })
	r, _ := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	addNoise(t, dir, 32<<20)
	git(t, dir, "push", "-q", r.Dir(), "main") // past the server, which would not wait for it
	body := "0032want " + git(t, dir, "rev-parse", "main") + "\n00000009done\n"
	c := s.dial(fmt.Sprintf("POST /%s/x.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\n"+
		"Content-Length: %d\r\n\r\n%s", alice, len(body), body))
	testkit.Eventually(t, "it is cut off", func() bool { return testutil.ToFloat64(s.handler.metrics.requests[verbFetch][resultCutOff]) == 1 })
	testkit.Eventually(t, "upload-pack ends", func() bool { return children(t, r.Dir()) == 0 })
	if n, err := io.Copy(io.Discard, c); n >= 32<<20 {
		t.Errorf("all of it was sent, %d bytes, %v", n, err)
	}
}

// More clients than there is room for get status 503.
func TestBusy(t *testing.T) {
	s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) {
		o.Classes[gitrepo.ClassRefs] = gitrepo.ClassLimits{Slots: 1, Queue: 1, Wait: 200 * time.Millisecond}
	}, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	git(t, work(t, gitrepo.SHA1), "push", "-q", url, "main") // of an empty one git is not asked
	task, err := s.handler.cfg.Scheduler.Reserve(t.Context(), gitrepo.ClassRefs, bound.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	defer task.End()
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		resp := s.request("GET", "/"+alice+"/x.git/info/refs?service=git-upload-pack", nil, nil)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("status %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
		}
	}
	task.End()
	if resp := s.request("GET", "/"+alice+"/x.git/info/refs?service=git-upload-pack", nil, nil); resp.StatusCode != 200 {
		t.Errorf("with room again: %s", resp.Status)
	}
}

// The repository goes while clones of it run: they end, one way or the other.
func TestRemoveUnderClone(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	done := make(chan string, 8)
	for i := range 8 {
		go func() {
			out, _ := tryGit(t.Context(), t.TempDir(), "clone", url, fmt.Sprint(i))
			done <- out
		}()
	}
	<-done
	unlock, err := r.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	unlock()
	for range 7 {
		<-done
	}
	if out, err := tryGit(t.Context(), dir, "ls-remote", url); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("after Remove: %v %s", err, out)
	}
	testkit.Eventually(t, "git ends", func() bool { return children(t, r.Dir()) == 0 })
}

// Expect: 100-continue, as git sends it before large pushes, and chunks.
func TestExpectContinue(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "-c", "http.postBuffer=1", "-c", "http.extraHeader=Expect: 100-continue", "push", "-q", url, "main")
	git(t, dir, "-c", "http.extraHeader=Expect: 100-continue", "fetch", "-q", url, "main")
	if len(s.landed) != 1 {
		t.Errorf("%d pushes landed", len(s.landed))
	}
}

func FuzzCommands(f *testing.F) {
	zero, id := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	f.Add([]byte("0000"))
	f.Add(append(gitrepo.AppendPkt(nil, zero, " ", id, " refs/heads/a\x00report-status side-band-64k"), "0000PACK"...))
	f.Add(append(gitrepo.AppendPkt(gitrepo.AppendPkt(nil, "shallow ", id), id, " ", zero, " refs/tags/b"), flushPkt...))
	limits := DefaultLimits
	limits.Commands, limits.CommandBytes = 100, 8<<10
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readCommands(bytes.NewReader(data), &limits)
		if err == nil && (len(c.updates) == 0 || !bytes.HasPrefix(data, c.raw) || !bytes.HasSuffix(c.raw, []byte(flushPkt))) {
			t.Fatalf("%d commands, raw %q of %q", len(c.updates), c.raw, data)
		}
		for _, u := range c.updates {
			if !gitrepo.IsRef(u.Ref) || !gitrepo.IsID(u.Old) || !gitrepo.IsID(u.New) {
				t.Fatalf("a command is %+v", u)
			}
		}
		answer := c.appendRefusal(nil, &Refusal{Reason: string(data)})
		for rest := bytes.NewReader(answer); rest.Len() > 0; {
			if _, _, err := readPkt(rest, nil); err != nil {
				t.Fatalf("the refusal is %q: %v", answer, err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add("a/b.git")
	f.Add("..%2f%2e")
	f.Fuzz(func(t *testing.T, path string) {
		parts, ok := Decode(path)
		for _, part := range parts {
			if ok && (part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\\x00\n")) {
				t.Fatalf("Decode(%q) = %q", path, parts)
			}
		}
	})
}
