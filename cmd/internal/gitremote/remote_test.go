package gitremote

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	oldID = "1111111111111111111111111111111111111111"
	newID = "2222222222222222222222222222222222222222"
	noID  = "0000000000000000000000000000000000000000"
)

// pkts are pkt-lines; "" is a flush packet.
func pkts(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		if line == "" {
			b.WriteString("0000")
		} else {
			fmt.Fprintf(&b, "%04x%s", len(line)+4, line)
		}
	}
	return b.String()
}

// server answers like a git server, with one ref; received is the last push.
type server struct {
	refs     string
	refuse   bool // answers a push before it has read it
	received string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/repo.git/info/refs" && r.URL.RawQuery == "service=git-receive-pack":
		w.Header().Set("Content-Type", "application/x-git-receive-pack-advertisement")
		_, _ = io.WriteString(w, s.refs)
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/moved.git/"):
		http.Redirect(w, r, strings.Replace(r.URL.String(), "moved", "repo", 1), http.StatusMovedPermanently)
	case r.Method == http.MethodPost && r.URL.Path == "/repo.git/git-receive-pack" && r.Header.Get("Content-Type") == "application/x-git-receive-pack-request":
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		if s.refuse {
			answer := http.NewResponseController(w)
			if err := answer.EnableFullDuplex(); err != nil {
				panic(err)
			}
			_, _ = io.WriteString(w, pkts("unpack ok\n", "ng refs/heads/main no\n", ""))
			_ = answer.Flush()
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		s.received = string(body)
		_, _ = io.WriteString(w, pkts("unpack ok\n", "ok refs/heads/main\n", ""))
	default:
		http.Error(w, "no such repository\x1b", http.StatusNotFound)
	}
}

func TestServe(t *testing.T) {
	const connect = "capabilities\nconnect git-receive-pack\n"
	list := pkts(oldID+" refs/heads/main\x00report-status push-options\n", "")
	refs := pkts("# service=git-receive-pack\n", "") + list
	shown := "connect\n\n\n" + list
	move := oldID + " " + newID + " refs/heads/main\x00 report-status"
	removal := oldID + " " + noID + " refs/heads/main\x00 report-status"
	done := pkts("unpack ok\n", "ok refs/heads/main\n", "")
	for _, test := range []struct {
		name, path, refs string
		in               string
		refuse           bool
		out, err         string
		received         string
	}{
		{name: "a push", in: connect + pkts(move, "") + "PACK of any bytes", out: shown + done, received: pkts(move, "") + "PACK of any bytes"},
		{name: "a removal, which no pack follows", in: connect + pkts(removal, ""), out: shown + done, received: pkts(removal, "")},
		{name: "with options", in: connect + pkts(removal+" push-options", "", "one", ""), out: shown + done, received: pkts(removal+" push-options", "", "one", "")},
		{name: "from a shallow repository", in: connect + pkts("shallow "+oldID, move, "") + "PACK", out: shown + done, received: pkts("shallow "+oldID, move, "") + "PACK"},
		{name: "a dry run", in: connect + "0000", out: shown},
		{name: "a dry run of a git that says nothing", in: connect, out: shown},
		{name: "redirected", path: "/moved.git", in: connect + pkts(removal, ""), out: shown + done, received: pkts(removal, "")},
		{name: "with a slash", path: "/repo.git/", in: connect + "0000", out: shown},
		{name: "refused early", refuse: true, in: connect + pkts(move, "") + strings.Repeat("PACK", 4<<20),
			out: shown + pkts("unpack ok\n", "ng refs/heads/main no\n", "")},
		{name: "another service", in: "capabilities\nconnect git-upload-pack\n\n", out: "connect\n\nfallback\n"},
		{name: "nothing", in: "", out: ""},
		{name: "another command", in: "list\n", err: `git asks for "list", which is not offered`},
		{name: "an endless line", in: strings.Repeat("x", 1<<20), err: "read what git asks"},
		{name: "no such repository", path: "/none.git", in: connect, out: "connect\n\n", err: "the server answers 404 Not Found: no such repository"},
		{name: "a page", refs: "<html>", in: connect, out: "connect\n\n", err: "no pkt-line"},
		{name: "another title", refs: pkts("# service=git-upload-pack\n", ""), in: connect, out: "connect\n\n", err: "does not speak the protocol"},
		{name: "no title", refs: list, in: connect, out: "connect\n\n", err: "does not speak the protocol"},
		{name: "cut off", in: connect + pkts(move), out: shown, err: "read the push: EOF"},
		{name: "cut off within", in: connect + pkts(move)[:20], out: shown, err: "unexpected EOF"},
		{name: "no protocol", in: connect + "zzzz", out: shown, err: "no pkt-line"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &server{refs: refs, refuse: test.refuse}
			if test.refs != "" {
				s.refs = test.refs
			}
			web := httptest.NewServer(s)
			defer web.Close()
			if test.path == "" {
				test.path = "/repo.git"
			}
			var out bytes.Buffer
			err := Serve(t.Context(), web.URL+test.path, strings.NewReader(test.in), &out)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%v, want %q", err, test.err)
			}
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%q would write to a terminal what it likes", err)
			}
			if out.String() != test.out {
				t.Errorf("%q, want %q", out.String(), test.out)
			}
			if s.received != test.received {
				t.Errorf("the server got %q, want %q", s.received, test.received)
			}
		})
	}
}

func TestOnlyHTTP(t *testing.T) {
	for _, address := range []string{"", "/folder", "ssh://host/repo.git", "file:///folder", "-x"} {
		if err := Serve(t.Context(), address, strings.NewReader("capabilities\n"), io.Discard); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}
